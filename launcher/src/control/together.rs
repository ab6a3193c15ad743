//! A start of several processes -> one moment at which all of them begin.

use std::time::Duration;

use stage2_contract::control::Verb;

use crate::clock::since_1970;

/// How far ahead that is: the collector prepares for a second, and every process has to be asked before.
const AHEAD: Duration = Duration::from_millis(1250);

/// The request `verb` with a moment at which all of `processes` begin, unless it has one or there
/// is only one of them.
pub(crate) fn together(mut verb: Verb, processes: usize) -> Verb {
    if let Verb::Start(start) = &mut verb
        && processes > 1
        && start.at_unix_us.is_none()
    {
        let at = (since_1970() + AHEAD).as_micros();
        start.at_unix_us = u64::try_from(at).ok();
    }
    verb
}

/// How long it is until then.
pub(crate) fn begins_in(verb: &Verb) -> Duration {
    match verb {
        Verb::Start(start) => start
            .at_unix_us
            .map_or(Duration::ZERO, |at| Duration::from_micros(at).saturating_sub(since_1970())),
        _ => Duration::ZERO,
    }
}

#[cfg(test)]
mod tests {
    use stage2_contract::control::Start;

    use super::*;

    #[test]
    fn several_processes_have_one_moment_and_a_single_one_begins_at_once() {
        let start = || Verb::Start(Start::default());
        assert_eq!(together(start(), 1), start());
        assert_eq!(begins_in(&start()), Duration::ZERO);
        let soon = together(start(), 2);
        let left = begins_in(&soon);
        assert!(left > AHEAD / 2 && left <= AHEAD, "{left:?}");
        let set = Verb::Start(Start { at_unix_us: Some(5), ..Start::default() });
        assert_eq!(together(set.clone(), 2), set);
        assert_eq!(begins_in(&set), Duration::ZERO, "it is past");
        assert_eq!(together(Verb::Stop, 2), Verb::Stop);
    }
}
