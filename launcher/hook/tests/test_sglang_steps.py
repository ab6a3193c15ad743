"""Which batches of SGLang's scheduler are marked, and with what."""

from __future__ import annotations

import enum
import random
import unittest
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from stage2_annotate.sglang_steps import Batches
from stage2_annotate.steps import FIELDS

from .support import EngineRan, run_engine

# Names of classes and fields as in SGLang 0.5.17 and 0.5.23.
MODES = """
from enum import IntEnum
ForwardMode = IntEnum("ForwardMode", "EXTEND DECODE MIXED IDLE TARGET_VERIFY SPLIT_PREFILL")
"""
BATCH = """
from dataclasses import dataclass, field
@dataclass
class ScheduleBatch:
    reqs: list
    forward_mode: object
    seq_lens_cpu: object = None
    seq_lens_sum: object = None
    prefix_lens: list = None
    extend_num_tokens: object = None
    decoding_reqs: list = None
"""
TIMES = """
class APIServerReqTimeStats:
    def __init__(self): self.created_time = 1.5
    def __getstate__(self): return {"disagg_mode": 0}
class SchedulerReqTimeStats:
    prefill_finished_time = 2.0
    def set_completion_time(self, ts=None): return ts
"""
SCHEDULER = """
from types import SimpleNamespace as Of
class Scheduler:
    ps = Of(tp_rank=1, attn_tp_rank=0, attn_cp_rank=0, attn_dp_rank=0, pp_rank=0)
    nccl_port = 5
    draft_worker = None
    server_args = Of(kv_cache_dtype="fp8_e4m3", tp_size=2, pp_size=1, dp_size=1, ep_size=1,
                     dist_init_addr=None)
    model_config = Of(model_path="/m", dtype="torch.bfloat16", quantization="fp8",
                      hf_config=Of(to_dict=lambda: {"model_type": "llama"}))
    def _add_request_to_queue(self, req, is_retracted=False): return req
    def run_batch(self, batch, pp_proxy_tensors=None):
        if batch.reqs == ["fails"]: raise ValueError("of the model")
        return batch.reqs
"""
USE = """
from sglang.srt.managers.scheduler import Scheduler
from sglang.srt.managers.schedule_batch import ScheduleBatch
from sglang.srt.model_executor.forward_batch_info import ForwardMode
from sglang.srt.observability.req_time_stats import SchedulerReqTimeStats
class Request:
    origin_input_ids, output_ids, cached_tokens = [1, 2], [], 0
    spec_verify_ct = spec_num_correct_drafts = retraction_count = 0
    finished_reason = None
    def __init__(self, name): self.name, self.time_stats = name, SchedulerReqTimeStats()
    def __eq__(self, other): return self is other or self.name == other
scheduler = Scheduler()
def run(mode, *reqs, **fields):
    batch = ScheduleBatch(list(map(Request, reqs)), getattr(ForwardMode, mode), **fields)
    assert scheduler.run_batch(batch) == list(reqs)
"""

Modes = enum.IntEnum("Modes", "EXTEND DECODE MIXED IDLE TARGET_VERIFY")
ALONE = SimpleNamespace(draft_worker=None)


@dataclass
class Lengths:
    """Lengths of sequences, in place of a tensor."""

    lengths: list[int]
    sums: int = 0

    def sum(self) -> Any:
        self.sums += 1
        return SimpleNamespace(item=lambda: sum(self.lengths))


def batch(mode: Any, requests: list[Any], **fields: Any) -> SimpleNamespace:
    known = dict.fromkeys(("seq_lens_cpu", "seq_lens_sum", "prefix_lens", "decoding_reqs"))
    return SimpleNamespace(**{**known, "forward_mode": mode, "reqs": requests, **fields})


class Work(unittest.TestCase):
    """The lists of a batch determine what it works on."""

    def test_prompts_alone_and_with_requests_that_decode(self):
        work = Batches(Modes).work_of(
            ALONE, batch(Modes.EXTEND, ["a", "b"], prefix_lens=[0, 64], extend_num_tokens=600)
        )
        self.assertEqual(work, ("prefill", (2, 600, 664, 0, 0, 0, 0)))
        mixed = batch(
            Modes.MIXED,
            ["a", "b", "c"],
            prefix_lens=[16, 99, 199],
            extend_num_tokens=512 + 2,
            decoding_reqs=["b", "c"],
        )
        expected = ("mixed", (1, 512, 528, 2, 2, 300, 0))
        self.assertEqual(Batches(Modes).work_of(ALONE, mixed), expected)
        # With data-parallel attention, a rank that decodes may run in the mode EXTEND.
        mixed.reqs, mixed.prefix_lens, mixed.extend_num_tokens = ["b", "c"], [99, 199], 2
        kind, values = Batches(Modes).work_of(ALONE, mixed) or ("", ())
        self.assertEqual((kind, values), ("decode", (0, 0, 0, 2, 2, 300, 0)))

    def test_the_context_of_decoding_requests_is_summed_only_where_they_change(self):
        batches, chance = Batches(Modes), random.Random(3)
        requests: list[int] = []
        lengths: list[int] = []
        sums = 0
        for step in range(400):
            if step % 7 == 0:
                # Finished requests cause a new list; new requests extend the list.
                keep = [at for at in range(len(requests)) if chance.random() < 0.7]
                if len(keep) < len(requests):
                    requests, lengths = [requests[i] for i in keep], [lengths[i] for i in keep]
                if chance.random() < 0.8 or not requests:
                    requests.append(step)
                    lengths.append(chance.randrange(900))
            lengths = [length + 1 for length in lengths]
            tensor = Lengths(lengths)
            work = batches.work_of(ALONE, batch(Modes.DECODE, requests, seq_lens_cpu=tensor))
            values = (0, 0, 0, len(requests), len(requests), sum(lengths), 0)
            self.assertEqual(work, ("decode", values))
            sums += tensor.sums
        self.assertLess(sums, 70)
        self.assertGreater(sums, 20)

    def test_older_versions_sum_themselves_and_drafts_are_verified(self):
        old = batch(Modes.DECODE, ["a", "b"], seq_lens_sum=77)
        expected = ("decode", (0, 0, 0, 2, 2, 77, 0))
        self.assertEqual(Batches(Modes).work_of(ALONE, old), expected)
        drafting = SimpleNamespace(draft_worker=SimpleNamespace(speculative_num_draft_tokens=4))
        for lengths, context in ((Lengths([100, 200]), 308), (None, 0)):
            verify = batch(Modes.DECODE, ["a", "b"], seq_lens_cpu=lengths)
            work = Batches(Modes).work_of(drafting, verify)
            self.assertEqual(work, ("verify", (0, 0, 0, 2, 8, context, 6)))
        for mode in (Modes.IDLE, Modes.TARGET_VERIFY):
            self.assertIsNone(Batches(Modes).work_of(ALONE, batch(mode, ["a"])))
        self.assertIsNone(Batches(Modes).work_of(ALONE, batch(Modes.DECODE, [])))
        self.assertEqual(len(expected[1]), len(FIELDS))


class SglangSteps(unittest.TestCase):
    """What happens to a program that imports SGLang's scheduler, and to one of another SGLang."""

    def marked(self, code: str, parts: dict[str, str] | None = None) -> EngineRan:
        sources = {
            "__init__.py": "__version__ = '0.5.23'",
            "srt/managers/scheduler.py": SCHEDULER,
            "srt/observability/req_time_stats.py": TIMES,
            "srt/managers/schedule_batch.py": BATCH,
            "srt/model_executor/forward_batch_info.py": MODES,
            **(parts or {}),
        }
        files = {f"sglang/{path}": text for path, text in sources.items()}
        done = run_engine(files, code, "sglang-steps")
        self.assertEqual(done.ran.status, 0, done.ran.err)
        return done

    def test_each_batch_is_one_range_and_the_model_is_kept(self):
        code = """
run("EXTEND", "a", prefix_lens=[0], extend_num_tokens=512)
run("DECODE", "a", seq_lens_sum=513)
run("IDLE")
run("MIXED", "b", "a", prefix_lens=[0, 513], extend_num_tokens=9, decoding_reqs=["a"])
"""
        ran, description = self.marked(USE + code)
        self.assertEqual((ran.ranges, ran.err), (["prefill", "decode", "mixed"], ""))
        assert description is not None
        keys = ("engine", "version", "rank", "dtype", "kv_cache_dtype", "tensor_parallel_size")
        expected = ["sglang", "0.5.23", 1, "bfloat16", "fp8_e4m3", 2]
        self.assertEqual([description[key] for key in keys], expected)
        self.assertEqual(description["config"], {"model_type": "llama"})

    def test_each_request_that_ends_is_one_empty_range(self):
        code = """
request = Request("a")
for again in (False, True):
    assert scheduler._add_request_to_queue(request, is_retracted=again) is request
scheduler.run_batch(ScheduleBatch([request], ForwardMode.EXTEND, None, None, [0], 2))
for _ in range(2):
    assert request.time_stats.set_completion_time(ts=3.0) == 3.0
import copy
from sglang.srt.observability.req_time_stats import APIServerReqTimeStats
assert vars(copy.copy(APIServerReqTimeStats())) == {"disagg_mode": 0, "created_time": 1.5}
"""
        ran, _ = self.marked(USE + code)
        self.assertEqual((ran.ranges, ran.err), (["prefill", "stage2.request"], ""))
        # Another rank runs the same requests.
        ran, _ = self.marked(USE + "Scheduler.ps.attn_tp_rank = 1" + code)
        self.assertEqual((ran.ranges, ran.err), (["prefill"], ""))

    def test_requests_of_another_kind_are_told_once_and_steps_go_on(self):
        code = """
for name in "ab":
    request = Request(name)
    del request.time_stats
    scheduler._add_request_to_queue(request)
run("EXTEND", "a", prefix_lens=[0], extend_num_tokens=512)
run("DECODE", "a", seq_lens_sum=513)
"""
        ran, _ = self.marked(USE + code)
        self.assertEqual(ran.ranges, ["prefill", "decode"])
        told = r"\Astage2: sglang-steps: requests are not recorded any more: .*time_stats.*\n\Z"
        self.assertRegex(ran.err, told)
        older = {"srt/observability/req_time_stats.py": "class SchedulerReqTimeStats: pass"}
        ran, _ = self.marked(USE.replace("def run(", "run = None\ndef run("), older)
        self.assertRegex(ran.err, r"\Astage2: sglang-steps: steps are marked, but not requests: .*")

    def test_errors_of_the_model_and_of_the_marking_change_nothing(self):
        code = """
for _ in range(2):
    try: run("DECODE", "fails", seq_lens_sum=1)
    except ValueError: pass
    else: raise SystemExit("no exception")
run("EXTEND", "a", prefix_lens=None, extend_num_tokens=4)
"""
        ran, _ = self.marked(USE + code)
        self.assertEqual(ran.ranges, ["decode", "decode"])
        self.assertRegex(ran.err, r"\Astage2: sglang-steps: steps are not marked: TypeError.*\n\Z")

    def test_another_sglang_runs_without_ranges_and_one_line_says_so(self):
        changed = {"srt/managers/schedule_batch.py": BATCH.replace("prefix_lens", "prefixes")}
        changed["srt/model_executor/forward_batch_info.py"] = MODES.replace("MIXED", "JOINED")
        ran, description = self.marked("import sglang.srt.managers.scheduler", changed)
        self.assertEqual((ran.ranges, description), ([], None))
        self.assertRegex(
            ran.err, r"\Astage2: sglang-steps .*ScheduleBatch.prefix_lens, ForwardMode.MIXED.*\n\Z"
        )


if __name__ == "__main__":
    unittest.main()
