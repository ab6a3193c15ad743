//! A trace file that grows, and what `feed` of another host serves, as `top` and `feed` read them.

use std::fs::File;
use std::io::Write as _;

use stage2_live::{HostIdle, Options, Source, Watch, Watched, Window, read_message, write_message};

use super::same_twice;
use crate::scratch;

/// More ticks than it takes until what waits is final.
const TICKS: usize = 8;

pub(super) fn check(input: &[u8]) {
    // Not the numbers of the whole file: what comes behind a record of the end is not read.
    let (first, rest) = input.split_at(input.len() / 2);
    same_twice("numbers of a file that grows", || numbers(&[first, rest]));
    same_twice("numbers", || numbers(&[input]));
}

/// What is seen of a file that is written part by part.
fn numbers(parts: &[&[u8]]) -> String {
    let folder = scratch::folder();
    let path = folder.path().join("host-1.s2t");
    let mut file = File::create(&path).expect("room for a temporary file");
    let mut watch = Watch::new(vec![Source::File(path)], Options::default());
    for part in parts {
        file.write_all(part).expect("room for a temporary file");
        watch.tick();
    }
    (0..TICKS).for_each(|_| watch.tick());
    let look = watch.look();
    let windows = || look.processes.iter().map(|process| &process.window);
    windows().flat_map(|of| of.hosts.values().chain([&of.host])).for_each(check_host);
    let shown = |process: &Watched| {
        // Where the clock of a file is wrong, its times follow that of this host.
        let window = Window { end_wall_ns: None, ..process.window.clone() };
        let Watched { totals, device_totals, counts, losses, .. } = process;
        format!("{window:?} {totals:?} {device_totals:?} {counts:?} {losses:?} {}", process.late_ns)
    };
    look.processes.iter().map(shown).collect()
}

/// Shares are of the idle time, which is a part of the time that was looked at.
fn check_host(host: &HostIdle) {
    assert!(host.idle_ns <= host.ns, "{} ns of {} are idle", host.idle_ns, host.ns);
    let all: f64 = host.causes.iter().map(|cause| cause.percent).sum();
    assert!(all.is_finite() && all <= 100.001, "the causes add up to {all} %");
    assert!(host.causes.is_empty() != host.why_none.is_none(), "no cause, and no reason");
}

/// When a message is read, ns since the Unix epoch.
const NOW_NS: u64 = 1_700_000_000_000_000_000;

pub(super) fn check_message(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let read = || read_message(text, NOW_NS);
    same_twice("a message", || format!("{:?}", read()));
    let Ok((look, written_ns)) = read() else { return };
    let again = write_message(look, written_ns);
    assert!(!again.chars().any(char::is_control), "a control character in {again:?}");
    assert!(read_message(&again, NOW_NS).is_ok(), "not read again: {again:?}");
}
