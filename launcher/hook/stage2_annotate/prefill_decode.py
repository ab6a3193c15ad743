"""Importing transformers puts an NVTX range around each forward pass of a causal language model.

Only the outermost forward pass of a thread is marked, however it is called: the model as a
function, its `forward`, or the result of `torch.compile` for either. While a graph is being
compiled, nothing is marked, so that the graph does not break: the range is then around the
compiled call.

Under our collector, the fields of a range are its numbers of sequences and tokens, and the first
forward pass of the largest model writes the model's configuration to a file.
"""

from __future__ import annotations

import functools
import os
import threading
import types
import weakref
from types import ModuleType
from typing import Any, Callable, TypeVar

from . import engine_file
from ._backend import find_own
from .notice import Notices
from .stages import Stages
from .steps import DECODE, FIELDS, PREFILL

Call = TypeVar("Call", bound=Callable[..., Any])


class _Marker:
    """Puts ranges around calls of models."""

    def __init__(self, torch: ModuleType, notices: Notices) -> None:
        self._notices = notices
        own = find_own()
        self._with_fields: dict[str, Callable[..., None]] = {}
        self._push: Callable[[str], Any]
        self._pop: Callable[[], Any]
        if own is None:
            self._push, self._pop = _nvtx(torch)
        else:
            self._push, self._pop = functools.partial(own.push, fields={}), own.pop
            self._with_fields = {kind: own.prepare(kind, FIELDS) for kind in (PREFILL, DECODE)}
        self._stages = Stages()
        self._thread = threading.local()
        self._generates: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()
        self._described: weakref.WeakSet[Any] | None = weakref.WeakSet() if own else None
        self._most_parameters = 0
        # In the first versions with a compiler, this function is not public. The compiler treats
        # its result as a constant.
        places = (getattr(torch, "compiler", None), torch._utils)
        found = (getattr(place, "is_compiling", None) for place in places)
        self._is_compiling: Callable[[], bool] = next(filter(None, found), lambda: False)

    def generates(self, model: Any) -> bool:
        """Return whether `model` generates text token by token, unlike encoders."""
        cls = type(model)
        answer = self._generates.get(cls)
        if answer is None:
            can_generate = getattr(model, "can_generate", None)
            answer = bool(can_generate() if can_generate else hasattr(model, "generate"))
            self._generates[cls] = answer
        return answer

    def method(self, original: Call) -> Call:
        """Return the method `original` of models with a range around each call."""
        is_compiling, run = self._is_compiling, self._run

        @functools.wraps(original)
        def call(model: Any, *args: Any, **kwargs: Any) -> Any:
            if is_compiling():
                return original(model, *args, **kwargs)
            return run(model, functools.partial(original, model), args, kwargs)

        return call  # type: ignore[return-value]

    def function(self, original: Call, model: Any) -> Call:
        """Return `original`, which calls `model`, with a range around each call."""
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
        if not self._open(model, args, kwargs):
            return call(*args, **kwargs)
        self._thread.inside = True
        try:
            result = call(*args, **kwargs)
        finally:
            self._thread.inside = False
            self._pop()
        self._close(result)
        return result

    def _open(self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        try:
            work = self._stages.of_call(model, args, kwargs) if self.generates(model) else None
            if work is None:
                return False
            if self._described is not None and model not in self._described:
                self._describe(model, self._described)
            kind, values = work
            with_fields = self._with_fields.get(kind)
            if values is None or with_fields is None:
                self._push(kind)
            else:
                with_fields(*values)
            return True
        except Exception as error:
            name = type(model).__name__
            self._notices.warn(f"prefill-decode: calls of {name} are not marked: {error!r}")
            return False

    def _describe(self, model: Any, described: weakref.WeakSet[Any]) -> None:
        described.add(model)
        try:
            parameters = sum(parameter.numel() for parameter in model.parameters())
            # A smaller model (a draft or reward model) is not the model of the run.
            if parameters > self._most_parameters:
                self._most_parameters = parameters
                engine_file.write(describe(model))
        except Exception as error:
            self._notices.warn(f"prefill-decode: a model's configuration is not saved: {error!r}")

    def _close(self, result: Any) -> None:
        try:
            self._stages.take_result(result)
        except Exception as error:
            self._notices.warn(f"prefill-decode: a cache cannot be tracked: {error!r}")


_marker: _Marker | None = None


def install_in_torch(torch: ModuleType, notices: Notices) -> None:
    """Mark the models that `torch.compile` returns, and prepare for transformers."""
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
    """Mark the forward passes of all model classes, including those that are defined later."""
    marker = _marker
    if marker is None:
        # It does not work with this torch; a notice has said so.
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
        # Wrappers of models call `forward` instead of the model.
        if isinstance(forward, types.FunctionType) and hasattr(cls, "generate"):
            cls.forward = marker.method(forward)

    base.__init_subclass__ = classmethod(__init_subclass__)


def _mark_compiled(marker: _Marker, target: Any, compiled: Any) -> Any:
    if isinstance(target, types.MethodType):
        model, by_name = target.__self__, target.__name__ in ("__call__", "forward")
        if by_name and _is_pretrained(model) and marker.generates(model):
            return marker.function(compiled, model)
    elif _is_pretrained(target) and marker.generates(target):
        # `compiled` is a module that wraps the model; a call of it calls its `forward`.
        compiled.forward = marker.function(compiled.forward, target)
    return compiled


def _is_pretrained(model: Any) -> bool:
    return any(cls.__name__ == "PreTrainedModel" for cls in type(model).__mro__)


def describe(model: Any) -> dict[str, Any]:
    """Return the parts of a model's configuration that determine step times."""
    import transformers

    rank = os.environ.get("RANK", "")
    return {
        "engine": "transformers",
        "version": transformers.__version__,
        "rank": int(rank) if rank.isdecimal() else 0,
        "model": str(getattr(model, "name_or_path", "") or "") or None,
        "dtype": str(model.dtype).replace("torch.", "", 1),
        "tensor_parallel_size": getattr(model, "tp_size", None) or 1,
        "config": model.config.to_dict(),
    }


def _nvtx(torch: ModuleType) -> tuple[Callable[[str], Any], Callable[[], Any]]:
    """Return push and pop of torch if it was built with CUDA, else those of the package nvtx."""
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
