//! Random exports, read by the walk and by plain code without any cleverness.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use stage2_contract::stats::union_ns;

use super::{by_path, call, kernel, range, report};

/// The process in the number of a thread.
const PROCESS_MASK: i64 = !0xff_ffff;

/// A generator of numbers, always the same.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, limit: i64) -> i64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as i64) % limit
    }

    fn thread(&mut self) -> i64 {
        ((1 + self.below(2)) << 24) + 1 + self.below(2)
    }
}

#[derive(Clone)]
struct Span {
    thread: i64,
    start: i64,
    end: Option<i64>,
    name: String,
    start_end: bool,
}

#[derive(Default)]
struct Plain {
    spans: Vec<Span>,
    /// Process, correlation, start, end.
    kernels: Vec<(i64, i64, i64, i64)>,
    /// Thread, correlation, time.
    calls: Vec<(i64, i64, i64)>,
}

impl Plain {
    fn random(seed: u64) -> Self {
        let mut n = Numbers(seed);
        let mut plain = Plain::default();
        for i in 0..60 {
            let start = n.below(600);
            let length = if n.below(3) == 0 { n.below(300) } else { n.below(30) };
            // Names differ by their times, so that equal times have equal names.
            let name = ["a", "b", "c"][((start * 31 + length) % 3) as usize].to_owned();
            let end = (n.below(40) > 0 || seed.is_multiple_of(2)).then_some(start + length);
            // As the names: equal times have equal kinds.
            let start_end = (start + length) % 4 < 2;
            plain.spans.push(Span { thread: n.thread(), start, end, name, start_end });
            let on = n.thread();
            let at = n.below(900);
            plain.kernels.push((on & PROCESS_MASK, i % 50, at, at + n.below(100)));
            if n.below(8) > 0 {
                plain.calls.push((on, i % 50, n.below(700)));
            }
        }
        plain
    }

    fn sql(&self) -> String {
        let ranges = self.spans.iter().map(|s| {
            let row = range(s.thread, &s.name, s.start, s.end);
            if s.start_end { row.replace(", 59, ", ", 60, ") } else { row }
        });
        let kernels = self.kernels.iter().map(|&(p, c, start, end)| kernel(p, c, start, end));
        let calls = self.calls.iter().map(|&(thread, c, at)| call(thread, c, at));
        ranges.chain(kernels).chain(calls).collect()
    }

    /// The path of ranges that are open on a thread, with the range `last` at its end if that is
    /// one of them.
    fn path(&self, thread: i64, at: i64, last: Option<usize>) -> Vec<&str> {
        let end = |s: &Span| s.end.unwrap_or(i64::MAX);
        let on: Vec<(usize, &Span)> =
            self.spans.iter().enumerate().filter(|(_, s)| s.thread == thread).collect();
        let begins = match last {
            Some(last) => end(&self.spans[last]) > at,
            None => on.iter().any(|(_, s)| s.start == at && end(s) > at),
        };
        let order = |&(row, s): &(usize, &Span)| (s.start, Reverse(end(s)), row);
        let mut open: Vec<_> = on
            .into_iter()
            .filter(|(_, s)| s.start <= at && end(s) >= at)
            // One that ends where another begins is not around it.
            .filter(|(_, s)| !(begins && end(s) == at && s.start < at))
            .collect();
        if let Some(last) = last {
            let place = order(&(last, &self.spans[last]));
            open.retain(|span| order(span) <= place);
        }
        open.sort_by_key(order);
        // Start/end ranges of one name stand side by side.
        let is_beside = |a: &Span, b: &Span| a.start_end && b.start_end && a.name == b.name;
        open.dedup_by(|(_, a), (_, b)| is_beside(a, b));
        open.into_iter().map(|(_, s)| s.name.as_str()).collect()
    }

    /// Where a kernel was launched.
    fn launch(&self, process: i64, correlation: i64) -> Option<(i64, i64)> {
        let calls = self
            .calls
            .iter()
            .filter(|&&(thread, c, _)| thread & PROCESS_MASK == process && c == correlation);
        calls.min_by_key(|&&(.., at)| at).map(|&(thread, _, at)| (thread, at))
    }

    fn place(&self, process: i64, correlation: i64) -> String {
        match self.launch(process, correlation) {
            None => "(unattributed)".to_owned(),
            Some((thread, at)) => match self.path(thread, at, None) {
                path if path.is_empty() => "(outside ranges)".to_owned(),
                path => path.join("/"),
            },
        }
    }

    fn by_path(&self) -> BTreeMap<String, (u64, u64)> {
        let mut counts: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for (row, span) in self.spans.iter().enumerate() {
            let path = self.path(span.thread, span.start, Some(row)).join("/");
            counts.entry(path).or_default().0 += 1;
        }
        for &(process, correlation, ..) in &self.kernels {
            counts.entry(self.place(process, correlation)).or_default().1 += 1;
        }
        counts
    }

    /// The union of the kernels of each stage in each process, added up.
    fn busy(&self) -> BTreeMap<String, u64> {
        let mut intervals: BTreeMap<(String, i64), Vec<(u64, u64)>> = BTreeMap::new();
        for &(process, correlation, start, end) in &self.kernels {
            let place = self.place(process, correlation);
            let stage = place.split('/').next().unwrap_or_default().to_owned();
            let interval = (start as u64, end as u64);
            intervals.entry((stage, process)).or_default().push(interval);
        }
        let mut busy = BTreeMap::new();
        for ((stage, _), list) in intervals {
            *busy.entry(stage).or_default() += union_ns(list);
        }
        busy
    }
}

#[test]
fn random_exports_have_the_paths_and_busy_times_that_plain_code_finds() {
    let mut deepest = 0;
    for seed in 0..80 {
        let mut plain = Plain::random(seed);
        let made = report(&plain.sql());
        assert_eq!(by_path(&made), plain.by_path(), "seed {seed}");
        let busy: BTreeMap<String, u64> = made
            .stages
            .iter()
            .filter(|row| row.kernels > Some(0))
            .map(|row| (row.stage.clone(), row.gpu_busy_ns.expect("busy")))
            .collect();
        assert_eq!(busy, plain.busy(), "seed {seed}");
        deepest = deepest.max(made.paths.iter().map(|row| row.depth).max().unwrap_or(0));
        if plain.spans.iter().all(|span| span.end.is_some()) {
            let host: u64 = made.paths.iter().filter_map(|row| row.host_total_ns).sum();
            let spans = plain.spans.iter().map(|s| s.end.unwrap_or(0) - s.start);
            assert_eq!(host, spans.sum::<i64>() as u64, "all times are somewhere, and once");
        }
        let shuffled = by_path(&made);
        plain.spans.sort_by_key(|span| span.start);
        assert_eq!(by_path(&report(&plain.sql())), shuffled, "in order of time");
    }
    assert!(deepest > 5, "else the test shows little: {deepest}");
}
