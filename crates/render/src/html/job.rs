//! What summaries of all ranks say of a job -> job.html: one file without scripts, like report.html.

use std::collections::BTreeMap;

use stage2_contract::text::numbers::shown_time;
use stage2_contract::text::shorten;
use stage2_summary::job::Job;

use crate::html::markdown::{html, text};
use crate::html::{hash, slug};
use crate::job::{clock, time};
use crate::packed;
use crate::page::Page;

/// Shades of a heat map.
const SHADES: u64 = 8;
const SHADES_STYLE: &str = "\
nav { display: none; } body { display: block; }
.cells { display: block; width: 100%; max-width: 60rem; height: auto; }
.cells text { font: 11px system-ui, sans-serif; fill: var(--front); }
.cells rect { fill: var(--shade); }
.cells path { fill: var(--warm); }
.s1 { fill-opacity: .1; } .s2 { fill-opacity: .2; } .s3 { fill-opacity: .32; } .s4 { fill-opacity: .45; }
.s5 { fill-opacity: .58; } .s6 { fill-opacity: .72; } .s7 { fill-opacity: .86; } .s8 { fill-opacity: 1; }
";
/// Cells of a line of the file.
const CELLS_OF_LINE: usize = 64;
/// Stages of the second map.
const STAGES: usize = 6;
const STAGE_CHARS: usize = 40;
/// The size of a map, in units of the drawing, and the room for labels.
const WIDTH: u64 = 840;
const LEFT: u64 = 70;
const TOP: u64 = 18;

/// The page of a job.
pub(crate) fn job_html(job: &Job, page: &Page) -> String {
    let title = text(&page.title);
    let style = packed("html/page.css");
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src '{}' '{}'; \
         base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>{style}</style>\n<style>{SHADES_STYLE}</style>\n</head>\n<body>\n\
         <header>\n<h1>{title}</h1>\n{}</header>\n<main>\n",
        hash(style),
        hash(SHADES_STYLE),
        html(&page.head),
    );
    out.push_str(&section("Lateness by rank and time", &by_time(job)));
    out.push_str(&section("GPU work of a step by rank and stage", &by_stage(job)));
    for (title, markdown) in page.sections.iter().filter(|(_, markdown)| !markdown.is_empty()) {
        out.push_str(&section(title, &html(markdown)));
    }
    let generator = text(&job.generator);
    out.push_str(&format!(
        "<footer>Written by {generator}. job.json holds all numbers.</footer>\n</main>\n</body>\n</html>\n"
    ));
    out
}

fn section(title: &str, html: &str) -> String {
    let (id, title) = (slug(title), text(title));
    if html.is_empty() {
        return String::new();
    }
    format!("<section id=\"{id}\">\n<h2>{title}</h2>\n{html}</section>\n")
}

/// Cells by (row, column), with a value that is shown against the largest.
struct Map {
    rows: u64,
    columns: u64,
    cells: Vec<(u64, u64, u64)>,
    /// What the smallest shade stands for.
    least: u64,
}

impl Map {
    /// One path for each shade, with a square for each cell: a tenth of the bytes that rectangles take.
    fn svg(&self, label: &str, columns: &[(u64, String)], rows: &[(u64, String)]) -> String {
        let (columns_of_all, rows_of_all) = (self.columns.max(1), self.rows.max(1));
        let cell = (WIDTH / columns_of_all).clamp(1, 40);
        let high = (480 / rows_of_all).clamp(2, 20);
        let (width, height) = (LEFT + cell * columns_of_all + 4, TOP + high * rows_of_all + 4);
        let most = self.cells.iter().map(|cell| cell.2).max().unwrap_or(0);
        let mut paths: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        for &(row, column, value) in &self.cells {
            if row >= rows_of_all || column >= columns_of_all {
                continue;
            }
            let above = u128::from(value.saturating_sub(self.least)) * u128::from(SHADES);
            let range = u128::from(most.saturating_sub(self.least));
            let shade = above.div_ceil(range.max(1));
            let shade = u64::try_from(shade).unwrap_or(SHADES).min(SHADES);
            if shade > 0 {
                let (x, y) = (LEFT + column * cell, TOP + row * high);
                paths.entry(shade).or_default().push(format!("M{x} {y}h{cell}v{high}h-{cell}z"));
            }
        }
        let mut out = format!(
            "<svg class=\"cells\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">\n\
             <rect x=\"{LEFT}\" y=\"{TOP}\" width=\"{}\" height=\"{}\"/>\n",
            text(label).replace('"', "&quot;"),
            cell * columns_of_all,
            high * rows_of_all,
        );
        for (shade, cells) in paths {
            for part in cells.chunks(CELLS_OF_LINE) {
                out.push_str(&format!("<path class=\"s{shade}\" d=\"{}\"/>\n", part.concat()));
            }
        }
        for (column, label) in columns {
            let x = LEFT + column * cell;
            out.push_str(&format!("<text x=\"{x}\" y=\"12\">{}</text>\n", text(label)));
        }
        for (row, label) in rows {
            let y = TOP + row * high + 9;
            out.push_str(&format!("<text x=\"0\" y=\"{y}\">{}</text>\n", text(label)));
        }
        out.push_str("</svg>\n");
        out
    }
}

/// Some of so many, at even distances.
fn some(all: u64, most: u64) -> impl Iterator<Item = u64> {
    let step = usize::try_from(all.div_ceil(most.max(1)).max(1)).unwrap_or(usize::MAX);
    (0..all).step_by(step)
}

fn by_time(job: &Job) -> String {
    let heat = &job.heat;
    if heat.cells.is_empty() {
        return "<p class=\"absent\">No rank was late beyond the error.</p>\n".to_owned();
    }
    let minutes = job.last_minute.saturating_sub(job.first_minute).saturating_add(1);
    let columns = minutes.div_ceil(heat.column_minutes.max(1)).clamp(1, 240);
    let rows = heat.cells.iter().map(|cell| cell.0.saturating_add(1)).max().unwrap_or(1);
    let rows = rows.max(job.rows.len() as u64).min(256);
    let map = Map { rows, columns, cells: heat.cells.clone(), least: 0 };
    let at =
        |column: u64| job.first_minute.saturating_add(column.saturating_mul(heat.column_minutes));
    let above: Vec<_> = some(columns, 8).map(|column| (column, clock(at(column)))).collect();
    let beside: Vec<_> = some(rows, 16)
        .map(|row| (row, format!("rank {}", row.saturating_mul(heat.row_ranks))))
        .collect();
    let most = heat.cells.iter().map(|cell| cell.2).max().unwrap_or(0);
    let label = format!(
        "Each row is {} next to each other, each column {}, from {} (UTC). The darker a cell, the longer all \
         others together waited for the latest of these ranks: {} in the darkest.",
        stage2_contract::text::numbers::counted(heat.row_ranks, "rank"),
        stage2_contract::text::numbers::counted(heat.column_minutes, "minute"),
        time(job.first_minute),
        shown_time(most as f64),
    );
    format!("<p class=\"note\">{}</p>\n{}", text(&label), map.svg(&label, &above, &beside))
}

/// Each stage is a column of medians: a rank whose GPU works longer than the others' stands out.
fn by_stage(job: &Job) -> String {
    let mut names: Vec<&str> =
        job.rows.iter().flat_map(|row| &row.stages).map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.truncate(STAGES);
    let rows = job.rows.len() as u64;
    let mut out = String::new();
    for name in names {
        let value = |row: &stage2_summary::job::HeatRow| {
            let of_stage = row.stages.iter().find(|(stage, _)| stage == name);
            of_stage.map(|(_, values)| values[3])
        };
        let cells = job.rows.iter().zip(0..).filter_map(|(row, at)| Some((0, at, value(row)?)));
        let cells: Vec<(u64, u64, u64)> = cells.collect();
        let least = cells.iter().map(|cell| cell.2).min().unwrap_or(0);
        let most = cells.iter().map(|cell| cell.2).max().unwrap_or(0);
        let map = Map { rows: 1, columns: rows, cells, least };
        let label = format!(
            "{}: {} to {}",
            shorten(name, STAGE_CHARS),
            shown_time(least as f64),
            shown_time(most as f64)
        );
        let first = |at: u64| job.rows.get(at as usize).map_or(0, |row| row.first_rank);
        let above: Vec<_> = some(rows, 10).map(|at| (at, first(at).to_string())).collect();
        let picture = map.svg(&label, &above, &[(0, "rank".to_owned())]);
        out.push_str(&format!("<h3>{}</h3>\n{picture}", text(&label)));
    }
    out
}
