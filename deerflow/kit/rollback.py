"""Putting an environment back to what it was."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import metadata
from pathlib import Path

from deerflow.kit.environment import Environment, installed_distribution, versions
from deerflow.kit.errors import KitError


@contextmanager
def restored_on_failure(environment: Environment, name: str, log: Path) -> Iterator[None]:
    """Undo, where the block fails, what it does to the environment: the distribution `name` and new ones.

    The files of `name` are kept aside meanwhile, so that going back needs no index. What cannot be
    undone is said in a `KitError` together with the failure.
    """
    with ExitStack() as stack:
        kept = _KeptFiles(stack, installed_distribution(name))
        before = versions()
        try:
            yield
        except BaseException as error:
            try:
                _undo(environment, name, before, kept, log)
            except (KitError, OSError) as failure:
                raise KitError(f"{error}; the environment could not be put back: {failure}") from error
            raise


class _KeptFiles:
    """Copies of the files of one installed distribution."""

    def __init__(self, stack: ExitStack, distribution: metadata.Distribution | None) -> None:
        self._copies: dict[Path, Path] = {}
        files = (distribution.files or ()) if distribution is not None else ()
        if not files:
            return
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="deerflow-")))
        for number, file in enumerate(files):
            path = Path(str(file.locate())).resolve()
            if path.is_file():
                self._copies[path] = folder / str(number)
                shutil.copy2(path, folder / str(number))

    def put_back(self) -> None:
        for path, copy in self._copies.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(copy, path)


def _undo(environment: Environment, name: str, before: dict[str, str], kept: _KeptFiles, log: Path) -> None:
    after = versions()
    changed = [other for other in after if other not in before or other == name]
    if changed:
        environment.uninstall(changed, log)
    kept.put_back()
    left = versions()
    if left != before:
        wrong = sorted(other for other in {*left, *before} if left.get(other) != before.get(other))
        raise KitError(f"check {', '.join(wrong)} with your installer")
