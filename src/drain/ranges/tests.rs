//! What the range model does with orderly and with disorderly guests.

use stage2_contract::trace::Record;

use super::*;
use crate::guest::event::Events;

mod limits;
mod losses;
mod payloads;

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
    let continues: Vec<u64> = guest
        .records
        .iter()
        .filter_map(|r| match r {
            Record::RangeOpen(open) => Some(open.continues),
            _ => None,
        })
        .collect();
    assert_eq!(continues, [0, 0, 2]);
    assert_eq!(guest.ranges.closed.iter().filter(|c| c.counts).count(), 2);
}

#[test]
fn domains_have_stacks_of_their_own() {
    let mut guest = Guest::new();
    let (domain, _) = registry().add_text(crate::guest::registry::Kind::Domain, 0, b"llm");
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
    let (string, _) = registry().add_text(crate::guest::registry::Kind::Text, 0, b"registered");
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
    let from =
        |node| move |e: &mut Event| e.payload = Some(stage2_contract::trace::Payload::U64(node));
    guest.event(
        EventKind::GraphNodeCloned,
        1,
        |e| {
            e.id = 900;
            from(500)(e);
        },
        "",
    );
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
