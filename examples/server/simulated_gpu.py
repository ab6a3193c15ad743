"""The simulated GPU of this repository as a GPU without results, through the driver's C interface.

A decode step is a CUDA graph, one for each batch size that `batch.buckets` names. A profiler meets
all of it as it would meet a real driver.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

from server.batch import bucket_of
from server.errors import ServerError
from server.ranges import Ranges

PREFILL, DECODE, GRAPH = 0, 1, 2
"""Numbers of the recorded sequences."""

LIBRARY = "libstage2_sim.so"


def find(asked: str) -> Path | None:
    """Turn `auto`, `off` or a path into the library; None for no simulated GPU.

    `auto` looks into this checkout's `target`, release builds first.
    """
    if asked == "off":
        return None
    if asked != "auto":
        library = Path(asked)
        if not library.is_file():
            raise ServerError(
                f"--simulated-gpu={asked} is no file",
                f"give the path of {LIBRARY} (cargo build -p stage2-sim makes it), auto or off",
            )
        return library.resolve()
    target = Path(__file__).resolve().parents[2] / "target"
    places = [target / kind / LIBRARY for kind in ("release", "debug")]
    return next((place for place in places if place.is_file()), None)


class SimulatedGpu:
    """A context with one stream of it. Use it from the thread that made it."""

    def __init__(self, library: Path, sizes: list[int], graphs: bool, ranges: Ranges) -> None:
        """Initialise the driver in this process; `sizes` are the batch sizes of the graphs."""
        try:
            self._cuda = cuda = ctypes.CDLL(str(library))
            _ = cuda.stage2_sim_version
        except (OSError, AttributeError) as error:
            raise ServerError(
                f"{library} is not the library of the simulated GPU: {error}",
                f"give the path of {LIBRARY}, or --simulated-gpu=off",
            ) from error
        self.name = "NVIDIA H200 (simulated)"
        self.decode_mode = "graphs" if graphs else "eager"
        self._sizes = sizes
        self._ranges = ranges
        self._graphs: dict[int, ctypes.c_size_t] = {}
        context = ctypes.c_size_t()
        self._stream = ctypes.c_size_t()
        self._call("cuInit", 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self._call("cuCtxSetCurrent", context)
        self._call("cuStreamCreate", ctypes.byref(self._stream), 0)

    def warm_up(self) -> None:
        """Capture the graphs."""
        if self.decode_mode != "graphs":
            return
        for size in self._sizes:
            with self._ranges.open("capture", size):
                graph, runnable = ctypes.c_size_t(), ctypes.c_size_t()
                self._call("cuStreamBeginCapture_v2", self._stream, 0)
                self._launch(GRAPH)
                self._call("cuStreamEndCapture", self._stream, ctypes.byref(graph))
                self._call(
                    "cuGraphInstantiateWithFlags", ctypes.byref(runnable), graph, ctypes.c_uint64(0)
                )
                self._graphs[size] = runnable

    def prefill(self) -> None:
        """Launch the recorded kernels of a prefill."""
        self._launch(PREFILL)

    def decode(self, batch: int) -> None:
        """Replay the graph for `batch` sequences, or launch the kernels of a step."""
        if self.decode_mode == "graphs":
            graph = self._graphs[bucket_of(batch, self._sizes)]
            self._call("cuGraphLaunch", graph, self._stream)
        else:
            self._launch(DECODE)

    def synchronize(self) -> None:
        """Wait for the stream."""
        self._call("cuStreamSynchronize", self._stream)

    def _launch(self, sequence: int) -> None:
        for index in range(self._cuda.stage2_sim_sequence_length(sequence)):
            self._call("stage2_sim_launch_recorded", sequence, index, self._stream)

    def _call(self, function: str, *arguments: object) -> None:
        result = getattr(self._cuda, function)(*arguments)
        if result != 0:
            raise ServerError(
                f"{function} of the simulated GPU failed with CUDA error {result}",
                "look at STAGE2_SIM_FAULT and its neighbours in crates/sim/README.md, "
                "or use --simulated-gpu=off",
            )
