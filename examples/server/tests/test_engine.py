"""The engine's loop in this process: steps, ranges across threads, and ends."""

import multiprocessing
import threading
import time
import unittest

from server.engine import ENDING, Engine
from server.messages import Cancel, Refused, Stop, Submit, Tokens
from server.tests.support import CountingModel, Recorder, make_options


class Served:
    """An engine that has served the messages and ended."""

    def __init__(self, *messages, slots=4, at_token):
        """Serve them until `Stop`, which `at_token` may send after so many tokens."""
        self.model, self.recorder, self.sent = CountingModel(), Recorder(), []
        inbox, self.outbox = multiprocessing.Pipe(duplex=False)
        self.at_token = at_token
        options = make_options(slots=slots, prefill_tokens=1)
        engine = Engine(self.model, self.recorder.ranges, options, self._take)
        self.model.before_first = lambda: self._await_arrivals(engine, len(messages))
        for message in messages:
            self.outbox.send(message)
        self.thread = threading.Thread(target=engine.serve, args=(inbox,), name="steps")
        self.thread.start()
        self.thread.join(20)
        assert not self.thread.is_alive(), "the engine does not end"

    def _await_arrivals(self, engine, count):
        """Wait until all messages are there: on a busy machine steps would overtake them."""
        until = time.monotonic() + 20
        while len(engine._open) + engine._arrivals.qsize() < count:
            assert time.monotonic() < until, "the messages do not arrive"
            time.sleep(0.001)

    def _take(self, message):
        self.sent.append(message)
        tokens = sum(len(each.generated) for each in self.sent if isinstance(each, Tokens))
        for action in self.at_token.pop(tokens, []):
            self.outbox.send(action)
            # It has to have arrived before the next step.
            threading.Event().wait(0.2)

    def tokens(self, number):
        found = [one for each in self.sent if isinstance(each, Tokens) for one in each.generated]
        return [(one.token, one.is_last) for one in found if one.number == number]

    def refused(self):
        return [(each.number, each.reason) for each in self.sent if isinstance(each, Refused)]


class Steps(unittest.TestCase):
    def test_prefills_and_decode_steps_alternate_while_requests_join_and_leave(self):
        served = Served(
            Submit(1, (10,), 4), Submit(2, (20,), 2), Submit(3, (30,), 2),
            at_token={8: [Stop()]},
        )  # fmt: skip
        # One prompt token a step: each decode step is preceded by one prefill, while any waits.
        self.assertEqual(
            [(what, len(slots)) for what, slots in served.model.calls],
            [
                ("prefill", 1),
                ("decode", 1),
                ("prefill", 1),
                ("decode", 2),
                ("prefill", 1),
                ("decode", 2),
            ],
        )
        self.assertEqual(served.tokens(1), [(11, False), (12, False), (13, False), (14, True)])
        self.assertEqual(served.tokens(2), [(21, False), (22, True)])
        self.assertEqual(served.tokens(3), [(31, False), (32, True)])
        self.assertEqual(served.refused(), [])

    def test_ranges_of_steps_have_sizes_as_payload(self):
        served = Served(Submit(1, (1, 2, 3), 2), at_token={2: [Stop()]})
        self.assertEqual(served.recorder.paths, [("prefill", 3), ("decode", 1)])
        self.assertEqual(served.recorder.stack, [])

    def test_a_request_of_one_token_is_never_decoded(self):
        served = Served(Submit(1, (5,), 1), at_token={1: [Stop()]})
        self.assertEqual(served.model.calls, [("prefill", (0,))])
        self.assertEqual(served.tokens(1), [(6, True)])


class Requests(unittest.TestCase):
    def test_each_range_opens_in_the_intake_and_ends_once_where_the_steps_run(self):
        served = Served(*(Submit(n, (n,), n) for n in (1, 2, 3)), at_token={6: [Stop()]})
        opened = served.recorder.started
        self.assertEqual(opened, {1000 + n: ("request", n, "intake") for n in (1, 2, 3)})
        self.assertEqual(sorted(served.recorder.ended), [(1000 + n, "steps") for n in (1, 2, 3)])

    def test_a_cancelled_request_ends_its_range_and_frees_its_slot(self):
        served = Served(
            Submit(1, (1,), 1000), Submit(2, (2,), 3), slots=1,
            at_token={5: [Cancel(1)], 8: [Stop()]},
        )  # fmt: skip
        self.assertEqual(len(served.tokens(1)), 5)
        self.assertEqual(served.tokens(2)[-1], (5, True))
        self.assertEqual([handle for handle, _ in served.recorder.ended], [1001, 1002])
        self.assertEqual(served.refused(), [])

    def test_a_cancel_that_comes_too_late_changes_nothing(self):
        served = Served(Submit(1, (1,), 1), at_token={1: [Cancel(1), Cancel(7), Stop()]})
        self.assertEqual([handle for handle, _ in served.recorder.ended], [1001])

    def test_at_the_end_open_requests_are_refused_and_their_ranges_end(self):
        served = Served(
            Submit(1, (1,), 1000), Submit(2, (2,), 1000), slots=1,
            at_token={3: [Stop()]},
        )  # fmt: skip
        self.assertEqual(served.refused(), [(1, ENDING), (2, ENDING)])
        self.assertEqual(sorted(handle for handle, _ in served.recorder.ended), [1001, 1002])

    def test_the_engine_ends_when_the_pipe_does(self):
        inbox, outbox = multiprocessing.Pipe(duplex=False)
        recorder = Recorder()
        sent: list[object] = []
        engine = Engine(CountingModel(), recorder.ranges, make_options(), sent.append)
        outbox.close()
        engine.serve(inbox)
        self.assertEqual(sent, [])


if __name__ == "__main__":
    unittest.main()
