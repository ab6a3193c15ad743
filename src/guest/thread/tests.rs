//! Levels, switches of collection, losses and forks, as one thread sees them.

use super::*;
use crate::base::options::Options;
use crate::guest::state::Shared;

fn opened(domain: u32) -> Step {
    push(domain, false, || panic!("nobody asked"))
}

#[test]
fn levels_count_from_zero_and_an_unmatched_pop_changes_nothing() {
    assert_eq!(opened(0).pushed_level(), 0);
    assert_eq!(opened(0).pushed_level(), 1);
    assert_eq!(pop(0).popped_level(), 1);
    assert_eq!(pop(0).popped_level(), 0);
    assert_eq!(pop(0).popped_level(), NOT_TRACKED);
    assert_eq!(opened(0).pushed_level(), 0);
    pop(0);
}

#[test]
fn only_the_outermost_wanted_range_opens_and_closes_the_gate() {
    assert!(!opened(1).switches);
    assert_eq!(push(1, true, || true).selection, Selection::Collect);
    let inner = push(1, true, || panic!("the outer one decides"));
    assert_eq!((inner.switches, inner.selection), (false, Selection::Inherit));
    assert!(!pop(1).switches);
    assert!(pop(1).switches);
    assert!(!pop(1).switches);
}

#[test]
fn a_range_left_out_of_the_sample_keeps_all_inside_of_it_out_in_every_domain() {
    assert_eq!(around(), None);
    let outer = push(1, true, || false);
    assert_eq!((outer.switches, outer.selection), (false, Selection::Skip));
    assert_eq!(around(), Some(false));
    let other = push(2, true, || panic!("the range around it decides"));
    assert_eq!((other.switches, other.selection), (false, Selection::Skip));
    assert!(!pop(2).switches);
    assert!(!pop(1).switches);
    assert_eq!(around(), None);
}

#[test]
fn a_range_that_is_left_out_late_keeps_all_inside_of_it_out_and_still_closes_the_gate() {
    assert!(push(1, true, || true).switches);
    leave_out(1);
    assert_eq!(around(), Some(false));
    let other = push(2, true, || panic!("the range around it decides"));
    assert_eq!((other.switches, other.selection), (false, Selection::Skip));
    assert!(!pop(2).switches);
    assert!(pop(1).switches);
    assert_eq!(around(), None);
}

#[test]
fn more_domains_than_slots_are_untracked_not_mixed_up() {
    for domain in 0..DOMAINS as u32 {
        assert_eq!(opened(100 + domain).pushed_level(), 0);
    }
    assert_eq!(push(999, true, || true), Step::UNTRACKED);
    for domain in 0..DOMAINS as u32 {
        assert_eq!(pop(100 + domain).popped_level(), 0);
    }
    // There is room, but its outer range was opened when there was none.
    assert_eq!(opened(999), Step::UNTRACKED);
    assert_eq!((pop(999), pop(999)), (Step::UNTRACKED, Step::UNTRACKED));
    assert_eq!(opened(999).pushed_level(), 0);
    pop(999);
}

#[test]
fn an_event_that_was_lost_is_made_up_for_by_the_next_of_its_domain() {
    let push = |domain, arrives| {
        let step = opened(domain);
        step.sent(domain, true, arrives);
        (step.min_depth_since_delivery, step.depth_uncertain)
    };
    let pop = |domain, arrives| {
        let step = pop(domain);
        step.sent(domain, false, arrives);
        (step.min_depth_since_delivery, step.depth_uncertain)
    };
    let clean = (NOTHING_LOST, false);
    assert_eq!([push(1, true), push(1, true), pop(1, false)], [clean; 3]);
    assert_eq!(push(1, false), (1, false));
    // Another domain does not make up for it.
    assert_eq!(push(2, true), (NOTHING_LOST, true));
    assert_eq!(push(1, true), (1, false));
    assert_eq!([pop(1, true), pop(2, true), pop(1, true), pop(1, false)], [clean; 4]);
    // A pop that matches nothing neither does nor loses anything.
    assert_eq!([pop(1, false), pop(1, true), push(1, true)], [(0, false); 3]);
    assert_eq!(pop(1, true), clean);
    lose_track();
    assert!(opened(1).depth_uncertain);
}

#[test]
fn every_thread_has_a_number_of_its_own_for_life_and_our_own_thread_is_told_once_in_each_epoch() {
    let shared: &'static Shared = Box::leak(Box::new(Shared::new(Options::default())));
    let told_in = |epoch| {
        let mine = number_in(Call { shared, epoch });
        let told = shared.events.receive();
        assert!(told.is_none_or(|event| {
            (event.kind, event.thread, event.epoch) == (EventKind::Thread, mine, epoch)
        }));
        (mine, told.is_some())
    };
    let mine = number();
    assert_eq!([told_in(0), told_in(0), told_in(7)], [(mine, true), (mine, false), (mine, true)]);
    begin(Call { shared, epoch: 7 });
    assert_eq!(number(), mine);
    assert_ne!(std::thread::spawn(number).join().ok(), Some(mine));
}

#[test]
fn ranges_that_were_open_at_a_fork_are_not_those_of_the_child_and_their_pops_are_ignored() {
    opened(1);
    opened(1);
    assert!(push(2, true, || true).switches);
    lose_track();
    STATE.with(State::renew);
    assert_eq!(around(), None);
    assert_eq!((opened(1).pushed_level(), pop(1).popped_level()), (0, 0));
    assert_eq!(
        [pop(1), pop(2), pop(1)].map(|step| (step.inherited, step.switches)),
        [(true, false); 3]
    );
    // Of those of the child itself nothing is ignored, nor of what matches nothing.
    assert!(!opened(1).depth_uncertain && !pop(1).inherited && !pop(1).inherited);
}

#[test]
fn pops_in_domains_that_had_no_place_are_ignored_after_a_fork_as_often_as_ranges_were_open() {
    (0..DOMAINS as u32).for_each(|domain| assert!(opened(100 + domain).depth.is_some()));
    assert_eq!([opened(999), opened(999)], [Step::UNTRACKED; 2]);
    STATE.with(State::renew);
    // One that has no place in the child either, so that its own range is counted apart.
    (0..DOMAINS as u32).for_each(|domain| assert!(opened(100 + domain).depth.is_some()));
    assert_eq!(opened(999), Step::UNTRACKED);
    assert_eq!([999; 4].map(|domain| pop(domain).inherited), [false, true, true, false]);
    (0..DOMAINS as u32).for_each(|domain| assert!(!pop(100 + domain).inherited));
    assert!((0..DOMAINS as u32).all(|domain| pop(100 + domain).inherited));
}
