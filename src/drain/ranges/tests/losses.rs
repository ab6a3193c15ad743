//! Events that are lost, into work that is unattributed: nothing is guessed.

use super::*;

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

/// Makes an event what it is after a pop and a push were lost.
fn after_a_lost_pair(event: &mut Event) {
    (event.lost, event.min_depth_since_delivery) = (2, 0);
}

#[test]
fn between_the_last_event_that_arrived_and_the_next_one_nothing_is_known() {
    let mut guest = Guest::new();
    let first = guest.event(EventKind::Push, 1, |e| e.depth = Some(1), "a");
    // A pop and the push of "b" are lost, and the depth is what it was.
    let last = guest.event(
        EventKind::Pop,
        1,
        |e| {
            e.depth = Some(0);
            after_a_lost_pair(e);
        },
        "",
    );
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
    let at = guest.event(
        EventKind::Push,
        1,
        |e| {
            e.depth = Some(3);
            after_a_lost_pair(e);
            e.min_depth_since_delivery = 1;
        },
        "c",
    );
    assert_eq!(guest.path_at(1, at + 1), "app/(lost)/c");
}

#[test]
fn a_loss_is_heeded_before_the_next_event_of_its_thread() {
    let mut guest = Guest::new();
    let first = guest.push(1, "a");
    let other = guest.push(2, "b");
    guest.ranges.heed_losses(1, 1);
    assert_eq!(guest.path_at(1, first + 1), "(unknown)");
    assert_eq!(guest.path_at(2, other + 1), "b");
    // A mark tells nothing of what is open; a push that leaves another domain in doubt neither.
    guest.event(EventKind::Mark, 1, |e| e.lost = 1, "m");
    guest.event(
        EventKind::Push,
        1,
        |e| (e.depth, e.lost, e.depth_uncertain) = (Some(2), 1, true),
        "c",
    );
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
