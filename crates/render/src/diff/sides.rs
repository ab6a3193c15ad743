//! Several sides against the first one -> one table of all, in front of the page of each pair.

use stage2_contract::text::numbers::ABSENT;
use stage2_contract::text::{code, plain, shorten};
use stage2_diff::{
    ComparedRun, Comparison, Diff, Fastest, GONE, MetricChange, MetricUnit, NOT_COMPARABLE,
    OwnTime, Presence, StageChange, in_folder,
};

use super::side_name;
use super::tables::{
    cell, factor, is_unlike, percent_cell, plain_noise_cell, rate, side_cells, stage_time,
};
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
    /// Its place among the [`names`].
    at: usize,
    /// The time and what it is of; the side is that before the change in the row of the first one.
    time: Option<(&'c MetricChange, String)>,
    rate: Option<&'c MetricChange>,
    /// Its time where the other side has one of something else.
    own: Option<&'c OwnTime>,
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

/// The names of all sides in sentences, that of the first one first: a baseline has its own.
pub(super) fn names(diff: &Diff) -> Vec<String> {
    let whole = whole_names(diff);
    let bare = whole.iter().map(|name| match name.strip_prefix(BASELINE) {
        Some(name) => name.rsplit_once(" (").map_or(name, |(name, _)| name).to_owned(),
        None => name.clone(),
    });
    let bare: Vec<String> = bare.collect();
    if are_apart(&bare) { bare } else { whole }
}

/// The same for a terminal: long ones are without what all have in common.
pub(super) fn short_names(diff: &Diff) -> Vec<String> {
    let names = names(diff);
    if names.iter().all(|name| name.chars().count() <= NAME_CHARS) {
        return names;
    }
    let backwards = |names: &[String]| -> Vec<String> {
        names.iter().map(|name| name.chars().rev().collect()).collect()
    };
    let heads = without_shared_head(&names);
    let tails = backwards(&without_shared_head(&backwards(&heads)));
    let short: Vec<String> = tails.iter().map(|name| shorten(name, NAME_CHARS)).collect();
    [short, tails].into_iter().find(|names| are_apart(names)).unwrap_or(names)
}

/// `a → b`: a pair by its place.
pub(super) fn pair(names: &[String], at: usize) -> String {
    let name = |at: usize| names.get(at).map(String::as_str).unwrap_or_default();
    format!("{} → {}", name(0), name(at + 1))
}

/// Without the words that all of them begin with.
fn without_shared_head(names: &[String]) -> Vec<String> {
    let Some((first, others)) = names.split_first() else { return Vec::new() };
    let is_shared = |end: &usize| {
        let head = first.get(..*end);
        head.is_some_and(|head| others.iter().all(|name| name.starts_with(head)))
    };
    let ends = first.match_indices(['-', '_', '.', '/', ' ']).map(|(at, word)| at + word.len());
    match ends.take_while(is_shared).last() {
        Some(end) => names.iter().map(|name| format!("…{}", &name[end..])).collect(),
        None => names.to_vec(),
    }
}

fn are_apart(names: &[String]) -> bool {
    names.iter().enumerate().all(|(at, name)| !names.iter().skip(at + 1).any(|it| it == name))
}

/// Characters of a name on a terminal.
const NAME_CHARS: usize = 20;
const BASELINE: &str = "baseline:";

fn whole_names(diff: &Diff) -> Vec<String> {
    let first = first(diff).map(name);
    first.into_iter().chain(diff.comparisons.iter().map(|of| name(&of.after))).collect()
}

/// Those of a table, which has no other place for the number of the runs of a baseline.
fn names_in_table(diff: &Diff, names: Vec<String>) -> Vec<String> {
    let whole = whole_names(diff);
    let in_table = |(name, whole): (String, &String)| {
        let number = whole.strip_prefix(BASELINE).and_then(|whole| whole.rsplit_once(" ("));
        number.filter(|_| name != *whole).map_or_else(
            || name.strip_prefix(BASELINE).unwrap_or(&name).to_owned(),
            |(_, number)| format!("{name} ({number}"),
        )
    };
    names.into_iter().zip(&whole).map(in_table).collect()
}

/// The times and the tokens per second of the stages on all sides; nothing where they have no side in common.
/// `is_short`: without the change of the rate, where an interval would break the lines.
pub(super) fn table(
    diff: &Diff,
    stages_shown: usize,
    names: Vec<String>,
    is_short: bool,
) -> String {
    if first(diff).is_none() {
        return String::new();
    }
    let names = names_in_table(diff, names);
    let stages = stages_of(diff);
    let shown = stages.iter().take(stages_shown);
    let of = |stage: &&str| {
        let rows = rows_of(diff, &names, stage);
        of_stage(&rows, stage, None, if is_short { Place::Short } else { Place::Text })
    };
    let mut out: String = shown.map(of).collect();
    let more = stages.iter().take(STAGES).skip(stages_shown).map(|stage| plain(stage));
    let more: Vec<String> = more.collect();
    if !more.is_empty() {
        out.push_str(&format!("{ALSO}{} (--full).\n\n", more.join(", ")));
    }
    out
}

fn stages_of(diff: &Diff) -> Vec<&str> {
    let mut stages: Vec<&str> = Vec::new();
    for stage in diff.comparisons.iter().flat_map(Comparison::of_model) {
        if !stages.contains(&stage.stage.as_str()) {
            stages.push(&stage.stage);
        }
    }
    stages
}

/// The stage on the first side, then on the others.
fn rows_of<'c>(diff: &'c Diff, names: &[String], stage: &str) -> Vec<Row<'c>> {
    let of = |of| Comparison::of_model(of).into_iter().find(|found| found.stage == stage);
    let known =
        || diff.comparisons.iter().enumerate().filter_map(|(at, it)| Some((at + 1, of(it)?)));
    let side = |at: usize| names.get(at).cloned().unwrap_or_default();
    let base = known().find(|(_, base)| base.presence != Presence::New);
    let base = base.map(|(_, base)| row(base, side(0), 0));
    let others = known().map(|(at, stage)| row(stage, side(at), at));
    base.into_iter().chain(others).collect()
}

/// A side in the picture of a stage.
pub(super) struct Bar {
    pub(super) time: String,
    pub(super) ms: f64,
    /// The times that noise allows; that of the first side is what they are compared with.
    pub(super) allowed_ms: Option<[f64; 2]>,
}

/// A stage on all sides, as the page has it.
pub(super) struct OnPage {
    pub(super) table: String,
    /// Of each row; nothing of a side whose time is not comparable, and of all sides where only one has a bar.
    pub(super) bars: Vec<Option<Bar>>,
    pub(super) caption: String,
}

/// The stages on all sides; nothing where they have no side in common.
pub(super) fn on_page(diff: &Diff) -> Vec<OnPage> {
    if first(diff).is_none() {
        return Vec::new();
    }
    let names = names_in_table(diff, names(diff));
    let base = names.first().map(String::as_str).unwrap_or_default();
    let of_stage = |stage: &&str| {
        let rows = rows_of(diff, &names, stage);
        let bars = bars(&rows);
        let caption = caption(&rows, &bars, base);
        OnPage {
            table: of_stage(&rows, stage, fastest_of(&rows, &bars), Place::Page),
            bars,
            caption,
        }
    };
    stages_of(diff).iter().take(STAGES).map(of_stage).collect()
}

/// Those of the sides that have their time per the same thing.
fn bars(rows: &[Row<'_>]) -> Vec<Option<Bar>> {
    let number = |row: &Row<'_>| {
        let is_bar = row.is_compared() && row.word != NOT_COMPARABLE;
        let (time, of) = row.time.as_ref().filter(|_| is_bar)?;
        Some((side_cells(time)[0].clone(), of.clone()))
    };
    let rows = rows.get(..ROWS).unwrap_or(rows);
    let base = rows.iter().find_map(number);
    let before = rows.iter().find(|row| base.is_some() && number(row) == base);
    let before_ms = before.and_then(|row| row.time.as_ref()?.0.before);
    let bar = |row: &Row<'_>| {
        let (time, _) = base.as_ref()?;
        if row.is_first() {
            return Some(Bar { time: time.clone(), ms: before_ms?, allowed_ms: None });
        }
        // Each pair is compared per what both of its sides have.
        let (time, _) = row.time.as_ref().filter(|_| number(row) == base)?;
        let change =
            time.noise.threshold.map(|least| time.change.map(|by| [by - least, by + least]));
        let change = time.interval.or(change.flatten());
        let allowed_ms = change.map(|ends| ends.map(|end| time.before.unwrap_or(0.0) + end));
        Some(Bar { time: side_cells(time)[1].clone(), ms: time.after?, allowed_ms })
    };
    let bars: Vec<Option<Bar>> = rows.iter().map(bar).collect();
    let is_picture = bars.iter().flatten().filter(|bar| bar.ms > 0.0).count() > 1;
    if is_picture { bars } else { rows.iter().map(|_| None).collect() }
}

/// The row with the shortest time, if that is beyond noise.
fn fastest_of(rows: &[Row<'_>], bars: &[Option<Bar>]) -> Option<usize> {
    let known = bars.iter().enumerate().filter_map(|(at, bar)| Some((at, bar.as_ref()?.ms)));
    let (least, _) = known.min_by(|(_, a), (_, b)| a.total_cmp(b))?;
    let is_change =
        |row: &Row<'_>| row.time.as_ref().is_some_and(|(time, _)| time.verdict.is_change());
    let row = rows.get(least)?;
    let mut others = rows.iter().zip(bars).filter(|(row, bar)| bar.is_some() && !row.is_first());
    let is_apart =
        if row.is_first() { others.all(|(row, _)| is_change(row)) } else { is_change(row) };
    is_apart.then_some(least)
}

/// The names of some sides.
fn named(
    rows: &[Row<'_>],
    bars: &[Option<Bar>],
    is: &dyn Fn(usize, &Option<Bar>) -> bool,
) -> String {
    let found = rows.iter().zip(bars).enumerate().filter(|(at, (_, bar))| is(*at, bar));
    found.map(|(_, (row, _))| &*row.side).collect::<Vec<_>>().join(", ")
}

/// `b3 is fastest (one run per side): decode is 3.5x faster than a1; within noise of it: b2`: the answer about the first
/// stage; nothing where the sides have no times to compare. `names`: how it calls the sides.
pub(super) fn answer<'d>(diff: &'d Diff, names: &[String]) -> Option<Answer<'d>> {
    let before = first(diff)?;
    let stage = stages_of(diff).into_iter().next()?;
    let rows = rows_of(diff, names, stage);
    let bars = bars(&rows);
    if bars.iter().flatten().count() < 2 {
        return None;
    }
    let is_single = diff.comparisons.iter().all(Comparison::is_of_two_runs);
    let is_simulated = diff.comparisons.iter().all(Comparison::is_simulated);
    let simulated = if is_simulated { " in the simulation" } else { "" };
    let with_runs = |runs: String| format!("{simulated} ({runs})");
    // Where it is about several pairs, what holds for all or hampers one.
    let of_all = || {
        let mut all = diff.comparisons.iter().map(Comparison::runs_text);
        let shared = all.next().filter(|first| all.all(|runs| runs == *first));
        let is_any_few = diff.comparisons.iter().any(Comparison::has_too_few_runs);
        let few = is_any_few.then(|| "too few runs for a test".to_owned());
        shared.or(few).map_or_else(|| simulated.to_owned(), with_runs)
    };
    let first = names.first()?;
    let slower = |(row, bar): (&Row<'_>, &Option<Bar>)| {
        let (time, _) = row.time.as_ref().filter(|_| bar.is_some() && !row.is_first())?;
        let is_slower = time.verdict.is_change() && time.change.is_some_and(|ms| ms > 0.0);
        Some(format!("; {} is {}", row.side, factor(time).filter(|_| is_slower)?))
    };
    let slower = || rows.iter().zip(&bars).filter_map(slower).take(SLOWER).collect::<String>();
    let Some(at) = fastest_of(&rows, &bars) else {
        let all = of_all();
        let text = format!("{stage}: no side is faster than {first} beyond noise{all}{}", slower());
        return Some(Answer { text, is_single, of: None, found: None });
    };
    let row = rows.get(at)?;
    let time = row.time.as_ref().filter(|_| !row.is_first()).map(|(time, _)| *time);
    let how = time.and_then(factor).map_or_else(
        || format!(" in {stage}{}", slower()),
        |factor| format!(": {stage} is {factor} than {first}"),
    );
    let high = bars.get(at)?.as_ref().and_then(|bar| bar.allowed_ms).map(|[_, high]| high);
    let near = named(&rows, &bars, &|other, bar| {
        let low = |bar: &Bar| bar.allowed_ms.map_or(bar.ms, |[low, _]| low.min(bar.ms));
        other != at && bar.as_ref().zip(high).is_some_and(|(bar, high)| low(bar) <= high)
    });
    let near = if near.is_empty() { near } else { format!("; within noise of it: {near}") };
    let of = row.at.checked_sub(1).and_then(|at| diff.comparisons.get(at));
    let runs = of.map_or_else(of_all, |of| with_runs(of.runs_text()));
    let runs_of = of.map_or(before, |of| &of.after);
    let times_faster = time.and_then(|time| Some(time.before? / time.after?));
    let found = Fastest {
        stage: stage.to_owned(),
        runs: runs_of.iter().map(|run| run.label.clone()).collect(),
        times_faster: times_faster.filter(|factor| factor.is_finite()),
    };
    let text = format!("{} is fastest{runs}{how}{near}", row.side);
    Some(Answer { text, is_single, of, found: Some(found) })
}

/// Sides that are slower than the first one and named where it is the fastest, or none is faster.
const SLOWER: usize = 2;

/// The answer about several sides.
pub(super) struct Answer<'d> {
    pub(super) text: String,
    /// Each side is one run.
    pub(super) is_single: bool,
    /// The pair of the fastest side; nothing where that is the first one, or none.
    pub(super) of: Option<&'d Comparison>,
    found: Option<Fastest>,
}

/// The side that is fastest in the first stage beyond noise, as on all pages; nothing of a single pair.
pub fn fastest(diff: &Diff) -> Option<Fastest> {
    answer(diff, &names(diff))?.found
}

/// What the numbers and the bars mean.
fn caption(rows: &[Row<'_>], bars: &[Option<Bar>], first: &str) -> String {
    let mut said = String::new();
    if rows.iter().any(Row::is_compared) {
        said.push_str(&format!("Changes and ± are percentages of the value of {first}."));
    }
    if bars.iter().all(Option::is_none) {
        return said;
    }
    said.push_str(" Bars begin at 0, and the line is the range that noise allows.");
    let unlike = named(rows, bars, &|_, bar| bar.is_none());
    if !unlike.is_empty() {
        said.push_str(&format!(" Not comparable, and so without a bar: {unlike}."));
    }
    said
}

/// Where a table is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// With what a page has room for.
    Page,
    Text,
    /// A terminal without room for the change of the rate.
    Short,
}

/// `fastest`: the row to mark.
fn of_stage(rows: &[Row<'_>], stage: &str, fastest: Option<usize>, place: Place) -> String {
    let number = |row: &Row<'_>| row.time.as_ref().map(|(_, of)| of.clone());
    let all_of = rows.iter().find_map(number).unwrap_or_default();
    let value = |row: &Row<'_>, metric: &MetricChange| {
        let [before, after] = side_cells(metric);
        if row.is_first() { before } else { after }
    };
    let times = |row: &Row<'_>| row.time.as_ref().map(|(time, _)| side_cells(time));
    let base_text =
        rows.iter().find(|row| row.is_first()).and_then(times).map(|[before, _]| before);
    // Each pair is compared per what both of its sides have.
    let unlike = |row: &Row<'_>| {
        let [before, _] = times(row).filter(|_| row.is_compared())?;
        let is_alike = base_text.as_ref() == Some(&before) && number(row).as_ref() == Some(&all_of);
        (!is_alike).then(|| format!("{} (first side: {before})", number(row).unwrap_or_default()))
    };
    let change = |row: &Row<'_>| {
        let (time, _) = row.time.as_ref().filter(|_| row.is_compared())?;
        Some(with_noise(time))
    };
    let rate_change = |row: &Row<'_>| row.rate.filter(|_| !row.is_first()).map(with_noise);
    let times_as_fast = |row: &Row<'_>| {
        let factor =
            row.time.as_ref().filter(|_| !row.is_first()).and_then(|(time, _)| factor(time));
        let is_fastest =
            fastest.and_then(|at| rows.get(at)).is_some_and(|found| std::ptr::eq(found, row));
        let words = factor.into_iter().chain(is_fastest.then(|| "**fastest**".to_owned()));
        let words: Vec<String> = words.collect();
        (!words.is_empty()).then(|| words.join(", "))
    };
    let table = Table::first(ROWS, rows).left("side", |row| code(&row.side)).right(
        "time, ms",
        |row| match (&row.time, row.own) {
            (Some((time, _)), _) => Some(value(row, time)),
            (None, own) => own.map(|own| cell(own.ms, |ms| MetricUnit::Ms.shown(ms))),
        },
    );
    let rate = |row: &Row<'_>| row.rate.map(|rate| value(row, rate));
    let word = |row: &Row<'_>| (!row.is_first()).then(|| row.word.to_owned());
    let table = match place {
        // Columns of numbers sort.
        Place::Page => table
            .right("change %", change)
            .left("factor", times_as_fast)
            .left("difference", word)
            .right("tokens/s", rate)
            .right("change %", rate_change),
        Place::Text | Place::Short => table
            .left("change %", change)
            .left("difference", |row| times_as_fast(row).or_else(|| word(row)))
            .right("tokens/s", rate),
    };
    let table = if place == Place::Text { table.left("change %", rate_change) } else { table };
    let table = table
        .left("time of", |row| {
            row.own.map(|own| format!("p50 per {}", own.per)).or_else(|| unlike(row))
        })
        .markdown_with_rest_in("the JSON");
    let of = if all_of.is_empty() { String::new() } else { format!(": {}", plain(&all_of)) };
    format!("## {}{of}\n\n{table}", table_name(stage))
}

impl Row<'_> {
    fn is_first(&self) -> bool {
        self.at == 0
    }

    /// Whether it has a change: its stage is on both sides.
    fn is_compared(&self) -> bool {
        !self.is_first() && self.is_on_both
    }
}

fn row(stage: &StageChange, side: String, at: usize) -> Row<'_> {
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
    let own = stage.own_times.as_ref().map(|[before, after]| if at == 0 { before } else { after });
    Row { side, at, time, rate, own, is_on_both, word }
}

/// `+105.0 ± 35.2 %`, or `-23.2 [-77.2, +8.2] %`: a change does not stand alone.
fn with_noise(metric: &MetricChange) -> String {
    match metric.change {
        Some(0.0) => "equal".to_owned(),
        // The verdict of the pair says why.
        _ if is_unlike(metric) => ABSENT.to_owned(),
        _ => format!("{} {}", percent_cell(metric), plain_noise_cell(metric)),
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
        let table = table(&all, STAGES, names(&all), false);
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
        let [base, other] = [0, 1].map(|at| on_page(&same)[0].bars[at].take().expect("a bar"));
        let around = other.allowed_ms.is_some_and(|[low, high]| low < base.ms && base.ms < high);
        assert!(around && base.allowed_ms.is_none() && other.ms == base.ms);
        let page = html(&same, &Default::default());
        let bars = on_page(&same).into_iter().flat_map(|stage| stage.bars).flatten();
        let allowed = bars.filter(|bar| bar.allowed_ms.is_some()).count();
        assert_eq!((page.matches("class=\"allowed\"").count(), allowed > 1), (allowed, true));
        assert_eq!(page.matches("<h2><code>decode</code>: ").count(), 1, "one table has all");
        assert!(!page.contains("fastest"), "equal sides");
        let unlike = &on_page(&all)[0];
        let bars: Vec<bool> = unlike.bars.iter().map(Option::is_some).collect();
        assert_eq!(bars, [true, false, true], "unlike things have no scale");
        assert!(unlike.caption.ends_with("Not comparable, and so without a bar: b."));
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
        assert_eq!(
            super::table(&of(vec![against("a", "b", &new)]), STAGES, Vec::new(), false),
            "",
            "one pair"
        );
        let unlike = of(vec![against("a", "b", &new), against("d", "c", &new)]);
        assert_eq!(super::table(&unlike, STAGES, Vec::new(), false), "", "no side in common");
    }
}
