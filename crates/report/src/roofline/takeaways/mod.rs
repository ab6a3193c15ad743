//! What is known of a run -> what it means and what to do first, each with its numbers and its rule.
//!
//! A rule speaks only where every number that it needs is there. The order is that of the time that
//! is concerned, and equal measurements always give equal words.

mod measured;

use std::collections::HashMap;

use crate::conclusions::{NO_GROUND, warm_up};
use stage2_contract::order::Order as _;
use stage2_contract::text::numbers::{count, counted, shown_rate};
use stage2_contract::text::shorten_kernel;
use stage2_model::rule::*;
use stage2_model::{
    Answer, Bound, Confidence, Evidence, EvidenceValue, Experiment, FirstStep, LAUNCH_GAP_US,
    RATE_SHARE_MOST, Severity, StageNumbers, Takeaway, short_hash,
};
use stage2_read::kernel_class::KernelClass;

pub(crate) use measured::{
    FUSIBLE, HostEvidence, HostLead, KernelMeasurements, MoreRequests, RankWaiting,
    RunMeasurements, StageMeasurements,
};
use measured::{READERS, numbers_of, percent};

/// Characters of a kernel's name in advice.
const NAME_CHARS: usize = 60;

/// Everything that the numbers say, and these: first what they cannot be trusted for, then what concerns the
/// most time.
pub(crate) fn takeaways(run: &RunMeasurements) -> (Vec<Takeaway>, Vec<StageNumbers>) {
    let mut said = of_run(run);
    let mut all_numbers = Vec::new();
    // Stages without GPU work mostly lie around those with it, and would count their time again.
    let some_work = run.stages.iter().any(|stage| !stage.no_gpu_work);
    let is_counted = |stage: &&StageMeasurements| !(some_work && stage.no_gpu_work);
    let counted = run.stages.iter().filter(is_counted);
    let all_ns = counted.filter_map(|stage| stage.window_ns).fold(0, u64::saturating_add);
    let complete = run.missing.is_none();
    for (at, stage) in run.stages.iter().enumerate() {
        let window_ns = stage.window_ns.filter(|_| all_ns > 0 && is_counted(&stage));
        let share = window_ns.map(|ns| ns as f64 / all_ns as f64);
        let numbers = numbers_of(stage, share);
        said.extend(of_stage(Speaker { stage, share, at, numbers: &numbers, complete }));
        all_numbers.push(numbers);
    }
    if said.iter().all(|takeaway| takeaway.rule.is_caveat()) {
        said.push(nothing(run));
    }
    let weight = |t: &Takeaway| t.concerns_percent.unwrap_or(-1.0);
    said.order_by(|a, b| {
        let caveats_first = b.rule.is_caveat().cmp(&a.rule.is_caveat());
        caveats_first
            .then_with(|| weight(b).total_cmp(&weight(a)))
            .then_with(|| (a.rule, &a.stage, &a.text).cmp(&(b.rule, &b.stage, &b.text)))
    });
    tell_apart(&mut said);
    (said, all_numbers)
}

fn of_run(run: &RunMeasurements) -> Vec<Takeaway> {
    let mut said = Vec::new();
    if run.simulated {
        let text = "The GPU was simulated: kernel times are those of a recording, launches and idle times those of \
                    the machine that ran it.";
        let evidence = Evidence::state("simulated", EvidenceValue::Flag(true), "/simulated");
        said.push(say_of_run(Rule::Simulated, evidence, text.into(), None));
    }
    if let Some(missing) = &run.missing {
        let meaning = if run.status == "empty" {
            "Nothing about the GPU is known"
        } else if run.replayed {
            "Counts are of the launches that were profiled; durations are of replays with cold \
             caches at other clocks, mostly longer than undisturbed; shares are of these"
        } else {
            "Counts and times are lower bounds, and shares may be off"
        };
        let text = format!("The capture is not complete: {missing}. {meaning}.");
        let then = match &run.failed {
            Some(how) => format!("Fix the workload ({how}), then run again."),
            None => "Follow the findings on coverage and run again.".to_owned(),
        };
        said.push(say_of_run(Rule::Incomplete, coverage(run), text, Some(&then)));
    }
    said
}

fn nothing(run: &RunMeasurements) -> Takeaway {
    let (text, then) = if run.stages.is_empty() {
        // Where nothing was recorded, stages are not what is missing.
        let mark = "Mark the stages with NVTX ranges, for instance prefill and decode.";
        (
            "No stage was recorded, so there are no statements about stages.",
            Some(mark).filter(|_| run.status != "empty"),
        )
    } else {
        (
            "The numbers that are known support no statement.",
            Some("Look at the findings for what is missing."),
        )
    };
    say_of_run(Rule::Nothing, coverage(run), text.into(), then)
}

/// How much of the run was recorded.
fn coverage(run: &RunMeasurements) -> Evidence {
    let status = EvidenceValue::State(run.status.to_owned());
    Evidence::state("status", status, "/coverage/verdict/status")
}

fn say_of_run(rule: Rule, evidence: Evidence, text: String, then: Option<&str>) -> Takeaway {
    Takeaway {
        id: rule.label().to_owned(),
        rule,
        // Nothing else about the run matters as much.
        severity: Severity::Warning,
        text,
        evidence: vec![evidence],
        confidence: Confidence::High,
        recommendation: then.map(str::to_owned),
        experiment: Some(rule.experiment()),
        ..Takeaway::default()
    }
}

/// What concerns one stage.
fn of_stage(speak: Speaker<'_>) -> Vec<Takeaway> {
    let stage = speak.stage;
    let mut said = Vec::new();
    said.extend(speak.warm_up());
    said.extend(speak.dominant());
    said.extend(speak.idle());
    said.extend(speak.host_causes());
    said.extend(speak.classes());
    said.extend(speak.bandwidth());
    said.extend((0..stage.top_kernels.len()).filter_map(|place| speak.kernel(place)));
    said.extend(speak.top_kernel());
    said.extend(speak.utilisation());
    said
}

/// What to do about gaps between kernels that no graph launches, wherever the host was meanwhile.
pub(crate) const LAUNCH_LESS_OFTEN: &str = "Launch less often: CUDA graphs (torch.compile with mode=reduce-overhead, or the \
    serving engine's own), then fusion, then a larger batch.";
/// From this share of the idle time without a known cause on, a faster host may help.
const MUCH_UNKNOWN_PERCENT: f64 = 25.0;
/// What to do about a kernel that is far from its roof.
const TRY_ANOTHER: &str = "try another implementation or library version, other shapes (padding to multiples of 64), or \
    fusion";
/// What to do where nothing of a job was compared.
const RECORD_RANKS: &str = "Record every rank (section Collectives lists what is missing) to tell a late rank \
    from slow transfers.";

/// Speaks of a stage.
#[derive(Clone, Copy)]
struct Speaker<'a> {
    stage: &'a StageMeasurements,
    /// Its part of all windows.
    share: Option<f64>,
    /// Its place among the numbers of the report.
    at: usize,
    numbers: &'a StageNumbers,
    /// Nothing of the capture is missing.
    complete: bool,
}

impl Speaker<'_> {
    /// `part` is the part of the stage's window that is concerned, 0 to 1. Of times in caveat there is
    /// the number with its label: no advice, and no gain.
    fn say(
        &self,
        rule: Rule,
        part: Option<f64>,
        evidence: Vec<Evidence>,
        text: String,
        then: Option<&str>,
    ) -> Takeaway {
        let then = then.filter(|_| self.stage.caveat.is_none());
        let few = self.stage.warm_instances.is_some_and(|warm| warm < ENOUGH_INSTANCES);
        let reliable = self.stage.caveat.is_none() && !few;
        let said = self.say_counted(rule, part, evidence, text, then);
        let experiment = match self.stage.caveat {
            None => said.experiment,
            // What is advised has to wait for times that can be relied on.
            Some(_) => Some(self.warm_instances()),
        };
        let confidence = Confidence::of(&said.evidence, reliable, self.complete);
        Takeaway { confidence, experiment, ..said }
    }

    /// A takeaway from counters, which hold for a kernel whatever the times of its stage are worth.
    fn say_counted(
        &self,
        rule: Rule,
        part: Option<f64>,
        evidence: Vec<Evidence>,
        text: String,
        then: Option<&str>,
    ) -> Takeaway {
        let caveat = self.stage.caveat.as_deref();
        // Advice stands on the counters alone, so its label must not say that there is none.
        let label = caveat.map(|caveat| match then {
            Some(_) => {
                let why = caveat.strip_suffix(NO_GROUND).unwrap_or(caveat);
                format!(" ({why}; the counters of the kernel are valid nevertheless)")
            }
            None => format!(" ({caveat})"),
        });
        let label = label.unwrap_or_default();
        // Of times in caveat nothing is gained.
        let part = part.filter(|_| caveat.is_none());
        let gain = self.share.zip(part).map(|(share, part)| share * part * 100.0);
        Takeaway {
            id: format!("{}:{}", rule.label(), self.stage.stage),
            rule,
            severity: if then.is_some() { Severity::Warning } else { Severity::Note },
            stage: Some(self.stage.stage.clone()),
            subject: None,
            text: format!("{}: {text}{label}", self.stage.stage),
            confidence: Confidence::of(&evidence, true, self.complete),
            evidence,
            recommendation: then.map(str::to_owned),
            concerns_percent: gain,
            of_stage_percent: part.map(|part| part * 100.0),
            experiment: Some(rule.experiment()),
        }
    }

    /// The pointer of a field of [`StageNumbers`].
    fn source(&self, field: &str) -> String {
        format!("/stage_numbers/{}/{field}", self.at)
    }

    /// A number of the stage that a sentence quotes; none where it is not known.
    fn number(&self, name: &str, value: Option<f64>, unit: &str) -> Option<Evidence> {
        Some(Evidence::number(name, value?, unit, self.source(name)))
    }

    /// A share that has to be at least, or at most, `threshold`.
    fn share_of(&self, name: &str, value: f64, threshold: f64) -> Evidence {
        Evidence::number(name, value, "percent", self.source(name)).against(threshold)
    }

    fn idle_percent(&self) -> Option<f64> {
        self.numbers.idle_percent
    }

    /// Share of the window in which the GPU worked for the stage, percent.
    fn busy_percent(&self) -> Option<f64> {
        let other = self.stage.other_work_percent.unwrap_or(0.0);
        self.idle_percent().map(|idle| 100.0 - idle - other)
    }

    /// Part of the window that a share of the GPU busy time is of.
    fn busy_part(&self, percent: f64) -> Option<f64> {
        self.busy_percent().map(|busy| busy / 100.0 * percent / 100.0)
    }

    /// Part of the window that a share of kernel time is of. The busy time has copies and fills, too.
    fn kernel_part(&self, percent: f64) -> Option<f64> {
        let copies = self.numbers.exposed_copies_percent.unwrap_or(0.0);
        self.busy_percent().map(|busy| (busy - copies).max(0.0) / 100.0 * percent / 100.0)
    }

    fn warm_up(&self) -> Option<Takeaway> {
        let (stage, found) = (&self.stage.stage, self.stage.warm_up?);
        let evidence = vec![self.share_of("warm_up_percent", found.percent, WARM_UP_PERCENT)];
        let then = warm_up::advice(stage);
        let said = self.say_counted(Rule::WarmUp, None, evidence, String::new(), Some(&then));
        let experiment = Some(self.warm_instances());
        Some(Takeaway { text: format!("{stage}: {}", found.text()), experiment, ..said })
    }

    /// An experiment that records enough of them.
    fn warm_instances(&self) -> Experiment {
        Experiment::Measure {
            settings: Vec::new(),
            shows: self.source("warm_instances"),
            value: None,
        }
    }

    fn dominant(&self) -> Option<Takeaway> {
        let percent = self.share? * 100.0;
        // A stage that is alone says nothing by being the longest.
        let several = percent < 100.0;
        (several && percent >= DOMINANT_STAGE_PERCENT).then(|| {
            let evidence = vec![self.share_of("windows_percent", percent, DOMINANT_STAGE_PERCENT)];
            let counted = self.stage.tokens_counted.noun();
            let rate = self.stage.tokens_per_s.map(|r| format!(", {} {counted}/s", shown_rate(r)));
            let text =
                format!("{percent:.1} % of the time of all stages{}", rate.unwrap_or_default());
            self.say(Rule::DominantStage, Some(1.0), evidence, text, None)
        })
    }

    fn idle(&self) -> Option<Takeaway> {
        let (s, idle) = (self.stage, self.idle_percent()?);
        let is_high = || self.share_of("idle_percent", idle, IDLE_HIGH_PERCENT);
        let n = self.numbers;
        let rest = [
            self.number("kernels", n.kernels.map(|kernels| kernels as f64), "count"),
            self.number("kernel_mean_us", n.kernel_mean_us, "us"),
            self.number("interval_us", n.interval_us, "us"),
        ];
        let say = |rule, more: Vec<Evidence>, text, then| {
            let names: Vec<&str> = more.iter().map(|seen| seen.name.as_str()).collect();
            let is_new = |seen: &&Evidence| !names.contains(&seen.name.as_str());
            let of_kernels: Vec<Evidence> = rest.iter().flatten().filter(is_new).cloned().collect();
            let evidence = std::iter::once(is_high()).chain(more).chain(of_kernels).collect();
            self.say(rule, Some(idle / 100.0), evidence, text, then)
        };
        let over = s.warm_instances.map(|n| (n, "warm"));
        let over = over.or_else(|| s.recorded_instances.map(|n| (n, "recorded")));
        let of = over.map(|(n, kind)| format!(" of {n} {kind} {}{}", s.noun, plural(n)));
        let of = of.unwrap_or_default();
        if idle <= IDLE_LOW_PERCENT {
            let busy = self.busy_percent()?;
            let text = format!("the GPU is busy {busy:.1} % of the window{of}");
            let evidence = vec![self.share_of("idle_percent", idle, IDLE_LOW_PERCENT)];
            return Some(self.say(Rule::GpuBusy, Some(busy / 100.0), evidence, text, None));
        }
        if idle < IDLE_HIGH_PERCENT {
            return None;
        }
        if s.no_gpu_work {
            // Other threads may use the GPU meanwhile.
            let is_apart = self.share.is_none();
            let apart = if is_apart { ", which is not in the time of all stages" } else { "" };
            let text = format!("no GPU work launched by the stage itself in the window{of}{apart}");
            return Some(say(Rule::GpuIdle, Vec::new(), text, None));
        }
        let waits = format!("the GPU is idle {idle:.1} % of the window{of}");
        let counted = s.kernels.filter(|k| *k > 0).zip(s.interval_us).zip(s.kernel_mean_us);
        let Some(((kernels, interval_us), mean_us)) = counted else {
            return Some(say(Rule::GpuIdle, Vec::new(), waits, None));
        };
        // A fraction of a kernel for each token, as in a step with many tokens, says nothing.
        let per_token = s.kernels_per_token.filter(|k| *k >= 1.0);
        let digits = |k: f64| if k < 10.0 { 2 } else { 0 };
        let per_token = per_token.map(|k| format!("{k:.*} per token", digits(k)));
        let graphs = percent(s.graph_percent).unwrap_or(0.0) >= GRAPHS_USED_PERCENT;
        let of_graphs = graphs.then(|| "mostly from CUDA graphs".to_owned());
        let which: Vec<String> = per_token.into_iter().chain(of_graphs).collect();
        let which =
            if which.is_empty() { which.concat() } else { format!(" ({})", which.join(", ")) };
        // Sentences of their own, so that the first one can be read.
        let numbers = format!(
            ". {} kernels{which} take {mean_us:.1} us each; one starts every {interval_us:.1} us on average",
            count(kernels),
        );
        if s.caveat.is_some() {
            let text = format!("{waits}{numbers}");
            return Some(say(Rule::GpuIdle, Vec::new(), text, None));
        }
        let lead = s.host.map_or_else(String::new, |host| format!(". {}", host.in_words()));
        let short = percent(s.short_gaps_percent).filter(|p| *p >= BACK_TO_BACK_PERCENT);
        let short_gaps = short.filter(|_| mean_us <= SHORT_KERNEL_US && !graphs);
        if self.host_ahead() {
            let (ahead, why) = match (s.ahead_by_ranges(), s.ahead_by_samples()) {
                (None, Some((percent, longest))) => (
                    longest.clone(),
                    format!(
                        ". For {percent:.1} % of the idle time, the host waits for what it has launched"
                    ),
                ),
                (percent, _) => {
                    let percent = percent.unwrap_or_default();
                    (self.share_of("host_ahead_percent", percent, HOST_DECIDED_PERCENT), lead)
                }
            };
            let text = format!("{waits}, although the host was ahead of the GPU{numbers}{why}");
            let why =
                "what was launched already waited for other GPU work, or for the GPU to begin it";
            let host = match s.host.map(HostLead::shares).filter(|_| s.ahead_by_ranges().is_some())
            {
                Some([_, launched, unknown]) if unknown >= MUCH_UNKNOWN_PERCENT => {
                    let then = match short_gaps {
                        Some(_) => ": CUDA graphs may shorten that part, as its gaps are short",
                        None => "",
                    };
                    format!(
                        "{launched:.1} % of the idle time was already launched, which a faster host does not shorten: \
                         {why}. The cause of {unknown:.1} % is not known{then}"
                    )
                }
                _ => format!("A faster host does not help: {why}"),
            };
            let then = format!(
                "Launch fewer and larger kernels (fusion, a larger batch), which leave fewer gaps. {host}. A timeline \
                 shows what each kernel waits for."
            );
            return Some(say(Rule::HostAhead, vec![ahead], text, Some(&then)));
        }
        let behind = s.host.map(|h| h.behind_percent).filter(|p| *p >= HOST_DECIDED_PERCENT);
        if let Some(short) = short_gaps {
            let launching =
                s.launching.as_ref().map(|line| format!(", the largest part of these in {line}"));
            let host = behind.map_or("", |_| ", and the host is behind");
            let text = format!(
                "{waits}, {short:.1} % of that time in gaps of at most {LAUNCH_GAP_US} us{}{host}{numbers}{}",
                launching.unwrap_or_default(),
                behind.map_or("", |_| lead.as_str())
            );
            let mean =
                Evidence::number("kernel_mean_us", mean_us, "us", self.source("kernel_mean_us"));
            let deciding = vec![
                self.share_of("launch_gaps_of_idle_percent", short, BACK_TO_BACK_PERCENT),
                mean.against(SHORT_KERNEL_US),
            ];
            return Some(say(Rule::LaunchBound, deciding, text, Some(LAUNCH_LESS_OFTEN)));
        }
        let most = s
            .host_causes
            .iter()
            .max_by(|a, b| a.is_main().cmp(&b.is_main()).then(a.percent.total_cmp(&b.percent)));
        let why = match behind {
            Some(_) => format!("because the host does not keep it fed{numbers}{lead}"),
            None if most.is_some() => format!("and samples of the host show why{numbers}"),
            None => format!("and kernel records do not show why{numbers}"),
        };
        let text = format!("{waits}, {why}");
        if s.simulated && most.is_none_or(|most| !most.is_main()) {
            let text = format!(
                "{waits}: launches are those of this machine, which is slow or busy{numbers}"
            );
            let then = match graphs {
                true => "Give the GPU more per step: a larger batch.",
                false => LAUNCH_LESS_OFTEN,
            };
            let said = say(Rule::HostGaps, Vec::new(), text, Some(then));
            return Some(Takeaway { experiment: Some(Experiment::shorter_steps()), ..said });
        }
        let Some(most) = most else {
            let (then, setting) = match &s.few_host_samples {
                Some((_, then)) => (then.as_str(), "profiling.collector.host=1000"),
                None => (
                    "Sample the host with profiling.collector.host=on (without the launcher: STAGE2_HOST=on): kernel \
                     records do not show what it does between launches. \
                     For code that is not Python: perf, or nsys with --trace=cuda,nvtx,osrt.",
                    HOST_ON,
                ),
            };
            let said = say(Rule::HostGaps, Vec::new(), text, Some(then));
            let shows = format!(
                "/host/stages/{}/causes/0",
                s.few_host_samples.as_ref().map_or(0, |(at, _)| *at)
            );
            let sampled = Experiment::measured_with(setting, &shows);
            let experiment = if s.caveat.is_some() { said.experiment } else { Some(sampled) };
            return Some(Takeaway { experiment, ..said });
        };
        let share = Evidence::number(
            "cause_percent",
            most.percent,
            "percent",
            format!("{}/percent", most.source),
        );
        let share = share.error(most.error_percent).against(most.main_from_percent);
        // Otherwise that cause is advice of its own.
        let spread = (!most.is_main()).then(|| {
            let how = if s.host_never_waits {
                let graphs = if graphs { "" } else { ", such as with CUDA graphs" };
                let why = "the host never waits for the GPU, so overlapping its work with the GPU's does not help";
                match &s.more_requests {
                    Some(MoreRequests { then, .. }) => format!("{then}. Or do less host work per step{graphs}: {why}"),
                    None => format!(
                        "Give the GPU more work per step, such as a larger batch, or do less host work{graphs}: {why}"
                    ),
                }
            } else {
                let graphs = if graphs { "" } else { ", CUDA graphs" };
                format!(
                    "Let the host prepare the next step while the GPU works (asynchronous scheduling{graphs}), or \
                     give the GPU more per step (a larger batch)"
                )
            };
            format!("{how}. No single function is the cause; the largest is {}.", most.name)
        });
        let said = say(Rule::HostGaps, vec![share], text, spread.as_deref());
        let more = s.cheaper_by_more_requests().map(|_| Experiment::more("tokens_per_s"));
        let experiment = Some(more.unwrap_or_else(Experiment::shorter_steps));
        Some(Takeaway { experiment, ..said })
    }

    /// Whether the host had launched what came next before most of the idle time.
    fn host_ahead(&self) -> bool {
        self.stage.caveat.is_none() && self.stage.is_host_ahead()
    }

    /// What samples of the host say about the idle time. Nothing where the host was ahead: what it did meanwhile is not
    /// what the GPU waited for.
    fn host_causes(&self) -> Vec<Takeaway> {
        if self.host_ahead() {
            return Vec::new();
        }
        let idle = self.idle_percent().filter(|_| !self.stage.no_gpu_work).unwrap_or(0.0) / 100.0;
        let mut said = Vec::new();
        // Else the advice about the idle time as a whole is that about them.
        let some_main = self.stage.host_causes.iter().any(HostEvidence::is_main);
        for cause in &self.stage.host_causes {
            let part = idle * cause.percent / 100.0;
            if part * 100.0 >= HOST_CAUSE_PERCENT {
                let rule = if cause.is_fault { Rule::HostFault } else { Rule::HostCause };
                let share = format!("{}/percent", cause.source);
                let share = Evidence::number("cause_percent", cause.percent, "percent", share);
                // The rule is about a part of the window, and the error about one of the idle time.
                let least = HOST_CAUSE_PERCENT / idle;
                let least = if cause.is_fault { least.max(HOST_FAULT_PERCENT) } else { least };
                let idle = self.share_of("idle_percent", idle * 100.0, HOST_CAUSE_PERCENT);
                let evidence = vec![share.error(cause.error_percent).against(least), idle];
                // What an engine's code costs, more requests share.
                let more = self.stage.cheaper_by_more_requests().filter(|_| !cause.is_own);
                let more = more.map(|more| {
                    let then = format!("{}. Or run the engine on a faster core.", more.then);
                    (then, Experiment::more("tokens_per_s"))
                });
                let then = more.as_ref().map_or(cause.then.as_str(), |(then, _)| then);
                let then = Some(then).filter(|_| cause.is_own || some_main);
                let text = cause.text.clone();
                let takeaway = self.say(rule, Some(part), evidence, text, then);
                let experiment = more.map(|(_, shown)| shown).or(takeaway.experiment);
                let takeaway = Takeaway { experiment, ..takeaway };
                said.push(about(takeaway, &cause.name, &short_hash(&cause.key)));
            }
        }
        said
    }

    /// `gemm 53.5, attention 2.6`: the shares that are worth naming.
    fn shares_by_class(&self, classes: &[KernelClass], named: fn(f64) -> bool) -> String {
        let shares = classes.iter().map(|class| (class, self.stage.class_percent(&[*class])));
        let shares = shares.filter(|(_, percent)| named(*percent));
        let shares = shares.map(|(class, percent)| format!("{} {percent:.1}", class.label()));
        shares.collect::<Vec<_>>().join(", ")
    }

    /// Communication, and waiting for a rank that comes late: that is not the cost of moving bytes, and
    /// calls for something else.
    fn communication(&self) -> Vec<Takeaway> {
        let split = self.stage.waiting.as_ref();
        let waiting = self.stage.waiting_percent();
        let unmatched = split.and_then(|split| split.unmatched.as_ref());
        let of = match split.and_then(|split| split.transfer_percent) {
            Some(_) => "GPU busy time",
            None => "kernel time",
        };
        let part = |percent| match split.and_then(|split| split.transfer_percent) {
            Some(_) => self.busy_part(percent),
            None => self.kernel_part(percent),
        };
        let mut said = Vec::new();
        let delayed = split.map_or(0.0, |split| split.delayed_percent);
        if waiting.max(delayed) >= COMMUNICATION_PERCENT {
            let late = split.and_then(|split| split.late.as_deref());
            let late = late.map_or_else(String::new, |late| format!(". {}", sentence_of(late)));
            let text = format!("waiting for other ranks is {waiting:.1} % of {of}{late}");
            let remedy = split.and_then(|split| split.late_remedy.as_deref());
            // Where all were compared and none is late, there is nothing to find out.
            let then = remedy.map(|remedy| format!("{remedy} Faster communication does not help."));
            let mut evidence =
                vec![self.share_of("waiting_percent", waiting, COMMUNICATION_PERCENT)];
            evidence.extend(split.iter().flat_map(|split| &split.late_evidence).cloned());
            said.push(self.say(Rule::Waiting, part(waiting), evidence, text, then.as_deref()));
        }
        let transfer = self.numbers.communication_percent.unwrap_or(0.0);
        if transfer >= COMMUNICATION_PERCENT {
            let (part, text, then) = match split {
                Some(split) if split.whole => (
                    part(transfer),
                    format!(
                        "communication is {transfer:.1} % of {of}, waiting for other ranks not counted"
                    ),
                    "Overlap communication with compute, use fewer or larger messages, or a \
                     parallelism that sends less.",
                ),
                // What of it is transfer is not known, so nothing is said to be gained.
                _ => {
                    let because =
                        unmatched.map_or_else(String::new, |(why, _)| format!(", because {why}"));
                    (
                        None,
                        format!(
                            "communication kernels are {transfer:.1} % of {of}; an unknown part \
                             of that is waiting for other ranks{because}"
                        ),
                        unmatched.map_or(RECORD_RANKS, |(_, remedy)| remedy.as_str()),
                    )
                }
            };
            let evidence =
                vec![self.share_of("communication_percent", transfer, COMMUNICATION_PERCENT)];
            let takeaway = self.say(Rule::Communication, part, evidence, text, Some(then));
            let split_by = Experiment::Measure {
                settings: Vec::new(),
                shows: self.source("waiting_percent"),
                value: None,
            };
            let experiment = if part.is_none() { Some(split_by) } else { takeaway.experiment };
            said.push(Takeaway { experiment, ..takeaway });
        }
        said
    }

    fn classes(&self) -> Vec<Takeaway> {
        let mut said = self.communication();
        let fusible = self.numbers.fusible_percent.unwrap_or(0.0);
        if fusible >= FUSIBLE_PERCENT {
            let parts = self.shares_by_class(&FUSIBLE, |percent| percent >= 1.0);
            let text =
                format!("kernels that could be fused are {fusible:.1} % of kernel time ({parts})");
            let then = "Fuse small kernels into their neighbours: torch.compile, or fused norm, rotary and \
                        activation kernels.";
            let evidence = vec![self.share_of("fusible_percent", fusible, FUSIBLE_PERCENT)];
            said.push(self.say(
                Rule::Fusible,
                self.kernel_part(fusible),
                evidence,
                text,
                Some(then),
            ));
        }
        let copies = self.numbers.copies_percent.unwrap_or(0.0);
        if copies >= COPY_PERCENT {
            let text = format!("copies are {copies:.1} % of kernel time");
            let then = "Avoid copies: a static KV cache instead of concatenation at each step, \
                        fewer casts and layout changes.";
            let evidence = vec![self.share_of("copies_percent", copies, COPY_PERCENT)];
            said.push(self.say(Rule::Copies, self.kernel_part(copies), evidence, text, Some(then)));
        }
        let exposed = self.numbers.exposed_copies_percent;
        if let Some(exposed) = exposed.filter(|exposed| *exposed >= COPY_PERCENT) {
            let text = format!(
                "copies and fills run {exposed:.1} % of the window without a concurrent kernel"
            );
            let then = "Keep the data on the GPU, or copy it from pinned memory on another stream \
                        while kernels run.";
            let evidence = vec![self.share_of("exposed_copies_percent", exposed, COPY_PERCENT)];
            let part = Some(exposed / 100.0);
            said.push(self.say(Rule::ExposedCopies, part, evidence, text, Some(then)));
        }
        said
    }

    fn bandwidth(&self) -> Option<Takeaway> {
        let mbu = self.stage.mbu_busy.filter(|_| self.stage.decode).filter(|m| m.is_finite())?;
        let batch = self.stage.batch_size.map(|b| format!(" at batch {b}")).unwrap_or_default();
        let numbers = format!(
            "while it is busy, the GPU reads weights and KV cache at {:.1} % of the peak bandwidth{batch}",
            mbu * 100.0
        );
        let evidence =
            |least: f64| vec![self.share_of("mbu_busy_percent", mbu * 100.0, least * 100.0)];
        if mbu >= MBU_HIGH_SHARE {
            let then = "Read less per token: quantised weights or KV cache, a larger batch, \
                        speculative decoding.";
            let (part, evidence) = (self.busy_part(100.0), evidence(MBU_HIGH_SHARE));
            Some(self.say(Rule::DecodeNearBandwidth, part, evidence, numbers, Some(then)))
        } else if mbu < MBU_LOW_SHARE {
            let text = format!("{numbers}{}", self.readers().unwrap_or_default());
            let part = self.busy_part((1.0 - mbu.max(0.0)) * 100.0);
            let evidence = evidence(MBU_LOW_SHARE);
            Some(self.say(Rule::DecodeFarFromBandwidth, part, evidence, text, None))
        } else {
            None
        }
    }

    /// How much of the kernel time is in kernels that read weights and KV cache.
    fn readers(&self) -> Option<String> {
        let percent = percent(Some(self.stage.class_percent(&READERS))).filter(|p| *p > 0.0)?;
        let parts = self.shares_by_class(&READERS, |percent| percent > 0.0);
        Some(format!("; the kernels that read them are {percent:.1} % of kernel time ({parts})"))
    }

    /// The pointer of a field of `KernelNumbers`.
    fn kernel_source(&self, place: usize, field: &str) -> String {
        self.source(&format!("top_kernels/{place}/{field}"))
    }

    fn kernel(&self, place: usize) -> Option<Takeaway> {
        let kernel = self.stage.top_kernels.get(place)?;
        if kernel.class == KernelClass::Communication {
            return None;
        }
        // What was sampled rests on the times of this run, and shares the caveats about them.
        let say = |rule, evidence, text, then| {
            let part = self.kernel_part(kernel.percent);
            let said = match kernel.sampled {
                true => self.say(rule, part, evidence, text, then),
                false => self.say_counted(rule, part, evidence, text, then),
            };
            about(said, &kernel.kernel, &kernel.id)
        };
        let percent = percent(Some(kernel.percent)).filter(|p| *p >= KERNEL_PERCENT)?;
        let of_kernel = |field: &str, value: f64| {
            Evidence::number(field, value, "percent", self.kernel_source(place, field))
        };
        let mut evidence = vec![of_kernel("kernel_time_percent", percent).against(KERNEL_PERCENT)];
        // What is beyond the peak is told as a finding, and nothing follows from it.
        let possible = |share: &f64| share.is_finite() && *share <= RATE_SHARE_MOST;
        let attainable = kernel.attainable_share.filter(possible);
        let of_roof = attainable.map(|s| format!(", {:.0} % of what is attainable", s * 100.0));
        let which = match (kernel.one_launch, kernel.sampled) {
            (true, _) => " in the one launch that was profiled",
            (false, true) => " by sampled counters",
            (false, false) => "",
        };
        let bound = kernel.bound.map(|bound| format!(", {}-bound{which}", bound.label()));
        let name = format!(
            "{} ({}) takes {percent:.1} % of kernel time in {}{}{}",
            kernel.kernel,
            kernel.class.label(),
            self.calls(kernel.calls),
            bound.unwrap_or_default(),
            of_roof.unwrap_or_default(),
        );
        let short = shorten_kernel(&kernel.kernel, NAME_CHARS);
        let product = matches!(kernel.class, KernelClass::Gemm | KernelClass::Moe);
        if self.stage.decode && product && kernel.bound == Some(Bound::Memory) {
            let far = match attainable.is_some_and(|share| share < NEAR_ROOF_SHARE) {
                true => format!(" The kernel is also far from its roof: {TRY_ANOTHER}."),
                false => String::new(),
            };
            let then = format!(
                "Read fewer bytes of weights per token: quantisation, or a larger batch, which reads them once for \
                 more tokens.{far}"
            );
            return Some(say(Rule::MemoryBoundProduct, evidence, name, Some(&then)));
        }
        let occupancy = self::percent(kernel.achieved_occupancy_percent);
        if let Some(occupancy) = occupancy.filter(|o| *o < LOW_OCCUPANCY_PERCENT)
            && kernel.bound == Some(Bound::Latency)
        {
            let text = format!("{name}, with {occupancy:.1} % occupancy");
            let then = format!(
                "Give {short} more parallel work: a larger batch, a finer split (split-K, split-KV), other \
                 tile sizes, or fuse it with its neighbours."
            );
            evidence.push(of_kernel("occupancy_percent", occupancy).against(LOW_OCCUPANCY_PERCENT));
            return Some(say(Rule::LowOccupancy, evidence, text, Some(&then)));
        }
        let (rule, then) = if attainable? >= NEAR_ROOF_SHARE {
            let then = format!(
                "{short} is close to its roof, so only less work helps: a lower precision, fewer operations \
                 or bytes."
            );
            (Rule::NearRoof, then)
        } else {
            let then = format!("{short} is far from its roof: {TRY_ANOTHER}.");
            (Rule::FarFromRoof, then)
        };
        let share = of_kernel("attainable_percent", attainable? * 100.0);
        evidence.push(share.against(NEAR_ROOF_SHARE * 100.0));
        Some(say(rule, evidence, name, Some(&then)))
    }

    /// Calls of a kernel in the stage. Those of a sample are not the ones that its window has.
    fn calls(&self, of_kernel: u64) -> String {
        let scaled = if self.stage.scaled { " (scaled from the recorded ones)" } else { "" };
        format!("{}{scaled}", counted(of_kernel, "call"))
    }

    fn top_kernel(&self) -> Option<Takeaway> {
        let all = self.stage.top_kernels.iter().enumerate();
        let (place, top) = all.max_by(|(_, a), (_, b)| a.percent.total_cmp(&b.percent))?;
        let percent = percent(Some(top.percent)).filter(|p| *p >= KERNEL_PERCENT)?;
        // Of a communication kernel, part may be waiting: see `communication`.
        if self.kernel(place).is_some() || top.class == KernelClass::Communication {
            return None;
        }
        let text = format!(
            "the longest kernel is {} ({}), {percent:.1} % of kernel time in {}",
            top.kernel,
            top.class.label(),
            self.calls(top.calls)
        );
        let part = self.kernel_part(percent);
        let unknown = top.bound.is_none();
        let short = shorten_kernel(&top.kernel, NAME_CHARS);
        let then = format!(
            "Record with {COUNTERS_ON} to see what limits {short}, or profile it with ncu (--deep; pipeline.ncu.stage \
             chooses the stage)."
        );
        let source = self.kernel_source(place, "kernel_time_percent");
        let share = Evidence::number("kernel_time_percent", percent, "percent", source);
        let calls = self.kernel_source(place, "calls");
        let calls = Evidence::number("calls", top.calls as f64, "count", calls);
        let evidence = vec![share.against(KERNEL_PERCENT), calls];
        let said =
            self.say(Rule::TopKernel, part, evidence, text, unknown.then_some(then.as_str()));
        Some(about(said, &top.kernel, &top.id))
    }

    fn utilisation(&self) -> Option<Takeaway> {
        let s = self.stage;
        let both = |name: &str, wall: Option<f64>, busy: Option<f64>| {
            let one = |value: Option<f64>, of: &str| {
                let value = value.filter(|v| v.is_finite())?;
                Some(format!("{} % of {of}", digits(value * 100.0)))
            };
            let known = [one(wall, "wall time"), one(busy, "GPU busy time")];
            let known =
                known.into_iter().flatten().reduce(|wall, busy| format!("{wall} and {busy}"))?;
            Some(format!("{name} {known}"))
        };
        let known = [both("MFU", s.mfu_wall, s.mfu_busy), both("MBU", s.mbu_wall, s.mbu_busy)];
        let text = known.into_iter().flatten().reduce(|mfu, mbu| format!("{mfu}; {mbu}"))?;
        let mfu = self.number("mfu_percent", self.numbers.mfu_percent, "percent");
        let mbu = self.number("mbu_percent", self.numbers.mbu_percent, "percent");
        let evidence = mfu.into_iter().chain(mbu).collect();
        Some(self.say(Rule::Utilisation, None, evidence, text, None))
    }
}

/// A takeaway about something in the stage, which `id` stands for in every report of the workload.
fn about(takeaway: Takeaway, subject: &str, id: &str) -> Takeaway {
    Takeaway { id: format!("{}:{id}", takeaway.id), subject: Some(subject.to_owned()), ..takeaway }
}

/// Two decimals, or as many as show two digits of a number that is not zero.
fn digits(percent: f64) -> String {
    let magnitude = percent.abs().log10().floor();
    match magnitude.is_finite() && magnitude < -1.0 {
        true => format!("{percent:.*}", (1.0 - magnitude).min(12.0) as usize),
        false => format!("{percent:.2}"),
    }
}

/// A clause that begins with a rank as a sentence. A name of the workload stays as it is.
fn sentence_of(clause: &str) -> String {
    let begins = [("rank ", "Rank "), ("the ", "The "), ("ranks ", "Ranks ")];
    let begins = begins.iter().find_map(|(from, to)| Some((to, clause.strip_prefix(from)?)));
    begins.map_or_else(|| clause.to_owned(), |(to, rest)| format!("{to}{rest}"))
}

fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// Numbers the ids that several have.
fn tell_apart(said: &mut [Takeaway]) {
    let mut seen: HashMap<String, u64> = HashMap::new();
    for takeaway in said {
        let number = seen.entry(takeaway.id.clone()).or_default();
        *number += 1;
        if *number > 1 {
            takeaway.id.push_str(&format!(":{number}"));
        }
    }
}

/// Something to do, and the takeaways that call for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Recommended<'t> {
    /// What to do.
    pub text: &'t str,
    /// The takeaway that the answer puts first, else the one that concerns the most time.
    pub first: &'t Takeaway,
    /// Another takeaway that calls for the same, ...
    pub second: Option<&'t Takeaway>,
    /// ... and how many there are besides the first.
    pub further: usize,
    /// Part of the windows of all stages that they concern together, percent: as in [`Takeaway`].
    pub concerns_percent: Option<f64>,
}

/// Least part of the time that a recommendation is for, percent.
const CONCERNS_LEAST: f64 = 1.0;

/// What to do, each once: first what `answer` puts first in the run, in its words, then what caveats call
/// for, then what it puts first in each stage, then what concerns the most time. The time that a symptom
/// concerns may be the longer: a GPU is idle because a rank is late.
pub fn recommendations<'t>(takeaways: &'t [Takeaway], answer: &'t Answer) -> Vec<Recommended<'t>> {
    let is_step = |t: &Takeaway, step: &FirstStep| t.rule == step.rule && t.stage == step.stage;
    let is_first_step = |t: &Takeaway| answer.first.as_ref().is_some_and(|step| is_step(t, step));
    let mut given: Vec<Recommended<'_>> = Vec::new();
    for takeaway in takeaways {
        let Some(text) = takeaway.recommendation.as_deref() else { continue };
        // To profile is the same work for any number of kernels.
        let profiles = |t: &Takeaway| t.rule == Rule::TopKernel;
        let is_same = |known: &&mut Recommended<'_>| {
            known.text == text || profiles(known.first) && profiles(takeaway)
        };
        match given.iter_mut().find(is_same) {
            // They are of different stages, or kernels.
            Some(known) => {
                known.further += 1;
                let mut other = takeaway;
                if is_first_step(takeaway) && !is_first_step(known.first) {
                    other = std::mem::replace(&mut known.first, takeaway);
                }
                known.second.get_or_insert(other);
                let parts = [known.concerns_percent, takeaway.concerns_percent];
                known.concerns_percent =
                    parts.into_iter().flatten().reduce(|a, b| (a + b).min(100.0));
            }
            None => given.push(Recommended {
                text,
                first: takeaway,
                second: None,
                further: 0,
                concerns_percent: takeaway.concerns_percent,
            }),
        }
    }
    if let Some(step) = &answer.first
        && let Some(first) = given.iter_mut().find(|r| is_step(r.first, step))
    {
        first.text = &step.text;
    }
    let leads = |r: &Recommended<'_>| {
        let mut steps = answer.stages.iter().filter_map(|stage| stage.first.as_ref());
        steps.any(|step| is_step(r.first, step))
    };
    let weight = |r: &Recommended<'_>| r.concerns_percent.unwrap_or(-1.0);
    // What leads its stage stands where the weightiest of the stage would.
    let place = |r: &Recommended<'_>| {
        let leads = leads(r);
        let of_stage = given.iter().filter(|other| leads && other.first.stage == r.first.stage);
        let most = of_stage.map(weight).fold(weight(r), f64::max);
        ((is_first_step(r.first), r.first.rule.is_caveat()), most, leads)
    };
    // What concerns hardly any time is not worth the reading, unless it is known what it gives.
    let has_gain = |r: &Recommended<'_>| {
        matches!(r.first.experiment, Some(Experiment::Change { at_best_percent: Some(_), .. }))
    };
    let is_small = |r: &&Recommended<'_>| {
        r.concerns_percent.is_some_and(|of| of < CONCERNS_LEAST) && !has_gain(r)
    };
    let is_kept = |r: &&Recommended<'_>| {
        !is_small(r) || leads(r) || is_first_step(r.first) || r.first.rule.is_caveat()
    };
    let kept: Vec<_> = given.iter().filter(is_kept).collect();
    let kept = if kept.is_empty() { given.iter().collect() } else { kept };
    let mut order: Vec<_> = kept.into_iter().map(|r| (place(r), r.clone())).collect();
    order.order_by(|(a, _), (b, _)| b.0.cmp(&a.0).then(b.1.total_cmp(&a.1)).then(b.2.cmp(&a.2)));
    order.into_iter().map(|(_, recommended)| recommended).collect()
}

#[cfg(test)]
mod tests;
