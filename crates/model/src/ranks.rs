//! Processes with their ranks, hosts and GPUs, and what the ranks did together.

use serde::{Deserialize, Serialize};
use stage2_contract::text::numbers::{count, counted, ms3, shown_time};
pub use stage2_contract::text::operation::Operation;

use crate::{HOST_ERRORS_LEAST, HostCause, HostCauseKind, HostFrame};

/// A traced process and its place in the job. Null: not known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcessRow {
    /// Its trace file.
    pub file: String,
    /// Process id, in its own namespace.
    pub pid: Option<u32>,
    /// Rank in its job.
    pub rank: Option<u64>,
    /// Rank among the processes of its host.
    pub local_rank: Option<u64>,
    /// Ranks of its job, as it was told.
    pub world_size: Option<u64>,
    /// Who told it.
    pub rank_source: Option<String>,
    /// Another process has the rank, and this one inherited its variables.
    pub inherited_rank: bool,
    /// Host name.
    pub host: Option<String>,
    /// GPUs that it used: [`super::DeviceRow::device`].
    pub devices: Vec<String>,
    /// UUIDs of these.
    pub device_uuids: Vec<String>,
    /// GPUs that it may see, as `CUDA_VISIBLE_DEVICES` says.
    pub visible_devices: Option<String>,
    /// Kernels.
    pub kernels: u64,
    /// Process id of the parent that it was forked from.
    pub forked_from: Option<String>,
}

/// What the ranks of a job did together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ranks {
    /// Different ranks that were recorded.
    pub seen: u64,
    /// Ranks of the job, as its processes were told; null: none was told.
    pub expected: Option<u64>,
    /// Hosts with a rank.
    pub hosts: u64,
    /// How far arrivals of two ranks may be off against each other, ns; null: nothing was compared.
    pub clock_error_ns: Option<u64>,
    /// Clocks of hosts that collectives tie together, the one of reference first; empty: none does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub host_clocks: Vec<HostClock>,
    /// Each rank in each stage: stages in the order of the report, the slowest rank first.
    pub stages: Vec<RankStageRow>,
    /// Collectives of each stage, by operation and communicator.
    pub collectives: Vec<CollectiveRow>,
    /// Ranks that others waited for, by stage, the latest first.
    pub late: Vec<LateRow>,
    /// Of how many calls of collectives the times are compared; null: of all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compared: Option<ComparedCalls>,
    /// Communication kernels in no collective: their times are unknown.
    pub kernels_left_out: u64,
}

/// Calls of collectives that are compared across ranks, where there were more than are kept one by one.
/// They are drawn evenly over the whole time, the same ones of every rank; counts and sums are scaled to
/// all calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ComparedCalls {
    /// Calls that all processes made.
    pub calls: u64,
    /// Those that are compared.
    pub compared: u64,
    /// From the first to the last of them that a process made, the longest of all processes, ns.
    pub span_ns: u64,
}

impl ComparedCalls {
    /// How much of it is compared, without an end.
    pub fn sentence(&self) -> String {
        format!(
            "{} of {} calls of collectives were compared across ranks, drawn evenly over {}",
            count(self.compared),
            count(self.calls),
            shown_time(self.span_ns as f64)
        )
    }
}

/// What makes the wall clock of a host that of the run, as matched collectives show it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostClock {
    /// The host.
    pub host: String,
    /// What was taken for its wall time less its monotonic time, ns.
    pub wall_ahead_ns: i64,
    /// What its corrected time may be off by against the host of reference, at most, ns.
    pub error_ns: u64,
    /// Over the run, in the order of time; in between, clocks drift evenly.
    pub points: Vec<ClockPoint>,
}

/// What must be added to the wall clock of a host at some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClockPoint {
    /// When, on the wall clock of the host, ns since the Unix epoch.
    pub wall_ns: i64,
    /// What must be added, ns.
    pub add_ns: i64,
}

/// A stage in one process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RankStageRow {
    /// [`super::StageRow::stage`].
    pub stage: String,
    /// Who, in words: `rank 3`, or a process id.
    pub who: String,
    /// [`ProcessRow::file`].
    pub file: String,
    /// Rank.
    pub rank: Option<u64>,
    /// Times that the stage was opened.
    pub instances: u64,
    /// Host time of all closed instances, ns.
    pub host_total_ns: Option<u64>,
    /// Median host time without the first instance, ns.
    pub host_warm_median_ns: Option<u64>,
    /// Time in which any of its GPUs worked for the stage, ns.
    pub gpu_busy_ns: Option<u64>,
    /// Window minus busy time, ns; null where other processes may have filled it.
    pub gpu_idle_ns: Option<u64>,
    /// Idle time without the first, cold instance; null: that instance cannot be separated, or `gpu_idle_ns` is null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_idle: Option<WarmIdle>,
    /// Kernels.
    pub kernels: Option<u64>,
    /// Sum of the durations of communication kernels, waiting included, ns.
    pub communication_ns: Option<u64>,
    /// Time in collectives before their last member arrived, ns; null: none was matched.
    pub waiting_ns: Option<u64>,
    /// Time in these from that arrival on, ns.
    pub transfer_ns: Option<u64>,
    /// The part of `waiting_ns` that is neither in the first, cold instance nor in an outlier that is left out, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_waiting_ns: Option<u64>,
    /// The part of `transfer_ns` that is in neither, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_transfer_ns: Option<u64>,
}

/// Window minus busy time of all instances of a stage except the first one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WarmIdle {
    /// Instances.
    pub instances: u64,
    /// The time, ns.
    pub ns: u64,
}

/// Collectives of one operation and communicator in a stage. Times and bytes are sums over ranks; of a
/// sample, they and the numbers of calls are scaled to all instances, as those of kernels are.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CollectiveRow {
    /// [`super::StageRow::stage`].
    pub stage: String,
    /// What it is.
    pub operation: Operation,
    /// Hash of the communicator, hexadecimal; null: not known.
    pub communicator: Option<String>,
    /// Members of the communicator that were recorded.
    pub members: u64,
    /// Calls, over all members.
    pub calls: u64,
    /// Calls that graph replays made.
    pub replayed_calls: u64,
    /// Calls whose size is not known.
    pub calls_without_bytes: u64,
    /// Bytes of the smallest call.
    pub bytes_min: Option<u64>,
    /// Bytes of the largest call.
    pub bytes_max: Option<u64>,
    /// Bytes of all calls whose size is known.
    pub bytes_total: Option<u64>,
    /// From the start of the first kernel of a call to the end of its last, summed, ns.
    pub time_ns: u64,
    /// Calls that were matched over all members.
    pub matched_calls: u64,
    /// Of the time of matched calls: from the arrival of the last member on, ns; null: not split.
    pub transfer_ns: Option<u64>,
    /// Of the time of matched calls: before that arrival, ns; null: not split.
    pub waiting_ns: Option<u64>,
    /// The part of `transfer_ns` that is not in the first instance of the stage in each process, nor in an
    /// outlier that is left out, ns.
    #[serde(default)]
    pub warm_transfer_ns: Option<u64>,
    /// The part of `waiting_ns` that is neither in a first instance nor in such an outlier, ns.
    #[serde(default)]
    pub warm_waiting_ns: Option<u64>,
    /// The part of `waiting_ns` that is in such outliers, ns.
    #[serde(skip)]
    pub outlier_waiting_ns: u64,
    /// Bus bandwidth as NCCL's tests define it, over the time from the last arrival to the last
    /// end, GB/s (1e9); null where not all bytes and members are known.
    pub bus_gb_per_s: Option<f64>,
    /// Calls that were not matched, and why.
    pub unmatched: Vec<UnmatchedRow>,
}

/// Calls that could not be matched over ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnmatchedRow {
    /// Calls.
    pub calls: u64,
    /// Why.
    pub why: String,
    /// What to do about it.
    #[serde(default)]
    pub remedy: String,
}

/// A rank that others waited for in a stage. Of several instances of the stage, the first, cold one is left out. Counts
/// and sums of a sample are scaled to all instances.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LateRow {
    /// [`super::StageRow::stage`].
    pub stage: String,
    /// Who, in words.
    pub who: String,
    /// [`ProcessRow::file`].
    pub file: String,
    /// Rank.
    pub rank: Option<u64>,
    /// Collectives of the stage that it took part in, matched and split.
    pub collectives: u64,
    /// Those that it was the last to arrive at, by more than the clock error.
    pub late_collectives: u64,
    /// How late it was there, behind the median of the others, summed, ns.
    pub late_total_ns: u64,
    /// The latest, ns.
    pub late_max_ns: u64,
    /// Those of the delays that are more than noise; null: none is.
    #[serde(default)]
    pub delays: Option<LateDelays>,
    /// What its host did in the steps in which it is late; null: it was not sampled, or too rarely, or it is late on
    /// the GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<LateHost>,
}

/// What the host of a late rank did while its GPU was idle: in the steps in which it is late, and in others. A step
/// begins where the last collective of the step before ended, and so contains the host code between the two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LateHost {
    /// Late steps with known times.
    pub late_steps: u64,
    /// The steps that they are compared with.
    pub other_steps: u64,
    /// These are steps of the same rank; else of the other ranks, because it is late in nearly all of its own.
    pub of_same_rank: bool,
    /// Samples in all these steps.
    pub samples: u64,
    /// Functions, and what the threads waited for, the largest difference first.
    pub rows: Vec<LateHostRow>,
}

/// A function, or something that a thread waited for, in late steps and in others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LateHostRow {
    /// The kind of cause.
    pub kind: HostCauseKind,
    /// The line of the function with the most time; null: not known.
    pub frame: Option<HostFrame>,
    /// The thread that was waited for, or that ran without a stack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// Idle time in a late step, on average, ns.
    pub late_ns: u64,
    /// Idle time in another step, on average, ns.
    pub other_ns: u64,
    /// Standard error of the difference, from the number of samples, ns.
    pub error_ns: u64,
    /// Samples of both.
    pub samples: u64,
}

impl LateHostRow {
    /// What the thread did: see [`HostCause::text`].
    pub fn text(&self, short: bool) -> String {
        let (kind, frame, thread) = (self.kind, self.frame.clone(), self.thread.clone());
        HostCause { kind, frame, thread, ..HostCause::default() }.text(short)
    }

    /// How much longer it takes in a late step, ns.
    pub fn longer_ns(&self) -> i64 {
        let longer = i128::from(self.late_ns) - i128::from(self.other_ns);
        longer.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }
}

impl LateHost {
    /// What takes longest of what takes longer in late steps; `None`: nothing does.
    pub fn finding(&self) -> Option<&LateHostRow> {
        self.findings().next()
    }

    /// What takes longer in late steps, by more than the error of sampling, the largest difference first.
    pub fn findings(&self) -> impl Iterator<Item = &LateHostRow> {
        self.rows.iter().filter(|row| {
            row.kind != HostCauseKind::Unknown
                && row.longer_ns() as f64 > row.error_ns as f64 * HOST_ERRORS_LEAST
        })
    }

    /// What the late steps are compared with.
    pub fn against(&self) -> &'static str {
        if self.of_same_rank { "its other steps" } else { "steps of the other ranks" }
    }
}

/// The collectives that a rank delayed by more than all ranks do now and then.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LateDelays {
    /// How many.
    pub collectives: u64,
    /// How late it was there, behind the median of the others, on average, ns.
    pub mean_ns: u64,
    /// The latest, ns.
    pub max_ns: u64,
    /// The sum, ns.
    pub total_ns: u64,
    /// Of the sum: so much is explained by more GPU work than the others had since the collective before,
    /// ns. The rest came about on the host.
    pub work_ns: u64,
    /// Time that all members waited there, in percent of their waiting in all compared collectives of the stage, the cold
    /// instance left out.
    pub waiting_percent: f64,
    /// Path of the innermost range that all of it happens in.
    pub range: String,
    /// In which instances it happens; null: there is only one.
    pub period: Option<LatePeriod>,
    /// How many steps it delays; null: there is only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<LateSteps>,
}

/// The steps in which a rank is late; not known of a sample.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LateSteps {
    /// `step`, or `call` where the instances of the stage are not known to be steps.
    pub noun: String,
    /// How many it is late in.
    pub late: u64,
    /// Of so many with compared collectives.
    pub of: u64,
    /// By how much in one of them, over all its collectives: the median, ns.
    pub median_ns: u64,
    /// The most, ns.
    pub max_ns: u64,
}

/// In which instances of a range something happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatePeriod {
    /// The instances are those of a range right within the stage; else those of the stage.
    pub of_steps: bool,
    /// Instances, as far as split collectives tell: the highest number of one that has any, plus one.
    pub instances: u64,
    /// Number of the first one that it happens in, from 0 on.
    pub first: u64,
    /// Number of the last one.
    pub last: u64,
    /// It happens in every so many of them; null: at no regular intervals.
    pub every: Option<u64>,
}

/// Why a rank is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LateCause {
    /// Its GPU had no more work than those of the others.
    Host,
    /// Its GPU had more work than those of the others.
    Gpu,
    /// Some of both.
    Both,
}

/// The share of a delay from which on a cause is the only one that is named, percent.
const ONE_CAUSE_PERCENT: u64 = 75;
/// Late instances that lie within such a part of all of them are placed, percent.
const PLACED_PERCENT: u64 = 50;

impl LateRow {
    /// How late it is where, in a sentence without its end; nothing where that is noise.
    pub fn delay_sentence(&self) -> Option<String> {
        let delays = self.delays.as_ref()?;
        let period = delays.period.map_or_else(String::new, LatePeriod::phrase);
        let often = match &delays.steps {
            Some(LateSteps { noun, late, of, median_ns, max_ns }) => {
                let spread = match *max_ns > median_ns.saturating_mul(2) {
                    true => format!(" at the median (up to {})", time1(*max_ns)),
                    false => String::new(),
                };
                let (late, of) = (count(*late), counted(*of, noun));
                format!("late in {late} of {of}{period}, by {}{spread}", time1(*median_ns))
            }
            None => format!(
                "{} late at {} of {} collectives{period}",
                time1(delays.mean_ns),
                count(delays.collectives),
                count(self.collectives),
            ),
        };
        let range = match delays.range == self.stage {
            true => String::new(),
            false => format!(", in {}", delays.range),
        };
        Some(format!(
            "{} is {often}{range}; {:.0} % of all waiting in {}",
            self.who, delays.waiting_percent, self.stage,
        ))
    }

    /// How late the rank is, and why: one sentence without a full stop.
    pub fn sentence(&self) -> Option<String> {
        let (late, delays) = (self.delay_sentence()?, self.delays.as_ref()?);
        Some(match delays.cause() {
            LateCause::Host => {
                format!("{late}; it is late on the host: its GPU has no more work than the others")
            }
            LateCause::Gpu => {
                format!("{late}; it is slow on the GPU, which has more work than the others")
            }
            LateCause::Both => format!(
                "{late}; {} ms of that because its GPU has more work than the others, the rest on the host",
                ms3(delays.work_ns)
            ),
        })
    }
}

impl LateDelays {
    /// How late the rank is in the median of its late steps: `2.2 ms`.
    pub fn late_by(&self) -> Option<String> {
        self.steps.as_ref().map(|steps| time1(steps.median_ns))
    }

    /// Why the rank is late.
    pub fn cause(&self) -> LateCause {
        let is_most = |ns: u64| {
            u128::from(ns) * 100 >= u128::from(self.total_ns) * u128::from(ONE_CAUSE_PERCENT)
        };
        if is_most(self.total_ns.saturating_sub(self.work_ns)) {
            LateCause::Host
        } else if is_most(self.work_ns) {
            LateCause::Gpu
        } else {
            LateCause::Both
        }
    }
}

impl LatePeriod {
    /// `, every eighth step`, and where these are, if not everywhere.
    fn phrase(self) -> String {
        let what = if self.of_steps { "step" } else { "call" };
        let every = match self.every {
            None => String::new(),
            Some(1) => format!(", every {what}"),
            Some(every) => format!(", every {} {what}", ordinal(every)),
        };
        let spread = self.last.saturating_sub(self.first).saturating_add(1);
        if spread.saturating_mul(100) > self.instances.saturating_mul(PLACED_PERCENT) {
            return every;
        }
        // People count from 1.
        let (first, last) = (count(self.first + 1), count(self.last + 1));
        let all = count(self.instances);
        match self.first == self.last {
            true => format!("{every}, {what} {first} of {all}"),
            false => format!("{every} from {what} {first} to {last} of {all}"),
        }
    }
}

/// `10.7 ms`, or `50.3 us`.
fn time1(ns: u64) -> String {
    match ns < 1_000_000 {
        true => format!("{:.1} us", ns as f64 / 1e3),
        false => format!("{:.1} ms", ns as f64 / 1e6),
    }
}

/// `eighth`, `32nd`.
fn ordinal(number: u64) -> String {
    const WORDS: [&str; 11] = [
        "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
        "eleventh", "twelfth",
    ];
    let word = number.checked_sub(2).and_then(|at| WORDS.get(usize::try_from(at).ok()?));
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    word.map_or_else(|| format!("{number}{ending}"), |word| (*word).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_rank_is_told_with_how_often_when_and_where() {
        let period =
            LatePeriod { of_steps: true, instances: 96, first: 7, last: 95, every: Some(8) };
        let delays = LateDelays {
            collectives: 24,
            mean_ns: 10_684_000,
            max_ns: 10_900_000,
            total_ns: 256_416_000,
            work_ns: 100_000_000,
            waiting_percent: 87.2,
            range: "decode/step".into(),
            period: Some(period),
            steps: None,
        };
        let (who, stage) = ("rank 1".into(), "decode".into());
        let row = LateRow { who, stage, collectives: 768, ..LateRow::default() };
        assert_eq!((row.sentence(), row.delay_sentence()), (None, None), "noise");
        let told = |delays: LateDelays| {
            LateRow { delays: Some(delays), ..row.clone() }.delay_sentence().expect("late")
        };
        assert_eq!(
            told(delays.clone()),
            "rank 1 is 10.7 ms late at 24 of 768 collectives, every eighth step, in decode/step; 87 % of \
             all waiting in decode"
        );
        let of_stage = LatePeriod { of_steps: false, every: None, first: 90, ..period };
        let steps = LateSteps {
            noun: "call".into(),
            late: 5,
            of: 96,
            median_ns: 10_684_000,
            max_ns: 30_000_000,
        };
        let even = LateSteps { late: 12, max_ns: 12_000_000, noun: "step".into(), ..steps.clone() };
        let in_steps = LateDelays { steps: Some(even), ..delays.clone() };
        assert_eq!(
            told(in_steps),
            "rank 1 is late in 12 of 96 steps, every eighth step, by 10.7 ms, in decode/step; 87 % of all \
             waiting in decode"
        );
        let rare = LateDelays { period: Some(of_stage), steps: Some(steps), ..delays.clone() };
        assert_eq!(
            told(rare),
            "rank 1 is late in 5 of 96 calls from call 91 to 96 of 96, by 10.7 ms at the median (up \
             to 30.0 ms), in decode/step; 87 % of all waiting in decode"
        );
        let why = LateRow { delays: Some(delays), ..row }.sentence().expect("late");
        assert!(
            why.ends_with(
                "; 100.000 ms of that because its GPU has more work than the others, the \
                               rest on the host"
            ),
            "{why}"
        );
        assert_eq!([2, 12, 13, 22, 31].map(ordinal), ["second", "twelfth", "13th", "22nd", "31st"]);
    }
}
