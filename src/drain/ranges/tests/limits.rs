//! Guests that open more than is kept: bounded, counted, and right as soon as it can be again.

use super::*;

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
    let openings = guest.records.iter().filter_map(|record| match record {
        Record::RangeOpen(open) => Some((open.continues != 0, open.parent)),
        _ => None,
    });
    let (again, first): (Vec<_>, Vec<_>) = openings.partition(|&(goes_on, _)| goes_on);
    assert_eq!(first.iter().filter(|&&(_, parent)| parent == RANGE_OUTSIDE).count(), 4000);
    assert_eq!(again, [(true, count - 1)], "only `decode` goes on, in the next request");
    assert_eq!(guest.ranges.closed.iter().filter(|closed| closed.counts).count(), 4001);
    assert_eq!((guest.ranges.open_count(), guest.counters.losses()), (0, Default::default()));
}

#[test]
fn start_end_ranges_of_other_names_or_domains_nest() {
    let mut guest = Guest::new();
    let (domain, _) = registry().add_text(crate::guest::registry::Kind::Domain, 0, b"other");
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
