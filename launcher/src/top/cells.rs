//! Lines and numbers of the page, each within its columns.

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use stage2_contract::text::shorten;

pub(super) fn plain(text: &str, width: usize) -> Line<'static> {
    Line::from(clip(text, width))
}

pub(super) fn bold(text: &str, width: usize) -> Line<'static> {
    Line::from(Span::styled(clip(text, width), Style::new().add_modifier(Modifier::BOLD)))
}

pub(super) fn clip(text: &str, width: usize) -> String {
    text.chars().take(width).collect()
}

/// Exactly so many columns, where its characters have one each; the middle gives way.
pub(super) fn fit(text: &str, width: usize) -> String {
    format!("{:width$}", shorten(text, width))
}

pub(super) fn share(share: f64) -> String {
    let percent = share * 100.0;
    if percent >= 99.95 { "100%".to_owned() } else { format!("{percent:.1}%") }
}

pub(super) fn ms(ns: u64) -> String {
    short(ns as f64 / 1e6)
}

/// At most seven characters.
pub(super) fn short(value: f64) -> String {
    match value {
        v if v >= 1e15 => format!("{v:.0e}"),
        v if v >= 1e12 => format!("{:.1}T", v / 1e12),
        v if v >= 1e9 => format!("{:.1}G", v / 1e9),
        v if v >= 1e6 => format!("{:.1}M", v / 1e6),
        v if v >= 1e4 => format!("{:.1}k", v / 1e3),
        v if v >= 100.0 || v == 0.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}
