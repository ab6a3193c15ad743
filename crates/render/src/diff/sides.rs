//! Several sides against the first one -> one table of all, in front of the page of each pair.

use stage2_contract::text::numbers::ABSENT;
use stage2_contract::text::{code, plain};
use stage2_diff::{
    ComparedRun, Comparison, Diff, GONE, MetricChange, MetricUnit, NOT_COMPARABLE, OwnTime,
    Presence, StageChange,
};

use super::tables::{cell, is_unlike, noise_cell, percent_cell, rate, side_cells, stage_time};
use super::{in_folder, side_name};
use crate::table::{Table, name as table_name};

/// Stages in the table.
pub(super) const STAGES: usize = 3;
/// Begins the names of stages that have no table.
pub(super) const ALSO: &str = "Also compared: ";
/// Rows of it.
const ROWS: usize = 64;

/// A stage on one side.
struct Row<'c> {
    side: String,
    /// The time and what it is of; the side is that before the change in the row of the first one.
    time: Option<(&'c MetricChange, String)>,
    rate: Option<&'c MetricChange>,
    /// Its time where the other side has one of something else.
    own: Option<&'c OwnTime>,
    is_first: bool,
    is_on_both: bool,
    word: &'static str,
}

/// The side that all others are compared with; nothing of a single pair, or of pairs of different sides.
pub(super) fn first(diff: &Diff) -> Option<&[ComparedRun]> {
    let (first, others) = diff.comparisons.split_first()?;
    let is_shared = others.iter().all(|of| of.before == first.before);
    (is_shared && !others.is_empty()).then_some(&*first.before)
}

/// The heading of the table.
pub(super) fn heading(first: &[ComparedRun]) -> String {
    format!("All sides, against {}", name(first))
}

/// How a side is called: by the folders of its runs.
pub(super) fn name(runs: &[ComparedRun]) -> String {
    side_name(runs, &|label| in_folder(label).1)
}

/// The times and the tokens per second of the stages on all sides; nothing where they have no side in common.
pub(super) fn table(diff: &Diff, stages_shown: usize) -> String {
    let Some(first) = first(diff) else { return String::new() };
    let mut stages: Vec<&str> = Vec::new();
    for stage in diff.comparisons.iter().flat_map(Comparison::of_model) {
        if !stages.contains(&stage.stage.as_str()) {
            stages.push(&stage.stage);
        }
    }
    let shown = stages.iter().take(stages_shown);
    let mut out: String = shown.map(|stage| of_stage(diff, first, stage)).collect();
    let more = stages.iter().take(STAGES).skip(stages_shown).map(|stage| plain(stage));
    let more: Vec<String> = more.collect();
    if !more.is_empty() {
        out.push_str(&format!("{ALSO}{} (--full).\n\n", more.join(", ")));
    }
    out
}

/// The stage on the first side, then on the others.
fn rows_of<'c>(diff: &'c Diff, first: &[ComparedRun], stage: &str) -> Vec<Row<'c>> {
    let of = |of| Comparison::of_model(of).into_iter().find(|found| found.stage == stage);
    let known = || diff.comparisons.iter().filter_map(|it| Some((it, of(it)?)));
    let base = known().find(|(_, base)| base.presence != Presence::New);
    let base = base.map(|(_, base)| row(base, name(first), true));
    let others = known().map(|(it, stage)| row(stage, name(&it.after), false));
    base.into_iter().chain(others).collect()
}

/// A side in the chart of a stage.
pub(super) struct Bar {
    pub(super) side: String,
    pub(super) time: String,
    pub(super) ms: f64,
    /// The times that noise allows; that of the first side is what they are compared with.
    pub(super) allowed_ms: Option<[f64; 2]>,
    pub(super) word: &'static str,
}

/// The first stage on the sides that have its time per the same thing: what it is, their bars, and the other sides.
pub(super) fn chart(diff: &Diff) -> Option<(String, Vec<Bar>, Vec<String>)> {
    let first = first(diff)?;
    let stage = diff.comparisons.iter().flat_map(Comparison::of_model).next()?;
    let rows = rows_of(diff, first, &stage.stage);
    let name = |side: &str| side.strip_prefix("baseline:").unwrap_or(side).to_owned();
    let number = |row: &Row<'_>| {
        let is_bar = row.is_compared() && row.word != NOT_COMPARABLE;
        row.time
            .as_ref()
            .filter(|_| is_bar)
            .map(|(time, of)| (side_cells(time)[0].clone(), of.clone()))
    };
    let all = rows.iter().take(ROWS);
    let (base, of) = all.clone().find_map(number)?;
    // Each pair is compared per what both of its sides have.
    let (shown, others): (Vec<&Row<'_>>, Vec<&Row<'_>>) = all
        .filter(|row| !row.is_first)
        .partition(|row| number(row).as_ref() == Some(&(base.clone(), of.clone())));
    let bar = |row: &&Row<'_>| {
        let (time, _) = row.time.as_ref()?;
        let [_, after] = side_cells(time);
        let change =
            time.noise.threshold.map(|least| time.change.map(|by| [by - least, by + least]));
        let change = time.interval.or(change.flatten());
        let allowed_ms = change.map(|ends| ends.map(|end| time.before.unwrap_or(0.0) + end));
        Some(Bar {
            side: name(&row.side),
            time: after,
            ms: time.after?,
            allowed_ms,
            word: row.word,
        })
    };
    let before = shown.first().and_then(|row| row.time.as_ref()?.0.before)?;
    let base =
        Bar { side: name(&self::name(first)), time: base, ms: before, allowed_ms: None, word: "" };
    let bars: Vec<Bar> = std::iter::once(base).chain(shown.iter().filter_map(bar)).collect();
    let others = others.iter().map(|row| name(&row.side)).collect();
    Some((format!("{}: {of}", stage.stage), bars, others))
}

fn of_stage(diff: &Diff, first: &[ComparedRun], stage: &str) -> String {
    let rows = rows_of(diff, first, stage);
    let number = |row: &Row<'_>| row.time.as_ref().map(|(_, of)| of.clone());
    let all_of = rows.iter().find_map(number).unwrap_or_default();
    let value = |row: &Row<'_>, metric: &MetricChange| {
        let [before, after] = side_cells(metric);
        if row.is_first { before } else { after }
    };
    let times = |row: &Row<'_>| row.time.as_ref().map(|(time, _)| side_cells(time));
    let base_text = rows.iter().find(|row| row.is_first).and_then(times).map(|[before, _]| before);
    // Each pair is compared per what both of its sides have.
    let unlike = |row: &Row<'_>| {
        let [before, _] = times(row).filter(|_| row.is_compared())?;
        let is_alike = base_text.as_ref() == Some(&before) && number(row).as_ref() == Some(&all_of);
        (!is_alike).then(|| format!("{} (first side: {before})", number(row).unwrap_or_default()))
    };
    let time = |row: &Row<'_>, show: fn(&MetricChange) -> String| {
        let (time, _) = row.time.as_ref().filter(|_| row.is_compared())?;
        Some(show(time))
    };
    let table = Table::first(ROWS, &rows)
        .left("side", |row| code(row.side.strip_prefix("baseline:").unwrap_or(&row.side)))
        .right("time, ms", |row| match (&row.time, row.own) {
            (Some((time, _)), _) => Some(value(row, time)),
            (None, own) => own.map(|own| cell(own.ms, |ms| MetricUnit::Ms.shown(ms))),
        })
        .left("change %", |row| time(row, with_noise))
        .left("difference", |row| (!row.is_first).then(|| row.word.to_owned()))
        .right("tokens/s", |row| row.rate.map(|rate| value(row, rate)))
        .left("change %", |row| row.rate.filter(|_| !row.is_first).map(with_noise))
        .left("time of", |row| {
            row.own.map(|own| format!("p50 per {}", own.per)).or_else(|| unlike(row))
        })
        .markdown_with_rest_in("the JSON");
    let of = if all_of.is_empty() { String::new() } else { format!(": {}", plain(&all_of)) };
    format!("## {}{of}\n\n{table}", table_name(stage))
}

impl Row<'_> {
    /// Whether it has a change: its stage is on both sides.
    fn is_compared(&self) -> bool {
        !self.is_first && self.is_on_both
    }
}

fn row(stage: &StageChange, side: String, is_first: bool) -> Row<'_> {
    let time = stage_time(stage).map(|(metric, label)| {
        let per = stage.per_of(&metric.metric);
        (metric, format!("{label}{per}"))
    });
    let word = match (stage.presence, &time) {
        (Presence::New, _) => "new",
        (Presence::Vanished, _) => GONE,
        (Presence::Both, Some((metric, _))) => stage.word(metric),
        (Presence::Both, None) => NOT_COMPARABLE,
    };
    let is_on_both = stage.presence == Presence::Both;
    let rate = rate(stage);
    let own = stage.own_times.as_ref().map(|[before, after]| if is_first { before } else { after });
    Row { side, time, rate, own, is_first, is_on_both, word }
}

/// `+105.0 ± 35.2 %`, or `-23.2 [-77.2, +8.2] %`: a change does not stand alone.
fn with_noise(metric: &MetricChange) -> String {
    match metric.change {
        Some(0.0) => "equal".to_owned(),
        // The verdict of the pair says why.
        _ if is_unlike(metric) => ABSENT.to_owned(),
        _ => format!("{} {}", percent_cell(metric), noise_cell(metric)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{full_screen, html, markdown, screens};
    use super::*;

    #[test]
    fn all_sides_have_a_row_each_in_front_of_the_pairs() {
        let report = |name: &str| {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/reports/");
            let bytes = std::fs::read(format!("{folder}{name}.json")).expect(name);
            stage2_diff::read_report(&bytes).expect(name).report
        };
        let (old, new) = (report("llama_1b"), report("moe_small"));
        let against = |before: &'static str, label: &'static str, report| {
            let run = |label, report| stage2_diff::Run { label, report, left_out: &[] };
            let (before, after) = ([run(before, &old)], [run(label, report)]);
            stage2_diff::compare(&before, &after, &[], false).expect("a comparison")
        };
        let of = |pairs: Vec<Comparison>| Diff::of(pairs, String::new());
        let all = of(vec![against("x/a", "x/b", &new), against("x/a", "x/c", &old)]);
        let table = table(&all, STAGES);
        let row = |side: &str| {
            let row = table.lines().find(|line| line.starts_with(&format!("| `{side}` |")));
            row.unwrap_or_else(|| panic!("{side}: {table}")).split(" | ").collect::<Vec<&str>>()
        };
        let [first, second, third] = ["a", "b", "c"].map(row);
        assert!(first[1].parse::<f64>().is_ok() && first[2] == "–", "{first:?}");
        assert!(second[1] != first[1], "{second:?}");
        assert_eq!([second[2], second[3]], ["–", "not comparable"], "a change says nothing");
        assert_eq!([third[2], third[3]], ["equal"; 2], "{third:?}");
        assert!(super::super::screens(&all, 80, 24).lines().count() <= 22, "one screen");
        let unlike = screens(&all, 80, 24);
        assert!(unlike.contains("- a → b: not comparable: "), "what a pair alone says: {unlike}");
        let same = of(vec![against("x/a", "x/b", &old), against("x/a", "x/c", &old)]);
        let (_, bars, _) = chart(&same).expect("a chart");
        assert_eq!(bars.iter().map(|bar| bar.side.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
        let [base, other] = [0, 1].map(|at| &bars[at]);
        let around = other.allowed_ms.is_some_and(|[low, high]| low < base.ms && base.ms < high);
        assert!(around && base.allowed_ms.is_none() && other.ms == base.ms);
        assert_eq!(html(&same, &Default::default()).matches("class=\"allowed\"").count(), 2);
        let (_, bars, others) = chart(&all).expect("a chart");
        let sides: Vec<&str> = bars.iter().map(|bar| bar.side.as_str()).collect();
        assert_eq!(
            (sides, others),
            (vec!["a", "c"], vec!["b".to_owned()]),
            "unlike things have no scale"
        );
        let compared =
            third.last().is_some_and(|of| of.contains(&format!("first side: {}", third[1])));
        assert!(compared || third[1] == first[1], "the same run: {table}");
        let screen = screens(&all, 80, 24);
        let nexts = screen.lines().filter(|line| line.starts_with("next  ")).count();
        assert_eq!((nexts, screen.contains("\ncomparable  ")), (1, false), "{screen}");
        assert!(screen.ends_with("more: --full (the screen of each pair)\n"), "{screen}");
        let pages =
            [markdown(&all), screen, full_screen(&all, 100), html(&all, &Default::default())];
        for page in pages {
            let page = page.replace("<wbr>", "");
            let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}: {page}"));
            assert!(at("All sides, against a") < at("decode"), "{page}");
        }
        let names = "metric for --fail-if";
        let has_names = |width| full_screen(&all, width).to_lowercase().contains(names);
        assert!(!has_names(100) && has_names(160));
        assert_eq!(super::table(&of(vec![against("a", "b", &new)]), STAGES), "", "one pair");
        let unlike = of(vec![against("a", "b", &new), against("d", "c", &new)]);
        assert_eq!(super::table(&unlike, STAGES), "", "no side in common");
    }
}
