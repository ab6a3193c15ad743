//! What `stage2-launch ctl` takes: the target, the verbs, and what they say of windows.
//!
//! The structs have no doc comments, because clap would take these for the texts of the commands.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use anyhow::{Context as _, anyhow, ensure};
use clap::{Args, Subcommand};
use stage2_contract::control::{FOR_MS, Limits, MOST_AHEAD, SIZE, STEPS, Start};

use super::arguments::{Acceptance, BrowserOptions, Presets};

#[derive(Debug, Args)]
pub(crate) struct CtlArgs {
    /// All processes of this user with a control socket on this host, instead of a TARGET
    #[arg(long, global = true)]
    pub(crate) all: bool,
    /// A process (its number here, also of one in a container) or the folder of a run (all its processes)
    #[arg(value_name = "TARGET")]
    pub(crate) target: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) verb: CtlVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CtlVerb {
    /// Show the state of a process, its records and losses, trace files and options
    #[command(override_usage = "stage2-launch ctl <TARGET|--all> status [OPTIONS]")]
    Status(AnswerOptions),
    /// Begin a window, which has its own trace file
    ///
    /// The first window of a process attaches CUPTI until the process ends. Launches are slower while CUPTI is
    /// on, and stay 8 to 26 % slower afterwards (with a CUPTI other than that of CUDA 13.0 update 1: as slow as
    /// in the window). docs/dormant.md has the measurements.
    #[command(override_usage = "stage2-launch ctl <TARGET|--all> start [OPTIONS]")]
    Start(StartArgs),
    /// End the window; launched work is still written
    #[command(override_usage = "stage2-launch ctl <TARGET|--all> stop [OPTIONS]")]
    Stop {
        #[command(flatten)]
        waiting: WaitOptions,
        #[command(flatten)]
        answering: AnswerOptions,
    },
    /// Write out all records
    #[command(override_usage = "stage2-launch ctl <TARGET|--all> flush [OPTIONS]")]
    Flush(AnswerOptions),
    /// Find out within 2 s what hangs: which kernel, which rank, which line, which lock
    ///
    /// TARGET may also be a file `*.why.json` that STAGE2_WATCH has written. Ask before you restart anything:
    /// the answer changes nothing in the process (docs/standstill.md).
    #[command(override_usage = "stage2-launch ctl <TARGET|--all> why [OPTIONS]\n       \
                                stage2-launch ctl why --from FILE...")]
    Why(WhyArgs),
    /// Put a mark into the trace file
    #[command(override_usage = "stage2-launch ctl <TARGET|--all> mark [OPTIONS] TEXT...")]
    Mark {
        /// The text of the mark
        #[arg(value_name = "TEXT", required = true)]
        text: Vec<String>,
        #[command(flatten)]
        answering: AnswerOptions,
    },
    /// Write a bundle with reports while the program runs on: of the window that is on, or of a new one
    #[command(
        override_usage = "stage2-launch ctl <TARGET|--all> snapshot [OPTIONS] -o DIR [KEY=VALUE]..."
    )]
    Snapshot(SnapshotArgs),
}

#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    /// Also write the answer as why.json and why.md, with provenance.json, into this folder, to send to someone
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Judge files `*.why.json` of many ranks together, also of other hosts, instead of a TARGET
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) from: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) answering: AnswerOptions,
}

// How answers are printed.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct AnswerOptions {
    /// Print the answers as JSON: a list with an object for each process
    #[arg(long)]
    pub(crate) json: bool,
}

// Of verbs that are accepted before they are done.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct WaitOptions {
    /// Wait until it has been done, for 15 s at most, and print the status then
    #[arg(long)]
    pub(crate) wait: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    /// Record in these NVTX ranges only, as STAGE2_RANGES: comma-separated globs, each a name or name@domain;
    /// `*`: everything
    #[arg(long, value_name = "GLOBS")]
    ranges: Option<String>,
    /// Record one in every N instances, as STAGE2_SAMPLE
    #[arg(long, value_name = "1/N", value_parser = sample)]
    sample: Option<u32>,
    /// Sample hardware counters in this window
    #[arg(long)]
    counters: bool,
    /// Sample the host as STAGE2_HOST does: on, off, or samples a second from 1 to 1000
    #[arg(long = "host", value_name = "HZ", value_parser = host_hz)]
    host_hz: Option<u32>,
    /// Begin at this time, as RFC 3339 (2026-11-24T14:30:00Z): the same moment in every process, also on other
    /// hosts whose clocks agree. Several processes begin at the same moment without it, too
    #[arg(long, value_name = "TIME", value_parser = unix_us)]
    pub(crate) at: Option<u64>,
    /// End after this time: seconds, or with a unit (500ms, 10s, 2m)
    #[arg(long = "for", value_name = "TIME", value_parser = milliseconds)]
    for_ms: Option<u64>,
    /// End after so many instances of the outermost range that --ranges matches, or of the outermost
    /// ranges of the program
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(STEPS))]
    steps: Option<u64>,
    /// End when the trace file has this size: bytes, or with a unit (64K, 1G)
    #[arg(long, value_name = "SIZE", value_parser = size)]
    size: Option<u64>,
    /// Also where a kernel seems to stand: CUPTI's start does not return before it ends
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) waiting: WaitOptions,
    #[command(flatten)]
    pub(crate) answering: AnswerOptions,
}

impl StartArgs {
    /// The request.
    pub(crate) fn to_start(&self) -> Start {
        Start {
            ranges: self.ranges.clone(),
            sample: self.sample,
            counters: self.counters,
            host_hz: self.host_hz,
            at_unix_us: self.at,
            limits: Limits { for_ms: self.for_ms, steps: self.steps, size: self.size },
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct SnapshotArgs {
    /// Folder of the bundle: new or empty
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: PathBuf,
    /// How long to record where no window is on: seconds, or with a unit (500ms, 10s, 2m)
    #[arg(long = "for", value_name = "TIME", value_parser = milliseconds, default_value = "10s")]
    pub(crate) for_ms: u64,
    #[command(flatten)]
    pub(crate) presets: Presets,
    #[command(flatten)]
    pub(crate) acceptance: Acceptance,
    #[command(flatten)]
    pub(crate) showing: BrowserOptions,
    /// Settings of the reports, as for a run: model, hardware, operators, report
    #[arg(value_name = "KEY=VALUE")]
    pub(crate) overrides: Vec<String>,
}

fn within(number: u64, range: &RangeInclusive<u64>, what: &str) -> anyhow::Result<u64> {
    ensure!(range.contains(&number), "give {what}");
    Ok(number)
}

/// Reads a time as whole milliseconds, rounded up.
fn milliseconds(text: &str) -> anyhow::Result<u64> {
    let form = "seconds, or a number with a unit: 10, 500ms, 10s, 2m";
    let time = match text.parse::<u32>() {
        Ok(seconds) => jiff::SignedDuration::from_secs(seconds.into()),
        Err(_) => text.parse().map_err(|_| anyhow!("give {form}"))?,
    };
    let nanoseconds = u128::try_from(time.as_nanos()).ok().context("the time is below zero")?;
    let ms = u64::try_from(nanoseconds.div_ceil(1_000_000)).unwrap_or(u64::MAX);
    within(ms, &FOR_MS, "a time from 1ms to 168h (a week)")
}

/// A time that is to come.
fn unix_us(text: &str) -> anyhow::Result<u64> {
    let form = "give a time as 2026-11-24T14:30:00Z or 2026-11-24T15:30:00+01:00";
    let at: jiff::Timestamp = text.parse().ok().context(form)?;
    let ahead = at.duration_since(jiff::Timestamp::now());
    ensure!(ahead.is_positive(), "it is in the past; give a future time");
    let is_soon = ahead.unsigned_abs() <= MOST_AHEAD;
    ensure!(is_soon, "it is more than 24 hours ahead; ask again on the day");
    u64::try_from(at.as_microsecond()).ok().context(form)
}

fn size(text: &str) -> anyhow::Result<u64> {
    let form = "bytes from 64K to 1024G, e.g. 512M";
    let bytes =
        stage2_contract::settings::read_bytes(text).with_context(|| format!("give {form}"))?;
    within(bytes as u64, &SIZE, form)
}

fn host_hz(text: &str) -> anyhow::Result<u32> {
    let hz = stage2_contract::settings::read_host(text).map(Option::unwrap_or_default);
    hz.with_context(|| format!("give {}", stage2_contract::settings::HOST_FORM))
}

fn sample(text: &str) -> anyhow::Result<u32> {
    stage2_contract::settings::read_sample(text)
        .with_context(|| format!("give {}", stage2_contract::settings::SAMPLE_FORM))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn read(line: &str) -> Result<CtlArgs, String> {
        let words = std::iter::once("stage2-launch").chain(["ctl"]).chain(line.split(' '));
        match Cli::try_parse_from(words).map_err(|error| error.to_string())?.command {
            Some(Command::Ctl(args)) => Ok(args),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn words_are_a_target_and_a_verb_with_its_options() {
        let args = read(
            "12 start --ranges a,c% --for 500ms --steps 3 --size 1G --sample 1/4 --counters --host off \
             --wait",
        );
        let args = args.expect("sound");
        assert_eq!((args.all, args.target), (false, Some("12".into())));
        let CtlVerb::Start(start) = args.verb else { panic!("{:?}", args.verb) };
        assert!(start.waiting.wait && !start.answering.json);
        let limits = Limits { for_ms: Some(500), steps: Some(3), size: Some(1 << 30) };
        let ranges = Some("a,c%".to_owned());
        let (sample, host_hz) = (Some(4), Some(0));
        let expected = Start { ranges, sample, counters: true, host_hz, at_unix_us: None, limits };
        assert_eq!(start.to_start(), expected);
        let soon = jiff::Timestamp::now() + jiff::SignedDuration::from_mins(5);
        let args = read(&format!("--all start --at {soon}")).expect("sound");
        let CtlVerb::Start(start) = args.verb else { panic!("{:?}", args.verb) };
        let us = u64::try_from(soon.as_microsecond()).expect("after 1970");
        assert_eq!(start.to_start().at_unix_us, Some(us));
        for line in ["--all status --json", "status --all --json"] {
            let args = read(line).expect(line);
            assert!(args.all && args.target.is_none());
            assert!(matches!(args.verb, CtlVerb::Status(AnswerOptions { json: true })), "{line}");
        }
        let args = read("tmp/stage2/latest mark two words").expect("sound");
        let CtlVerb::Mark { text, .. } = args.verb else { panic!("{:?}", args.verb) };
        assert_eq!(text.join(" "), "two words");
        let args = read("why --from a.why.json b.why.json --json").expect("sound");
        let CtlVerb::Why(why) = args.verb else { panic!("{:?}", args.verb) };
        assert_eq!((why.from.len(), why.answering.json, args.target), (2, true, None));
        let args = read("7 snapshot -o out model/llm=x").expect("sound");
        let CtlVerb::Snapshot(snapshot) = args.verb else { panic!("{:?}", args.verb) };
        assert_eq!((snapshot.for_ms, snapshot.overrides.len()), (10_000, 1));
    }

    #[test]
    fn times_sizes_and_samples_have_units_and_bounds() {
        for (text, ms) in [("10", 10_000), ("10s", 10_000), ("500ms", 500), ("2m", 120_000)] {
            assert_eq!(milliseconds(text).ok(), Some(ms), "{text}");
        }
        assert_eq!((size("64K").ok(), size("1G").ok()), (Some(64 << 10), Some(1 << 30)));
        for (line, part) in [
            ("12 start --for 0", "1ms"),
            ("12 start --for 8000h", "168h"),
            ("12 start --for=-3s", "below zero"),
            ("12 start --for soon", "500ms"),
            ("12 start --size 1K", "64K"),
            ("12 start --size 99999999999999999999G", "64K"),
            ("12 start --sample 2/3", "1/N"),
            ("12 start --steps 0", "1.."),
            ("12 start --at soon", "2026-11-24T14:30:00Z"),
            ("12 start --at 2001-01-01T00:00:00Z", "it is in the past"),
            ("12 start --at 2901-01-01T00:00:00Z", "24 hours"),
            ("12 start for_ms=5", "for_ms=5"),
            ("12 stop now", "now"),
            ("12 mark", "TEXT"),
            ("12 snapshot", "--output"),
            ("12 begin", "begin"),
        ] {
            let said = read(line).expect_err(line);
            assert!(said.contains(part), "{line}: {said}");
        }
    }
}
