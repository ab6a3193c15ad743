//! Where the window of a stage goes: one bar of 100 %, and its numbers.

use super::markdown::text;
use crate::stages::idle_kinds;
use stage2_contract::text::numbers::percent1;
use stage2_model::{WindowKind, WindowPart, WindowSplit};

/// The class of a part in the style of the page.
fn mark(kind: WindowKind) -> &'static str {
    match kind {
        WindowKind::Compute => "w-compute",
        WindowKind::Transfer => "w-transfer",
        WindowKind::Waiting => "w-waiting",
        WindowKind::Communication => "w-communication",
        WindowKind::Copies => "w-copies",
        WindowKind::Busy => "w-busy",
        WindowKind::LaunchGaps => "g-launch",
        WindowKind::OtherIdle => "g-idle",
    }
}

/// What the times are sums of.
fn over(basis: &str) -> String {
    match basis.trim_end_matches('.') {
        "" => String::new(),
        basis => format!("The times are sums, not those of one instance; basis: {basis}. "),
    }
}

/// The bar and its table; `unit` is what the stage counts: a step, an instance.
pub(super) fn window(split: &WindowSplit, unit: &str, basis: &str, id: &str) -> String {
    let parts: Vec<(&WindowPart, f64)> = (split.parts.iter())
        .zip(split.rounded_percent())
        .filter(|(part, _)| part.percent.is_finite() && part.percent > 0.0)
        .collect();
    let ms = |ns: u64| format!("{:.3}", split.per_step(ns) / 1e6);
    let (mut at, mut rects) = (0.0, String::new());
    for (part, percent) in &parts {
        // Those of a broken report must not leave the bar.
        let width = part.percent.clamp(0.0, (100.0_f64 - at).max(0.0));
        let label = part.kind.label();
        rects.push_str(&format!(
            "<rect class=\"{}\" x=\"{at:.4}%\" width=\"{width:.4}%\" height=\"100%\"><title>{label}: {} \
             %</title></rect>\n",
            mark(part.kind),
            percent1(*percent),
        ));
        at += width;
    }
    let said: Vec<String> = (parts.iter())
        .map(|(part, percent)| format!("{} {} %", part.kind.label(), percent1(*percent)))
        .collect();
    let row = |(part, percent): &(&WindowPart, f64)| {
        format!(
            "<tr><td><svg class=\"swatch\" aria-hidden=\"true\"><rect class=\"{}\" width=\"100%\" \
             height=\"100%\"/></svg>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n",
            mark(part.kind),
            part.kind.label(),
            ms(part.ns),
            percent1(*percent),
        )
    };
    // The times of a mean step are no sums.
    let over = if split.steps.is_some() { String::new() } else { over(basis) };
    let of = match split.steps {
        Some(_) => format!("the mean window per {unit}"),
        None => "the window".to_owned(),
    };
    format!(
        "<svg id=\"{id}\" class=\"window\" role=\"img\" aria-labelledby=\"{id}-title\">\n\
         <title id=\"{id}-title\">{}</title>\n{rects}</svg>\n\
         <div class=\"table\"><table><thead><tr><th>part of the window</th><th class=\"n\">ms</th>\
         <th class=\"n\">%</th></tr></thead>\n<tbody>\n{}\
         <tr><td>{of}</td><td class=\"n\">{}</td><td class=\"n\">100.0</td></tr>\n\
         </tbody></table></div>\n<p class=\"note\">{}{}</p>\n",
        text(&format!("Where {of} of {} ms goes: {}", ms(split.window_ns), said.join(", "))),
        parts.iter().map(row).collect::<String>(),
        ms(split.window_ns),
        text(&over),
        text(&idle_kinds()),
    )
}
