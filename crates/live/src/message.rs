//! What one host tells another of its processes: JSON, with a version and the time at which it was written.
//!
//! What comes in is anybody's. Its length has a bound already; here, its counts have one, nothing in it acts on
//! a terminal, and its times are those of this host's clock.

use serde::{Deserialize, Serialize};
use stage2_contract::text::{shorten, visible};

use crate::MAX_STAGES;
use crate::look::{LAG_NS, Look, Watched, clock_differs};

/// Any change of what [`Look`] holds is another version.
const VERSION: u32 = 8;
/// Processes of one host.
const PROCESSES: usize = 1_024;
/// Kernels of a process that are told, the longest first.
const KERNELS: usize = 256;
/// Stages of a process, with those for what is in none; GPUs, sampled counters, and bytes of a name.
const STAGES: usize = MAX_STAGES + 8;
const GPUS: usize = 64;
const COUNTERS: usize = 1_024;
const NAME_BYTES: usize = 1_024;
/// Clocks that differ by less may differ by the time on the way.
const CLOCK_NS: i128 = 5_000_000_000;

#[derive(Serialize, Deserialize)]
struct Head {
    stage2_live: u32,
    now_ns: u64,
}

#[derive(Serialize)]
struct Written<'l> {
    #[serde(flatten)]
    head: Head,
    look: &'l Look,
}

#[derive(Deserialize)]
struct Body {
    look: Look,
}

/// What is told of these processes. Paths of files stay here.
pub fn write(mut look: Look, now_ns: u64) -> String {
    for process in &mut look.processes {
        process.window.kernels.truncate(KERNELS);
        if let Some((_, name)) = process.file.rsplit_once('/') {
            process.file = name.to_owned();
        }
    }
    let head = Head { stage2_live: VERSION, now_ns };
    serde_json::to_string(&Written { head, look: &look }).unwrap_or_default()
}

/// What another host told and when it wrote that, or in a few words why it cannot be used.
pub fn read(text: &str, now_ns: u64) -> Result<(Look, u64), String> {
    let head: Head = serde_json::from_str(text).map_err(|_| "what it sends is not from `feed`")?;
    if head.stage2_live != VERSION {
        return Err(format!(
            "it reports version {}, and this program reads version {VERSION}: use the same stage2 on both",
            head.stage2_live
        ));
    }
    if acts(text) {
        return Err("it sends control characters".to_owned());
    }
    let body: Result<Body, _> = serde_json::from_str(text);
    let mut look = body.map_err(|error| shorten(&format!("it is damaged: {error}"), 80))?.look;
    if look.processes.len() > PROCESSES {
        return Err(format!(
            "it reports {} processes, more than {PROCESSES}",
            look.processes.len()
        ));
    }
    if !look.processes.iter().all(is_bounded) {
        return Err("it reports more stages, GPUs or counters than a process has".to_owned());
    }
    let ahead_ns = i128::from(head.now_ns) - i128::from(now_ns);
    if ahead_ns.abs() > CLOCK_NS {
        look.move_times(ahead_ns);
    }
    if ahead_ns.unsigned_abs() > u128::from(LAG_NS) {
        look.problems.push(clock_differs(ahead_ns));
    }
    Ok((look, head.now_ns))
}

/// Whether a process has no more rows and no longer names than one here: each stage is a series of metrics.
fn is_bounded(process: &Watched) -> bool {
    let window = &process.window;
    let stages = || process.totals.keys().chain(window.stages.keys()).chain(window.hosts.keys());
    let is_short = |name: &String| name.len() <= NAME_BYTES;
    stages().count() <= 3 * STAGES
        && stages().chain([&process.host]).all(is_short)
        && process.device_totals.len() <= GPUS
        && process.gpus.len() <= GPUS
        && process.counters.len() <= COUNTERS
}

/// Whether a string in it would act on a terminal instead of being seen.
fn acts(text: &str) -> bool {
    let mut escapes = text.as_bytes().iter();
    while let Some(byte) = escapes.next() {
        if *byte == b'\\'
            && !escapes.next().is_some_and(|escaped| matches!(escaped, b'"' | b'\\' | b'/'))
        {
            return true;
        }
    }
    visible(text.as_bytes()) != text
}

/// Losses by name. Names that are not known are left out: each would be its own series.
pub(crate) mod losses {
    use std::collections::BTreeMap;

    use serde::{Deserialize as _, Deserializer, Serializer};

    use crate::watch::LOSSES;

    pub(crate) fn serialize<S: Serializer>(
        losses: &[(&'static str, u64)],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_map(losses.iter().copied())
    }

    pub(crate) fn deserialize<'d, D: Deserializer<'d>>(
        deserializer: D,
    ) -> Result<Vec<(&'static str, u64)>, D::Error> {
        let told = BTreeMap::<String, u64>::deserialize(deserializer)?;
        let count = |kind: &str| told.get(kind).copied().unwrap_or(0);
        Ok(LOSSES.iter().map(|kind| (*kind, count(kind))).collect())
    }
}

/// Times by their sum and their distribution.
pub(crate) mod times {
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};
    use stage2_contract::stats::Histogram;
    use stage2_read::trace::stats::Series;

    pub(crate) fn serialize<S: Serializer>(
        times: &Series,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let sum = u64::try_from(times.sum()).unwrap_or(u64::MAX);
        (sum, times.histogram().buckets()).serialize(serializer)
    }

    pub(crate) fn deserialize<'d, D: Deserializer<'d>>(
        deserializer: D,
    ) -> Result<Series, D::Error> {
        let (sum, buckets) = <(u64, Vec<(u16, u64)>)>::deserialize(deserializer)?;
        let histogram = Histogram::of_buckets(buckets)
            .ok_or_else(|| D::Error::custom("the buckets are in no order"))?;
        Ok(Series::of_histogram(histogram, sum))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{FileState, KernelRow, StageNumbers};

    const NOW: u64 = 1_800_000_000_000_000_000;

    fn look() -> Look {
        let mut decode = StageNumbers { steps: 2, ..StageNumbers::default() };
        decode.step_times.push(7_000);
        let mut process = Watched {
            host: "node-1".into(),
            pid: 7,
            rank: Some(3),
            file: "/srv/secret/node-1-7.s2t".into(),
            state: FileState::Growing,
            losses: vec![("range_events", 5)],
            last_wall_ns: Some(NOW),
            ..Watched::default()
        };
        process.totals.insert("decode".into(), decode);
        let row = KernelRow {
            stage: "decode".into(),
            name: "gemm".into(),
            class: 1,
            ns: 9,
            launches: 2,
            quick_ns: None,
        };
        process.window.kernels = vec![row; 2 * KERNELS];
        Look { processes: vec![process], behind_bytes: 4, ..Look::default() }
    }

    #[test]
    fn what_is_told_is_what_is_read_without_paths() {
        let text = write(look(), NOW);
        let (read, written_ns) = read(&text, NOW + 1_000_000_000).expect("a look");
        assert_eq!(written_ns, NOW);
        let (sent, came) = (&look().processes[0], &read.processes[0]);
        assert_eq!((came.rank, &came.state), (sent.rank, &sent.state));
        let numbers = |process: &Watched| {
            let decode = &process.totals["decode"];
            (decode.steps, decode.timed_steps(), decode.step_time(50))
        };
        assert_eq!(numbers(came), numbers(sent));
        assert_eq!((came.file.as_str(), came.window.kernels.len()), ("node-1-7.s2t", KERNELS));
        // The mean of the only bucket, not its middle.
        assert_eq!(came.totals["decode"].step_time(99), Some(7_000));
        assert!(came.losses.contains(&("range_events", 5)), "{:?}", came.losses);
        assert_eq!(
            (came.last_wall_ns, read.behind_bytes),
            (Some(NOW), 4),
            "a second is on the way"
        );
    }

    /// Hazard (Watching what runs): A port sends data that is not from `feed`, is from another version, or tries to
    ///  control the terminal.
    /// Promise: It is refused with a short message.
    #[test]
    fn what_cannot_be_used_is_refused_in_a_few_words() {
        let good = write(look(), NOW);
        let mut stages = look();
        let decode = stages.processes[0].totals["decode"].clone();
        let names = (0..4 * STAGES).map(|at| (at.to_string(), decode.clone()));
        stages.processes[0].totals.extend(names);
        let many = Look { processes: vec![Watched::default(); PROCESSES + 1], ..Look::default() };
        for (text, why) in [
            ("HTTP".to_owned(), "not from `feed`"),
            ("[".repeat(100_000), "not from `feed`"),
            (
                good.replace("\"stage2_live\":8", "\"stage2_live\":9"),
                "version 9, and this program reads version 8",
            ),
            (good.replace("node-1", "node\\u001b[2J"), "control characters"),
            (good.replace("node-1", "node\u{202e}"), "control characters"),
            (good.replace("\"steps\":2", "\"steps\":1e400"), "it is damaged"),
            (good.replace("\"steps\":2", "\"steps\":-1"), "it is damaged"),
            (good.replace("\"pid\":7,", ""), "it is damaged"),
            (write(many, NOW), "1025 processes, more than 1024"),
            (write(stages, NOW), "more stages"),
        ] {
            let said = read(&text, NOW).expect_err(why);
            assert!(said.contains(why) && said.len() < 120, "{said}");
        }
    }

    /// Hazard (Watching what runs): The clocks of two hosts are hours apart.
    /// Promise: It is reported, and the age of the data is by the clock of its own host.
    #[test]
    fn times_of_a_host_whose_clock_differs_are_moved() {
        let text = write(look(), NOW);
        let hours = 3 * 3_600 * 1_000_000_000;
        let (read, _) = read(&text, NOW + hours).expect("a look");
        assert_eq!(read.processes[0].last_wall_ns, Some(NOW + hours));
        assert_eq!(
            read.problems,
            ["its clock is 3 h behind that of this host; its times are shifted"]
        );
    }

    proptest! {
        /// Hazard (Watching what runs): What a port sends is any bytes, or almost what `feed` writes.
        /// Promise: It is read or refused, without a panic.
        #[test]
        fn any_text_is_read_or_refused(at in 0usize..2_000, by in ".{0,8}", cut in 0usize..2_000) {
            let mut text: Vec<char> = write(look(), NOW).chars().collect();
            let at = at.min(text.len());
            let end = (at + by.chars().count()).min(text.len());
            text.splice(at..end, by.chars());
            let changed: String = text.iter().collect();
            let cut: String = text.iter().skip(cut).collect();
            for text in [changed, cut, by] {
                if let Err(why) = read(&text, NOW) {
                    prop_assert!(why.len() < 200 && !why.is_empty());
                }
            }
        }
    }
}
