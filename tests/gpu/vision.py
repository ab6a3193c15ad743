"""A vision encoder's parts as ranges in prefill, with the FLOPs that PyTorch counts in each.

The encoder has DeepSeek-OCR's sizes and random weights: SAM's ViT-B on one view of 1024 pixels, two
convolutions of stride 2, CLIP-L on what they leave, and a linear projector. The decoder is a small
Llama. `--check RUN_FOLDER OUTPUT` compares metrics.json with the line that the workload printed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import verdicts

PARTS = ("sam", "clip", "projector")

TOLERANCE = 0.01
"""By which counted and computed FLOPs may differ."""


def main() -> None:
    """Run the workload, or compare its line with a bundle."""
    if "--check" in sys.argv:
        sys.argv.remove("--check")
        sys.exit(verdicts.check_bundle(__doc__, compare))
    work()


def work() -> None:
    """Encode an image in each of the repetitions, count the FLOPs, and report both."""
    import torch

    import common

    parser = common.arguments(__doc__)
    common.model_arguments(parser)
    options = parser.parse_args()
    device = common.prepare(options)
    generator = common.warm_generator(options, device)
    steps = encoder(device)
    image = torch.randn(1, 3, 1024, 1024, device=device, dtype=torch.bfloat16)

    @torch.inference_mode()
    def encode(around: Callable[[str], Any]) -> None:
        features = image
        for part, step in steps.items():
            with around(part):
                features = step(features)

    encode(lambda _: common.open_range(None))
    for _ in range(options.reps):
        with common.open_range("prefill"):
            encode(common.open_range)
            generator.prefill(None)
        generator.decode(options.new, "decode")
    flops = counted(encode)
    expect = [common.expectation(f"prefill/{part}", options.reps, None) for part in PARTS]
    common.report("vision", device, expect, flops=flops)


def encoder(device: Any) -> dict[str, Callable[[Any], Any]]:
    """Return the parts of the encoder in their order, each a function of the last one's output."""
    import torch
    from torch import nn
    from transformers import CLIPVisionConfig, SamVisionConfig
    from transformers.models.clip.modeling_clip import CLIPEncoder
    from transformers.models.sam.modeling_sam import SamVisionEncoder

    torch.manual_seed(0)
    sam_config = SamVisionConfig(attn_implementation="eager")
    clip_config = CLIPVisionConfig(
        hidden_size=1024, intermediate_size=4096, num_hidden_layers=24, num_attention_heads=16
    )
    clip_config._attn_implementation = "sdpa"
    sam = SamVisionEncoder(sam_config)
    behind = nn.Sequential(
        nn.Conv2d(256, 512, 3, stride=2, padding=1, bias=False),
        nn.Conv2d(512, 1024, 3, stride=2, padding=1, bias=False),
    )
    clip, projector = CLIPEncoder(clip_config), nn.Linear(2048, 1280)
    for module in (sam, behind, clip, projector):
        module.to(device=device, dtype=torch.bfloat16).eval()
    class_token = torch.randn(1, 1, 1024, device=device, dtype=torch.bfloat16)

    def run_sam(pixels: Any) -> Any:
        return behind(sam(pixels).last_hidden_state).flatten(2).transpose(1, 2)

    def run_clip(local: Any) -> Any:
        tokens = torch.cat([class_token, local], dim=1)
        seen = clip(inputs_embeds=tokens).last_hidden_state
        return torch.cat([seen[:, 1:], local], dim=-1)

    return {"sam": run_sam, "clip": run_clip, "projector": projector}


def counted(encode: Callable[[Callable[[str], Any]], None]) -> dict[str, int]:
    """Count the FLOPs of each part with PyTorch's own counter."""
    from contextlib import contextmanager

    from torch.utils.flop_counter import FlopCounterMode

    flops = {}

    @contextmanager
    def count(part: str) -> Iterator[None]:
        with FlopCounterMode(display=False) as counter:
            yield
        flops[part] = counter.get_total_flops()

    encode(count)
    return flops


def compare(metrics: dict[str, Any], line: dict[str, Any]) -> Iterator[verdicts.Line]:
    """Compare FLOPs, stages and MFU of each part with what the workload counted."""
    stages = {row["stage"]: row for row in metrics["utilisation"]["stages"]}
    for part in PARTS:
        row = stages.get(part)
        if row is None:
            yield False, f"{part} is in no row of utilisation"
            continue
        expected, found = line["flops"][part], row["flops"].get("known")
        near = found is not None and abs(found - expected) <= TOLERANCE * expected
        yield near, f"{part}: {found} FLOPs computed, {expected} counted by PyTorch"
        yield row.get("within") == "prefill", f"{part} lies within {row.get('within')}"
        mfu = row["mfu_busy"].get("known")
        yield mfu is not None and 0 < mfu < 1, f"{part}: MFU {mfu} while the GPU is busy"


if __name__ == "__main__":
    main()
