"""Which requests are prefilled and decoded together, and who has which slot."""

import unittest

from server.batch import Batch, Sequence, bucket_of, buckets


def sequence(number, prompt=4, max_tokens=2):
    return Sequence(number, tuple(range(prompt)), max_tokens)


def batch_of(*sequences, slots=4, prefill_tokens=100):
    batch = Batch(slots, prefill_tokens)
    for each in sequences:
        batch.submit(each)
    return batch


def numbers(sequences):
    return [each.number for each in sequences]


class Admission(unittest.TestCase):
    def test_requests_are_admitted_in_order_as_far_as_slots_go(self):
        batch = batch_of(*map(sequence, range(1, 7)), slots=4)
        self.assertEqual(numbers(batch.admit()), [1, 2, 3, 4])
        self.assertEqual(batch.admit(), [])
        self.assertEqual(batch.waiting, 2)
        slots = [each.slot for each in batch.running()]
        self.assertEqual(sorted(slots), [0, 1, 2, 3])

    def test_prompts_of_one_step_stay_within_the_budget(self):
        batch = batch_of(*(sequence(n, prompt=40) for n in (1, 2, 3)), prefill_tokens=100)
        self.assertEqual(numbers(batch.admit()), [1, 2])
        self.assertEqual(numbers(batch.admit()), [3])

    def test_a_prompt_beyond_the_budget_is_admitted_alone(self):
        batch = batch_of(sequence(1, 500), sequence(2, 1), prefill_tokens=100)
        self.assertEqual(numbers(batch.admit()), [1])
        self.assertEqual(numbers(batch.admit()), [2])

    def test_a_large_prompt_is_not_overtaken(self):
        batch = batch_of(sequence(1, 90), sequence(2, 50), sequence(3, 5), prefill_tokens=100)
        self.assertEqual(numbers(batch.admit()), [1])
        self.assertEqual(numbers(batch.admit()), [2, 3])


class Leaving(unittest.TestCase):
    def test_a_finished_request_leaves_its_slot_to_the_next(self):
        batch = batch_of(sequence(1, max_tokens=1), sequence(2), sequence(3), slots=2)
        first, second = batch.admit()
        slot = first.slot
        self.assertTrue(batch.accept(first, 7))
        self.assertFalse(batch.accept(second, 8))
        self.assertIsNone(first.slot)
        (third,) = batch.admit()
        self.assertEqual((third.number, third.slot), (3, slot))
        self.assertEqual(numbers(batch.running()), [2, 3])

    def test_a_request_that_waits_or_runs_can_be_removed(self):
        batch = batch_of(*map(sequence, (1, 2, 3)), slots=1)
        batch.admit()
        self.assertTrue(batch.remove(2))
        self.assertTrue(batch.remove(1))
        self.assertFalse(batch.remove(1))
        self.assertEqual(numbers(batch.admit()), [3])

    def test_no_slot_is_lost_or_given_twice(self):
        batch, done = batch_of(*(sequence(n, max_tokens=1 + n % 3) for n in range(50))), []
        for step in range(200):
            batch.admit()
            running = batch.running()
            slots = [each.slot for each in running]
            self.assertEqual(len(slots), len(set(slots)))
            self.assertTrue(set(slots) <= {0, 1, 2, 3})
            if step == 5:
                batch.remove(running[0].number)
            done += [
                each.number
                for each in running
                if each.slot is not None and batch.accept(each, step)
            ]
        self.assertTrue(batch.is_idle)
        self.assertEqual(len(done), 49)

    def test_clear_names_all(self):
        batch = batch_of(*map(sequence, (1, 2, 3)), slots=1)
        batch.admit()
        self.assertEqual(batch.clear(), [1, 2, 3])
        self.assertTrue(batch.is_idle)


class Buckets(unittest.TestCase):
    def test_powers_of_two_and_all(self):
        self.assertEqual(buckets(1), [1])
        self.assertEqual(buckets(8), [1, 2, 4, 8])
        self.assertEqual(buckets(6), [1, 2, 4, 6])

    def test_every_batch_has_the_smallest_bucket_that_holds_it(self):
        for slots in range(1, 40):
            sizes = buckets(slots)
            for batch in range(1, slots + 1):
                found = bucket_of(batch, sizes)
                self.assertGreaterEqual(found, batch)
                self.assertFalse([size for size in sizes if batch <= size < found])


if __name__ == "__main__":
    unittest.main()
