"""server_check.py on made-up results; needs no GPU: `python -m unittest` in this folder."""

import unittest

import server_check


def load(on_ms, failed=0, others_ms=10):
    """Made-up lines of a load: 100 requests a phase, others than those of a window of 10 ms."""
    lines = [{"kind": "command", "words": "ctl start", "status": 0}]
    phases = ("never", others_ms), ("switching", 9 * others_ms), ("on", on_ms), ("off", others_ms)
    for phase, taken in phases:
        for number in range(100):
            error = "reset" if phase == "on" and number < failed else None
            end = number + taken / 1e3
            lines.append(
                {
                    "kind": "request",
                    "phase": phase,
                    "arrival_s": number,
                    "end_s": end,
                    "error": error,
                }
            )
    return lines


def bundle(kernels=761, median=1_000_000, mean=2_800, recorded=None):
    row = {
        "stage": "decode",
        "kernels_per_instance_median": kernels,
        "kernel_mean_ns": mean,
        "host_warm_median_ns": median,
        "recorded_instances": recorded,
    }
    return {"stages": [row, {**row, "stage": "prefill"}]}


def failures(lines):
    return [text for passed, text in lines if passed is False]


class Latency(unittest.TestCase):
    def test_a_window_that_costs_little_passes_and_one_that_costs_much_fails(self):
        self.assertEqual(failures(server_check.latency(load(12), [])), [])
        (said,) = failures(server_check.latency(load(14), []))
        self.assertIn("1.40", said)

    def test_failed_requests_and_commands_fail(self):
        (said,) = failures(server_check.latency(load(10, failed=2), []))
        self.assertIn("2 of 400", said)
        lines = load(10)
        lines[0]["status"] = 1
        self.assertEqual(len(failures(server_check.latency(lines, []))), 1)
        unswitched = failures(server_check.latency(lines[1:], []))
        self.assertEqual(len(unswitched), 1, "nothing was switched")

    def test_servers_are_judged_together_by_the_mean_of_their_quotients(self):
        self.assertEqual(len(failures(server_check.latency(load(15), []))), 1)
        lines = list(server_check.together([load(15), load(11), load(110, others_ms=100)]))
        self.assertEqual(failures(lines), [])
        each, mean = (text for _, text in lines)
        self.assertIn("1.50, 1.10, 1.10", each)
        self.assertIn("mean: 1.22 (1.22 to 1.22)", mean)
        (said,) = failures(server_check.together([load(15), load(12)]))
        self.assertIn("1.34", said)

    def test_bare_cupti_stands_between_both(self):
        bare = [line for line in load(12, others_ms=12) if line.get("phase") != "switching"]
        said = [text for _, text in server_check.latency(load(15), bare)]
        self.assertIn("p99 under bare CUPTI: 12.0 ms of 300 requests", said)
        self.assertIn("p99 under bare CUPTI over p99 of never: 1.20 (1.20 to 1.20)", said)
        self.assertIn("p99 while on over p99 under bare CUPTI: 1.25 (1.25 to 1.25)", said)

    def test_too_few_requests_are_no_result(self):
        self.assertIn("too few", failures(server_check.latency(load(10)[:110], []))[0])


class Windows(unittest.TestCase):
    def test_all_windows_and_no_loss(self):
        answer = {"windows": 100, "lost": 0, "records": 5}
        self.assertEqual(failures(server_check.windows([answer], 100)), [])
        for broken in ({"windows": 99}, {"lost": 1}, {"records": 0}):
            self.assertEqual(len(failures(server_check.windows([{**answer, **broken}], 100))), 1)
        self.assertEqual(len(failures(server_check.windows([], 100))), 1)


class Steps(unittest.TestCase):
    def test_steps_of_a_window_are_those_of_the_whole_run(self):
        self.assertEqual(failures(server_check.steps(bundle(), bundle(median=1_040_000))), [])
        self.assertEqual(len(failures(server_check.steps(bundle(), bundle(kernels=760)))), 1)
        self.assertEqual(len(failures(server_check.steps(bundle(), bundle(median=1_100_000)))), 1)
        self.assertEqual(len(failures(server_check.steps(bundle(), bundle(mean=3_000)))), 1)
        self.assertEqual(len(failures(server_check.steps({"stages": []}, bundle()))), 1)

    def test_steps_of_which_few_are_recorded_may_be_faster_and_their_kernels_may_not(self):
        few = bundle(median=850_000, recorded=77)
        self.assertEqual(failures(server_check.steps(few, bundle())), [])
        (said,) = failures(server_check.steps({**few}, bundle(mean=2_600)))
        self.assertIn("mean kernel", said)


if __name__ == "__main__":
    unittest.main()
