"""Importing transformers becomes an NVTX range around every forward of a causal language model.

The outermost forward of a thread is marked, by whichever way it is called: the model as a function,
its `forward`, or what `torch.compile` made of either. Within a graph that is being compiled nothing
is marked, so that it stays whole: the range is then around the compiled call.
"""

from __future__ import annotations

import functools
import threading
import types
import weakref
from types import ModuleType
from typing import Any, Callable, TypeVar

from .notice import Notices
from .stages import Stages

Call = TypeVar("Call", bound=Callable[..., Any])


class _Marker:
    """Puts ranges around calls of models."""

    def __init__(self, torch: ModuleType, notices: Notices) -> None:
        self._notices = notices
        self._push, self._pop = _nvtx(torch)
        self._stages = Stages()
        self._thread = threading.local()
        self._generates: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()
        # Not public in the first versions that compile. Both are constants for the compiler.
        places = (getattr(torch, "compiler", None), torch._utils)
        found = (getattr(place, "is_compiling", None) for place in places)
        self._is_compiling: Callable[[], bool] = next(filter(None, found), lambda: False)

    def generates(self, model: Any) -> bool:
        """Whether `model` writes text token by token: encoders and bare decoders do not."""
        cls = type(model)
        answer = self._generates.get(cls)
        if answer is None:
            can_generate = getattr(model, "can_generate", None)
            answer = bool(can_generate() if can_generate else hasattr(model, "generate"))
            self._generates[cls] = answer
        return answer

    def method(self, original: Call) -> Call:
        """Return the method `original` of models, marked."""
        is_compiling, run = self._is_compiling, self._run

        @functools.wraps(original)
        def call(model: Any, *args: Any, **kwargs: Any) -> Any:
            if is_compiling():
                return original(model, *args, **kwargs)
            return run(model, functools.partial(original, model), args, kwargs)

        return call  # type: ignore[return-value]

    def function(self, original: Call, model: Any) -> Call:
        """Return `original`, which calls `model`, marked."""
        is_compiling, run = self._is_compiling, self._run

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if is_compiling():
                return original(*args, **kwargs)
            return run(model, original, args, kwargs)

        return call  # type: ignore[return-value]

    def _run(
        self, model: Any, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if getattr(self._thread, "inside", False):
            return call(*args, **kwargs)
        stage = self._open(model, args, kwargs)
        if stage is None:
            return call(*args, **kwargs)
        self._thread.inside = True
        try:
            result = call(*args, **kwargs)
        finally:
            self._thread.inside = False
            self._pop()
        self._close(result)
        return result

    def _open(self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
        try:
            stage = self._stages.of_call(model, args, kwargs) if self.generates(model) else None
            if stage is not None:
                self._push(stage)
            return stage
        except Exception as error:
            name = type(model).__name__
            self._notices.warn(f"prefill-decode: forwards of {name} are not marked: {error!r}")
            return None

    def _close(self, result: Any) -> None:
        try:
            self._stages.take_result(result)
        except Exception as error:
            self._notices.warn(f"prefill-decode: a cache is not known again: {error!r}")


_marker: _Marker | None = None


def install_in_torch(torch: ModuleType, notices: Notices) -> None:
    """Mark what `torch.compile` makes of a model, and get ready for transformers."""
    global _marker
    marker = _marker = _Marker(torch, notices)
    original = getattr(torch, "compile", None)
    if original is None:
        return

    @functools.wraps(original)
    def compile(*args: Any, **kwargs: Any) -> Any:
        compiled = original(*args, **kwargs)
        target = args[0] if args else kwargs.get("model")
        try:
            return _mark_compiled(marker, target, compiled)
        except Exception as error:
            notices.warn(f"prefill-decode: a compiled model is not marked: {error!r}")
            return compiled

    torch.compile = compile  # type: ignore[attr-defined]


def install_in_transformers(modeling: ModuleType, notices: Notices) -> None:
    """Mark the forwards of every model class, of those to come too."""
    marker = _marker
    if marker is None:
        # It does not work with this torch, which has been said.
        return
    base = modeling.PreTrainedModel
    base.__call__ = marker.method(base.__call__)
    own = vars(base).get("__init_subclass__")

    def __init_subclass__(cls: type[Any], /, **kwargs: Any) -> None:
        if own is not None:
            own.__func__(cls, **kwargs)
        else:
            super(base, cls).__init_subclass__(**kwargs)
        forward = vars(cls).get("forward")
        # Code that wraps models calls their `forward`, and not the models.
        if isinstance(forward, types.FunctionType) and hasattr(cls, "generate"):
            cls.forward = marker.method(forward)

    base.__init_subclass__ = classmethod(__init_subclass__)


def _mark_compiled(marker: _Marker, target: Any, compiled: Any) -> Any:
    if isinstance(target, types.MethodType):
        model, by_name = target.__self__, target.__name__ in ("__call__", "forward")
        if by_name and _is_pretrained(model) and marker.generates(model):
            return marker.function(compiled, model)
    elif _is_pretrained(target) and marker.generates(target):
        # A module that stands for the model; calling it calls this.
        compiled.forward = marker.function(compiled.forward, target)
    return compiled


def _is_pretrained(model: Any) -> bool:
    return any(cls.__name__ == "PreTrainedModel" for cls in type(model).__mro__)


def _nvtx(torch: ModuleType) -> tuple[Callable[[str], Any], Callable[[], Any]]:
    """Push and pop, of torch if it was built with CUDA, else of the package nvtx."""
    if torch.version.cuda is not None:
        of_torch = torch.cuda.nvtx
        return of_torch.range_push, of_torch.range_pop
    try:
        import nvtx
    except ImportError:
        raise RuntimeError(
            "this torch has no NVTX; install one that is built for CUDA, or run: "
            "python -m pip install nvtx"
        ) from None
    return nvtx.push_range, nvtx.pop_range
