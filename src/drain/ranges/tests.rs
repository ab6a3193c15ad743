//! What the range model does with orderly and with disorderly guests.

use stage2_contract::trace::{Field, FieldValue, Payload};

use super::*;
use crate::guest::blob::Blob;
use crate::guest::event::{Events, PayloadPlace};
use crate::guest::registry::{Kind, registry};

/// A guest whose events are written down by hand: each call takes the next fence and time.
struct Guest {
    ranges: Ranges,
    names: Interner,
    records: Vec<Record>,
    counters: Counters,
    queue: Events,
    fence: u32,
}

impl Guest {
    fn new() -> Self {
        Guest {
            ranges: Ranges::new(false),
            names: Interner::default(),
            records: Vec::new(),
            counters: Counters::default(),
            queue: Events::default(),
            fence: 0,
        }
    }

    fn event(
        &mut self,
        kind: EventKind,
        thread: u32,
        edit: impl FnOnce(&mut Event),
        text: &str,
    ) -> u32 {
        self.fence += 10;
        let mut event = Event::new(kind, thread);
        event.fence = self.fence;
        event.at = MonoNs(u64::from(self.fence) * 100);
        edit(&mut event);
        let (lost, text_place) = (event.lost, event.text_place);
        self.queue.send_with_text(event, text.as_bytes(), &self.counters);
        while let Some(mut event) = self.queue.receive() {
            // The queue has room, and says so.
            event.lost = lost;
            if text_place == TextPlace::Lost {
                event.text_place = text_place;
            }
            self.ranges.apply(&event, &mut self.names, &mut self.records, &self.counters);
        }
        self.fence
    }

    fn push(&mut self, thread: u32, text: &str) -> u32 {
        self.event(EventKind::Push, thread, |_| {}, text)
    }

    fn pop(&mut self, thread: u32) -> u32 {
        self.event(EventKind::Pop, thread, |_| {}, "")
    }

    fn openings(&self) -> impl Iterator<Item = &RangeOpen> {
        self.records.iter().filter_map(|record| match record {
            Record::RangeOpen(open) => Some(open),
            _ => None,
        })
    }

    fn path_at(&mut self, thread: u32, correlation: u32) -> String {
        let place = self.ranges.place(thread, correlation).place;
        match place {
            Place::OUTSIDE => "(outside)".to_owned(),
            Place::UNKNOWN => "(unknown)".to_owned(),
            place => String::from_utf8(self.names.path_text(place.path)).unwrap(),
        }
    }
}

#[test]
fn work_gets_the_whole_path_open_on_its_own_thread() {
    let mut guest = Guest::new();
    let outer = guest.push(1, "prefill");
    let other = guest.push(2, "decode");
    let inner = guest.push(1, "layer.0");
    let closed = guest.pop(1);
    guest.pop(1);
    guest.pop(2);
    assert_eq!(guest.path_at(1, outer + 1), "prefill");
    assert_eq!(guest.path_at(2, other + 1), "decode");
    assert_eq!(guest.path_at(1, inner + 1), "prefill/layer.0");
    assert_eq!(guest.path_at(1, closed + 1), "prefill");
    assert_eq!(guest.path_at(1, guest.fence + 1), "(outside)");
    assert_eq!(guest.path_at(3, inner + 1), "(outside)");
    assert_eq!(guest.path_at(0, inner + 1), "(unknown)");
    assert_eq!(guest.counters.losses(), Default::default());
}

#[test]
fn instances_of_one_path_are_told_apart() {
    let mut guest = Guest::new();
    let fences: Vec<u32> = (0..3)
        .map(|_| {
            let at = guest.push(1, "step");
            guest.pop(1);
            at
        })
        .collect();
    let ranges: Vec<u64> =
        fences.iter().map(|&fence| guest.ranges.place(1, fence + 1).place.range).collect();
    assert_eq!(ranges, [1, 2, 3]);
    assert_eq!(guest.ranges.closed.iter().filter(|c| c.counts && c.host_ns == 1000).count(), 3);
}

#[test]
fn a_pop_without_a_push_is_counted_and_harmless() {
    let mut guest = Guest::new();
    guest.pop(1);
    guest.event(EventKind::End, 1, |e| e.id = 99, "");
    let fence = guest.push(1, "a");
    assert_eq!(guest.path_at(1, fence + 1), "a");
    assert_eq!(guest.counters.unbalanced.get(), 2);
}

#[test]
fn an_end_on_another_thread_closes_the_range_where_it_was_started() {
    let mut guest = Guest::new();
    let start = guest.event(EventKind::Start, 1, |e| e.id = 7, "request");
    let end = guest.event(EventKind::End, 2, |e| e.id = 7, "");
    assert_eq!(guest.path_at(1, start + 1), "request");
    assert_eq!(guest.path_at(1, end + 1), "(outside)");
    assert_eq!(guest.path_at(2, start + 1), "(outside)");
}

#[test]
fn an_inner_range_outlives_its_outer_one_under_a_path_of_its_own() {
    let mut guest = Guest::new();
    guest.event(EventKind::Start, 1, |e| e.id = 1, "a");
    let both = guest.event(EventKind::Start, 1, |e| e.id = 2, "b");
    let only_b = guest.event(EventKind::End, 1, |e| e.id = 1, "");
    let none = guest.event(EventKind::End, 1, |e| e.id = 2, "");
    assert_eq!(guest.path_at(1, both + 1), "a/b");
    assert_eq!(guest.path_at(1, only_b + 1), "b");
    assert_eq!(guest.path_at(1, none + 1), "(outside)");
    let continues: Vec<u64> = guest.openings().map(|open| open.continues).collect();
    assert_eq!(continues, [0, 0, 2]);
    assert_eq!(guest.ranges.closed.iter().filter(|c| c.counts).count(), 2);
}

#[test]
fn domains_have_stacks_of_their_own() {
    let mut guest = Guest::new();
    let (domain, _) = registry().add_text(Kind::Domain, 0, b"llm");
    guest.push(1, "default");
    guest.event(EventKind::Push, 1, |e| e.domain = domain, "own");
    let fence = guest.pop(1);
    assert_eq!(guest.path_at(1, fence + 1), "own");
    let path = guest.ranges.place(1, fence + 1).place.path;
    let named = guest.names.path_of(path).map(|path| guest.names.text(path.domain).to_vec());
    assert_eq!(named.as_deref(), Some(&b"llm"[..]));
    guest.event(EventKind::Pop, 1, |e| e.domain = domain, "");
    assert_eq!(guest.ranges.open_count(), 0);
    assert_eq!(guest.counters.unbalanced.get(), 0);
}

#[test]
fn registered_strings_and_long_texts_name_ranges() {
    let mut guest = Guest::new();
    let (string, _) = registry().add_text(Kind::Text, 0, b"registered");
    let long = "x".repeat(1000);
    let first = guest.event(EventKind::Push, 1, |e| e.string = string, "");
    let second = guest.push(1, &long);
    assert_eq!(guest.path_at(1, first + 1), "registered");
    assert_eq!(guest.path_at(1, second + 1), format!("registered/{long}"));
}

#[test]
fn calls_of_one_operator_share_a_path() {
    let mut guest = Guest::new();
    let names = ["aten::linear, op_id = 1", "aten::linear, seq = 4, op_id = 2"];
    let paths = names.map(|name| {
        let at = guest.push(1, name);
        guest.pop(1);
        guest.ranges.place(1, at + 1).place.path
    });
    assert_eq!(paths[0], paths[1]);
    assert_eq!(guest.names.path_text(paths[0]), b"aten::linear");
}

#[test]
fn a_wanted_range_wants_everything_inside_and_nothing_after() {
    let mut guest = Guest::new();
    let before = guest.push(1, "app");
    let inside = guest.event(EventKind::Push, 1, |e| e.selection = Selection::Collect, "decode");
    let nested = guest.push(1, "layer");
    guest.pop(1);
    let after = guest.pop(1);
    let wanted: Vec<bool> = [before, inside, nested, after]
        .map(|fence| guest.ranges.place(1, fence + 1).place.wanted)
        .into();
    assert_eq!(wanted, [false, true, true, false]);
}

#[test]
fn reported_launches_are_placed_by_id_whatever_the_thread() {
    let mut guest = Guest::new();
    guest.push(1, "a");
    guest.push(2, "b");
    guest.event(EventKind::Launch, 1, |e| e.fence = 1001, "");
    guest.event(EventKind::Launch, 2, |e| e.fence = 1002, "");
    guest.event(EventKind::Launch, 3, |e| e.fence = 1003, "");
    assert_eq!(guest.path_at(0, 1001), "a");
    assert_eq!(guest.path_at(0, 1002), "b");
    assert_eq!(guest.path_at(0, 1003), "(outside)");
    assert_eq!(guest.path_at(1, 1004), "(unknown)");
}

#[test]
fn where_launches_are_reported_one_that_was_not_is_unknown_from_the_first_on() {
    let mut guest = Guest::new();
    let open = guest.push(1, "a");
    guest.ranges.expect_launches();
    // The buffer was asked for by thread 1; who launched this is anybody's guess.
    assert_eq!(guest.path_at(1, open + 1), "(unknown)");
    guest.event(EventKind::Launch, 2, |e| e.fence = 1002, "");
    assert_eq!(guest.path_at(1, 1002), "(outside)");
}

#[test]
fn graph_nodes_remember_where_they_were_captured() {
    let mut guest = Guest::new();
    guest.push(1, "capture");
    guest.event(EventKind::GraphNodeCreated, 1, |e| e.id = 500, "");
    guest.pop(1);
    let original = Some(Payload::U64(500));
    guest.event(EventKind::GraphNodeCloned, 1, |e| (e.id, e.payload) = (900, original), "");
    assert!(guest.records.contains(&Record::GraphNode { node: 900, path: 1, range: 1 }));
}

#[test]
fn ten_thousand_deep_nesting_is_survived() {
    let mut guest = Guest::new();
    for depth in 0..10_000 {
        guest.event(EventKind::Push, 1, |e| e.depth = Some(depth + 1), "deep");
    }
    let fence = guest.fence;
    for depth in (0..10_000).rev() {
        guest.event(EventKind::Pop, 1, |e| e.depth = Some(depth), "");
    }
    let place = guest.ranges.place(1, fence + 1).place;
    let around = |path: &u32| guest.names.path_of(*path).map(|path| path.parent).filter(|&p| p > 0);
    assert_eq!(std::iter::successors(Some(place.path), around).count(), 10_000);
    assert_eq!(guest.ranges.open_count(), 0);
}

#[test]
fn threads_that_rest_are_forgotten_but_for_where_they_are() {
    let mut guest = Guest::new();
    let inside = guest.push(1, "early");
    let outside = guest.pop(1);
    guest.push(2, "stays open");
    for thread in 3..3 * THREADS as u32 {
        guest.push(thread, "short");
        guest.pop(thread);
    }
    assert!(guest.ranges.threads.len() <= THREADS);
    // What it launches from now on is outside; what it launched then is no longer known.
    assert_eq!(guest.path_at(1, guest.fence + 1), "(outside)");
    assert_eq!([inside, outside].map(|at| guest.path_at(1, at + 1)), ["(unknown)"; 2]);
    // Of those that came last everything is known, and of one that is in a range.
    assert_eq!(guest.path_at(3 * THREADS as u32 - 1, guest.fence - 1), "short");
    assert_eq!(guest.path_at(2, guest.fence), "stays open");
    assert_eq!((guest.ranges.open_count(), guest.counters.losses()), (1, Default::default()));
    let again = guest.push(1, "again");
    let place = guest.ranges.place(1, again + 1).place;
    assert_eq!(guest.names.path_text(place.path), b"again");
}

#[test]
fn threads_that_end_within_a_range_take_bounded_room_and_nothing_is_guessed_of_them() {
    let mut guest = Guest::new();
    let all = 4 * THREADS as u32;
    for thread in 1..=all {
        guest.event(EventKind::Push, thread, |e| e.depth = Some(1), "never popped");
    }
    assert!(guest.ranges.threads.len() <= THREADS);
    assert_eq!(guest.ranges.open_count(), all as usize);
    let forgotten = all as usize - guest.ranges.threads.len();
    assert_eq!(guest.counters.beyond_limits.get(), forgotten as u64);
    assert_eq!(guest.path_at(1, guest.fence + 1), "(unknown)");
    assert_eq!(guest.path_at(all, guest.fence + 1), "never popped");
    assert_eq!(guest.path_at(all + 1, guest.fence + 1), "(outside)");
    // One of them lives, and its next event tells where it is.
    let inner = guest.event(EventKind::Push, 1, |e| e.depth = Some(2), "inner");
    assert_eq!(guest.path_at(1, inner - 1), "(unknown)");
    assert_eq!(guest.path_at(1, inner + 1), "(lost)/inner");
}

#[test]
fn pushes_that_are_never_popped_are_only_counted_beyond_the_limit() {
    let mut guest = Guest::new();
    let more = 1000;
    for depth in 1..=(MAX_OPEN + more) as u32 {
        guest.event(EventKind::Push, 1, |e| e.depth = Some(depth), "step");
    }
    // Those of another domain are no exception.
    guest.event(EventKind::Push, 1, |e| (e.domain, e.depth) = (5, Some(1)), "other");
    assert_eq!(guest.ranges.threads[&1].open.len(), MAX_OPEN);
    assert_eq!(guest.ranges.open_count(), MAX_OPEN + more + 1);
    assert_eq!(guest.counters.beyond_limits.get(), more as u64 + 1);
    guest.event(EventKind::Pop, 1, |e| (e.domain, e.depth) = (5, Some(0)), "");
    for depth in (1..(MAX_OPEN + more) as u32).rev() {
        guest.event(EventKind::Pop, 1, |e| e.depth = Some(depth), "");
    }
    let outermost = guest.fence;
    assert_eq!(guest.path_at(1, outermost + 1), "step");
    let last = guest.event(EventKind::Pop, 1, |e| e.depth = Some(0), "");
    assert_eq!(guest.path_at(1, last + 1), "(outside)");
    assert_eq!((guest.ranges.open_count(), guest.counters.unbalanced.get()), (0, 0));
}

#[test]
fn many_start_end_ranges_that_do_not_nest_cost_a_bounded_number_of_records_each() {
    let mut guest = Guest::new();
    let count = 4000;
    for id in 1..=count {
        guest.event(EventKind::Start, 1, |e| e.id = id, if id % 2 == 0 { "r" } else { "s" });
    }
    let all = guest.fence;
    let first = guest.event(EventKind::End, 1, |e| e.id = 1, "");
    for id in 2..count {
        guest.event(EventKind::End, 1, |e| e.id = id, "");
    }
    // One opening and one closing of each, and continuations of the last few.
    let bound = 2 * count as usize + MAX_CONTINUED * MAX_CONTINUED;
    let ranges = |r: &&Record| matches!(r, Record::RangeOpen(_) | Record::RangeClose { .. });
    assert!(guest.records.iter().filter(ranges).count() <= bound);
    let innermost = guest.ranges.place(1, all + 1).place.path;
    let parent = |&path: &u32| guest.names.path_of(path).map(|path| path.parent);
    let parts = std::iter::successors(Some(innermost), parent).filter(|&path| path != 0);
    assert_eq!(parts.count(), count as usize);
    assert_eq!(guest.path_at(1, first + 1), "(unknown)");
    assert_eq!(guest.path_at(1, guest.fence + 1), "r");
    assert_eq!(guest.ranges.open_count(), 1);
    let end = guest.event(EventKind::End, 1, |e| e.id = count, "");
    assert_eq!(guest.path_at(1, end + 1), "(outside)");
    assert_eq!(guest.ranges.open_count(), 0);
    assert_eq!(guest.ranges.closed.iter().filter(|closed| closed.counts).count(), count as usize);
    let known = &guest.ranges.threads[&1];
    assert_eq!((known.open.len(), known.gone), (0, 0));
}

/// Hazard (Hostile guests): Thousands of start/end ranges of one name, such as requests, are open
///  on a thread, and the oldest ends first.
/// Promise: They are instances of one path; work stays placed, and an end costs one record.
#[test]
fn start_end_ranges_of_one_name_stand_side_by_side_however_many_are_open() {
    let mut guest = Guest::new();
    let count = 4000;
    for id in 1..=count {
        guest.event(EventKind::Start, 1, |e| e.id = id, "request");
    }
    assert_eq!(guest.path_at(1, guest.fence + 1), "request");
    guest.push(1, "decode");
    // The oldest first, but for the one that `decode` was opened in.
    for id in (1..count - 1).chain([count]) {
        let end = guest.event(EventKind::End, 2, |e| e.id = id, "");
        assert_eq!(guest.path_at(1, end + 1), "request/decode");
    }
    let popped = guest.pop(1);
    assert_eq!(guest.path_at(1, popped + 1), "request");
    let end = guest.event(EventKind::End, 1, |e| e.id = count - 1, "");
    assert_eq!(guest.path_at(1, end + 1), "(outside)");
    let openings = guest.openings().map(|open| (open.continues != 0, open.parent));
    let (again, first): (Vec<_>, Vec<_>) = openings.partition(|&(goes_on, _)| goes_on);
    assert_eq!(first.iter().filter(|&&(_, parent)| parent == RANGE_OUTSIDE).count(), 4000);
    assert_eq!(again, [(true, count - 1)], "only `decode` goes on, in the next request");
    assert_eq!(guest.ranges.closed.iter().filter(|closed| closed.counts).count(), 4001);
    assert_eq!((guest.ranges.open_count(), guest.counters.losses()), (0, Default::default()));
}

#[test]
fn start_end_ranges_of_other_names_or_domains_nest() {
    let mut guest = Guest::new();
    let (domain, _) = registry().add_text(Kind::Domain, 0, b"other");
    guest.event(EventKind::Start, 1, |e| e.id = 1, "request");
    guest.event(EventKind::Start, 1, |e| (e.id, e.domain) = (2, domain), "request");
    assert_eq!(guest.path_at(1, guest.fence + 1), "request/request");
    guest.push(1, "request");
    guest.push(1, "request");
    assert_eq!(guest.path_at(1, guest.fence + 1), "request/request/request/request");
}

#[test]
fn what_is_gone_is_forgotten_with_what_was_opened_inside() {
    let mut guest = Guest::new();
    guest.event(EventKind::Start, 1, |e| e.id = 1, "a");
    for depth in 1..=400 {
        guest.event(EventKind::Push, 1, |e| e.depth = Some(depth), "b");
    }
    guest.event(EventKind::End, 1, |e| e.id = 1, "");
    assert_eq!(guest.path_at(1, guest.fence + 1), "(unknown)");
    for depth in (100..400).rev() {
        guest.event(EventKind::Pop, 1, |e| e.depth = Some(depth), "");
    }
    assert_eq!(guest.path_at(1, guest.fence + 1), ["b"; 100].join("/"));
    assert_eq!(guest.counters.beyond_limits.get(), 1);
}

#[test]
fn lost_events_are_noticed_by_the_depth_of_the_next_one() {
    let mut guest = Guest::new();
    guest.event(EventKind::Push, 1, |e| e.depth = Some(1), "a");
    // The push of "b" to depth 2 is lost.
    let inner = guest.event(EventKind::Push, 1, |e| e.depth = Some(3), "c");
    assert_eq!(guest.path_at(1, inner + 1), "a/(lost)/c");
    // The pops to depth 2 and 1 are lost.
    let last = guest.event(EventKind::Pop, 1, |e| e.depth = Some(0), "");
    assert_eq!(guest.path_at(1, last + 1), "(outside)");
    assert_eq!(guest.ranges.open_count(), 0);
}

/// Makes an event what it is after a pop and a push were lost, down to `lowest`.
fn after_a_lost_pair(event: &mut Event, depth: u32, lowest: u32) {
    (event.depth, event.lost, event.min_depth_since_delivery) = (Some(depth), 2, lowest);
}

#[test]
fn between_the_last_event_that_arrived_and_the_next_one_nothing_is_known() {
    let mut guest = Guest::new();
    let first = guest.event(EventKind::Push, 1, |e| e.depth = Some(1), "a");
    // A pop and the push of "b" are lost, and the depth is what it was.
    let last = guest.event(EventKind::Pop, 1, |e| after_a_lost_pair(e, 0, 0), "");
    assert_eq!(guest.path_at(1, first - 1), "(outside)");
    assert_eq!(guest.path_at(1, first + 1), "(unknown)");
    assert_eq!(guest.path_at(1, last + 1), "(outside)");
    let next = guest.event(EventKind::Push, 1, |e| (e.depth, e.lost) = (Some(1), 2), "c");
    assert_eq!(guest.path_at(1, next + 1), "c");
}

#[test]
fn a_range_that_may_have_been_replaced_is_named_so() {
    let mut guest = Guest::new();
    guest.event(EventKind::Push, 1, |e| e.depth = Some(1), "app");
    guest.event(EventKind::Push, 1, |e| e.depth = Some(2), "a");
    let at = guest.event(EventKind::Push, 1, |e| after_a_lost_pair(e, 3, 1), "c");
    assert_eq!(guest.path_at(1, at + 1), "app/(lost)/c");
}

#[test]
fn a_loss_is_heeded_before_the_next_event_of_its_thread() {
    let mut guest = Guest::new();
    let first = guest.push(1, "a");
    let other = guest.push(2, "b");
    guest.ranges.note_losses(1, 1);
    assert_eq!(guest.path_at(1, first + 1), "(unknown)");
    assert_eq!(guest.path_at(2, other + 1), "b");
    // A mark tells nothing of what is open; a push that leaves another domain in doubt neither.
    guest.event(EventKind::Mark, 1, |e| e.lost = 1, "m");
    let unsure = |e: &mut Event| (e.depth, e.lost, e.depth_uncertain) = (Some(2), 1, true);
    guest.event(EventKind::Push, 1, unsure, "c");
    assert_eq!(guest.path_at(1, guest.fence + 1), "(unknown)");
    let sure = guest.event(EventKind::Pop, 1, |e| (e.depth, e.lost) = (Some(1), 1), "");
    assert_eq!(guest.path_at(1, sure - 1), "(unknown)");
    assert_eq!(guest.path_at(1, sure + 1), "a");
}

#[test]
fn an_end_that_is_told_late_ends_its_range_and_leaves_the_time_between_unknown() {
    let mut guest = Guest::new();
    let start = guest.event(EventKind::Start, 1, |e| e.id = 7, "request");
    let mut end = Event::new(EventKind::End, 2);
    (end.id, end.fence) = (7, start + 2);
    let inside = guest.push(1, "a");
    guest.ranges.doubt_since(&end);
    guest.ranges.apply(&end, &mut guest.names, &mut guest.records, &guest.counters);
    assert_eq!(guest.path_at(1, start + 1), "request");
    assert_eq!(guest.path_at(1, start + 3), "(unknown)");
    assert_eq!(guest.path_at(1, inside + 1), "a");
    assert_eq!(guest.ranges.open_count(), 1);
}

#[test]
fn where_ends_are_lost_altogether_their_threads_are_unknown_for_good() {
    let mut guest = Guest::new();
    guest.event(EventKind::Start, 1, |e| e.id = 7, "request");
    let other = guest.push(2, "b");
    guest.ranges.lose_ends();
    let after = guest.push(1, "a");
    assert_eq!(guest.path_at(1, after + 1), "(unknown)");
    assert_eq!(guest.path_at(2, other + 1), "b");
}

#[test]
fn pieces_of_a_text_whose_event_was_lost_do_not_get_into_another() {
    let mut guest = Guest::new();
    let long = |letter: &str| letter.repeat(150);
    let piece = |text_place| {
        move |e: &mut Event| {
            (e.kind, e.text_place) = (EventKind::TextPiece, text_place);
        }
    };
    for text_place in [TextPlace::Here, TextPlace::Continued] {
        guest.event(EventKind::TextPiece, 1, piece(text_place), "aaa");
    }
    let short = guest.push(1, "short");
    assert_eq!(guest.path_at(1, short + 1), "short");
    guest.event(EventKind::TextPiece, 1, piece(TextPlace::Here), "aaa");
    let next = guest.push(1, &long("b"));
    assert_eq!(guest.path_at(1, next + 1), format!("short/{}", long("b")));
    guest.event(EventKind::TextPiece, 1, piece(TextPlace::Here), "aaa");
    let lost = guest.event(EventKind::Push, 1, |e| e.text_place = TextPlace::Lost, "");
    assert_eq!(guest.path_at(1, lost + 1), format!("short/{}/(lost)", long("b")));
}

const SIZE: u64 = cupti_sys::nvtx::NVTX_PAYLOAD_ENTRY_TYPE_SIZE as u64;
const CSTRING: u64 = cupti_sys::nvtx::NVTX_PAYLOAD_ENTRY_TYPE_CSTRING as u64;

impl Guest {
    /// Sends payloads ahead of an event; gives the event what that notes in it.
    fn with_payloads(&mut self, payloads: &[(u64, &[u8])]) -> impl FnOnce(&mut Event) + use<> {
        let (mut blob, mut event) = (Blob::default(), Event::new(EventKind::Push, 1));
        payloads.iter().for_each(|(schema, bytes)| blob.add(*schema, bytes));
        self.queue.send_payloads(&mut event, blob.bytes(), &self.counters);
        move |sent| sent.payload_place = event.payload_place
    }

    fn fields(&self) -> Vec<(u64, Vec<Field>)> {
        let of = |record: &Record| match record {
            Record::RangeFields { range, fields } => Some((*range, fields.clone())),
            _ => None,
        };
        self.records.iter().filter_map(of).collect()
    }
}

#[test]
fn payloads_longer_than_an_event_arrive_whole_and_belong_to_the_next_one_only() {
    let mut guest = Guest::new();
    let text = "t".repeat(200);
    let edit = guest.with_payloads(&[(CSTRING, text.as_bytes()), (SIZE, &7u64.to_le_bytes())]);
    guest.event(EventKind::Push, 1, edit, "a");
    // Those of an event that was lost belong to nobody.
    let _ = guest.with_payloads(&[(SIZE, &8u64.to_le_bytes())]);
    guest.event(EventKind::Push, 1, |_| {}, "b");
    let edit = guest.with_payloads(&[(SIZE, &9u64.to_le_bytes())]);
    guest.event(EventKind::Pop, 1, edit, "");
    let fields = guest.fields();
    let values: Vec<Vec<FieldValue>> =
        fields.iter().map(|(_, fields)| fields.iter().map(|field| field.value).collect()).collect();
    let named = |value: &FieldValue| match value {
        FieldValue::Name(name) => guest.names.text(*name).to_vec(),
        _ => Vec::new(),
    };
    assert_eq!((fields.len(), fields[0].0, fields[1].0), (2, 1, 2));
    assert_eq!((named(&values[0][0]), values[0][1]), (text.into_bytes(), FieldValue::U64(7)));
    assert_eq!(values[1], [FieldValue::U64(9)]);
    assert_eq!(guest.counters.range_fields.get(), 0);
}

#[test]
fn texts_that_are_new_each_time_leave_room_for_names_of_ranges() {
    let mut guest = Guest::new();
    let count = MAX_FIELD_TEXTS + 100;
    for call in 0..count {
        let edit = guest.with_payloads(&[(CSTRING, format!("request {call}").as_bytes())]);
        guest.event(EventKind::Push, 1, edit, "a");
        guest.pop(1);
    }
    // The name of the field is one of the texts.
    assert_eq!(guest.fields().len(), MAX_FIELD_TEXTS as usize - 1);
    assert_eq!(guest.counters.range_fields.get(), 101);
    assert_eq!(guest.counters.names_cut.get(), 0);
    let fence = guest.push(1, "a name to come");
    assert_eq!(guest.path_at(1, fence + 1), "a name to come");
}

#[test]
fn a_full_queue_loses_payloads_and_not_their_range() {
    let guest = Guest::new();
    while guest.queue.send(Event::new(EventKind::Mark, 2), &guest.counters).arrives {}
    let lost = guest.counters.range_events.get();
    let (mut blob, mut event) = (Blob::default(), Event::new(EventKind::Mark, 1));
    blob.add(SIZE, &[1; 8]);
    guest.queue.send_payloads(&mut event, blob.bytes(), &guest.counters);
    assert_eq!(event.payload_place, PayloadPlace::Lost);
    assert_eq!(guest.counters.range_fields.get(), 1);
    assert_eq!(guest.counters.range_events.get(), lost);
}

#[test]
fn handles_that_nobody_gave_out_are_named_lost() {
    let mut guest = Guest::new();
    let fence = guest.event(EventKind::Push, 1, |e| e.string = u32::MAX - 1, "");
    assert_eq!(guest.path_at(1, fence + 1), "(lost)");
}
