//! Takeaways -> the three to five sentences at the top of a report without an answer.

use crate::advice::NO_ADVICE;
use crate::kernels::top::top_kernels;
use crate::page::{idle_percent, model_stages};
use crate::stages::no_stage;
use crate::table::NAME_LIMIT;
use crate::values::sentence;
use stage2_contract::text::numbers::{count, ms3, or_absent, percent1};
use stage2_contract::text::{code_in_text, shorten, shorten_kernel};
use stage2_model::{Report, StageRow};
use stage2_report::roofline::takeaways::recommendations;

/// Sentences at the most.
const MOST: usize = 5;
/// Sentences at the least: if there are too few takeaways, the tables give the others.
const LEAST: usize = 3;

/// The sentences, escaped.
pub(crate) fn sentences(report: &Report) -> Vec<String> {
    let takeaways = report.insight.takeaways.iter().take(MOST);
    let mut out: Vec<String> = takeaways.map(|takeaway| sentence(&takeaway.text)).collect();
    let facts: [fn(&Report) -> String; LEAST] = [longest_stage, top_kernel, advice];
    let missing = LEAST.saturating_sub(out.len());
    out.extend(facts.iter().take(missing).map(|fact| fact(report)));
    out
}

fn longest_stage(report: &Report) -> String {
    let name = |stage: &str| code_in_text(&shorten(stage, NAME_LIMIT));
    match model_stages(report).max_by_key(|row| row.gpu_busy_ns) {
        Some(row @ StageRow { stage, gpu_busy_ns: Some(busy), .. }) => {
            let idle = idle_percent(row).map_or_else(String::new, |idle| {
                format!(" and idle for {} % of the stage's time", percent1(idle))
            });
            format!("The GPU was busy longest in {}: {} ms{idle}.", name(stage), ms3(*busy))
        }
        Some(StageRow { stage, .. }) => {
            format!("Stages were recorded ({} among them), but no GPU time.", name(stage))
        }
        None => sentence(&format!("There are no stages, because {}", no_stage(report))),
    }
}

fn top_kernel(report: &Report) -> String {
    let top = top_kernels(report, 1, |row| (row.name_index, row.device.as_str()));
    let Some(kernel) = top.first() else {
        return "There are no kernels, because no kernel was recorded.".to_owned();
    };
    let share = kernel.percent.map_or_else(String::new, |p| format!(" ({} % of all)", percent1(p)));
    format!(
        "The longest kernel is {}: {} ms{share} in {} calls.",
        code_in_text(&shorten_kernel(&kernel.row.kernel, NAME_LIMIT)),
        or_absent(kernel.total_ns, ms3),
        count(kernel.calls),
    )
}

fn advice(report: &Report) -> String {
    sentence(&match recommendations(&report.insight.takeaways, &report.answer).first() {
        Some(first) => format!("To do first: {}", first.text),
        None => format!("There is no recommendation, because {NO_ADVICE}"),
    })
}
