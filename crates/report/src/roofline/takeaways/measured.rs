//! What was measured of a run and its stages, as the rules of the takeaways ask for it -> the numbers of it that a report
//! keeps.

use crate::conclusions::warm_up::WarmUp;
use stage2_model::rule::HOST_DECIDED_PERCENT;
use stage2_model::{Bound, Evidence, KernelNumbers, StageNumbers, TokensCounted};
use stage2_read::kernel_class::KernelClass;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RunMeasurements {
    /// The GPU was simulated: times are those of a recording.
    pub(crate) simulated: bool,
    /// The rows are launches that ncu replayed.
    pub(crate) replayed: bool,
    /// What is missing from the capture, in one line; none where nothing is, or it is not known.
    pub(crate) missing: Option<String>,
    /// How the workload failed by itself: `exit status 3`.
    pub(crate) failed: Option<String>,
    /// How much of the run was recorded, as `metrics.json` names it.
    pub(crate) status: &'static str,
    pub(crate) stages: Vec<StageMeasurements>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StageMeasurements {
    pub(crate) stage: String,
    /// It is the decode of a language model.
    pub(crate) decode: bool,
    /// Why its times say nothing about another run, in a few words; with it there is no advice.
    pub(crate) caveat: Option<String>,
    /// Its first instances, where they are a warm-up.
    pub(crate) warm_up: Option<WarmUp>,
    /// Union of the windows of its instances, ns.
    pub(crate) window_ns: Option<u64>,
    /// It is known that nothing ran on the GPU for it: requests around the steps of an engine.
    pub(crate) no_gpu_work: bool,
    /// What its instances are called.
    pub(crate) noun: &'static str,
    /// Instances that the next three are over, where the cold ones are left out.
    pub(crate) warm_instances: Option<u64>,
    /// Instances whose GPU work was recorded; none: that of all was.
    pub(crate) recorded_instances: Option<u64>,
    /// Calls of its kernels are scaled from the recorded instances to all.
    pub(crate) scaled: bool,
    /// Part of the window in which the GPU was idle, percent.
    pub(crate) idle_percent: Option<f64>,
    /// Part of the window in which the GPU only worked for other stages, percent; it is in neither the idle nor the busy
    /// part.
    pub(crate) other_work_percent: Option<f64>,
    /// Part of that idle time in gaps as short as those of one launch right behind another, percent.
    pub(crate) short_gaps_percent: Option<f64>,
    /// Window per kernel, us.
    pub(crate) interval_us: Option<f64>,
    pub(crate) kernels: Option<u64>,
    pub(crate) kernel_mean_us: Option<f64>,
    /// Kernels that CUDA graphs launched, percent.
    pub(crate) graph_percent: Option<f64>,
    pub(crate) kernels_per_token: Option<f64>,
    pub(crate) tokens_per_s: Option<f64>,
    pub(crate) tokens_counted: TokensCounted,
    pub(crate) batch_size: Option<u64>,
    /// MFU over wall time, share.
    pub(crate) mfu_wall: Option<f64>,
    /// MFU over GPU busy time, share.
    pub(crate) mfu_busy: Option<f64>,
    /// MBU over wall time, share.
    pub(crate) mbu_wall: Option<f64>,
    /// MBU over GPU busy time, share.
    pub(crate) mbu_busy: Option<f64>,
    /// Waiting for other ranks; none where no collective was matched over ranks.
    pub(crate) waiting: Option<RankWaiting>,
    /// Shares of the kernel classes in the sum of kernel time, percent.
    pub(crate) classes: Vec<(KernelClass, f64)>,
    /// Shares of the kernel classes in the number of kernels, percent.
    pub(crate) class_calls: Vec<(KernelClass, f64)>,
    /// Part of the window in which copies and fills run and no kernel does, percent.
    pub(crate) exposed_copies_percent: Option<f64>,
    /// Where the host was when the GPU had nothing to do; none where that is not known.
    pub(crate) host: Option<HostLead>,
    /// The share of the idle time in which the host waited for work that it had launched, percent, and the longest such wait.
    pub(crate) host_waits: Option<(f64, Evidence)>,
    /// What the threads that launch did meanwhile, by their samples; empty where there are none, or too few.
    pub(crate) host_causes: Vec<HostEvidence>,
    /// Launches and idle times are those of the machine that ran the simulator.
    pub(crate) simulated: bool,
    /// There are samples of the host, and too few of them to divide the idle time: the place of the stage among those
    /// with samples, and what to do.
    pub(crate) few_host_samples: Option<(usize, String)>,
    /// How an engine gets more requests into a step.
    pub(crate) more_requests: Option<MoreRequests>,
    /// The threads that launch hardly ever wait for the GPU, by the samples: the host alone sets the pace.
    pub(crate) host_never_waits: bool,
    /// The line that was launching in most of the time of launch gaps, by the samples; none where there are
    /// too few.
    pub(crate) launching: Option<String>,
    pub(crate) top_kernels: Vec<KernelMeasurements>,
}

/// More requests in a step of an engine.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MoreRequests {
    /// What to do, as advice without a full stop.
    pub(crate) then: String,
    /// Requests of the mean step.
    pub(crate) requests: f64,
    /// Those of the step to try: twice as many, or what the limit allows.
    pub(crate) aim: f64,
}

/// How much of a stage's communication was waiting for other ranks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RankWaiting {
    /// Why collectives were not compared across ranks, and what to do about it: of most that were not.
    pub(crate) unmatched: Option<(String, String)>,
    /// Share of the stage's sum of kernel time, percent; where `transfer_percent` is known, of its GPU busy time.
    pub(crate) percent: f64,
    /// Share of transfer in the GPU busy time that the window shows, percent; nothing where it does not split them.
    pub(crate) transfer_percent: Option<f64>,
    /// Every collective was split; else some waiting is still in what is called communication.
    pub(crate) whole: bool,
    pub(crate) late: Option<String>,
    /// What to do about the cause of its delays.
    pub(crate) late_remedy: Option<String>,
    /// The numbers of that rank.
    pub(crate) late_evidence: Vec<Evidence>,
    /// Share of its window that the latest rank delayed the others by, percent.
    pub(crate) delayed_percent: f64,
}

/// A cause of idle time that samples of the host show.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HostEvidence {
    /// It is a known fault.
    pub(crate) is_fault: bool,
    /// Share of the idle time, percent.
    pub(crate) percent: f64,
    /// The share from which it is the advice, in place of the idle time as a whole, percent.
    pub(crate) main_from_percent: f64,
    /// Share of the window that it takes while the GPU works, and that its removal would save as well, percent.
    pub(crate) beside_work_percent: f64,
    /// Standard error of that share, percentage points.
    pub(crate) beside_work_error_percent: f64,
    /// It is code that the user can change, or most of the idle time; else it is one of many functions of the engine.
    pub(crate) is_own: bool,
    /// What it is, in words.
    pub(crate) name: String,
    /// What tells it from the others of the stage, in every report of the workload.
    pub(crate) key: String,
    /// Standard error of `percent`, percentage points.
    pub(crate) error_percent: f64,
    /// JSON pointer of its row.
    pub(crate) source: String,
    /// What the samples say of it.
    pub(crate) text: String,
    /// What to do about it.
    pub(crate) then: String,
}

impl HostEvidence {
    /// Whether it is the advice, in place of the idle time as a whole.
    pub(super) fn is_main(&self) -> bool {
        self.percent >= self.main_from_percent
    }
}

/// Where the host was at the gaps between the GPU work of the median step, as its ranges show: parts of
/// the time of all gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct HostLead {
    /// It had left the range of what came next when the gap began: that was launched already.
    pub(crate) ahead_percent: f64,
    /// It had not yet opened the range of what came next, or nothing came any more.
    pub(crate) behind_percent: f64,
}

impl HostLead {
    /// All of it, because what is not named would be taken for the opposite. What is launched in a range that the
    /// host was within has no time of its own.
    /// What was not yet launched, what was, and what is not known, percent.
    pub(super) fn shares(self) -> [f64; 3] {
        let one = |percent: f64| (percent * 10.0).round() / 10.0;
        let (behind, ahead) = (one(self.behind_percent), one(self.ahead_percent));
        [behind, ahead, one((100.0 - behind - ahead).max(0.0))]
    }

    pub(super) fn in_words(self) -> String {
        let [behind, ahead, unknown] = self.shares();
        let parts =
            [("not yet launched", behind), ("already launched", ahead), ("not known", unknown)];
        let parts = parts.iter().filter(|(_, percent)| *percent > 0.0);
        let parts: Vec<String> =
            parts.map(|(state, percent)| format!("{state} ({percent:.1} %)")).collect();
        format!("When idle time of the median step begins, the next work is {}", parts.join(", "))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KernelMeasurements {
    pub(crate) kernel: String,
    pub(crate) name_index: usize,
    /// The id of its name.
    pub(crate) id: String,
    pub(crate) class: KernelClass,
    /// Share of the stage's sum of kernel time, percent.
    pub(crate) percent: f64,
    pub(crate) calls: u64,
    pub(crate) bound: Option<Bound>,
    /// Its counters are of one launch, which may not stand for the others.
    pub(crate) one_launch: bool,
    /// Its bound and share follow from counters that were sampled in this run, not from ncu's.
    pub(crate) sampled: bool,
    /// Share of what is attainable under the roof.
    pub(crate) attainable_share: Option<f64>,
    /// Warps resident on average, percent of the most.
    pub(crate) achieved_occupancy_percent: Option<f64>,
}

/// The numbers of a stage that the report keeps. `share` is its part of all windows.
pub(super) fn numbers_of(s: &StageMeasurements, share: Option<f64>) -> StageNumbers {
    let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
    let part = |share: Option<f64>| finite(share).map(|share| share * 100.0);
    let some = |percent: f64| Some(percent).filter(|percent| *percent > 0.0);
    let waiting = s.waiting_percent();
    let kernel = |kernel: &KernelMeasurements| KernelNumbers {
        name_index: kernel.name_index,
        kernel_time_percent: kernel.percent,
        calls: kernel.calls,
        attainable_percent: part(kernel.attainable_share),
        occupancy_percent: finite(kernel.achieved_occupancy_percent),
    };
    StageNumbers {
        stage: s.stage.clone(),
        caveat: s.caveat.clone(),
        warm_up_percent: s.warm_up.map(|found| found.percent),
        warm_instances: s.warm_instances,
        windows_percent: part(share),
        idle_percent: percent(s.idle_percent),
        launch_gaps_of_idle_percent: percent(s.short_gaps_percent),
        host_ahead_percent: s.host.map(|host| host.ahead_percent),
        host_behind_percent: s.host.map(|host| host.behind_percent),
        kernels: s.kernels,
        kernel_mean_us: finite(s.kernel_mean_us),
        interval_us: finite(s.interval_us),
        graph_percent: percent(s.graph_percent),
        waiting_percent: s.waiting.as_ref().map(|_| waiting),
        communication_percent: some(s.transfer_percent()),
        fusible_percent: some(s.class_percent(&FUSIBLE)),
        copies_percent: some(s.class_percent(&[KernelClass::Copy])),
        exposed_copies_percent: percent(s.exposed_copies_percent),
        mfu_percent: part(s.mfu_wall),
        mbu_percent: part(s.mbu_wall),
        mbu_busy_percent: part(s.mbu_busy),
        top_kernels: s.top_kernels.iter().map(kernel).collect(),
    }
}

/// A number that is a share.
pub(super) fn percent(value: Option<f64>) -> Option<f64> {
    value.filter(|percent| percent.is_finite() && (0.0..=100.0).contains(percent))
}

impl StageMeasurements {
    /// More requests make a step longer, and tokens cheaper, where the host alone sets the pace.
    pub(crate) fn cheaper_by_more_requests(&self) -> Option<&MoreRequests> {
        self.more_requests.as_ref().filter(|_| self.host_never_waits)
    }

    /// Whether what the GPU works on next was mostly launched before it became idle: ranges show it, or samples of a host
    /// that waits for the GPU.
    pub(crate) fn is_host_ahead(&self) -> bool {
        self.ahead_by_ranges().or(self.ahead_by_samples().map(|of| of.0)).is_some()
    }

    /// Whether samples of the host, or ranges that it opens late, show that idle time is its own. Not on a simulated GPU,
    /// where it is that of the machine as well.
    pub(crate) fn host_explains_idle(&self) -> bool {
        let behind = self.host.map_or(0.0, |host| host.behind_percent);
        !self.simulated && (!self.host_causes.is_empty() || behind >= HOST_DECIDED_PERCENT)
    }

    pub(super) fn ahead_by_ranges(&self) -> Option<f64> {
        let ahead = self.host.map(|host| host.ahead_percent);
        ahead.filter(|percent| *percent >= HOST_DECIDED_PERCENT)
    }

    /// Not on a simulated GPU, whose threads may be what is waited for.
    pub(super) fn ahead_by_samples(&self) -> Option<(f64, &Evidence)> {
        let (percent, longest) = self.host_waits.as_ref().filter(|_| !self.simulated)?;
        (*percent >= HOST_DECIDED_PERCENT).then_some((*percent, longest))
    }

    pub(super) fn class_percent(&self, classes: &[KernelClass]) -> f64 {
        let of = self.classes.iter().filter(|(class, _)| classes.contains(class));
        of.filter_map(|(_, share)| percent(Some(*share))).sum()
    }

    /// The part of the kernel time in which communication kernels wait for other ranks, percent.
    pub(super) fn waiting_percent(&self) -> f64 {
        let all = self.class_percent(&[KernelClass::Communication]);
        self.waiting.as_ref().map_or(0.0, |split| match split.transfer_percent {
            Some(_) => split.percent.clamp(0.0, 100.0),
            None => split.percent.clamp(0.0, all),
        })
    }

    /// Communication without that waiting.
    pub(super) fn transfer_percent(&self) -> f64 {
        let known = self.waiting.as_ref().and_then(|split| split.transfer_percent);
        let all = self.class_percent(&[KernelClass::Communication]);
        known.unwrap_or_else(|| all - self.waiting_percent())
    }
}

/// Classes that compilers and hand-written kernels fuse into their neighbours.
pub(crate) const FUSIBLE: [KernelClass; 6] = [
    KernelClass::Elementwise,
    KernelClass::Norm,
    KernelClass::Rope,
    KernelClass::Softmax,
    KernelClass::Reduction,
    KernelClass::Fill,
];

/// Classes that read the weights and the KV cache.
pub(super) const READERS: [KernelClass; 3] =
    [KernelClass::Gemm, KernelClass::Attention, KernelClass::Moe];
