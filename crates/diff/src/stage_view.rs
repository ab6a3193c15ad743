//! A stage of a report, with what other parts of the report state of it (older reports without an answer
//! included), and what its GPU work is compared per, so that runs of different length compare.

use std::collections::{BTreeSet, HashMap};

use stage2_contract::order::IntoOrdered as _;
use stage2_model::{
    EngineRequests, Figure, HostStage, P99_VALUES, PathRow, Report, Role, Rule, StageAnswer,
    StageEnergy, StageRow, StageUtilisation, StepTimes, StepUnit, WindowSplit,
    is_first_token_range,
};

use crate::comparison::Per;

#[derive(Clone, Copy, Debug)]
pub(crate) struct StageView<'r> {
    pub(crate) report: &'r Report,
    pub(crate) row: &'r StageRow,
    answer: Option<&'r StageAnswer>,
    utilisation: Option<&'r StageUtilisation>,
    pub(crate) energy: Option<&'r StageEnergy>,
    /// What the host did in its idle time.
    pub(crate) host: Option<&'r HostStage>,
    /// The report found that the GPU did not wait for the host.
    pub(crate) host_ahead: bool,
    /// The range whose instances are the steps of the answer.
    step_path: Option<&'r PathRow>,
    /// The run has ranges from a request to its first token.
    has_requests: bool,
    /// Its steps are its instances, whatever the answer says.
    by_instance: bool,
}

/// What the report gives times of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Token,
    Step(StepUnit),
}

impl Unit {
    /// To be read after "per".
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Unit::Token => "token",
            Unit::Step(unit) => unit.noun(),
        }
    }

    /// To be read after "timed per", and long enough to tell it from all others.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Unit::Step(StepUnit::OfEngine) => "step of an engine",
            Unit::Step(StepUnit::RangeWithin) => "step within a call",
            _ => self.noun(),
        }
    }
}

/// Times of the warm steps of a stage, ns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Steps {
    pub(crate) unit: StepUnit,
    pub(crate) path: Option<String>,
    pub(crate) count: u64,
    pub(crate) mean_ns: Option<f64>,
    pub(crate) p50_ns: f64,
    pub(crate) p99_ns: Option<f64>,
    pub(crate) std_ns: Option<f64>,
}

impl Steps {
    /// Instances of a range, of which it may be known how many tokens they hold.
    fn is_of_ranges(&self) -> bool {
        matches!(self.unit, StepUnit::Instance | StepUnit::RangeWithin)
    }
}

impl<'r> StageView<'r> {
    /// The stages of a run by their names, of which there may be very many.
    pub(crate) fn all(report: &'r Report) -> HashMap<&'r str, Self> {
        let used = report.insight.utilisation.iter().flat_map(|used| &used.numbers.stages);
        let used = first_by(used, |used| &used.stage);
        let answers = first_by(&report.answer.stages, |answer| &answer.stage);
        let energy = first_by(&report.energy, |energy| &energy.stage);
        let host = report.host.iter().flat_map(|host| &host.stages).collect::<Vec<_>>();
        let host = first_by(host, |host| &host.stage);
        let said = report.insight.takeaways.iter().filter(|said| said.rule == Rule::HostAhead);
        let ahead: BTreeSet<&str> = said.filter_map(|said| said.stage.as_deref()).into_set();
        let paths = first_by(&report.paths, |row| &row.path);
        let has_requests = report.stages.iter().any(|row| is_first_token_range(&row.stage))
            || report.engine.as_ref().is_some_and(|run| run.requests.is_some());
        let view = |(stage, row)| {
            let answer = answers.get(stage).copied();
            let path = answer.and_then(|answer| answer.step.as_ref()?.path.as_deref());
            let view = Self {
                report,
                row,
                answer,
                utilisation: used.get(stage).copied(),
                energy: energy.get(stage).copied(),
                host: host.get(stage).copied(),
                host_ahead: ahead.contains(stage),
                step_path: path.and_then(|path| paths.get(path).copied()),
                has_requests,
                by_instance: false,
            };
            (stage, view)
        };
        first_by(&report.stages, |row| &row.stage).into_iter().map(view).collect()
    }

    /// Takes the instances of the stage for its steps in all views, unless the steps of all are of
    /// one kind: a range within the stage and a whole instance are not times to compare. A step of an engine lasts until
    /// the next one begins, which no instance does: with others, each view keeps what its report gives.
    pub(crate) fn make_alike(views: &mut [&mut Self]) {
        let kinds: Vec<_> = views.iter().filter_map(|view| view.step()).collect();
        let kind = |times: &'r StepTimes| (times.unit, times.path.as_deref());
        let first = kinds.first().copied().map(kind);
        let alike =
            kinds.len() == views.len() && kinds.iter().all(|times| Some(kind(times)) == first);
        let of_engine = kinds.iter().any(|times| times.unit == StepUnit::OfEngine);
        for view in views.iter_mut() {
            view.by_instance = !alike && !of_engine && view.row.host_warm_median_ns.is_some();
        }
    }

    /// What the report gives the times of the stage of, and the median of that, ns.
    pub(crate) fn own_time(&self) -> Option<(Unit, f64)> {
        let steps = self.steps()?;
        if let Some(tokens) = self.tokens_per_step().filter(|_| steps.is_of_ranges()) {
            return Some((Unit::Token, steps.p50_ns / tokens));
        }
        Some((Unit::Step(steps.unit), steps.p50_ns))
    }

    fn step(&self) -> Option<&'r StepTimes> {
        self.answer?.step.as_ref().filter(|_| !self.by_instance)
    }

    pub(crate) fn role(&self) -> Role {
        let answer = self.answer.map(|answer| answer.role);
        answer.or(self.utilisation.map(|used| used.role)).unwrap_or(Role::Other)
    }

    /// Times of its steps: those of the answer, or of its warm instances.
    pub(crate) fn steps(&self) -> Option<Steps> {
        if let Some(times) = self.step() {
            return Some(Steps {
                unit: times.unit,
                path: times.path.clone(),
                count: times.steps,
                mean_ns: Some(times.mean_ns as f64),
                p50_ns: times.p50_ns as f64,
                // Older reports have it of any number of steps.
                p99_ns: times.p99_ns.filter(|_| times.steps >= P99_VALUES).map(|ns| ns as f64),
                std_ns: times.std_ns.map(|ns| ns as f64),
            });
        }
        Some(Steps {
            unit: StepUnit::Instance,
            path: None,
            count: self.row.host_warm_instances.unwrap_or(0),
            mean_ns: self.row.host_warm_mean_ns.map(|ns| ns as f64),
            p50_ns: self.row.host_warm_median_ns? as f64,
            p99_ns: None,
            std_ns: self.row.host_warm_std_ns.map(|ns| ns as f64),
        })
    }

    pub(crate) fn tokens_per_step(&self) -> Option<f64> {
        if let Some(step) = self.step() {
            return step.tokens_per_step.filter(|&tokens| tokens > 0).map(|tokens| tokens as f64);
        }
        let tokens = &self.report.insight.utilisation.as_ref()?.tokens;
        (self.role() == Role::Decode).then(|| tokens.steps().ok().map(|tokens| tokens as f64))?
    }

    pub(crate) fn tokens_per_s(&self) -> Option<f64> {
        let answer = self.answer.and_then(|answer| answer.tokens_per_s.value());
        answer.or_else(|| self.utilisation?.tokens_per_s.value())
    }

    /// Time to the first token of a request, ns. Older reports state the time of the prefill here, which is
    /// another number: without ranges from arrival to first token it is not known.
    pub(crate) fn time_to_first_token_ns(&self) -> Option<f64> {
        self.answer.filter(|_| self.has_requests)?.time_to_first_token_ns.value()
    }

    /// The requests of the engine that the stage is of; nothing of other stages.
    pub(crate) fn requests(&self) -> Option<&'r EngineRequests> {
        let is_of_engine = matches!(self.role(), Role::Prefill | Role::Decode);
        self.report.engine.as_ref().filter(|_| is_of_engine)?.requests.as_ref()
    }

    pub(crate) fn window(&self) -> Option<&'r WindowSplit> {
        self.answer.and_then(|answer| answer.window.as_ref())
    }

    pub(crate) fn instances(&self) -> Option<f64> {
        self.row.instances.filter(|&n| n > 0).map(|n| n as f64)
    }

    /// Instances that busy times and windows are of: of a sample, those that were recorded.
    pub(crate) fn recorded_instances(&self) -> Option<f64> {
        let recorded = self.row.recorded_instances.or(self.row.instances);
        recorded.filter(|&n| n > 0).map(|n| n as f64)
    }

    /// Instances of the range that the steps are instances of; of inferred steps, all of them.
    fn steps_in_all(&self) -> Option<f64> {
        let steps = self.steps()?;
        let count = match steps.unit {
            StepUnit::Instance | StepUnit::OfEngine => return self.instances(),
            StepUnit::RangeWithin => self.step_path?.instances?,
            StepUnit::Inferred => {
                let rows = &self.report.inferred_steps.as_ref()?.rows;
                rows.iter().map(|row| row.steps).fold(0, u64::saturating_add)
            }
        };
        (count > 0).then_some(count as f64)
    }

    pub(crate) fn mfu_percent(&self) -> Option<f64> {
        percent(&self.utilisation?.mfu_wall)
    }

    pub(crate) fn mbu_percent(&self) -> Option<f64> {
        percent(&self.utilisation?.mbu_wall)
    }
}

/// Rows by what they are of: the first of several of the same.
fn first_by<'r, T>(
    rows: impl IntoIterator<Item = &'r T, IntoIter: DoubleEndedIterator>,
    name: impl Fn(&'r T) -> &'r str,
) -> HashMap<&'r str, &'r T> {
    rows.into_iter().rev().map(|row| (name(row), row)).collect()
}

fn percent(share: &Figure) -> Option<f64> {
    share.value().map(|share| share * 100.0)
}

/// What numbers of a stage are per, for all its runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Basis {
    pub(crate) per: Per,
    pub(crate) text: String,
    /// Each call holds as many units.
    is_even: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Units {
    /// In all instances.
    pub(crate) all: f64,
    /// In an instance; one where instances are not known.
    pub(crate) per_instance: f64,
    /// In the instances that GPU work is counted of: the warm ones, where all runs tell them apart.
    pub(crate) of_work: f64,
    /// GPU work of cold instances does not count.
    pub(crate) is_warm: bool,
    /// Each instance of each run holds as many.
    pub(crate) is_even: bool,
}

impl Basis {
    fn of(per: Per, text: impl Into<String>, is_even: bool) -> Self {
        Self { per, text: text.into(), is_even }
    }

    /// What fits all these views of one stage: a token where the reports give times of tokens.
    pub(crate) fn choose(views: &[StageView<'_>]) -> Self {
        let steps: Option<Vec<Steps>> = views.iter().map(StageView::steps).collect();
        let steps = steps.unwrap_or_default();
        let all_have = |unit: StepUnit| {
            let first = steps.first().map(|steps| &steps.path);
            let same = steps.iter().all(|steps| steps.unit == unit && Some(&steps.path) == first);
            !steps.is_empty() && same && views.iter().all(|view| view.steps_in_all().is_some())
        };
        let is_call = all_have(StepUnit::Instance);
        let has_steps = is_call || all_have(StepUnit::RangeWithin);
        let tokens: Option<Vec<f64>> =
            views.iter().map(|view| view.tokens_per_step().filter(|_| has_steps)).collect();
        if let Some((first, others)) = tokens.as_deref().and_then(<[f64]>::split_first) {
            let is_same = others.iter().all(|tokens| tokens == first);
            let why = if is_same { "" } else { ": a step holds different numbers of them" };
            return Self::of(Per::Token, format!("token of one sequence{why}"), is_call && is_same);
        }
        if all_have(StepUnit::RangeWithin) {
            let path = steps.first().and_then(|steps| steps.path.clone()).unwrap_or_default();
            return Self::of(Per::Step, format!("step, a call of {path}"), false);
        }
        if all_have(StepUnit::Inferred) {
            let text = "step, inferred from the kernel sequence; what runs outside of steps is spread \
                        over them";
            return Self::of(Per::Step, text, false);
        }
        match views.iter().all(|view| view.instances().is_some()) {
            true => Self::of(Per::Instance, "call of the stage", true),
            false => Self::of(Per::Run, "whole run: the stage has no instances to count", false),
        }
    }

    /// The units of a run; nothing where it does not say. `is_warm`: all runs tell the work of cold instances apart.
    pub(crate) fn units(&self, view: &StageView<'_>, is_warm: bool) -> Option<Units> {
        let instances = view.instances();
        let all = match self.per {
            Per::Run => 1.0,
            Per::Instance => instances?,
            Per::Token => view.steps_in_all()? * view.tokens_per_step()?,
            Per::Step => view.steps_in_all()?,
        };
        let per_instance = instances.map_or(all, |instances| all / instances);
        let warm = view.row.warm.filter(|warm| is_warm && warm.instances > 0);
        let of_work = warm.map_or(all, |warm| warm.instances as f64 * per_instance);
        Some(Units { all, per_instance, of_work, is_warm: warm.is_some(), is_even: self.is_even })
    }
}
