//! Takeaways -> the three to five sentences at the top.

use super::values::{NAME_LIMIT, sentence};
use super::{Section, StageTimingRow, Stakeholder, TopKernelRow};
use stage2_text::numbers::{count, ms3, percent1};
use stage2_text::{code_in_text, shorten, shorten_kernel, visible};

/// Sentences at the most.
const MOST: usize = 5;
/// Sentences at the least: where there are too few takeaways, the tables give the others.
const LEAST: usize = 3;

/// The sentences, escaped.
pub(super) fn sentences(page: &Stakeholder) -> Vec<String> {
    let takeaways = page.takeaways.rows().iter().take(MOST);
    let mut out: Vec<String> = takeaways.map(|takeaway| sentence(&takeaway.text)).collect();
    let facts: [fn(&Stakeholder) -> String; LEAST] = [longest_stage, top_kernel, advice];
    let missing = LEAST.saturating_sub(out.len());
    out.extend(facts.iter().take(missing).map(|fact| fact(page)));
    out
}

fn longest_stage(page: &Stakeholder) -> String {
    let outer = page.stages.rows().iter().filter(|row| row.within.is_none());
    match outer.max_by_key(|row| row.gpu_busy_ns) {
        Some(StageTimingRow { stage, gpu_busy_ns: Some(busy), gpu_idle_percent, .. }) => {
            let idle = gpu_idle_percent.filter(|idle| idle.is_finite());
            let idle = idle.map_or_else(String::new, |idle| {
                format!(" and idle for {} % of the stage's time", percent1(idle))
            });
            format!("The GPU was busy longest in {}: {} ms{idle}.", name(stage), ms3(*busy))
        }
        Some(StageTimingRow { stage, .. }) => {
            format!("Stages were recorded ({} among them), but no GPU time.", name(stage))
        }
        None => absent("There are no stages", &page.stages),
    }
}

fn top_kernel(page: &Stakeholder) -> String {
    match page.kernels.rows().iter().max_by_key(|row| row.total_ns) {
        Some(TopKernelRow { kernel, total_ns, calls, percent, .. }) => {
            let share = percent.filter(|share| share.is_finite());
            let share =
                share.map_or_else(String::new, |share| format!(" ({} % of all)", percent1(share)));
            let (calls, ms) = (count(*calls), ms3(*total_ns));
            let kernel = shorten_kernel(&visible(kernel.as_bytes()), NAME_LIMIT);
            let kernel = code_in_text(&kernel);
            format!("The longest kernel is {kernel}: {ms} ms{share} in {calls} calls.")
        }
        None => absent("There are no kernels", &page.kernels),
    }
}

fn advice(page: &Stakeholder) -> String {
    match page.recommendations.rows().first() {
        Some(first) => sentence(&format!("To do first: {}", first.action)),
        None => absent("There is no recommendation", &page.recommendations),
    }
}

fn absent<T>(what: &str, section: &Section<T>) -> String {
    match section {
        Section::Absent(absence) => sentence(&format!("{what}, because {}", absence.reason)),
        Section::Filled(_) => format!("{what}, because none was found."),
    }
}

fn name(name: &str) -> String {
    code_in_text(&shorten(&visible(name.as_bytes()), NAME_LIMIT))
}
