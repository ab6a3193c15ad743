"""The server's command line becomes checked options."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from server.errors import ServerError

MODELS = Path(__file__).resolve().parents[1] / "runner" / "conf" / "model"
"""The models of the runner, one YAML file each."""


@dataclass(frozen=True)
class Options:
    """What the server and its engine do."""

    host: str
    port: int
    ready_file: Path | None
    model: str
    backend: str
    device: str
    simulated_gpu: str
    graphs: bool
    nvtx: str
    seed: int
    slots: int
    capacity: int
    prefill_tokens: int
    max_queue: int
    max_body_bytes: int
    grace_s: float


def parse(arguments: list[str] | None = None) -> Options:
    """Read the command line; end the program with status 2 for a word that is not understood.

    Raises `ServerError`: a value cannot be used.
    """
    parser = argparse.ArgumentParser(
        prog="python -m server",
        description="Serve a random-weight LLM over HTTP with continuous batching, to profile it.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="address to listen at; there is no access control")
    add("--port", type=int, default=8000, help="port to listen at; 0 takes a free one")
    add("--ready-file", type=Path, help="written when the server serves: one line of JSON")
    add("--model", default="llama_tiny", help=f"one of {', '.join(models())}")
    add(
        "--backend",
        default="auto",
        choices=("auto", "torch", "numpy"),
        help="auto: torch if it is there",
    )
    add("--device", default="auto", help="of torch: auto, cpu, cuda or cuda:N")
    add(
        "--simulated-gpu",
        default="auto",
        metavar="LIBRARY",
        help="beside numpy: auto, off or a path of libstage2_sim.so",
    )
    add(
        "--no-graphs",
        dest="graphs",
        action="store_false",
        help="launch each kernel of a decode step by itself",
    )
    add(
        "--nvtx",
        default="all",
        choices=("all", "steps", "off"),
        help="ranges: of steps and requests, of steps only, or none",
    )
    add("--seed", type=int, default=0, help="of the weights")
    add("--slots", type=int, default=8, help="sequences that are decoded together at most")
    add(
        "--capacity", type=int, default=512, help="positions of a slot: prompt and generated tokens"
    )
    add("--prefill-tokens", type=int, default=1024, help="prompt tokens between two decode steps")
    add(
        "--max-queue",
        type=int,
        default=256,
        help="open requests; further ones are answered with 429",
    )
    add(
        "--max-body-bytes",
        type=int,
        default=1 << 20,
        help="of a request; larger ones are answered with 413",
    )
    add(
        "--grace",
        dest="grace_s",
        type=float,
        default=10.0,
        help="seconds for open requests after SIGTERM",
    )
    options = Options(**vars(parser.parse_args(arguments)))
    _check(options)
    return options


def models() -> list[str]:
    """Name the models that there are."""
    return sorted(file.stem for file in MODELS.glob("*.yaml"))


def _check(options: Options) -> None:
    limits = {
        "--port": (options.port, 0, 65535),
        "--slots": (options.slots, 1, 1024),
        "--capacity": (options.capacity, 2, 1 << 20),
        "--prefill-tokens": (options.prefill_tokens, 1, 1 << 30),
        "--max-queue": (options.max_queue, 1, 1 << 20),
        "--max-body-bytes": (options.max_body_bytes, 16, 1 << 26),
        "--seed": (options.seed, 0, (1 << 63) - 1),
        "--grace": (options.grace_s, 0, 3600),
    }
    for name, (value, least, most) in limits.items():
        # A float that is no number is in no order.
        if not least <= value <= most:
            raise ServerError(f"{name}={value} cannot be used", f"choose {least} to {most}")
    if options.model not in models():
        raise ServerError(
            f"--model={options.model} is unknown", f"choose one of {', '.join(models())}"
        )
