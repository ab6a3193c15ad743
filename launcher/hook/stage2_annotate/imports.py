"""Calls functions after the import of modules, whenever and from wherever these are imported.

The finder asks the other finders, and attaches the calls to the loader that they return. The
module, its spec and its loader stay the same as without the hook.
"""

from __future__ import annotations

import sys
import threading
from types import ModuleType
from typing import TYPE_CHECKING, Callable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.machinery import ModuleSpec

Action = Callable[[ModuleType], None]
"""A function that gets a module that has just been imported. It must not raise."""


def after(actions: Mapping[str, Sequence[Action]]) -> None:
    """Run the actions of each module after its import; at once if it is already imported."""
    waiting = {}
    for name, calls in actions.items():
        module = sys.modules.get(name)
        if module is None:
            waiting[name] = list(calls)
            continue
        for call in calls:
            call(module)
    if waiting:
        sys.meta_path.insert(0, _Finder(waiting))


class _Finder:
    """Finds nothing by itself."""

    def __init__(self, actions: dict[str, list[Action]]) -> None:
        self._actions = actions
        self._asking = threading.local()

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of the other finders for `name`, if an action waits for it."""
        if name not in self._actions or getattr(self._asking, "now", False):
            return None
        self._asking.now = True
        try:
            spec = self._ask_others(name, path, target)
        finally:
            self._asking.now = False
        if spec is not None:
            self._attach_to(spec.loader, name)
        return spec

    def _ask_others(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        for finder in list(sys.meta_path):
            find_spec = getattr(finder, "find_spec", None)
            if finder is self or find_spec is None:
                continue
            spec = find_spec(name, path, target)
            if spec is not None:
                return spec
        return None

    def _attach_to(self, loader: object, name: str) -> None:
        original = getattr(loader, "exec_module", None)
        if original is None:
            return

        def exec_module(module: ModuleType) -> None:
            # Code that inspects the loader later finds it unchanged.
            vars(loader).pop("exec_module", None)
            original(module)
            # Not again after a reload.
            for action in self._actions.pop(name, ()):
                action(sys.modules.get(name, module))
            if not self._actions and self in sys.meta_path:
                sys.meta_path.remove(self)

        try:
            loader.exec_module = exec_module  # type: ignore[attr-defined]
        except AttributeError:
            # A loader that accepts no attributes does not load such packages: leave it alone.
            return
