"""What check_engines.py accepts, and what it does not."""

from __future__ import annotations

import copy
import unittest
from typing import Any

from check_engines import checks

LOG = "generate 0: 0.250 s, 16 requests\ngenerate 1: 0.250 s, 16 requests\n"


def report() -> dict[str, Any]:
    """Return the report of two calls of 16 requests whose steps are as they should be."""
    step = {"steps": 126, "timed_steps": 124, "timed_ns": 124 * 3_500_000, "rows": []}
    prompts = {"timed_steps": 2, "prefill_tokens_mean": 16 * 512.0}
    row = {"tokens_mean": 8192.0, "p50_ns": 30_000_000, "steps": 2}
    return {
        "engine": {
            "engine": "vllm",
            "version": "0.26.0",
            "processes": 1,
            "requests": {
                "first_token": {"p50_ns": 19_000_000, "mean_ns": 20_000_000},
                "token": {"p50_ns": 3_000_000, "mean_ns": 3_100_000},
                "draft_tokens": 90,
                "accepted_tokens": 30,
                "cost": {
                    "whole_requests": 32,
                    "requests_gpu_ns": 999_999_000,
                    "steps_gpu_ns": 1_000_000_000,
                },
            },
            "kinds": [{"stage": "decode", **step}, {"stage": "prefill", "rows": [row], **prompts}],
        },
        "answer": {
            "lines": [
                {"label": "coverage", "text": "complete: all"},
                {"label": "floor", "text": "decode 0.7 ms per instance"},
            ]
        },
    }


def failed(changed: dict[str, Any], **expected: str) -> list[str]:
    """Return what failed."""
    found = checks(changed, LOG, {"calls": "2", "requests": "16", **expected})
    return [what for holds, what in found if not holds]


class CheckEngines(unittest.TestCase):
    def test_the_engine_is_the_one_that_is_named(self) -> None:
        self.assertEqual(failed(report(), engine="sglang"), ["engine vllm 0.26.0"])

    def test_means_are_those_that_the_engine_measured(self) -> None:
        def found(said: str) -> list[str]:
            every = checks(report(), f"{LOG}the engine measured: {said}\n", {})
            return [what for holds, what in every if not holds]

        self.assertEqual(found("first token 20.500 ms, token 3.120 ms"), [])
        self.assertIn(
            "first token: mean 20.000 ms", found("first token 21.000 ms, token 3.1 ms")[0]
        )
        self.assertIn("token: mean 3.100 ms", found("first token 20.0 ms, token 3.000 ms")[0])
        self.assertIn("whole: mean 0.000 ms", found("whole 3.000 ms")[0])

    def test_kernels_of_a_call_are_those_of_another_profiler(self) -> None:
        stages = {"stages": [{"stage": "generate", "kernels_per_instance_median": 7}]}
        for kernels, holds in (("7", True), ("8", False), ("0", False)):
            self.assertEqual([ok for ok, _ in checks(stages, "", {"kernels": kernels})], [holds])

    def test_parts_drafts_and_windows_are_looked_for(self) -> None:
        changed = report()
        self.assertEqual(len(failed(changed, modules="", drafts="", window="3")), 4)
        part = {"stage": "decode", "module": "m", "stage_kernel_sum_percent": 45.0}
        changed["layers"] = [{**part, "part": "attention"}, {**part, "part": "mlp"}]
        changed["engine"]["kinds"].append({"stage": "verify", "rows": []})
        self.assertEqual(failed(changed, modules="", drafts="", window="2"), [])

    def test_a_sound_bundle_passes(self) -> None:
        self.assertEqual(failed(report()), [])

    def test_requests_are_held_against_their_client(self) -> None:
        def found(log: str, streamed: str = "32") -> list[str]:
            every = checks(report(), log, {"streamed": streamed})
            return [what for holds, what in every if not holds]

        self.assertEqual(found("first token 20.000 ms, token 3.010 ms"), [])
        self.assertIn("first_token", found("first token 18.000 ms, token 3.010 ms")[0])
        self.assertIn("token: 3.000", found("first token 20.000 ms, token 3.200 ms")[0])
        self.assertEqual(len(found("")), 2)
        self.assertIn("whole", found("first token 20.000 ms, token 3.010 ms", "31")[0])

    def test_each_thing_that_is_wrong_is_found(self) -> None:
        def change(path: list[Any], value: Any) -> list[str]:
            changed = copy.deepcopy(report())
            place = changed
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = value
            return failed(changed)

        kinds = ["engine", "kinds"]
        self.assertIn("engine None", change(["engine"], None)[0])
        self.assertIn("kinds", change(kinds, report()["engine"]["kinds"][:1])[0])
        self.assertIn("tokens", change([*kinds, 1, "prefill_tokens_mean"], 4096.0)[0])
        self.assertIn("decode steps", change([*kinds, 0, "steps"], 63)[0])
        self.assertIn("of what calls took", change([*kinds, 0, "timed_ns"], 10**9)[0])
        self.assertIn("processes", change(["engine", "processes"], 2)[0])
        self.assertIn("coverage", change(["answer", "lines", 0, "text"], "PARTIAL: lost")[0])
        self.assertIn("floor", change(["answer", "lines", 1, "text"], "needs model")[0])
        self.assertIn("batches", failed(report(), batches="1,2")[0])


if __name__ == "__main__":
    unittest.main()
