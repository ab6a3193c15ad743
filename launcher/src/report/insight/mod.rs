//! A merged report and the run's own files -> its operators, utilisation and takeaways.

mod apart;
pub(super) mod counted;
mod doubt;
mod facts;
mod over;
mod settings;
mod utilisation;

use std::path::Path;

use serde_json::Value;

use super::model::Report;
use crate::finding::Finding;
use crate::operators::stage1::{self, Stage1Aggregates};
use crate::operators::{OperatorSettings, Stage1Settings, operators};
use crate::roofline::takeaways::takeaways;
use settings::read_tokens;
pub(super) use settings::section;

/// What the pages need beyond the report.
#[derive(Debug, Default)]
pub(super) struct Shown {
    /// Rows of operators.md.
    pub(super) operators_top_n: usize,
    /// Means of the Stage 1 run that the configuration names.
    pub(super) stage1: Option<Stage1Aggregates>,
}

/// Adds to the report what follows from it. `config` is the composed configuration, null where it
/// cannot be read.
pub(super) fn add(report: &mut Report, run_dir: &Path, config: &Value) -> Shown {
    let mut findings = Vec::new();
    let settings: OperatorSettings = section(config, "operators", &mut findings);
    let stage1: Stage1Settings = section(config, "stage1", &mut findings);
    let mut shown = Shown { operators_top_n: settings.top_n, stage1: None };
    apart::mark(report, &settings);
    report.insight.operators = Some(match &stage1.run_dir {
        Some(folder) => {
            let earlier = stage1::read(folder);
            shown.stage1 = earlier.aggregates;
            findings.extend(earlier.findings);
            earlier.operators
        }
        None => operators(report, &settings),
    });
    let tokens = read_tokens(run_dir, config, &mut findings);
    let used = utilisation::model_use(report, config, tokens, &mut findings);
    findings.extend(used.numbers.findings.iter().cloned());
    report.insight.takeaways = takeaways(&facts::facts(report, &used));
    report.insight.utilisation = Some(used);
    add_findings(report, findings);
    shown
}

/// A finding that stands there already is not said again.
fn add_findings(report: &mut Report, findings: Vec<Finding>) {
    for finding in findings {
        if !report.findings.contains(&finding) {
            report.findings.push(finding);
        }
    }
}
