//! A stage on both sides -> what its GPU work is compared per, so that runs of different length compare.

use stage2_model::StepUnit;

use crate::comparison::Per;
use crate::stage_view::{StageView, Steps};

/// What numbers of a stage are per, for all its runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Basis {
    pub(crate) per: Per,
    pub(crate) text: String,
}

/// How many units a run has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Units {
    /// In all instances.
    pub(crate) all: f64,
    /// In an instance; one where instances are not known.
    pub(crate) per_instance: f64,
}

impl Basis {
    fn of(per: Per, text: impl Into<String>) -> Self {
        Self { per, text: text.into() }
    }

    /// What fits all these views of one stage.
    pub(crate) fn choose(views: &[StageView<'_>]) -> Self {
        let steps: Option<Vec<Steps>> = views.iter().map(StageView::steps).collect();
        let steps = steps.unwrap_or_default();
        let all_have = |unit: StepUnit| {
            let first = steps.first().map(|steps| &steps.path);
            let same = steps.iter().all(|steps| steps.unit == unit && Some(&steps.path) == first);
            !steps.is_empty() && same && views.iter().all(|view| view.steps_in_all().is_some())
        };
        if all_have(StepUnit::RangeWithin) {
            let path = steps.first().and_then(|steps| steps.path.clone()).unwrap_or_default();
            return Self::of(Per::Step, format!("step, an instance of {path}"));
        }
        if all_have(StepUnit::Inferred) {
            let text = "step, inferred from the kernel sequence; what runs outside of steps is spread \
                        over them";
            return Self::of(Per::Step, text);
        }
        if !views.iter().all(|view| view.instances().is_some()) {
            return Self::of(Per::Run, "whole run: the stage has no instances to count");
        }
        let tokens: Option<Vec<f64>> = match all_have(StepUnit::Instance) {
            true => views.iter().map(StageView::tokens_per_step).collect(),
            false => None,
        };
        let differ = |tokens: &Vec<f64>| tokens.iter().any(|n| Some(n) != tokens.first());
        match tokens.filter(differ) {
            Some(_) => Self::of(
                Per::Token,
                "token of one sequence: an instance holds different numbers of them",
            ),
            None => Self::of(Per::Instance, "instance of the stage"),
        }
    }

    /// The units of a run; nothing where it does not say.
    pub(crate) fn units(&self, view: &StageView<'_>) -> Option<Units> {
        let instances = view.instances();
        let all = match self.per {
            Per::Run => 1.0,
            Per::Instance => instances?,
            Per::Token => instances? * view.tokens_per_step()?,
            Per::Step => view.steps_in_all()?,
        };
        Some(Units { all, per_instance: instances.map_or(all, |instances| all / instances) })
    }
}
