"""Streams completions from a server of an engine, and prints the times of the tokens.

    engine_client.py [--engine vllm|sglang] [--requests N] [--calls N] [--new N] [--wait SECONDS]

Each call sends N requests at the same time, each with 512 prompt tokens. The program needs only the
standard library.
"""

from __future__ import annotations

import argparse
import http.client
import json
import re
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

HISTOGRAM = re.compile(r"^\w+:(\w+)_seconds_(sum|count)(?:\{.*\})? (\S+)$", re.MULTILINE)
HOST, PORT, MODEL, PROMPT = "127.0.0.1", 8000, "dummy", 512
PATHS = {"vllm": "/v1/completions", "sglang": "/generate"}
# SGLang measures the first token in the tokenizer process, later than its scheduler does.
TIMES = {
    "vllm": {
        "first token": "time_to_first_token",
        "token": "request_time_per_output_token",
        "whole": "e2e_request_latency",
    },
    "sglang": {"token": "inter_token_latency", "whole": "e2e_request_latency"},
}


def body_of(engine: str, number: int, new: int) -> dict[str, Any]:
    """Return the body of a request for `new` tokens."""
    prompt = [3 + (number * 7919 + place * 104729) % 31_997 for place in range(PROMPT)]
    wishes: dict[str, Any] = {"temperature": 0, "ignore_eos": True}
    if engine == "sglang":
        sampling = wishes | {"max_new_tokens": new}
        return {"input_ids": prompt, "sampling_params": sampling, "stream": True}
    body = {"model": MODEL, "prompt": prompt, "max_tokens": new, "stream": True}
    return wishes | body | {"return_token_ids": True}


def stream(engine: str, number: int, new: int) -> tuple[float, float]:
    """Send one request; return the seconds to its first token, and those of each further one."""
    body = json.dumps(body_of(engine, number, new))
    connection = http.client.HTTPConnection(HOST, PORT, timeout=300)
    began = time.perf_counter()
    connection.request("POST", PATHS[engine], body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    if response.status != 200:
        raise SystemExit(f"the server answered {response.status}: {response.read()[:200]!r}")
    came = [time.perf_counter() for line in response if line.startswith(b"data: {")]
    connection.close()
    return came[0] - began, (came[-1] - came[0]) / max(new - 1, 1)


def wait_for_server(seconds: float) -> None:
    """Return once the server answers.

    Raises:
        SystemExit: It does not answer in time.

    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        connection = http.client.HTTPConnection(HOST, PORT, timeout=5)
        try:
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.5)
        finally:
            connection.close()
    raise SystemExit(f"no server on port {PORT} after {seconds} s")


def measured() -> dict[str, float]:
    """Return the means of the server's own histograms, s, by their names without unit."""
    connection = http.client.HTTPConnection(HOST, PORT, timeout=30)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    sums: dict[str, dict[str, float]] = {}
    for name, part, value in HISTOGRAM.findall(text):
        of_name = sums.setdefault(name, {})
        of_name[part] = of_name.get(part, 0.0) + float(value)
    return {name: of["sum"] / of["count"] for name, of in sums.items() if of.get("count")}


def main() -> None:
    """Run the calls, and print one line for all of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", choices=sorted(PATHS), default="vllm")
    parser.add_argument("--requests", type=int, default=16)
    parser.add_argument("--calls", type=int, default=4)
    parser.add_argument("--new", type=int, default=64)
    parser.add_argument("--wait", type=float, default=300.0)
    options = parser.parse_args()
    wait_for_server(options.wait)
    times: list[tuple[float, float]] = []
    for _ in range(options.calls):
        with ThreadPoolExecutor(options.requests) as pool:
            numbers, new = range(options.requests), [options.new] * options.requests
            times += pool.map(partial(stream, options.engine), numbers, new)
    first, token = (statistics.median(values) * 1e3 for values in zip(*times, strict=True))
    print(f"streamed {len(times)} requests: first token {first:.3f} ms, token {token:.3f} ms")
    means = measured()
    said = [
        f"{what} {means.get(name, 0.0) * 1e3:.3f} ms"
        for what, name in TIMES[options.engine].items()
    ]
    print(f"the engine measured: {', '.join(said)}")


if __name__ == "__main__":
    main()
