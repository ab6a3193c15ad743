//! A report -> what the pages of operators and for stakeholders show of it.

use super::super::operators::operators_md;
use super::Stakeholder;
use stage2_analysis::insight::Shown;
use stage2_model::{Operators, Report, WorkloadEnd};

/// Kinds of inferred steps that are shown.
const STEPS: usize = 8;

/// The page of operators.
pub(in crate::views) fn operators(report: &Report, shown: &Shown) -> String {
    let nothing = Operators::default();
    let operators = report.insight.operators.as_ref().unwrap_or(&nothing);
    operators_md(report, operators, shown.operators_top_n)
}

/// What the page for stakeholders shows.
pub(in crate::views) fn page(report: &Report, shown: &Shown) -> Stakeholder {
    Stakeholder {
        run: report.run.name.clone(),
        simulated: report.simulated,
        ended_early: report.run.workload_end.as_ref().map(WorkloadEnd::sentence),
        verdict: report.coverage.verdict.clone(),
        environment: super::run::environment(report),
        aggregates: super::run::aggregates(report, shown),
        stages: super::measured::stages(report),
        steps: super::super::steps::sentences(report, STEPS),
        costs: super::costs::costs(report),
        mfu: super::meaning::mfu(report),
        operators: super::measured::operators(report),
        kernels: super::measured::kernels(report),
        takeaways: super::meaning::takeaways(report),
        recommendations: super::meaning::recommendations(report),
        limits: super::meaning::limits(report),
    }
}
