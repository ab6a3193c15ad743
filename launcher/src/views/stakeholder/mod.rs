//! A report -> what the pages of operators and for stakeholders show of it.

mod costs;
mod meaning;
mod measured;
mod run;

pub(super) use run::class_shares;

use super::operators_md::operators_md;
use super::stakeholder_md::Stakeholder;
use stage2_analysis::insight::Shown;
use stage2_model::{Operators, Report, WorkloadEnd};

/// Kinds of inferred steps that are shown.
const STEPS: usize = 8;

/// The page of operators.
pub(super) fn operators(report: &Report, shown: &Shown) -> String {
    let nothing = Operators::default();
    let operators = report.insight.operators.as_ref().unwrap_or(&nothing);
    operators_md(report, operators, shown.operators_top_n)
}

/// What the page for stakeholders shows.
pub(super) fn page(report: &Report, shown: &Shown) -> Stakeholder {
    Stakeholder {
        run: report.run.name.clone(),
        simulated: report.simulated,
        ended_early: report.run.workload_end.as_ref().map(WorkloadEnd::sentence),
        verdict: report.coverage.verdict.clone(),
        environment: run::environment(report),
        aggregates: run::aggregates(report, shown),
        stages: measured::stages(report),
        steps: super::steps::sentences(report, STEPS),
        costs: costs::costs(report),
        mfu: meaning::mfu(report),
        operators: measured::operators(report),
        kernels: measured::kernels(report),
        takeaways: meaning::takeaways(report),
        recommendations: meaning::recommendations(report),
        limits: meaning::limits(report),
    }
}
