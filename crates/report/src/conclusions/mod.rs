//! A merged report and the run's own files -> its operators, utilisation and takeaways.

mod caveat;
pub mod counted;
mod decode_steps;
pub(crate) mod facts;
pub(crate) mod sample_basis;
pub(crate) mod stages;
mod utilisation;
pub mod vision;
mod workload;

use std::collections::HashMap;
use std::path::Path;

use serde_json::Value;

use crate::join;
use crate::join::overhead::FEWEST_WARM;
use crate::operators::stage1::{self, Stage1Aggregates};
use crate::operators::{OperatorSettings, Stage1Settings, operators};
use crate::roofline::takeaways::{Facts, takeaways};
use crate::sampled;
use crate::settings::section;
use crate::workload_config::Workload;
use stage2_contract::text::numbers::counted;
use stage2_model::{Report, StageRow};
use stage2_read::roles::RoleSettings;

/// Where a workload of the runner's kind writes its files, in the run's folder.
const STAGE1: &str = "stage1";

/// What the pages need beyond the report.
#[derive(Debug, Default)]
pub struct Shown {
    /// Rows of operators.md.
    pub operators_top_n: usize,
    /// Means of the Stage 1 run that the configuration names, else those that the workload wrote.
    pub stage1: Option<Stage1Aggregates>,
    /// They are of this run.
    pub stage1_is_own: bool,
}

/// What a run's files say, for what follows from the rows.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The folder of the run.
    pub run_dir: &'a Path,
    /// The composed configuration; null where it cannot be read.
    pub config: &'a Value,
    /// What the workload was configured with.
    pub workload: &'a Workload,
    /// The command of the collect pass.
    pub argv: &'a [String],
    /// What ranges are to the model.
    pub roles: &'a RoleSettings,
}

/// A takeaway on a stage with few warm instances, or none, says so: nobody knows how far they differ.
fn say_what_they_rest_on(report: &mut Report) {
    let few = |row: &StageRow| {
        let warm = row.host_warm_instances.filter(|warm| (1..FEWEST_WARM).contains(warm));
        let only = || row.only_words().map(|words| format!("rests on {words}"));
        let rests_on = warm.map(|warm| format!("rests on {} only", counted(warm, "warm instance")));
        Some((row.stage.clone(), rests_on.or_else(only)?))
    };
    let few: HashMap<String, String> = report.stages.iter().filter_map(few).collect();
    let takeaways = report.insight.takeaways.iter_mut().filter(|told| !told.rule.is_caveat());
    for takeaway in takeaways {
        if let Some(rests_on) = takeaway.stage.as_ref().and_then(|stage| few.get(stage)) {
            takeaway.text.push_str(&format!(" ({rests_on})"));
        }
    }
}

/// Says which outermost ranges are no stages of the model, and which steps were inferred.
pub(crate) fn mark_stages(report: &mut Report, config: &Value, roles: &RoleSettings) {
    // What is wrong with the settings is a finding of `add`.
    let settings: OperatorSettings = section(config, "operators", &mut Vec::new());
    join::steps::explain(report, &settings);
    stages::mark(report, &settings, roles);
}

/// Adds everything, once the stages are marked; gives what the pages need beyond the report, and what the takeaways are drawn from.
pub(crate) fn add(report: &mut Report, context: &Context<'_>) -> (Shown, Facts) {
    let config = context.config;
    let mut findings = Vec::new();
    let settings: OperatorSettings = section(config, "operators", &mut findings);
    let stage1: Stage1Settings = section(config, "stage1", &mut findings);
    let mut shown = Shown { operators_top_n: settings.top_n, ..Shown::default() };
    findings.extend(stages::unmarked(report, &settings));
    let own = stage1::read_own(&context.run_dir.join(STAGE1));
    findings.extend(own.findings);
    let mut earlier_tokens = None;
    report.insight.operators = Some(match stage1.run_dir {
        Some(folder) => {
            let earlier = stage1::read(&folder);
            shown.stage1 = earlier.aggregates;
            earlier_tokens = Some((folder, earlier.tokens));
            findings.extend(earlier.findings);
            earlier.operators
        }
        None => {
            (shown.stage1, shown.stage1_is_own) = (own.aggregates, true);
            // Operators that the workload marked have their GPU times, undisturbed.
            let marked = operators(report, &settings);
            let written = !own.operators.rows.is_empty() && marked.absent.is_some();
            if written { own.operators } else { marked }
        }
    });
    let mut tokens = workload::tokens(context, own.tokens, earlier_tokens.as_ref(), &mut findings);
    let counted =
        decode_steps::counted(report, context.roles).filter(|_| tokens.all.decode_steps.is_none());
    tokens.all.decode_steps = tokens.all.decode_steps.or(counted.as_ref().map(|found| found.steps));
    let model = workload::model(context, &tokens, !report.devices.is_empty(), &mut findings);
    let mut used = utilisation::model_use(report, config, model, tokens.all, &mut findings);
    let assumed = counted.filter(|_| used.model_name.is_some());
    used.numbers.assumptions.extend(assumed.map(|found| found.text));
    findings.extend(tokens.at_most.filter(|_| used.model_name.is_some()));
    findings.extend(used.numbers.findings.iter().cloned());
    let facts = facts::facts(report, &used);
    report.insight.takeaways = takeaways(&facts);
    say_what_they_rest_on(report);
    sampled::add_flops(report, used.numbers.precision);
    report.insight.utilisation = Some(used);
    for finding in findings {
        if !report.findings.contains(&finding) {
            report.findings.push(finding);
        }
    }
    (shown, facts)
}
