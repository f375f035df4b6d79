from __future__ import annotations

import subprocess
import sys
import types
from pathlib import Path

import pytest
from support.research import ActTask, RepeatWordTask

from axonx.task.demo import DemoTask
from axonx.task.errors import TaskImportError
from axonx.task.targets import import_paths, importable_target, load_target


def class_of(module: str, name: str = "MadeTask") -> type[RepeatWordTask]:
    return type(name, (RepeatWordTask,), {"__module__": module})


@pytest.mark.parametrize(
    ("task_cls", "target"),
    [(DemoTask, "axonx.task.demo:DemoTask"), (ActTask, "support.research:ActTask")],
)
def test_a_class_is_found_again_by_its_target(task_cls: type[RepeatWordTask], target: str):
    assert importable_target(task_cls) == target
    assert load_target(target) is task_cls


def test_a_class_inside_of_a_class_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "nested_tasks.py").write_text(
        "from support.research import RepeatWordTask\n"
        "class Outer:\n    class InnerTask(RepeatWordTask): ...\n"
        "Other = Outer.InnerTask\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    task_cls = load_target("nested_tasks:Outer.InnerTask")

    assert importable_target(task_cls) == "nested_tasks:Outer.InnerTask"
    assert load_target("nested_tasks:Other") is task_cls


def test_a_class_of_a_function_is_refused():
    class LocalTask(RepeatWordTask):
        pass

    with pytest.raises(
        TaskImportError, match=r"LocalTask cannot run in a worker process: it is defined inside"
    ):
        importable_target(LocalTask)


def test_a_class_of_the_main_script_is_refused():
    with pytest.raises(TaskImportError, match=r"__main__:MadeTask .*main script.* exec in this process"):
        importable_target(class_of("__main__"))


def test_a_class_that_its_module_does_not_have_is_refused():
    with pytest.raises(TaskImportError, match="another object under that name"):
        importable_target(class_of("support.research"))
    with pytest.raises(TaskImportError, match="another object under that name"):
        importable_target(class_of("support.research", "ActTask"))


def test_a_module_that_no_file_stands_for_is_refused(monkeypatch: pytest.MonkeyPatch):
    module = types.ModuleType("made_up_module")
    monkeypatch.setitem(sys.modules, "made_up_module", module)
    task_cls = class_of("made_up_module")
    module.MadeTask = task_cls  # type: ignore[attr-defined]

    with pytest.raises(TaskImportError, match="module 'made_up_module' cannot be found"):
        importable_target(task_cls)


def test_a_module_that_another_one_hides_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    for place in ("first", "second"):
        (tmp_path / place / "hidden_tasks.py").write_text(
            "from support.research import RepeatWordTask\nclass MadeTask(RepeatWordTask): ...\n"
        )
    monkeypatch.syspath_prepend(tmp_path / "first")
    task_cls = load_target("hidden_tasks:MadeTask")
    monkeypatch.syspath_prepend(tmp_path / "second")

    with pytest.raises(TaskImportError, match="cannot be found"):
        importable_target(task_cls)


def test_a_target_that_is_no_task_is_refused():
    for target in ("support.research:WordInput", "support.research:Nothing", "support.research:"):
        with pytest.raises(TaskImportError, match="the module does not define it"):
            load_target(target)
    with pytest.raises(ModuleNotFoundError):
        load_target("no_such_module_anywhere:X")


def test_import_paths_lead_a_bare_interpreter_to_the_same_modules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "found_tasks.py").touch()
    monkeypatch.syspath_prepend(tmp_path)

    paths = import_paths()

    assert str(tmp_path) in paths
    assert not [path for path in paths if "site-packages" in path]
    code = f"import sys; sys.path += {paths!r}; import found_tasks, axonx.task.worker, support.research"
    subprocess.run([sys.executable, "-P", "-c", code], env={}, check=True, timeout=60)
