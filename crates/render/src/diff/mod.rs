//! A comparison of runs -> Markdown, a page for a browser, and lines for a terminal.

mod console;
mod html;
mod markdown;
mod numbers;

pub use console::{failures, short_lines, warnings};
pub use html::html;
pub use markdown::markdown;

use stage2_contract::text::shorten;
use stage2_diff::Comparison;

/// Characters of the name of a run.
const LABEL_LIMIT: usize = 60;
/// Names of runs of a side.
const RUNS: usize = 4;

/// `A → B`, or of several runs `A1, A2 → B1, B2`.
fn title(of: &Comparison) -> String {
    let side = |runs: &[stage2_diff::ComparedRun]| {
        let names = runs.iter().take(RUNS).map(|run| shorten(&run.label, LABEL_LIMIT));
        let names: Vec<String> = names.collect();
        let more = runs.len() - names.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        names.join(", ") + &more
    };
    format!("{} → {}", side(&of.before), side(&of.after))
}
