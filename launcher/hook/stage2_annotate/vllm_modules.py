"""Opens ranges with the modules of the model while vLLM captures its CUDA graphs.

The host launches all kernels of a replayed graph at once, so no range at replay shows to which
layer a kernel belongs. The range that was open when its node was captured does. Compiled code
calls no modules, but the address of a weight identifies a call that reads the weight, and the name
of a layer identifies a call of attention. The changes are in place only while a graph is captured,
so a replay costs nothing.
"""

from __future__ import annotations

import contextlib
import functools
from types import ModuleType
from typing import Any, Callable, Iterable, Iterator

from ._backend import find_own
from .notice import Notices

RANGE = "stage2.module "
"""The prefix of the name of such a range; the path of a module follows."""

DRAFT = "draft."
"""Prefix of the paths of the modules of a draft model."""

_MOST_WEIGHTS = 1 << 17
_ENTRY = "compile_or_warm_up_model"


class _Modules:
    """Opens a range around each call that belongs to a module of a model."""

    def __init__(
        self,
        models: Iterable[tuple[str, Any]],
        push: Callable[[str], None],
        pop: Callable[[], None],
    ) -> None:
        """Store the names of the modules, and the addresses of their weights.

        Each model comes with what its names begin with in a range.
        """
        self._push, self._pop = push, pop
        self._of_name: dict[str, str] = {}
        self._of_module: dict[int, str] = {}
        self._of_weight: dict[int, str] = {}
        for prefix, model in models:
            for name, module in model.named_modules():
                if not name or len(self._of_weight) >= _MOST_WEIGHTS:
                    continue
                path = prefix + name
                self._of_name.setdefault(name, path)
                self._of_module.setdefault(id(module), path)
                for weight in module.parameters(recurse=False):
                    # Tied weights belong to the first module that holds them.
                    self._of_weight.setdefault(_address(weight.data_ptr), path)
        self._of_weight.pop(0, None)

    def of_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
        """Return the module that a call belongs to; None if the arguments do not show it."""
        for value in (*args, *kwargs.values()):
            name = self._of_module.get(id(value))
            if name is not None:
                return name
            address_of = getattr(value, "data_ptr", None)
            # The name of a layer of attention, or an object around it.
            text = getattr(value, "value", value)
            if address_of is not None:
                name = self._of_weight.get(_address(address_of))
            elif isinstance(text, str):
                name = self._of_name.get(text)
            if name is not None:
                return name
        return None

    def marked(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return `original` with a range around each call that belongs to a module."""

        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                name = self.of_call(args, kwargs)
            except Exception:
                # An argument may raise whatever it likes when it is asked for an attribute.
                name = None
            if name is None:
                return original(*args, **kwargs)
            self._push(RANGE + name)
            try:
                return original(*args, **kwargs)
            finally:
                self._pop()

        return call


def _address(address_of: Callable[[], int]) -> int:
    """Return the address of a tensor; 0 for a tensor without storage."""
    try:
        return address_of()
    except Exception:
        return 0


def _places(compiled: bool) -> list[tuple[Any, str]]:
    """Return the attributes (object and name) through which a model calls kernels."""
    import torch

    if not compiled:
        return [(torch.nn.Module, "__call__")]
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner
    from torch._inductor.select_algorithm import extern_kernels

    operators = [torch._ops.OpOverload, torch._ops.OpOverloadPacket]
    library = [name for name, call in vars(extern_kernels).items() if callable(call)]
    return [
        *((operator, "__call__") for operator in operators),
        (CachingAutotuner, "run"),
        *((extern_kernels, name) for name in library),
    ]


_Change = Callable[[Callable[..., Any]], Callable[..., Any]]


def _replace(owner: Any, name: str, change: _Change) -> Callable[[], None]:
    """Replace an attribute; return what undoes that.

    Wrappers that were put around ours meanwhile stay, and ours only calls the original then.
    """
    original = getattr(owner, name)
    current = change(original)

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        return current(*args, **kwargs)

    def restore() -> None:
        nonlocal current
        current = original
        if getattr(owner, name, None) is call:
            setattr(owner, name, original)

    setattr(owner, name, call)
    return restore


@contextlib.contextmanager
def _replaced(places: Iterable[tuple[Any, str]], change: _Change) -> Iterator[None]:
    """Replace attributes for as long as the context is open."""
    with contextlib.ExitStack() as stack:
        for owner, name in places:
            stack.callback(_replace(owner, name, change))
        yield


@contextlib.contextmanager
def marked_captures(
    graph: type[Any], places: list[tuple[Any, str]], modules: _Modules
) -> Iterator[None]:
    """Mark the modules within each capture by `graph`, for as long as the context is open."""
    captures: list[contextlib.ExitStack] = []

    def beginning(begin: Callable[..., Any]) -> Callable[..., Any]:
        def enter(self: Any) -> Any:
            result = begin(self)
            capture = contextlib.ExitStack()
            # A capture without ranges is better than none.
            with contextlib.suppress(Exception):
                capture.enter_context(_replaced(places, modules.marked))
            captures.append(capture)
            return result

        return enter

    def ending(end: Callable[..., Any]) -> Callable[..., Any]:
        def leave(self: Any, *error: Any) -> Any:
            if captures:
                captures.pop().close()
            return end(self, *error)

        return leave

    with _replaced([(graph, "__enter__")], beginning), _replaced([(graph, "__exit__")], ending):
        try:
            yield
        finally:
            while captures:
                captures.pop().close()


def install(module: ModuleType, notices: Notices) -> None:
    """Mark the modules while vLLM's worker captures its graphs."""
    worker = module.Worker
    original = getattr(worker, _ENTRY)

    @functools.wraps(original)
    def compile_or_warm_up_model(self: Any, *args: Any, **kwargs: Any) -> Any:
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(_of_worker(self))
            except Exception as error:
                notices.warn(f"vllm-steps: captured graphs have no modules: {error!r}")
            return original(self, *args, **kwargs)

    setattr(worker, _ENTRY, compile_or_warm_up_model)


def _of_worker(worker: Any) -> contextlib.AbstractContextManager[None]:
    """Return the context that marks the captures of this worker.

    Raises:
        Exception: vLLM or PyTorch lacks what this module uses.

    """
    backend = find_own()
    config = worker.vllm_config
    if backend is None or config.model_config.enforce_eager:
        return contextlib.nullcontext()
    import torch

    # Versions before 0.26 do not tell their draft model.
    draft = getattr(worker, "get_draft_model", lambda: None)()
    models = [("", worker.get_model()), (DRAFT, draft)]
    push = backend.push
    modules = _Modules(
        ((prefix, model) for prefix, model in models if model is not None),
        lambda name: push(name, {}),
        backend.pop,
    )
    places = _places(compiled=int(config.compilation_config.mode) != 0)
    return marked_captures(torch.cuda.graph, places, modules)
