"""Lifecycle, options and inspection of single components."""

from __future__ import annotations

import asyncio
import copy
import inspect
import pickle
from pathlib import Path
from typing import Any

import pytest
from support.axonx_app import Recorder, recorder_app, ticks

from axonx import Application, BaseComponent, provider
from axonx.components.dependency import Unresolved
from axonx.errors import HookCancelledError, NoApplicationError, UnknownOptionError


class Logged(Recorder):
    log: list[str]

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.log = []


async def test_start_and_close_run_their_hooks_once_and_can_be_repeated() -> None:
    component = Logged(name="a")
    await component.start()
    await component.start()
    assert component.is_started
    await component.close()
    await component.close()
    assert not component.is_started
    async with component as same:
        assert same is component
    assert component.log == ["start a", "close a"] * 2


async def test_concurrent_starts_and_closes_take_turns() -> None:
    class Slow(Logged):
        async def _start(self) -> None:
            await asyncio.sleep(0)
            await super()._start()

        async def _close(self) -> None:
            await asyncio.sleep(0)
            await super()._close()

    component = Slow(name="a")
    await asyncio.gather(component.start(), component.start(), component.start())
    assert component.log == ["start a"]
    await asyncio.gather(component.close(), component.close(), component.start())
    assert component.log == ["start a", "close a", "start a"]
    await component.close()


async def test_a_failed_start_is_followed_by_close_and_the_error_leaves_as_it_is() -> None:
    error = OSError("no port")
    component = Logged(name="a", start_error=error)
    with pytest.raises(OSError) as caught:
        await component.start()
    assert caught.value is error
    assert component.log == ["start a", "close a"]
    assert not component.is_started


async def test_a_failed_rollback_is_grouped_with_the_start_error() -> None:
    start, close = OSError("start"), ValueError("close")
    component = Logged(name="a", start_error=start, close_error=close)
    with pytest.raises(ExceptionGroup, match="a startup failed and rollback was incomplete") as caught:
        await component.start()
    assert caught.value.exceptions == (start, close)


async def test_a_cancelled_start_is_rolled_back_and_stays_a_cancellation() -> None:
    class Hanging(Logged):
        async def _start(self) -> None:
            await super()._start()
            await asyncio.Event().wait()

    component = Hanging(name="a", close_error=ValueError("ignored: the cancellation came first"))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(component.start(), 0.01)
    assert component.log == ["start a", "close a"]


async def test_a_start_that_raises_cancelled_error_by_itself_does_not_look_cancelled() -> None:
    component = Logged(name="a", start_error=asyncio.CancelledError())
    with pytest.raises(HookCancelledError, match="although nobody cancelled"):
        await component.start()
    assert component.log == ["start a", "close a"]


async def test_an_interrupted_close_can_be_finished_later() -> None:
    class SlowToClose(Logged):
        async def _close(self) -> None:
            await super()._close()
            if len(self.log) < 3:
                await asyncio.Event().wait()

    component = SlowToClose(name="a")
    await component.start()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(component.close(), 0.01)
    assert component.is_started
    await component.close()
    assert component.log == ["start a", "close a", "close a"]
    assert not component.is_started


async def test_a_failed_close_counts_as_closed() -> None:
    component = Logged(name="a", close_error=ValueError("x"))
    await component.start()
    with pytest.raises(ValueError, match="x"):
        await component.close()
    await component.close()
    assert component.log == ["start a", "close a"]


async def test_a_waiter_for_its_turn_can_be_cancelled() -> None:
    class Slow(Logged):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.go = asyncio.Event()

        async def _start(self) -> None:
            await self.go.wait()

    component = Slow()
    first, second = asyncio.create_task(component.start()), asyncio.create_task(component.start())
    await ticks()
    second.cancel()
    await ticks()
    component.go.set()
    await first
    assert second.cancelled()
    assert component.is_started
    await component.close()


def test_an_option_that_no_class_takes_is_refused_with_the_list() -> None:
    class Base(BaseComponent):
        def __init__(self, prefix: str = "", *, suffix: str = "", **kwargs: Any) -> None:
            super().__init__(**kwargs)

    class Derived(Base):
        def __init__(self, width: int = 1, **kwargs: Any) -> None:
            super().__init__(**kwargs)

    with pytest.raises(UnknownOptionError) as caught:
        Derived(prefx="x")
    assert "does not take 'prefx'; it takes: width, prefix, suffix. Did you mean 'prefix'?" in str(
        caught.value
    )
    assert isinstance(caught.value, TypeError)
    assert isinstance(caught.value, ValueError)


def test_a_class_may_ask_for_every_option() -> None:
    class Open(BaseComponent):
        accepts_extra_options = True

    assert Open(anything=1).kwargs == {"anything": 1}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prefx": "a"}, r"components\.fmt\.main: .*Fmt does not take 'prefx'; it takes: prefix"),
        ({"name": "a"}, r"components\.fmt\.main: 'name' is set by AxonX"),
        ({"app_context": "a"}, r"components\.fmt\.main: 'app_context' is set by AxonX"),
    ],
)
def test_a_wrong_option_names_its_entry(tmp_path: Path, options: dict[str, str], message: str) -> None:
    @provider("fmt")
    class Fmt(BaseComponent):
        component_type = "fmt"

        def __init__(self, prefix: str = "", **kwargs: Any) -> None:
            super().__init__(**kwargs)

    components = {"fmt": {"main": {"backend": "fmt", **options}}}
    with pytest.raises(ValueError, match=message):
        Application(providers=(Fmt,), workspace_dir=tmp_path, components=components)


def test_constructors_that_do_not_fit_are_explained(tmp_path: Path) -> None:
    @provider("closed")
    class Closed(BaseComponent):
        component_type = "fmt"

        def __init__(self, prefix: str = "") -> None:
            super().__init__()

    @provider("needy")
    class Needy(BaseComponent):
        component_type = "fmt"

        def __init__(self, url: str, **kwargs: Any) -> None:
            super().__init__(**kwargs)

    def build(**entry: str) -> Application:
        return Application(
            providers=(Closed, Needy), workspace_dir=tmp_path, components={"fmt": {"main": entry}}
        )

    with pytest.raises(ValueError, match=r"Closed.__init__ must take \*\*kwargs"):
        build(backend="closed")
    with pytest.raises(ValueError, match=r"components\.fmt\.main: .*Closed does not take 'prefx'"):
        build(backend="closed", prefx="x")
    with pytest.raises(
        ValueError, match=r"components\.fmt\.main: .*Needy: missing a required argument: 'url'"
    ):
        build(backend="needy")


def test_a_constructors_own_error_keeps_its_type_and_names_the_entry(tmp_path: Path) -> None:
    @provider("strict")
    class Strict(BaseComponent):
        component_type = "fmt"

        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            raise LookupError("no licence")

    with pytest.raises(LookupError, match="no licence") as caught:
        Application(
            providers=(Strict,), workspace_dir=tmp_path, components={"fmt": {"main": {"backend": "strict"}}}
        )
    assert caught.value.__notes__ == ["while building components.fmt.main"]


def test_options_of_one_instance_are_its_own(tmp_path: Path) -> None:
    @provider("lists")
    class Lists(BaseComponent):
        component_type = "fmt"

        def __init__(self, items: list[int], handle: object, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.items, self.handle = items, handle

    handle = object()
    shared = {"backend": "lists", "items": [1], "handle": handle}
    app = Application(
        providers=(Lists,), workspace_dir=tmp_path, components={"fmt": {"a": shared, "b": shared}}
    )
    one, two = (app.context.component("fmt", name) for name in "ab")
    assert isinstance(one, Lists)
    assert isinstance(two, Lists)
    one.items.append(2)
    assert two.items == [1] == shared["items"]
    assert one.handle is handle


def test_without_an_application_there_is_no_config() -> None:
    component = BaseComponent(name="alone")
    assert component.workspace_path == Path.cwd()
    assert component.logger.name == "axonx.base.alone"
    with pytest.raises(NoApplicationError, match="Application config requires an application context"):
        _ = component.app_config
    with pytest.raises(RuntimeError, match="Component access requires an application context"):
        component.get_component("fmt")


def test_printing_copying_and_comparing_never_touch_a_placeholder() -> None:
    component = Logged(name="a", needs="other")
    assert repr(component).endswith("Logged recorder:a>")
    assert copy.copy(component) is component
    assert copy.deepcopy({"component": component})["component"] is component
    placeholder = component.needed
    assert repr(placeholder) == "<unresolved recorder:other>"
    assert (
        repr(copy.deepcopy(placeholder)) == repr(pickle.loads(pickle.dumps(placeholder))) == repr(placeholder)
    )
    assert isinstance(placeholder, Unresolved)
    assert not hasattr(placeholder, "anything")
    assert vars(component)["needed"] is placeholder
    with pytest.raises(AttributeError, match=r"recorder:other is not injected yet, so it has no 'format'"):
        _ = placeholder.format


async def test_a_component_can_be_looked_at_in_every_state(tmp_path: Path) -> None:
    def looked_at() -> dict[str, Any]:
        assert repr(component) == "<LoggedRecorder recorder:b backend='recorder'>"
        assert copy.deepcopy([component]) == [component]
        return dict(inspect.getmembers(component))

    app = recorder_app(tmp_path, [], {"a": {}, "b": {"needs": "a", "start_error": OSError("once")}})
    component = app.context.component("recorder", "b")
    assert isinstance(component, Recorder)
    assert looked_at()["is_started"] is False
    with pytest.raises(OSError):
        await app.start()
    assert looked_at()["is_started"] is False
    component.start_error = None
    async with app:
        members = looked_at()
        assert members["is_started"] is True
        assert members["needed"] is app.context.component("recorder", "a")
    assert looked_at()["is_started"] is False
