//! What is known of a run -> what it means and what to do first, each with its numbers and its rule.
//!
//! A rule speaks only where every number that it needs is there. The order is that of the time that
//! is concerned, and the same facts always give the same words.

mod rules;

pub(crate) use rules::FUSIBLE;
use stage2_model::{Answer, Bound, FirstStep, Takeaway};

use stage2_read::kernel_class::KernelClass;

/// What is known of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// The GPU was simulated: times are those of a recording.
    pub simulated: bool,
    /// The rows are launches that ncu replayed.
    pub replayed: bool,
    /// What is missing from the capture, in one line; none where nothing is, or it is not known.
    pub missing: Option<String>,
    /// The stages.
    pub stages: Vec<StageFacts>,
}

/// What is known of a stage.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StageFacts {
    /// Its name.
    pub stage: String,
    /// It is the decode of a language model.
    pub decode: bool,
    /// Why its times say nothing about another run, in a few words; with it there is no advice.
    pub caveat: Option<String>,
    /// Union of the windows of its instances, ns.
    pub window_ns: Option<u64>,
    /// It is known that nothing ran on the GPU for it: requests around the steps of an engine.
    pub no_gpu_work: bool,
    /// Instances that the next three are over, where the cold ones are left out.
    pub warm_instances: Option<u64>,
    /// Part of the window in which the GPU was idle, percent.
    pub idle_percent: Option<f64>,
    /// Part of that idle time in gaps as short as those of one launch right behind another, percent.
    pub short_gaps_percent: Option<f64>,
    /// Window per kernel, us.
    pub interval_us: Option<f64>,
    /// Kernels.
    pub kernels: Option<u64>,
    /// Mean duration of a kernel, us.
    pub kernel_mean_us: Option<f64>,
    /// Kernels that CUDA graphs launched, percent.
    pub graph_percent: Option<f64>,
    /// Kernels per token.
    pub kernels_per_token: Option<f64>,
    /// Tokens per second.
    pub tokens_per_s: Option<f64>,
    /// Sequences side by side.
    pub batch_size: Option<u64>,
    /// MFU over wall time, share.
    pub mfu_wall: Option<f64>,
    /// MFU over GPU busy time, share.
    pub mfu_busy: Option<f64>,
    /// MBU over wall time, share.
    pub mbu_wall: Option<f64>,
    /// MBU over GPU busy time, share.
    pub mbu_busy: Option<f64>,
    /// Waiting for other ranks; none where no collective was matched over ranks.
    pub waiting: Option<WaitingFacts>,
    /// Shares of the kernel classes in the sum of kernel time, percent.
    pub classes: Vec<(KernelClass, f64)>,
    /// Shares of the kernel classes in the number of kernels, percent.
    pub class_calls: Vec<(KernelClass, f64)>,
    /// Part of the window in which copies and fills run and no kernel does, percent.
    pub exposed_copies_percent: Option<f64>,
    /// Where the host was when the GPU had nothing to do; none where that is not known.
    pub host: Option<HostLead>,
    /// Its longest kernels.
    pub top_kernels: Vec<KernelFacts>,
}

/// How much of a stage's communication was waiting for other ranks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WaitingFacts {
    /// Why collectives were not compared across ranks, and what to do about it: of most that were not.
    pub unmatched: Option<(String, String)>,
    /// Share of the stage's sum of kernel time, percent.
    pub percent: f64,
    /// Every collective was split; else some waiting is still in what is called communication.
    pub whole: bool,
    /// Who comes late, in words.
    pub late: Option<String>,
}

/// Where the host was at the gaps between the GPU work of the median step, as its ranges show: parts of
/// the time of all gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostLead {
    /// It had left the range of what came next when the gap began: that was launched already.
    pub ahead_percent: f64,
    /// It had not yet opened the range of what came next, or nothing came any more.
    pub behind_percent: f64,
}

/// What is known of a kernel in a stage.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelFacts {
    /// Its short name.
    pub kernel: String,
    /// Its class.
    pub class: KernelClass,
    /// Share of the stage's sum of kernel time, percent.
    pub percent: f64,
    /// Calls.
    pub calls: u64,
    /// What holds it up.
    pub bound: Option<Bound>,
    /// Its counters are of one launch, which may not stand for the others.
    pub one_launch: bool,
    /// Its bound and share follow from counters that were sampled in this run, not from ncu's.
    pub sampled: bool,
    /// Share of what is attainable under the roof.
    pub attainable_share: Option<f64>,
    /// Warps resident on average, percent of the most.
    pub achieved_occupancy_percent: Option<f64>,
}

/// Everything that the facts say: first what they cannot be trusted for, then what concerns the
/// most time.
pub fn takeaways(facts: &Facts) -> Vec<Takeaway> {
    let mut said = rules::of_run(facts);
    // Stages without GPU work mostly lie around those with it, and would count their time again.
    let some_work = facts.stages.iter().any(|stage| !stage.no_gpu_work);
    let is_counted = |stage: &&StageFacts| !(some_work && stage.no_gpu_work);
    let counted = facts.stages.iter().filter(is_counted);
    let all_ns = counted.filter_map(|stage| stage.window_ns).fold(0, u64::saturating_add);
    for stage in &facts.stages {
        let window_ns = stage.window_ns.filter(|_| all_ns > 0 && is_counted(&stage));
        let share = window_ns.map(|ns| ns as f64 / all_ns as f64);
        said.extend(rules::of_stage(stage, share));
    }
    if said.iter().all(|takeaway| takeaway.rule.is_caveat()) {
        said.push(rules::nothing(facts));
    }
    let weight = |t: &Takeaway| t.concerns_percent.unwrap_or(-1.0);
    said.sort_by(|a, b| {
        let caveats_first = b.rule.is_caveat().cmp(&a.rule.is_caveat());
        caveats_first
            .then_with(|| weight(b).total_cmp(&weight(a)))
            .then_with(|| (a.rule, &a.stage, &a.text).cmp(&(b.rule, &b.stage, &b.text)))
    });
    said
}

/// Something to do, and the takeaways that call for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Recommended<'t> {
    /// What to do.
    pub text: &'t str,
    /// The takeaway that the answer puts first, else the one that concerns the most time.
    pub first: &'t Takeaway,
    /// Further takeaways that call for the same.
    pub further: usize,
    /// Part of the windows of all stages that they concern together, percent: as in [`Takeaway`].
    pub concerns_percent: Option<f64>,
}

/// What to do, each once: first what `answer` puts first in the run, in its words, then what caveats call
/// for, then what it puts first in each stage, then what concerns the most time. The time that a symptom
/// concerns may be the longer: a GPU is idle because a rank is late.
pub fn recommendations<'t>(takeaways: &'t [Takeaway], answer: &'t Answer) -> Vec<Recommended<'t>> {
    let is_step = |t: &Takeaway, step: &FirstStep| t.rule == step.rule && t.stage == step.stage;
    let is_first_step = |t: &Takeaway| answer.first.as_ref().is_some_and(|step| is_step(t, step));
    let mut given: Vec<Recommended<'_>> = Vec::new();
    for takeaway in takeaways {
        let Some(text) = takeaway.recommendation.as_deref() else { continue };
        match given.iter_mut().find(|known| known.text == text) {
            // They are of different stages, or kernels.
            Some(known) => {
                known.further += 1;
                if is_first_step(takeaway) && !is_first_step(known.first) {
                    known.first = takeaway;
                }
                let parts = [known.concerns_percent, takeaway.concerns_percent];
                known.concerns_percent =
                    parts.into_iter().flatten().reduce(|a, b| (a + b).min(100.0));
            }
            None => given.push(Recommended {
                text,
                first: takeaway,
                further: 0,
                concerns_percent: takeaway.concerns_percent,
            }),
        }
    }
    let first = given.iter_mut().find(|r| is_first_step(r.first));
    if let Some((r, step)) = first.zip(answer.first.as_ref()) {
        r.text = &step.text;
    }
    let is_first = |r: &Recommended<'_>| is_first_step(r.first);
    let leads = |r: &Recommended<'_>| {
        let mut steps = answer.stages.iter().filter_map(|stage| stage.first.as_ref());
        steps.any(|step| is_step(r.first, step))
    };
    let weight = |r: &Recommended<'_>| r.concerns_percent.unwrap_or(-1.0);
    // What leads its stage stands where the weightiest of the stage would.
    let weights: Vec<(bool, bool, f64, bool)> = given
        .iter()
        .map(|r| {
            let leads = leads(r);
            let of_stage = given.iter().filter(|other| leads && other.first.stage == r.first.stage);
            let most = of_stage.map(weight).fold(weight(r), f64::max);
            (is_first(r), r.first.rule.is_caveat(), most, leads)
        })
        .collect();
    let mut order: Vec<(Recommended<'_>, (bool, bool, f64, bool))> =
        given.into_iter().zip(weights).collect();
    order.sort_by(|(_, a), (_, b)| {
        let (a_flags, b_flags) = ((a.0, a.1), (b.0, b.1));
        b_flags.cmp(&a_flags).then(b.2.total_cmp(&a.2)).then(b.3.cmp(&a.3))
    });
    order.into_iter().map(|(recommended, _)| recommended).collect()
}

#[cfg(test)]
mod tests;
