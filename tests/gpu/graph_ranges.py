"""A CUDA graph captured under `capture/layer.N` and replayed under `decode`.

No kernel runs during capture. A replay is one launch, under `decode`; that its kernels were
captured under `capture/layer.N` a profiler can know only from the capture.
"""

from __future__ import annotations

import torch
from torch.utils.hooks import RemovableHandle

import common
from count import count_kernels


def main() -> None:
    """Capture one single-token forward pass, then replay it, or count the kernels of replays."""
    parser = common.arguments(__doc__)
    parser.add_argument("--layers", type=common.positive, default=16)
    parser.add_argument("--hidden", type=common.positive, default=2048, help="a multiple of 64")
    parser.add_argument("--replays", type=common.positive, default=100, help="per repetition")
    parser.add_argument("--reps", type=common.positive, default=3, help="ranges `decode`")
    parser.add_argument(
        "--no-wait", action="store_true", help="close `decode` before the GPU has finished"
    )
    parser.add_argument("--replay-kernels", type=common.positive, help="expected per replay")
    options = parser.parse_args()
    device = common.prepare(options)
    if device.type != "cuda":
        parser.error("CUDA graphs need --device cuda")
    model = common.build(options.layers, options.hidden, device)

    kernels: float | None = options.replay_kernels
    more = {}
    expect = []
    if options.count_with == "torch":
        replays = min(options.replays, 20)
        # The graph must be made while the profiler looks on: of a graph that is older, CUPTI
        # reports the copies as kernels. What the capture itself launches is taken off again.
        capturing = count_kernels(lambda: capture(model, device))
        total = count_kernels(lambda: replay(capture(model, device), replays)) - capturing
        kernels = total // replays if total % replays == 0 else total / replays
        more = {"counted_by": "torch.profiler", "replay_kernels": kernels}
    else:
        graph = capture(model, device)
        replay(graph, 1)
        torch.cuda.synchronize(device)
        for _ in range(options.reps):
            with common.open_range("decode"):
                replay(graph, options.replays)
                if not options.no_wait:
                    torch.cuda.synchronize(device)
        torch.cuda.synchronize(device)
        in_range = None if kernels is None else options.replays * kernels
        expect = [
            common.expectation("decode", options.reps, in_range),
            common.expectation("capture", 1, 0),
        ]
        more = {
            "captures": [
                {"replay_path": "decode", "capture_prefix": "capture", "layers": options.layers}
            ]
        }
    common.report(
        "graph_ranges",
        device,
        expect,
        replays_per_range=options.replays,
        replays=options.replays * options.reps,
        **more,
    )


@torch.inference_mode()
def capture(model: torch.nn.Module, device: torch.device) -> torch.cuda.CUDAGraph:
    """Warm up outside of ranges, then capture the forward pass under ranges."""
    token = torch.zeros((1, 1), dtype=torch.long, device=device)
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        for _ in range(3):
            model(input_ids=token, use_cache=False)
    torch.cuda.synchronize(device)

    hooks = []
    for index, layer in enumerate(model.model.layers):
        hooks += mark(layer, f"layer.{index}")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), common.open_range("capture"):
        model(input_ids=token, use_cache=False)
    for hook in hooks:
        hook.remove()
    return graph


def mark(module: torch.nn.Module, name: str) -> list[RemovableHandle]:
    """Open the range `name` around the module's forward calls."""

    # What a hook returns replaces the module's input or output: so they return nothing.
    def before(*_: object) -> None:
        torch.cuda.nvtx.range_push(name)

    def after(*_: object) -> None:
        torch.cuda.nvtx.range_pop()

    return [module.register_forward_pre_hook(before), module.register_forward_hook(after)]


def replay(graph: torch.cuda.CUDAGraph, times: int) -> None:
    """Launch the graph so many times."""
    for _ in range(times):
        graph.replay()


if __name__ == "__main__":
    main()
