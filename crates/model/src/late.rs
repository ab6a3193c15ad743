//! A rank that others wait for: how often and by how much it is late, what its host did meanwhile, and what is said of that.

use serde::{Deserialize, Serialize};
use stage2_contract::text::numbers::{count, counted, grouped, ms3, shown_time, time_scale};
use stage2_contract::text::{code_in_text, shorten};

use crate::{HOST_ERRORS_LEAST, HostCause, HostCauseKind, HostFrame, HostLine};

/// A rank that others waited for in a stage. Of several instances of the stage, the first, cold one is left out. Counts
/// and sums of a sample are scaled to all instances.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LateRow {
    /// [`super::StageRow::stage`].
    pub stage: String,
    /// The rank or process in words: `rank 3`, or a process id.
    pub who: String,
    /// [`crate::ProcessRow::file`].
    pub file: String,
    /// Rank of the process in its job.
    pub rank: Option<u64>,
    /// Collectives of the stage that it took part in, matched and split.
    pub collectives: u64,
    /// Collectives at which it was the last to arrive, by more than the clock error.
    pub late_collectives: u64,
    /// Sum of its lateness at `late_collectives`, behind the median of the others, ns.
    pub late_total_ns: u64,
    /// Its largest lateness at one of `late_collectives`, ns.
    pub late_max_ns: u64,
    /// Those of the delays that are more than noise; null: none is.
    #[serde(default)]
    pub delays: Option<LateDelays>,
    /// What its host did in the steps in which it is late; null: it was not sampled, or too rarely, or it is late on
    /// the GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<LateHost>,
}

/// What the host of a late rank did, waits for running GPU work left out: in the steps in which it is late, and in
/// others. A step begins where the last collective of the step before ended, and so contains the host code between the
/// two.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LateHost {
    /// Late steps whose times are known.
    pub late_steps: u64,
    /// Number of the steps with which the late ones are compared.
    pub other_steps: u64,
    /// Whether the late steps are compared with those of the other ranks, because it is late in nearly all of its
    /// steps: waits for other ranks and for messages are left out. Else with its own steps in which it is not late.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub other_ranks: bool,
    /// Number of samples in all steps that are compared.
    pub samples: u64,
    /// The lowest rate of sampling that was requested for any of the processes, Hz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_hz: Option<f64>,
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
    /// The lines of the function, the one with the most time first; empty: there is only one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<u32>,
    /// The thread that was waited for, or that ran without a stack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// What the threads that held the GIL ran meanwhile, the two functions with the most time; empty: not known, or
    /// nothing waited for the GIL.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held_in: Vec<HostFrame>,
    /// Time in a late step, on average, ns; 0: no sample is in one.
    pub late_ns: u64,
    /// Time in another step, on average, ns; 0: no sample is in one.
    pub other_ns: u64,
    /// Standard error of the difference, from the number of samples, ns. Steps without a sample have the error of one.
    pub error_ns: u64,
    /// Samples of both.
    pub samples: u64,
}

/// A difference is sure if it is at least this many standard errors. With fewer, the 95 % of two errors reach below a
/// third of it: not even its order of magnitude is known. Fewer than ten samples are never enough.
pub const LATE_ERRORS_SURE: f64 = 3.0;
/// The most samples that are missed by chance in one of twenty cases.
const SAMPLES_MISSED: f64 = 3.0;

impl LateHostRow {
    /// What the thread did: see [`HostCause::text`]. Of the GIL, also what held it: only threads of one process wait
    /// for each other there.
    pub fn text(&self, short: bool) -> String {
        if !self.held_in.is_empty() {
            let code = |of: &HostFrame| of.named(short);
            let code = self.held_in.iter().map(code).collect::<Vec<_>>().join("; ");
            let holds = match self.thread.as_ref() {
                Some(thread) if !short => {
                    format!("another thread of its process, '{thread}', holds")
                }
                Some(_) => "another thread of its process holds".to_owned(),
                None => "other threads of its process hold".to_owned(),
            };
            return format!("waiting for the GIL, which {holds} ({code})");
        }
        let (kind, frame, thread) = (self.kind, self.frame.clone(), self.thread.clone());
        let lines = self.lines.iter().map(|&line| HostLine { line, ..HostLine::default() });
        HostCause { kind, frame, thread, lines: lines.collect(), ..HostCause::default() }
            .text(short)
    }

    /// Whether it is of the same kind and the same function as a cause of idle time.
    pub fn is_in(&self, cause: &HostCause) -> bool {
        let (kind, frame) = (self.kind, self.frame.clone());
        cause.is_of_the_function_of(&HostCause { kind, frame, ..HostCause::default() })
    }

    /// Without what the threads that held the GIL ran.
    fn without_holder(&self) -> Self {
        Self { held_in: Vec::new(), thread: None, ..self.clone() }
    }

    /// `waiting for the GIL (held by f and g)`: [`Self::text`] without the lines of what held it.
    fn with_functions_that_hold(&self) -> String {
        let text = self.without_holder().text(true);
        let held: Vec<&str> = self.held_in.iter().map(|of| of.function.as_str()).collect();
        if held.is_empty() { text } else { format!("{text} (held by {})", held.join(" and ")) }
    }

    /// Whether there are enough samples to rely on the difference.
    pub fn is_sure(&self) -> bool {
        self.longer_ns() as f64 >= self.error_ns as f64 * LATE_ERRORS_SURE
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
        self.rows.iter().filter(|row| self.is_finding(row))
    }

    /// Whether one of its rows takes longer by more than the error of sampling.
    pub fn is_finding(&self, row: &LateHostRow) -> bool {
        row.kind != HostCauseKind::Unknown
            && row.longer_ns() as f64 > row.error_ns as f64 * self.errors_least()
    }

    /// The fewest standard errors of a finding: ranks run all of their code in each step, and of many functions some
    /// differ by chance.
    pub fn errors_least(&self) -> f64 {
        if self.other_ranks { LATE_ERRORS_SURE } else { HOST_ERRORS_LEAST }
    }

    /// `10 samples are few: record for longer, or with profiling.collector.host=1000`.
    pub fn few_samples(&self, row: &LateHostRow) -> String {
        format!("{} are few: {}", counted(row.samples, "sample"), self.more_samples())
    }

    /// How to get more samples.
    pub fn more_samples(&self) -> &'static str {
        more_samples(self.asked_hz)
    }

    /// By how much its host takes longer in each step than those of the other ranks, and the standard error of that, ns:
    /// the sum of the findings. `None`: it was compared with its own steps, or nothing is found.
    pub fn longer_than_others(&self) -> Option<(f64, f64)> {
        let found = || self.findings().filter(|_| self.other_ranks);
        let ns: f64 = found().map(|row| row.longer_ns() as f64).sum();
        let error = found().map(|row| row.error_ns as f64).fold(0.0, f64::hypot);
        (ns > 0.0).then_some((ns, error))
    }

    /// The longest that something without a sample in `steps` steps takes in one of them, ns.
    pub fn missed_ns(&self, row: &LateHostRow, steps: u64) -> u64 {
        let ns = |ns: u64, steps: u64| ns as f64 * steps as f64;
        let sampled_ns = ns(row.late_ns, self.late_steps) + ns(row.other_ns, self.other_steps);
        (sampled_ns / row.samples as f64 * SAMPLES_MISSED / steps as f64) as u64
    }
}

/// The collectives that a rank delayed by more than all ranks do now and then.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LateDelays {
    /// Number of collectives that it delayed by more than noise.
    pub collectives: u64,
    /// Mean delay of a collective, behind the median of the other ranks, ns.
    pub mean_ns: u64,
    /// Longest delay of a collective, ns.
    pub max_ns: u64,
    /// Sum of the delays of collectives, ns.
    pub total_ns: u64,
    /// Part of the sum of the delays that more GPU work than the others had since the collective before explains, ns.
    /// The rest came about on the host.
    pub work_ns: u64,
    /// Time that all members waited at the delayed collectives, in percent of their waiting in all compared collectives
    /// of the stage, the cold instance left out.
    pub waiting_percent: f64,
    /// Path of the innermost range that contains all delays.
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
    /// Steps in which the rank was late.
    pub late: u64,
    /// Steps whose collectives were compared.
    pub of: u64,
    /// Median of how late it was in one of these steps, over all collectives of the step, ns.
    pub median_ns: u64,
    /// Number of the step with the median among the instances of its range, from 0; null: of reports of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_number: Option<u64>,
    /// How late it was in the step in which it was latest, ns.
    pub max_ns: u64,
    /// How much later than another rank it begins its steps; null: it does not, or that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begins: Option<LateBegin>,
}

/// How much later than that of another rank a step begins on the host, and by how much longer it takes there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LateBegin {
    /// The rank behind which it begins its steps, in words.
    pub after: String,
    /// How much later than that rank it begins a step: the median of all steps, ns.
    pub ns: u64,
    /// How much longer than that of the other rank the median host time of its steps is, ns; null: it is not.
    pub longer_ns: Option<u64>,
}

/// In which instances of a range something happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatePeriod {
    /// Whether the instances are those of a range right within the stage; else they are those of the stage.
    pub of_steps: bool,
    /// Number of instances, as far as split collectives tell: the highest number of one that has any, plus one.
    pub instances: u64,
    /// Number of the first instance with a delay, from 0.
    pub first: u64,
    /// Number of the last instance with a delay, from 0.
    pub last: u64,
    /// Number of instances from one delay to the next; null: the delays come at no regular intervals.
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

/// The share of a delay from which a cause is the only one that is named, percent.
const ONE_CAUSE_PERCENT: u64 = 75;
/// Late instances that lie within such a part of all of them are placed, percent.
const PLACED_PERCENT: u64 = 50;

/// Fewer steps show no cause why a rank is late.
const STEPS_SHOW_CAUSE: u64 = 8;

/// `the ranks are late in turn, and none stands out: rank 0 is the last at 48 of 102 collectives, rank 1 at 47`: of a
/// stage in which several ranks are late at times, and none of them more than the others; else `None`.
pub fn late_in_turn(rows: &[LateRow], stage: &str) -> Option<String> {
    let rows = || rows.iter().filter(|row| row.stage == stage);
    let is_late = |row: &&LateRow| row.late_collectives > 0;
    if rows().any(|row| row.delays.is_some()) || rows().filter(is_late).count() < 2 {
        return None;
    }
    let last = rows().filter(is_late).take(TURNS_NAMED).enumerate().map(|(at, row)| {
        let (late, all) = (count(row.late_collectives), count(row.collectives));
        match at {
            0 => format!("{} is the last at {late} of {all} collectives", row.who),
            _ => format!("{} at {late} of {all}", row.who),
        }
    });
    let last: Vec<String> = last.collect();
    let more = rows().filter(is_late).count() - last.len();
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    Some(format!("the ranks are late in turn, and none stands out: {}{more}", last.join(", ")))
}

/// Ranks that are late in turn and are named.
const TURNS_NAMED: usize = 4;

impl LateRow {
    /// Whether its steps are enough to say why it is late.
    pub fn shows_cause(&self) -> bool {
        let steps = self.delays.as_ref().and_then(|delays| delays.steps.as_ref());
        steps.is_none_or(|steps| steps.of >= STEPS_SHOW_CAUSE)
    }

    /// How late it is where, in a sentence without its end; nothing where that is noise.
    pub fn delay_sentence(&self) -> Option<String> {
        let (late, delays) = (self.lateness("")?, self.delays.as_ref()?);
        Some(format!(
            "{late}; that is {:.0} % of the time that ranks wait in collectives of {}",
            delays.waiting_percent, self.stage,
        ))
    }

    /// `rank 1 is late on the host in 12 of 96 steps, by 10.68 ms`: `place` is what stands behind `late`.
    fn lateness(&self, place: &str) -> Option<String> {
        let delays = self.delays.as_ref()?;
        let period = delays.period.map_or_else(String::new, LatePeriod::phrase);
        let often = match &delays.steps {
            Some(LateSteps { noun, late, of, median_ns, max_ns, .. }) => {
                let (late, of) = (count(*late), counted(*of, noun));
                let by = shown_time(*median_ns as f64);
                let by = match *max_ns > median_ns.saturating_mul(2) {
                    true => format!("a median of {by} (up to {})", shown_time(*max_ns as f64)),
                    false => by,
                };
                format!("late{place} in {late} of {of}{period}, by {by}")
            }
            None => {
                let [late, all] = [delays.collectives, self.collectives].map(count);
                let by = shown_time(delays.mean_ns as f64);
                format!("{by} late{place} at {late} of {all} collectives{period}")
            }
        };
        let range = match delays.range == self.stage {
            true => String::new(),
            false => format!(", in {}", delays.range),
        };
        Some(format!("{} is {often}{range}", self.who))
    }

    /// How late the rank is, why, and which code of its host has a part in it: sentences without the last full stop.
    pub fn sentence(&self) -> Option<String> {
        let code = self.host_sentence().map_or_else(String::new, |code| format!(". {code}"));
        Some(self.cause_sentence()? + &code)
    }

    /// [`Self::sentence`] without the code of its host.
    pub fn cause_sentence(&self) -> Option<String> {
        Some(format!("{}. {}", self.delay_sentence()?, self.why()?))
    }

    /// [`Self::sentence`] as one line of a page, with what the others do `meanwhile`: which code it is, without the samples
    /// that show it.
    pub fn line(&self, meanwhile: &str) -> Option<String> {
        let delays = self.delays.as_ref()?;
        let (place, why) = match delays.cause() {
            LateCause::Host if self.shows_cause() => (" on the host", String::new()),
            _ => ("", format!(". {}", self.why()?)),
        };
        let code = match self.longer(Form::Line) {
            Some(longer) => Some(format!("{}{longer}{}", self.carried_over(), self.rest())),
            None => self.host_sentence(),
        };
        let code = code.map_or_else(String::new, |code| format!(". {code}"));
        Some(format!("{}{meanwhile}{why}{code}", self.lateness(place)?))
    }

    /// Which code of its host has a part in it, for a page that says elsewhere how late the rank is: what of the delay can
    /// be saved, and who holds the GIL.
    pub fn code_line(&self) -> Option<String> {
        let Some(longer) = self.longer(Form::Holder) else { return self.host_sentence() };
        let longer = longer.replacen("Its", &format!("{}'s", self.who_first()), 1);
        let carried = self.carried().filter(|_| !longer.contains(", and carries over "));
        let carried = carried.map_or_else(String::new, |(steps, _)| {
            let (who, late) = (self.who_first(), shown_time(steps.median_ns as f64));
            format!(
                ". {who} carries over the rest of its {late} delay from earlier {}s",
                steps.noun
            )
        });
        Some(format!("{longer}{}{carried}", self.rest()))
    }

    /// Why the host of a rank that is late on it takes longer, as a clause, with the names of the workload as code: `its
    /// host takes 0.45 ms longer per step than that of rank 1; samples explain 0.35 ± 0.05 ms of that: 0.24 waiting for the
    /// GIL and 0.11 in f (a.py:3)`. `None`: samples show no code that takes longer.
    pub fn code_clause(&self) -> Option<String> {
        let longer = self.longer(Form::Code).map(|longer| longer.replacen("Its", "its", 1));
        longer.or_else(|| {
            let row = self.host.as_ref()?.finding()?;
            let (part, code) = (self.part(row, true), Form::Code.text(row));
            Some(format!("its host spends {part} more {code} than in its other steps"))
        })
    }

    /// Who it is, as the first word of a sentence. A name of the workload stays as it is.
    fn who_first(&self) -> String {
        match self.who.strip_prefix("rank ") {
            Some(number) => format!("Rank {number}"),
            None => self.who.clone(),
        }
    }

    fn why(&self) -> Option<String> {
        let (delays, who) = (self.delays.as_ref()?, self.who_first());
        if !self.shows_cause() {
            return Some("So few steps do not show why".to_owned());
        }
        Some(match delays.cause() {
            LateCause::Host => {
                format!("{who} is late on the host: its GPU has no more work than the others")
            }
            LateCause::Gpu => {
                format!("{who} is slow on the GPU, which has more work than the others")
            }
            LateCause::Both => format!(
                "{} ms of that is because its GPU has more work than the others, and the rest is on the host",
                ms3(delays.work_ns)
            ),
        })
    }

    /// That it begins its steps late by most of its delay, which then is not of the code of these steps alone: where the
    /// host of the other rank runs ahead, each step takes over the delay of the one before.
    pub fn carried(&self) -> Option<(&LateSteps, &LateBegin)> {
        let steps = self.delays.as_ref()?.steps.as_ref()?;
        let begins = steps.begins.as_ref()?;
        (begins.ns.saturating_mul(2) > steps.median_ns).then_some((steps, begins))
    }

    /// `Rank 0 begins its step 1.75 ms after rank 1 (median), so the delay is carried over from step to step. `
    fn carried_over(&self) -> String {
        self.carried().map_or_else(String::new, |(LateSteps { noun, .. }, begins)| {
            let (who, by) = (self.who_first(), shown_time(begins.ns as f64));
            let after = &begins.after;
            format!(
                "{who} begins its {noun} {by} after {after} (median), so the delay is carried over from {noun} to {noun}. "
            )
        })
    }

    /// What the code that was found does not explain, ns: of the time that its host takes longer if the delay is carried
    /// over, else of the median delay. `None`: nothing was found, or nothing is left.
    fn not_explained_ns(&self) -> Option<f64> {
        let (found_ns, error_ns) = self.host.as_ref()?.longer_than_others()?;
        match self.carried() {
            Some((_, begins)) => Some(begins.longer_ns? as f64 - found_ns)
                .filter(|ns| *ns > error_ns * LATE_ERRORS_SURE),
            None => {
                let steps = self.delays.as_ref()?.steps.as_ref()?;
                Some(steps.median_ns as f64 - found_ns).filter(|ns| *ns > 0.0)
            }
        }
    }

    /// `. Samples do not explain the other 1.30 ms: record for longer`.
    fn rest(&self) -> String {
        let rest = self.not_explained_ns().zip(self.host.as_ref());
        rest.map_or_else(String::new, |(ns, host)| {
            let (other, more) = (shown_time(ns), host.more_samples());
            format!(". Samples do not explain the other {other}: {more}")
        })
    }

    /// `Of the 2.21 ms on average, 0.92 ± 0.41 ms are in f (a.py:3) (10 samples)`, and what to do where samples are
    /// few. `None`: samples show no code that takes longer in late steps.
    fn host_sentence(&self) -> Option<String> {
        let host = self.host.as_ref()?;
        let Some(first) = host.finding() else {
            return host.other_ranks.then(|| {
                let samples = counted(host.samples, "sample");
                let seen = NOT_SHOWN.replacen('s', "S", 1);
                format!("{}{seen} ({samples}): {}", self.carried_over(), host.more_samples())
            });
        };
        let of = self.late_ns().map_or_else(
            || "In a late step".to_owned(),
            |ns| format!("Of the {} on average", shown_time(ns as f64)),
        );
        let part = |row: &LateHostRow| {
            let samples = counted(row.samples, "sample");
            format!("{} more in {} ({samples})", self.part(row, true), row.text(true))
        };
        let parts: Vec<String> = host.findings().take(FUNCTIONS_NAMED).map(part).collect();
        let few = match first.is_sure() {
            true => String::new(),
            false => format!(". {}", host.few_samples(first)),
        };
        if let Some(longer) = self.longer(Form::Whole) {
            return Some(format!(
                "{}{longer}. Without these, a step would be shorter by about as much{}",
                self.carried_over(),
                self.rest()
            ));
        }
        let parts = parts.join(" and ");
        Some(format!("{of}, its host spends {parts} than in its other steps{few}"))
    }

    /// A clause, without a full stop: how much longer its host takes than those of the others, and in which code. `None`:
    /// it was compared with its own steps, or nothing is found.
    fn longer(&self, form: Form) -> Option<String> {
        let host = self.host.as_ref()?;
        let (ns, error_ns) = host.longer_than_others()?;
        // In the unit of the delay, as all around it.
        let (scale, unit, decimals) = time_scale(self.late_ns().map_or(ns, |ns| ns as f64));
        let shown = |ns: f64| grouped(&format!("{:.decimals$}", ns / scale));
        let found: Vec<&LateHostRow> = host.findings().collect();
        // Differences of rounded sums, which add up to the whole.
        let rounded = |ns: f64| {
            let step = scale / 10f64.powi(decimals as i32);
            (ns / step).round() * step
        };
        let mut sum_ns = 0.0;
        let mut parts = Vec::new();
        for row in found.iter().take(FUNCTIONS_NAMED) {
            let before_ns = rounded(sum_ns);
            sum_ns += row.longer_ns() as f64;
            let part = shown(rounded(sum_ns) - before_ns);
            let text = form.text(row);
            parts.push(if found.len() == 1 { text } else { format!("{part} {text}") });
        }
        if let more @ 1.. = found.len().saturating_sub(FUNCTIONS_NAMED) {
            parts.push(format!("{} in {more} more", shown(rounded(ns) - rounded(sum_ns))));
        }
        let parts =
            parts.join(if matches!(form, Form::Whole | Form::Holder) { ", and " } else { " and " });
        let colon = if found.len() == 1 { "" } else { ":" };
        let all = format!("{} ± {}", shown(ns), shown(error_ns));
        // The time of the whole steps has no error of sampling.
        let whole =
            self.carried().and_then(|(of, begins)| Some((of, begins, begins.longer_ns? as f64)));
        Some(match whole.filter(|(_, _, whole_ns)| *whole_ns > ns) {
            // The times of one line add up: where the rest of the delay comes from is told with the whole time.
            Some((LateSteps { noun, median_ns, .. }, LateBegin { after, .. }, whole_ns))
                if matches!(form, Form::Holder) && whole_ns < *median_ns as f64 =>
            {
                let (longer, late) = (shown_time(whole_ns), shown_time(*median_ns as f64));
                format!(
                    "Its host takes {longer} longer per step than that of {}, and carries over the rest of its {late} delay \
                     from earlier {noun}s. Of the {longer}, samples explain {all}{colon} {parts}",
                    form.name(after)
                )
            }
            Some((_, LateBegin { after, .. }, whole_ns)) => format!(
                "Its host takes {} longer per step than that of {}; samples explain {all} {unit} of that{colon} {parts}",
                shown_time(whole_ns),
                form.name(after)
            ),
            None => {
                format!("Its host spends {all} {unit} more per step than the others{colon} {parts}")
            }
        })
    }

    /// What to do about the code that makes it late: `cut the extra host time of rank 1: f (a.py:3)`,
    /// `look at why the host of rank 1 takes longer in its late steps: f (a.py:3) (0.92 ± 0.31 of the 2.21 ms that it is
    /// late by)`. `lines`: with the lines that hold the GIL, else only their functions. `None`: samples show no such code.
    pub fn advice(&self, who: &str, lines: bool) -> Option<String> {
        let host = self.host.as_ref()?;
        let text = |row: &LateHostRow| match lines {
            true => row.text(true),
            false => row.with_functions_that_hold(),
        };
        let first = host.finding()?;
        if host.other_ranks {
            let found: Vec<String> = host.findings().take(FUNCTIONS_NAMED).map(text).collect();
            let and = if lines { ", and " } else { " and " };
            let found = found.join(and);
            return Some(format!("{EXTRA_TIME}{who}: {found}"));
        }
        let of = match self.late_ns() {
            Some(ns) => {
                let of = shown_time(ns as f64);
                format!("{} of the {of} that it is late by", self.part(first, false))
            }
            None => format!("{} more", self.part(first, true)),
        };
        let code = text(first);
        Some(format!("look at why the host of {who} takes longer in its late steps: {code} ({of})"))
    }

    /// By how much it is late in a late step, on average, ns.
    fn late_ns(&self) -> Option<u64> {
        let delays = self.delays.as_ref()?;
        delays.total_ns.checked_div(delays.steps.as_ref()?.late).filter(|ns| *ns > 0)
    }

    /// `0.92 ± 0.41 ms`: how much longer a late step takes by it, at most as much as the rank is late.
    fn part(&self, row: &LateHostRow, with_unit: bool) -> String {
        let longer_ns = u64::try_from(row.longer_ns()).unwrap_or(0);
        let late_ns = self.late_ns();
        let part_ns = longer_ns.min(late_ns.unwrap_or(u64::MAX));
        let (scale, unit, decimals) = time_scale(late_ns.unwrap_or(longer_ns) as f64);
        let [part, error] = [part_ns, row.error_ns].map(|ns| ns as f64 / scale);
        let unit = if with_unit { format!(" {unit}") } else { String::new() };
        grouped(&format!("{part:.decimals$} ± {error:.decimals$}{unit}"))
    }
}

/// How the code that makes a rank late is told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `Its host spends 0.35 ± 0.05 ms more per step than the others: 0.24 in f (a.py:3) and 0.11 in g (a.py:7)`
    Line,
    /// `Its host spends 0.35 ± 0.05 ms more per step than the others: 0.24 in f (a.py:3) (33 samples), and 0.11 in g
    /// (a.py:7) (14 samples)`
    Whole,
    /// As [`Form::Line`], with what held the GIL.
    Holder,
    /// As [`Form::Line`], with names as code.
    Code,
}

impl Form {
    /// What the thread did, as a part of the clause.
    fn text(self, row: &LateHostRow) -> String {
        let text = match self {
            Form::Whole => format!("{} ({})", row.text(true), counted(row.samples, "sample")),
            Form::Holder => row.text(true),
            Form::Line | Form::Code => self.name(&row.without_holder().text(true)),
        };
        if row.kind == HostCauseKind::Gil { text } else { format!("in {text}") }
    }

    fn name(self, name: &str) -> String {
        if self == Form::Code { code_in_text(&shorten(name, NAME_CHARS)) } else { name.to_owned() }
    }
}

/// Longest name that stands as code in a sentence, characters.
const NAME_CHARS: usize = 80;
/// What the advice about a late rank begins with, whose code follows.
pub const EXTRA_TIME: &str = "cut the extra host time of ";
/// Functions that are named of a late rank.
const FUNCTIONS_NAMED: usize = 2;

/// That the host of a late rank was compared without a finding, ...
pub const NOT_SHOWN: &str =
    "samples do not show why its host takes longer than those of the others";
/// ... and what to do then.
pub(crate) const fn more_samples(asked_hz: Option<f64>) -> &'static str {
    match asked_hz {
        Some(OFTEN_HZ..) => "record for longer",
        _ => "record for longer, or with profiling.collector.host=1000",
    }
}

/// A host that is sampled as often as this is not to be sampled more often, 1/s: a bit less than what is advised, which
/// intervals of whole ns do not meet exactly.
const OFTEN_HZ: f64 = 999.0;

impl LateDelays {
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
            // Of each one, the numbers of late steps and of all say it.
            None | Some(1) => String::new(),
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
    fn ranks_that_are_late_in_turn_are_no_cause() {
        let row = |rank: u64, late_collectives| LateRow {
            stage: "prefill".into(),
            who: format!("rank {rank}"),
            collectives: 102,
            late_collectives,
            ..LateRow::default()
        };
        let mut rows = vec![row(0, 48), row(1, 47), row(2, 0)];
        assert_eq!(
            late_in_turn(&rows, "prefill").as_deref(),
            Some(
                "the ranks are late in turn, and none stands out: rank 0 is the last at 48 of 102 collectives, \
                 rank 1 at 47 of 102"
            )
        );
        assert_eq!(late_in_turn(&rows, "decode"), None);
        assert_eq!(late_in_turn(&rows[1..], "prefill"), None, "only one is");
        let steps = LateSteps { noun: "step".into(), late: 1, of: 1, ..LateSteps::default() };
        rows[0].delays = Some(LateDelays { steps: Some(steps), ..LateDelays::default() });
        assert_eq!(late_in_turn(&rows, "prefill"), None, "one stands out");
        let said = rows[0].cause_sentence().expect("late");
        assert!(said.ends_with(". So few steps do not show why"), "{said}");
        let many = rows[0].delays.as_mut().and_then(|delays| delays.steps.as_mut());
        many.expect("steps").of = 8;
        let said = rows[0].cause_sentence().expect("late");
        assert!(said.ends_with("its GPU has no more work than the others"), "{said}");
    }

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
            "rank 1 is 10.68 ms late at 24 of 768 collectives, every eighth step, in decode/step; that is 87 % of the time that ranks wait in \
                collectives of decode"
        );
        let of_stage = LatePeriod { of_steps: false, every: None, first: 90, ..period };
        let steps = LateSteps {
            noun: "call".into(),
            late: 5,
            of: 96,
            median_ns: 10_684_000,
            median_number: None,
            max_ns: 30_000_000,
            begins: None,
        };
        let even = LateSteps { late: 12, max_ns: 12_000_000, noun: "step".into(), ..steps.clone() };
        let in_steps = LateDelays { steps: Some(even), ..delays.clone() };
        assert_eq!(
            told(in_steps),
            "rank 1 is late in 12 of 96 steps, every eighth step, by 10.68 ms, in \
             decode/step; that is 87 % of the time that ranks wait in collectives of decode"
        );
        let rare =
            LateDelays { period: Some(of_stage), steps: Some(steps.clone()), ..delays.clone() };
        assert_eq!(
            told(rare),
            "rank 1 is late in 5 of 96 calls from call 91 to 96 of 96, by a median of \
             10.68 ms (up to 30.00 ms), in decode/step; that is 87 % of the time that ranks wait in collectives of decode"
        );
        let function = |function: &str, late_ns, error_ns, samples| LateHostRow {
            kind: HostCauseKind::EngineCode,
            frame: Some(HostFrame { function: function.into(), file: "a.py".into(), line: 3 }),
            late_ns,
            error_ns,
            samples,
            ..LateHostRow::default()
        };
        let rows = vec![
            function("f", 920_000, 310_000, 10),
            function("noise", 500_000, 400_000, 2),
            function("g", 400_000, 100_000, 16),
            function("h", 300_000, 100_000, 9),
        ];
        let host = LateHost { rows, ..LateHost::default() };
        let steps = LateSteps { late: 10, ..steps };
        let delays = LateDelays { total_ns: 22_100_000, work_ns: 8_000_000, ..delays };
        let delays = LateDelays { steps: Some(steps), ..delays };
        let row = LateRow { delays: Some(delays), host: Some(host), ..row };
        let why = row.sentence().expect("late");
        let said = ". 8.000 ms of that is because its GPU has more work than the others, and the rest is on the host. Of the \
                    2.21 ms on average, its host spends 0.92 ± 0.31 ms more in f (a.py:3) (10 samples) and 0.40 ± \
                    0.10 ms more in g (a.py:3) (16 samples) than in its other steps. 10 samples are few: record for \
                    longer, or with profiling.collector.host=1000";
        assert!(why.ends_with(said), "{why}");
        assert_eq!(
            row.advice("it", false).as_deref(),
            Some(
                "look at why the host of it takes longer in its late steps: f (a.py:3) (0.92 ± 0.31 of the 2.21 ms that it \
                 is late by)"
            )
        );
        let others = |row: &LateRow, rows| {
            let host = LateHost { other_ranks: true, samples: 90, rows, ..LateHost::default() };
            LateRow { host: Some(host), ..row.clone() }
        };
        let holder = |function: &str| HostFrame {
            function: function.into(),
            file: "x/out.py".into(),
            line: 57,
        };
        let gil = LateHostRow {
            kind: HostCauseKind::Gil,
            frame: None,
            thread: Some("out".into()),
            held_in: vec![holder("send"), holder("get")],
            ..function("", 241_873, 45_200, 33)
        };
        let known = others(&row, vec![gil, function("g", 104_972, 30_634, 14)]);
        let said = ". Its host spends 0.35 ± 0.05 ms more per step than the others: 0.24 waiting for the GIL, which \
                    another thread of its process holds (send, out.py:57; get, out.py:57) (33 samples), and 0.11 in g \
                    (a.py:3) (14 samples). Without these, a step would be shorter by about as much. Samples do not explain the \
                    other 10.34 ms: record for longer, or with profiling.collector.host=1000";
        assert!(known.sentence().is_some_and(|why| why.ends_with(said)), "{known:?}");
        assert_eq!(
            known.advice("it", false).as_deref(),
            Some(
                "cut the extra host time of it: waiting for the GIL (held by send and get) and g (a.py:3)"
            )
        );
        let look = known.advice("it", true).expect("found");
        assert!(
            look.contains(": waiting for the GIL, which another thread of its process"),
            "{look}"
        );
        let line = known.line("; meanwhile, rank 0 waits").expect("late");
        let said = "rank 1 is late in 10 of 96 calls, every eighth step, by a median of 10.68 ms (up to \
                    30.00 ms), in decode/step; meanwhile, rank 0 waits. 8.000 ms of that is because its GPU has more \
                    work than the others, and the rest is on the host. Its host spends 0.35 ± 0.05 ms \
                    more per step than the others: 0.24 waiting for the GIL and 0.11 in g (a.py:3)";
        let often = "record for longer, or with profiling.collector.host=1000";
        let rest = |more| format!(". Samples do not explain the other 10.34 ms: {more}");
        assert_eq!(line, format!("{said}{}", rest(often)));
        // Sampled as often as is advised; and it begins late already.
        let mut sampled = known.clone();
        sampled.host.as_mut().expect("host").asked_hz = Some(1e9 / 1_000_001.0);
        let code = |row: &LateRow| row.code_line().expect("late");
        assert!(code(&sampled).ends_with(&rest("record for longer")), "{sampled:?}");
        let begins = |row: &mut LateRow, ns, longer_ns| {
            let steps = row.delays.as_mut().and_then(|delays| delays.steps.as_mut());
            let after = "rank 0".to_owned();
            steps.expect("steps").begins = Some(LateBegin { after, ns, longer_ns });
        };
        // The delay of the step before is no code of this one, and no sample explains it.
        begins(&mut sampled, 5_342_001, Some(450_000));
        let said = "Rank 1's host takes 0.45 ms longer per step than that of rank 0, and carries over the rest of its 10.68 ms delay from \
                    earlier calls. Of the 0.45 ms, samples explain 0.35 ± 0.05: 0.24 waiting for the GIL, which another thread of its process holds (send, out.py:57; get, out.py:57), \
                    and 0.11 in g (a.py:3)";
        assert_eq!(code(&sampled), said);
        let begins_late = "Rank 1 begins its call 5.34 ms after rank 0 (median), so the delay is carried over from call to call. ";
        let line = sampled.line("").expect("late");
        assert!(
            line.contains(begins_late)
                && line.ends_with("0.24 waiting for the GIL and 0.11 in g (a.py:3)"),
            "{line}"
        );
        let whole = sampled.sentence().expect("late");
        assert!(whole.ends_with("a step would be shorter by about as much"), "{whole}");
        begins(&mut sampled, 5_342_001, Some(900_000));
        let other = ". Samples do not explain the other 0.55 ms: record for longer";
        assert!(code(&sampled).ends_with(other), "{}", code(&sampled));
        begins(&mut sampled, 5_342_001, None);
        assert!(code(&sampled).contains("Rank 1's host spends 0.35 ± 0.05 ms more per step than"));
        let carries = ". Rank 1 carries over the rest of its 10.68 ms delay from earlier calls";
        assert!(code(&sampled).ends_with(carries), "{}", code(&sampled));
        begins(&mut sampled, 5_342_000, None);
        assert_eq!(
            code(&sampled),
            format!(
                "Rank 1's host{}",
                code(&known)
                    .split_once("Rank 1's host")
                    .expect("it")
                    .1
                    .replace(often, "record for longer")
            ),
            "half of it is not most"
        );
        let rows = vec![function("f", 200_000, 40_000, 33), function("g", 50_000, 20_000, 8)];
        let known = others(&row, rows);
        let found = known.host.as_ref().and_then(LateHost::longer_than_others);
        assert_eq!(found, Some((200_000.0, 40_000.0)), "two errors are none");
        let unknown = others(&row, Vec::new());
        let why = unknown.sentence().expect("late");
        assert!(why.ends_with("why its host takes longer than those of the others (90 samples): record for longer, or with profiling.collector.host=1000"), "{why}");
        assert_eq!([2, 12, 13, 22, 31].map(ordinal), ["second", "twelfth", "13th", "22nd", "31st"]);
    }
}
