//! Takeaways and the use of the GPU's peak.

use super::super::table::Align::{Left, Right};
use super::super::table::Table;
use stage2_model::{Figure, Report};
use stage2_text::numbers::{ABSENT, or_absent, percent1};
use stage2_text::{code, plain, shorten};

/// Takeaways on the first page; metrics.json has them all.
const TAKEAWAYS: usize = 8;
/// Characters of a name.
const NAME_LIMIT: usize = 160;

/// What the numbers say, on the first page.
pub(super) fn takeaways(report: &Report) -> String {
    let takeaways = &report.insight.takeaways;
    let mut out = String::from("## Takeaways\n\n");
    if takeaways.is_empty() {
        out.push_str("None, because nothing was computed from the numbers.\n\n");
        return out;
    }
    for takeaway in takeaways.iter().take(TAKEAWAYS) {
        let text = plain(&takeaway.text);
        out.push_str(&format!("- {}", text.trim_end_matches('.')));
        match &takeaway.recommendation {
            Some(action) => out.push_str(&format!(". To do: {}\n", plain(action))),
            None => out.push_str(".\n"),
        }
    }
    out.push('\n');
    if let Some(more) = takeaways.len().checked_sub(TAKEAWAYS).filter(|&more| more > 0) {
        out.push_str(&format!("{more} more stand in metrics.json.\n\n"));
    }
    out
}

/// How much of the peak the stages used.
pub(super) fn utilisation(report: &Report) -> String {
    let mut out = String::from("## Model FLOP utilisation\n\n");
    let Some(used) = &report.insight.utilisation else {
        out.push_str("None, because nothing was computed for it.\n\n");
        return out;
    };
    if let Some(why) = &used.absent {
        out.push_str(&format!("None, because {}.\n\n", plain(why)));
        return out;
    }
    if used.numbers.stages.is_empty() {
        out.push_str(
            "None, because no stage is prefill or decode (mark them with NVTX ranges of these \
             names).\n\n",
        );
        return out;
    }
    let mut table = Table::new(&[
        ("stage", Left),
        ("tokens per instance", Right),
        ("MFU, wall (%)", Right),
        ("MFU, GPU busy (%)", Right),
        ("MBU, wall (%)", Right),
        ("MBU, GPU busy (%)", Right),
        ("MFU by counters, GPU busy (%)", Right),
        ("counters cover (% of kernel time)", Right),
        ("kernels per token", Right),
        ("GPU us per token", Right),
    ]);
    let mut reasons: Vec<String> = Vec::new();
    for stage in &used.numbers.stages {
        let mut cell = |name: &str, figure: &Figure, show: &dyn Fn(f64) -> String| match figure {
            Figure::Known(value) => show(*value),
            Figure::Absent(why) => {
                reasons.push(format!("{name} of {}: {why}", plain(&shorten(&stage.stage, 60))));
                ABSENT.to_owned()
            }
        };
        let share = |value: f64| format!("{:.4}", value * 100.0);
        table.row([
            code(&shorten(&stage.stage, NAME_LIMIT)),
            cell("tokens", &stage.tokens, &|value| format!("{value:.0}")),
            cell("MFU over wall time", &stage.mfu_wall, &share),
            cell("MFU over GPU busy time", &stage.mfu_busy, &share),
            cell("MBU over wall time", &stage.mbu_wall, &share),
            cell("MBU over GPU busy time", &stage.mbu_busy, &share),
            cell("MFU by counters", &stage.measured_mfu_busy, &share),
            or_absent(stage.measured_percent, percent1),
            cell("kernels per token", &stage.kernels_per_token, &percent1),
            cell("GPU time per token", &stage.gpu_us_per_token, &|value| format!("{value:.3}")),
        ]);
        reasons.extend(
            stage.left_out_by_counters().filter(|_| stage.measured_mfu_busy.value().is_some()),
        );
    }
    out.push_str(&table.finish());
    out.push_str(
        "FLOPs by counters are those of a launch as ncu counted them times calls: without the \
         kernels whose counters are missing or of one launch only, and with what tensor cores compute on the padding of their \
         tiles, which can be several times the model's own FLOPs.\n\n",
    );
    let name = used.model_name.as_deref().unwrap_or("unnamed");
    let peaks = used.peak_source().unwrap_or_else(|| "not known".to_owned());
    out.push_str(&format!("- model: {}; peaks: {}\n", plain(name), plain(&peaks)));
    for stage in &used.numbers.stages {
        let name = plain(&shorten(&stage.stage, 60));
        out.push_str(&format!("- {name}: {}\n", plain(&stage.basis)));
    }
    let lines = reasons.iter().chain(&used.numbers.assumptions);
    lines.for_each(|line| out.push_str(&format!("- {}\n", plain(line))));
    out.push('\n');
    out
}
