//! Ranges of the program that are open when it ends in order: told in one line.

use stage2_text as text;

use crate::base::diag;
use crate::drain::intern::Interner;
use crate::drain::ranges::Ranges;
use crate::guest::event::Events;

/// Names that are told, and characters of each.
const NAMES: usize = 3;
const NAME: usize = 60;

/// Tells of them, and gives how many they are.
pub(super) fn say(ranges: &Ranges, names: &Interner, events: &Events) -> u64 {
    let (mut count, mut told) = (0, Vec::<&[u8]>::new());
    let mut more = false;
    for name in ranges.open_in_program(names, |thread| events.lost(thread)) {
        count += 1;
        if told.contains(&name) {
            continue;
        }
        if told.len() < NAMES {
            told.push(name);
        } else {
            more = true;
        }
    }
    if count > 0 {
        let shown: Vec<String> =
            told.iter().map(|name| text::shorten(&text::visible(name), NAME)).collect();
        diag::warn(format_args!(
            "{count} {} still open when the process ended ({}{}): work is counted in {} up to the \
             end; close every range",
            if count == 1 { "range was" } else { "ranges were" },
            shown.join(", "),
            if more { ", ..." } else { "" },
            if count == 1 { "it" } else { "them" },
        ));
    }
    count
}
