//! The reports of runs -> what changed between them, and whether that is too much.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use anstyle::{AnsiColor, Style};
use stage2_contract::text::{visible, visible_path, wrapped};
use stage2_diff::{
    Again, ComparedRun, Comparison, Condition, Diff, Outcome, ReadError, ReadReport, Run, again,
    compare, load, read_report,
};
use stage2_model::finding::Id;
use stage2_model::{AnswerLine, Finding, Report, RunState, Timelines};
use stage2_read::files::{self, remedy, write_whole};
use stage2_read::foreign::{JSON, kind_of};
use stage2_read::layout::COLLECTOR_DIR;

use super::baseline;
use super::ending::printed;
use crate::bundle::{
    LATEST, RUN_JSON, RunRecord, hidden, lost_traces, newest_below, not_a_run_among,
    refuse_dormant, refused_run, run_named,
};
use crate::cli::DiffArgs;
use crate::control;
use crate::failure::Failure;
use crate::plan;
use crate::terminal::{Terminal, height, width};
use stage2_render::diff as view;

pub(crate) const METRICS: &str = "metrics.json";
/// The report of a run for a browser.
const PAGE: &str = "report.html";
/// Larger reports are none of ours.
const REPORT_LIMIT_BYTES: u64 = 1 << 30;
/// The verdict on a side and itself.
const SAME: &str = "Both sides are the same run: name another run to compare it with";
const EXIT_CONDITION: u8 = 1;

const GENERATOR: &str = concat!("stage2-launch ", env!("CARGO_PKG_VERSION"));

/// A report, where it came from, and what the user called it.
struct Input {
    label: String,
    path: PathBuf,
    read: ReadReport,
}

/// What a word of the command line stands for: a run, or all runs of a baseline.
type Group = Vec<Input>;

pub(crate) fn diff(args: DiffArgs, terminal: &Terminal) -> Result<u8, Failure> {
    let outputs = args.output.iter().map(|out| (out, "-o"));
    let outputs: Vec<_> = outputs.chain(args.html.iter().map(|out| (out, "--html"))).collect();
    for (out, option) in &outputs {
        if out.is_dir() {
            let out = visible_path(out);
            return Err(Failure::Usage(format!("{out} is a folder; name a file with {option}")));
        }
        super::check_folder_of(out, option)?;
    }
    if args.against.is_empty() && args.runs.len() < 2 {
        let only = args.runs.first().map(|run| visible_path(run)).unwrap_or_default();
        if only.contains(',') && args.runs.iter().all(|run| !run.exists()) {
            let runs: Vec<&str> = only.split(',').filter(|run| !run.is_empty()).collect();
            let runs = runs.join(" ");
            return Err(Failure::Usage(format!(
                "the runs of diff are separate words: stage2-launch diff {runs}"
            )));
        }
        return Err(Failure::Usage(format!(
            "diff needs two runs, and only {only} was given; name the run before the change and the run \
             after it: stage2-launch diff BEFORE AFTER (several on each side: diff A1 A2 --against B1 B2)"
        )));
    }
    let words: Vec<&PathBuf> = args.runs.iter().chain(&args.against).collect();
    let is_absent =
        |word: &&&PathBuf| !run_named(word).exists() && baseline::reports_of(word).is_none();
    let is_option = |word: &&&PathBuf| ["against", "vs"].iter().any(|of| word.as_os_str() == *of);
    if let Some(option) = words.iter().filter(is_option).find(is_absent) {
        let text = format!("{} is not a run; did you mean `--against`?", visible_path(option));
        return Err(Failure::Usage(text));
    }
    if let Some(absent) = words.iter().find(is_absent) {
        if let Some(baseline) = baseline::named(absent) {
            let absent = visible_path(absent);
            let text = format!("{absent} does not exist; did you mean `{baseline}`?");
            return Err(Failure::Usage(text));
        }
        return Err(Failure::Usage(not_a_run_among(absent, &words)));
    }
    let is_no_run = |word: &&&PathBuf| {
        let folder = run_named(word);
        let mut known = [METRICS, RUN_JSON, COLLECTOR_DIR].iter();
        folder.is_dir() && !known.any(|name| folder.join(name).exists())
    };
    if let Some(other) = words.iter().find(|word| hidden(&run_named(word)).is_some()) {
        return Err(refused_run(other));
    }
    if let Some(other) = words.iter().find(is_no_run) {
        return Err(Failure::Usage(not_a_run_among(other, &words)));
    }
    let runs = groups(&args.runs, terminal)?;
    let against = groups(&args.against, terminal)?;
    let inputs = || runs.iter().chain(&against).flatten();
    for (out, option) in outputs {
        refuse_input(out, inputs())?;
        refuse_ending(out, option, args.json)?;
    }
    let pairs = match against.is_empty() {
        true => first_and_others(&runs),
        false => vec![(runs.iter().flatten().collect(), against.iter().flatten().collect())],
    };
    let expected = args.expect.into_iter().map(Condition::expected);
    let conditions: Vec<Condition> = args.fail_if.into_iter().chain(expected).collect();
    for pair in &pairs {
        refuse_counted_twice(pair)?;
    }
    let same: Vec<bool> = pairs.iter().map(are_same).collect();
    let is_any_same = same.contains(&true);
    let mut diff = diff_of(pairs, &conditions, args.strict)?;
    let compared = diff.comparisons.iter_mut().zip(same);
    for (comparison, _) in compared.filter(|(_, is_same)| *is_same) {
        comparison.verdict = SAME.to_owned();
        comparison.lines.retain(|line| !["next", "noise"].contains(&&*line.label));
    }
    let groups = args.against.is_empty().then(|| as_groups(&runs, &args.runs)).flatten();
    let asks = |line: &AnswerLine| line.label == "next" && line.text.contains("stage2-launch diff");
    // Only of pairs that all lack runs.
    let do_all_ask = diff.comparisons.iter().all(|of| of.lines.iter().any(asks));
    if let Some(next) = groups.filter(|_| do_all_ask) {
        let lines = diff.comparisons.iter_mut().flat_map(|of| &mut of.lines);
        lines.filter(|line| asks(line)).for_each(|line| line.text.clone_from(&next));
    }
    // A program has the commands of the runs.
    for of in diff.comparisons.iter_mut().filter(|_| !args.json) {
        let record = record_line(of, |label| inputs().find(|input| input.label == label));
        of.lines.extend(record);
    }
    let to_file = args.output.is_some();
    inputs().filter_map(damaged_record).for_each(|finding| terminal.finding(&finding));
    refuse_unknown_stage(&diff, &conditions)?;
    if is_any_same && !conditions.is_empty() {
        return Err(Failure::Usage(
            "both sides are the same run, which decides no condition: give two runs, the one before the change first"
                .to_owned(),
        ));
    }
    let summary = || match terminal.is_quiet() {
        true => match width(&std::io::stdout()).filter(|_| std::io::stdout().is_terminal()) {
            Some(width) => {
                let verdicts = view::verdicts(&diff);
                let lines = verdicts.lines().flat_map(|line| wrapped(line, width));
                lines.map(|line| line + "\n").collect()
            }
            None => view::verdicts(&diff),
        },
        false => screens(&diff),
    };
    let text = if args.json {
        let json = serde_json::to_string_pretty(&diff);
        json.map_err(|error| Failure::NoResult(format!("the comparison is not JSON: {error}")))?
            + "\n"
    } else if let Some(out) = args.output.as_deref().filter(|out| is_html(out)) {
        view::html(&diff, &links(out, inputs()))
    } else if args.full && !to_file && std::io::stdout().is_terminal() {
        coloured(&view::full_screen(&diff, width(&std::io::stdout()).unwrap_or(view::WIDTH)))
    } else if args.full || to_file {
        view::markdown(&diff)
    } else {
        summary()
    };
    if let Some(path) = &args.html {
        write(path, &view::html(&diff, &links(path, inputs())), args.json, terminal)?;
    }
    match &args.output {
        Some(path) => {
            write(path, &text, args.json, terminal)?;
            if !args.json {
                printed(&summary())?;
            }
        }
        None => drop(printed(&text)?),
    }
    // A screen names them already, and with -o a page is followed by one.
    let is_page_of_script = args.full && !to_file && !std::io::stdout().is_terminal();
    if args.json || is_page_of_script {
        view::warnings(&diff).iter().for_each(|finding| terminal.finding(finding));
    }
    view::unlike(&diff).iter().for_each(|finding| terminal.finding(finding));
    for (what, remedy) in conditions.iter().filter_map(Condition::reversed) {
        // In a script, too, a condition that cannot fail would pass unseen.
        terminal.warning(&Id::DiffReversed.found(what, "", remedy));
    }
    let is_screen = !(args.json || args.full || terminal.is_quiet());
    let lines = Some(lines_of_screen()).filter(|lines| is_screen && *lines < usize::MAX);
    let outcomes = view::outcomes(&diff, lines);
    for (outcome, sentence) in &outcomes {
        match outcome {
            Outcome::Undecided => {
                // A script that reads little has to tell it from one that passed.
                terminal.warning(&Id::DiffUndecided.found(sentence.as_str(), "", ""));
            }
            outcome if outcome.fails() => terminal.error(sentence),
            _ => terminal.result(sentence),
        }
    }
    let fails = outcomes.iter().any(|(outcome, _)| outcome.fails());
    Ok(if fails { EXIT_CONDITION } else { 0 })
}

/// Runs of a side from which a test can decide.
const ENOUGH_RUNS: usize = 4;
/// Runs without `--against` from which two groups of runs were probably meant.
const GROUPS_LIKELY: usize = 4;

/// The command that compares runs given without `--against` as two groups: more runs are not what is missing. A baseline of
/// several runs is a side, and otherwise runs of the same command are. Of more than two versions none is to be mixed with
/// another one: nothing.
fn as_groups(groups: &[Group], words: &[PathBuf]) -> Option<String> {
    let number: usize = groups.iter().map(Vec::len).sum();
    if groups.len() < 3 || number < GROUPS_LIKELY {
        return None;
    }
    let command = |group: &Group| group.first().and_then(|run| run.read.report.run.command.clone());
    let (first, others) = groups.split_first()?;
    let commands: Vec<_> = others.iter().map(command).filter(|of| *of != command(first)).collect();
    let is_one = commands.windows(2).all(|pair| pair[0] == pair[1]) && !commands.is_empty();
    if others.iter().any(|group| group.len() > 1) || !is_one && !commands.is_empty() {
        return None;
    }
    let is_before = |(at, group): (usize, &Group)| match (first.len() > 1, is_one) {
        (true, _) => at == 0,
        (false, true) => command(group) == command(first),
        (false, false) => at < groups.len() / 2,
    };
    let names = |before: bool| {
        let words = groups.iter().enumerate().zip(words);
        let words = words.filter(|(group, _)| is_before(*group) == before);
        words.map(|(_, word)| plan::quote(word)).collect::<Vec<_>>().join(" ")
    };
    let of_side = |side: bool| {
        let runs = groups.iter().enumerate().filter(|group| is_before(*group) == side);
        runs.map(|(_, group)| group.len()).sum::<usize>()
    };
    let few = match [true, false].map(of_side).iter().any(|runs| *runs < ENOUGH_RUNS) {
        true => format!("record up to {ENOUGH_RUNS} runs per side, interleaved; "),
        false => String::new(),
    };
    Some(format!(
        "{few}to compare two groups of runs (more than two: save each as a baseline): stage2-launch diff {} --against {}",
        names(true),
        names(false)
    ))
}

/// The commands that record the next run of each side, where more runs are to be recorded; nothing where a command is not
/// known.
fn record_line<'i>(
    of: &Comparison,
    inputs: impl Fn(&str) -> Option<&'i Input>,
) -> Option<AnswerLine> {
    let is_asked = |line: &&AnswerLine| line.label == "next" && line.text.starts_with("record ");
    let next = of.lines.iter().find(is_asked)?;
    let run = |(side, name): (&[ComparedRun], &str)| {
        // A side that has enough runs needs none.
        let new = next.text.split(' ').find(|word| word.starts_with(name))?;
        let report = &inputs(&side.first()?.label)?.read.report;
        let Again { verb, mode, workload } = again(report, report.run.command.as_deref()?)?;
        let words: String = workload.iter().map(|word| format!(" {}", plan::quote(word))).collect();
        let mode = mode.map(|mode| format!(" {mode}")).unwrap_or_default();
        Some(format!("stage2-launch {verb}{mode} --run-dir {new} --{words}"))
    };
    let sides = [(&*of.before, "before-"), (&*of.after, "after-")];
    let commands: Vec<String> = sides.into_iter().filter_map(run).collect();
    let load_of = |run: &ComparedRun| load(&inputs(&run.label)?.read.report);
    let load = of.after.iter().find_map(load_of).map(|load| format!("{load}: "));
    let text = format!("{}{}", load.unwrap_or_default(), commands.join(" && "));
    (!commands.is_empty()).then(|| AnswerLine { label: RECORD.to_owned(), text })
}

/// Label of the line with commands that record more runs.
const RECORD: &str = "record";

/// What a terminal shows.
fn screens(diff: &Diff) -> String {
    let width = width(&std::io::stdout()).unwrap_or(view::WIDTH);
    coloured(&view::screens(diff, width, lines_of_screen()))
}

/// Lines of the terminal; what is none has those of `LINES`, or any number.
fn lines_of_screen() -> usize {
    let of_environment = || std::env::var("LINES").ok()?.parse().ok();
    height(&std::io::stdout()).or_else(of_environment).unwrap_or(usize::MAX)
}

/// The judgements in colour, and the bars of judged sides: less time is good. What decides nothing is pale.
fn coloured(text: &str) -> String {
    let (good, bad) = (AnsiColor::Green.on_default(), AnsiColor::Red.on_default());
    let pale = Style::new().dimmed();
    let is_verdict = |line: &str| {
        let rest = ["Better", "Worse", "Mixed"].iter().find_map(|head| line.strip_prefix(head));
        rest.is_some_and(|rest| !rest.starts_with(','))
    };
    let is_judged = text.lines().any(is_verdict);
    let coloured = |line: &str| {
        let bar = line.split_once('█').filter(|(head, _)| is_judged && head.contains('s'));
        if let Some((number, rest)) = bar {
            let style = if number.trim_start().starts_with('-') { good } else { bad };
            let name = rest.trim_start_matches('█');
            let bar = "█".repeat(1 + rest.chars().take_while(|fill| *fill == '█').count());
            return format!("{number}{style}{bar}{style:#}{name}\n");
        }
        for undecided in ["within noise", "inconclusive"] {
            if let Some(rest) = line.strip_suffix(undecided) {
                return format!("{rest}{pale}{undecided}{pale:#}\n");
            }
        }
        for (head, tail, style) in [("Better", " better", good), ("Worse", " worse", bad)] {
            if let Some(rest) = line.strip_prefix(head).filter(|rest| !rest.starts_with(',')) {
                return format!("{style}{head}{style:#}{rest}\n");
            }
            // Sentences end with the word as well.
            if let Some(rest) = line.strip_suffix(tail).filter(|rest| rest.contains('→')) {
                return format!("{rest}{style}{tail}{style:#}\n");
            }
        }
        format!("{line}\n")
    };
    text.lines().map(coloured).collect()
}

/// That the record of a run cannot be read, for which `report` refuses the run. Its report is compared all the same.
fn damaged_record(input: &Input) -> Option<Finding> {
    let folder = input.path.parent()?;
    let path = folder.join(RUN_JSON);
    if path.symlink_metadata().is_err() || RunRecord::read(folder).is_ok() {
        return None;
    }
    let what = format!("{} is damaged, or of a newer version", visible_path(&path));
    let why = "the numbers of its metrics.json are compared, but `stage2-launch report` cannot write them again";
    Some(Id::RunFileUnusable.found(what, why, ""))
}

/// Refuses a name whose ending promises something else than what is written. Any content may have a name without one.
fn refuse_ending(out: &Path, option: &str, is_json: bool) -> Result<(), Failure> {
    let Some(ending) = out.extension().map(|ending| ending.to_string_lossy().to_lowercase()) else {
        return Ok(());
    };
    let fitting: &[&str] = match (option, is_json) {
        ("--html", _) => &["html", "htm"],
        (_, true) => &["json", "txt"],
        (_, false) => &["html", "htm", "md", "markdown", "txt"],
    };
    if fitting.contains(&ending.as_str()) {
        return Ok(());
    }
    let shown = visible_path(out);
    let what = match (option, is_json) {
        ("--html", _) => "it is a page for a browser; let its name end in .html or .htm",
        (_, true) => "it is JSON; let its name end in .json or .txt",
        (_, false) if ending == "json" => "it is a page or Markdown without --json; add --json",
        (_, false) => {
            "it is a page or Markdown; let the name of a page end in .html or .htm, that of Markdown in .md or .txt"
        }
    };
    Err(Failure::Usage(format!("{option} {shown}: {what}")))
}

/// Where the report of each run is that has one, for a page that is written to `out`.
fn links<'i>(out: &Path, inputs: impl Iterator<Item = &'i Input>) -> BTreeMap<String, String> {
    let folder = match out.parent() {
        Some(folder) if folder != Path::new("") => folder.canonicalize(),
        _ => std::env::current_dir(),
    };
    let Ok(folder) = folder else { return BTreeMap::new() };
    let link = |input: &Input| {
        let report = input.path.canonicalize().ok()?.with_file_name(PAGE);
        report.is_file().then(|| (input.label.clone(), link_to(&report, &folder)))
    };
    inputs.filter_map(link).collect()
}

/// An address of a file that holds wherever both folders are moved together.
fn link_to(file: &Path, from: &Path) -> String {
    let (all, from): (Vec<_>, Vec<_>) = (file.components().collect(), from.components().collect());
    let shared = all.iter().zip(&from).take_while(|(a, b)| a == b).count();
    let up = from.iter().skip(shared).map(|_| "..".to_owned());
    let plain = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    let down = all.iter().skip(shared).map(|part| {
        part.as_os_str().as_encoded_bytes().iter().map(|byte| plain(*byte)).collect::<String>()
    });
    up.chain(down).collect::<Vec<_>>().join("/")
}

/// Whether the name of an output asks for a page for a browser.
fn is_html(path: &Path) -> bool {
    let is = |ending: &str| path.extension().is_some_and(|it| it.eq_ignore_ascii_case(ending));
    is("html") || is("htm")
}

/// A condition on a stage that no side has is mistyped: its answer would be none.
fn refuse_unknown_stage(diff: &Diff, conditions: &[Condition]) -> Result<(), Failure> {
    let mut all = diff
        .comparisons
        .iter()
        .flat_map(|of| of.conditions.iter().zip(conditions).map(move |it| (of, it)));
    let unknown = all.find_map(|(of, (row, condition))| Some((row, condition.unknown_stage(of)?)));
    unknown.map_or(Ok(()), |(row, why)| {
        let option = if row.expected { "--expect" } else { "--fail-if" };
        Err(Failure::Usage(format!("{option} '{}': {why}", row.condition)))
    })
}

fn write(path: &Path, text: &str, is_json: bool, terminal: &Terminal) -> Result<(), Failure> {
    write_whole(path, text).map_err(|error| {
        let error = format!("{error:#}");
        let folder = path.parent().unwrap_or(Path::new("."));
        // If the cause is known, the error says what to do.
        let usual = match remedy(&error, folder) {
            Some(_) => "",
            None if error.contains("; ") => "",
            None => "; check the space and the permissions of its folder, or choose another path",
        };
        Failure::NoResult(format!("{error}{usual}"))
    })?;
    terminal.result(&format!("wrote {}", visible_path(path)));
    // With --json, stdout has nothing else.
    if !is_json {
        terminal.place(path);
    }
    Ok(())
}

/// Compares the run in the first folder with each of the others; each is called as its folder.
pub(super) fn of_folders(folders: &[PathBuf]) -> Result<Diff, Failure> {
    let mut runs = Vec::new();
    for folder in folders {
        let name = folder.file_name().unwrap_or_default();
        runs.push(vec![Input { label: visible_path(Path::new(name)), ..input(folder)? }]);
    }
    diff_of(first_and_others(&runs), &[], false)
}

type Side<'i> = Vec<&'i Input>;

/// Whether both sides are the same reports of the same runs, whatever they were called, also as copies.
fn are_same((before, after): &(Side<'_>, Side<'_>)) -> bool {
    let is_in = |side: &Side<'_>, one: &Input| {
        side.iter().any(|input| {
            input.identified().0 == one.identified().0 && input.read.report == one.read.report
        })
    };
    before.iter().all(|one| is_in(after, one)) && after.iter().all(|one| is_in(before, one))
}

/// The noise between runs follows from several runs: one that counts twice would make it too small.
fn refuse_counted_twice(sides: &(Side<'_>, Side<'_>)) -> Result<(), Failure> {
    let (before, after) = sides;
    let of_side = |side: &Side<'_>| refuse_twice(side.iter().map(|input| input.identified()));
    of_side(before)?;
    of_side(after)?;
    // A run and another report of it may be compared.
    if before.len() == 1 && after.len() == 1 {
        return Ok(());
    }
    refuse_twice(before.iter().chain(after).map(|input| input.identified()))
}

/// Refuses runs of which two are one. Each has the words that stand for it.
pub(super) fn refuse_twice(runs: impl Iterator<Item = (String, String)>) -> Result<(), Failure> {
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for (identity, label) in runs {
        let Some(first) = seen.insert(identity, label.clone()) else { continue };
        let what = match first == label {
            true => format!("{label} is named twice"),
            false => format!("{first} and {label} are the same run"),
        };
        return Err(Failure::Usage(format!(
            "{what}: name each run once, because a run compared with itself shows no noise"
        )));
    }
    Ok(())
}

/// What distinguishes a run from all others, also in a copy of it: when it started, and the processes that it recorded; the
/// file of a report that does not say.
pub(super) fn identity(path: &Path, report: &Report) -> String {
    let Some(started) = &report.run.started else {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        return path.to_string_lossy().into_owned();
    };
    let who = report.coverage.processes.iter().map(|process| {
        let pid = process.pid.unwrap_or_default();
        format!("{} {pid} {}", process.host.as_deref().unwrap_or_default(), process.file)
    });
    std::iter::once(started.clone()).chain(who).collect::<Vec<_>>().join("\n")
}

fn first_and_others(groups: &[Group]) -> Vec<(Side<'_>, Side<'_>)> {
    let first = || groups.iter().take(1).flatten().collect();
    groups.iter().skip(1).map(|other| (first(), other.iter().collect())).collect()
}

fn diff_of(
    pairs: Vec<(Side<'_>, Side<'_>)>,
    conditions: &[Condition],
    strict: bool,
) -> Result<Diff, Failure> {
    let compared = pairs.into_iter().map(|(before, after)| {
        let [before, after] =
            [before, after].map(|side| side.into_iter().map(Input::run).collect::<Vec<_>>());
        compare(&before, &after, conditions, strict)
    });
    let compared: Result<Vec<_>, _> = compared.collect();
    let compared = compared.map_err(|error| Failure::NoResult(error.to_string()))?;
    let mut diff = Diff::of(compared, GENERATOR.to_owned());
    diff.fastest = stage2_render::diff::fastest(&diff);
    Ok(diff)
}

impl Input {
    /// What it is, and what it was called.
    fn identified(&self) -> (String, String) {
        (identity(&self.path, &self.read.report), self.label.clone())
    }

    fn run(&self) -> Run<'_> {
        let ReadReport { report, left_out } = &self.read;
        Run { label: &self.label, report, left_out }
    }
}

fn groups(words: &[PathBuf], terminal: &Terminal) -> Result<Vec<Group>, Failure> {
    let read = words.iter().map(|word| {
        terminal.detail(&format!("reading {}", visible_path(word)));
        let Some(reports) = baseline::reports_of(word) else { return Ok(vec![input(word)?]) };
        let reports = reports?;
        let label = |at: usize| match reports.len() {
            1 => visible_path(word),
            _ => format!("{}/{}", visible_path(word), at + 1),
        };
        let read = reports.iter().enumerate();
        read.map(|(at, path)| Ok(Input { label: label(at), ..input(path)? })).collect()
    });
    read.collect()
}

fn input(given: &Path) -> Result<Input, Failure> {
    let path = metrics_of(given)?;
    let (_, mut read) = report_of(&path)?;
    forget_what_is_not_compared(&mut read.report);
    Ok(Input { label: label_of(given), path, read })
}

/// What a run is called: `latest` is another one later, and so has the name of its folder.
fn label_of(given: &Path) -> String {
    let path = run_named(given);
    let is_latest = path.file_name().is_some_and(|name| name == LATEST);
    let target = if is_latest { std::fs::read_link(&path).ok() } else { None };
    match target.filter(|target| target.components().count() == 1) {
        Some(target) => visible_path(&path.with_file_name(target)),
        None => visible_path(given),
    }
}

/// What writes the report of a folder again, or why nothing can.
fn written_again(run: &Path) -> Result<String, String> {
    if !run.join(RUN_JSON).exists() {
        return Err(format!("its folder is not that of a run{}", newest_below(run, &[])));
    }
    let is_cut = |record: RunRecord| lost_traces(run, &record).is_some();
    if RunRecord::read(run).is_ok_and(is_cut) {
        return Err("trace files of the run are missing; restore them, or record again".to_owned());
    }
    Ok(format!("write it again with `stage2-launch report {}`", plan::quote(run)))
}

/// A file's bytes and the report in them.
pub(crate) fn report_of(path: &Path) -> Result<(Vec<u8>, ReadReport), Failure> {
    let refused = |why: String| Failure::NoResult(format!("{}: {why}", visible_path(path)));
    // A file in the folder where the command runs has no folder in its name.
    let run = path.parent().filter(|run| !run.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let bytes = files::read(path, REPORT_LIMIT_BYTES).map_err(|error| {
        let again = match path.ends_with(METRICS).then(|| written_again(run)) {
            Some(Ok(again)) => format!(", or move it away and {again}"),
            _ => String::new(),
        };
        refused(format!("it cannot be read: {error}; make it a file that you may read{again}"))
    })?;
    let read = read_report(&bytes).map_err(|error| match (&error, path.ends_with(METRICS)) {
        (ReadError::OtherSchema(_), false) => refused_run(path),
        (ReadError::NoJson(_) | ReadError::Broken { .. }, true) => {
            refused(match written_again(run) {
                Ok(again) => format!("{error}; {again}"),
                Err(why) => format!("{error}, and nothing can write it again, because {why}"),
            })
        }
        (ReadError::NoJson(_) | ReadError::Broken { .. }, false) => {
            refused(format!("{error}; copy the whole file again, or name its run"))
        }
        _ => refused(error.to_string()),
    })?;
    Ok((bytes, read))
}

/// The report of a file, with the timelines and samples of the file next to it: what cannot be read of these is
/// named among what was left out.
pub(super) fn whole_report_of(path: &Path) -> Result<ReadReport, Failure> {
    let (_, mut read) = report_of(path)?;
    let beside = path.with_file_name("timelines.json");
    if !beside.exists() {
        // Older reports have them in metrics.json.
        let has_samples = read.report.kernels.iter().any(|row| row.sampled.is_some());
        if read.report.sampled.is_some() && !has_samples {
            read.left_out.push("timelines.json (it is not next to metrics.json)".to_owned());
        }
        return Ok(read);
    }
    let timelines = files::read(&beside, REPORT_LIMIT_BYTES).map_err(|error| error.to_string());
    let timelines = timelines
        .and_then(|bytes| serde_json::from_slice(&bytes).map_err(|error| error.to_string()))
        .and_then(|timelines: Timelines| timelines.put_into(&mut read.report));
    if let Err(why) = timelines {
        let again = path.parent().and_then(|run| written_again(run).ok());
        let again = again.map(|again| format!("; {again}")).unwrap_or_default();
        read.left_out.push(format!("timelines.json ({}{again})", visible(why.as_bytes())));
    }
    Ok(read)
}

/// Of a hundred thousand kernels these take more memory than what is compared, and all sides are held at once.
fn forget_what_is_not_compared(report: &mut Report) {
    report.stage_kernels = Vec::new();
    report.step_timelines = Vec::new();
    for row in &mut report.kernels {
        row.path = String::new();
        row.sampled = None;
    }
    report.kernels.shrink_to_fit();
    report.kernel_names.shrink_to_fit();
}

/// The file that holds the report of what the user named.
pub(super) fn metrics_of(given: &Path) -> Result<PathBuf, Failure> {
    let shown = visible_path(given);
    let path = &run_named(given);
    // The file itself may be named.
    let found = std::fs::metadata(path).map_err(|_| refused_run(given))?;
    if !found.is_dir() {
        let may_be = path.ends_with(METRICS) || kind_of(path).is_ok_and(|(what, _)| what == JSON);
        return if may_be { Ok(path.to_owned()) } else { Err(refused_run(given)) };
    }
    let metrics = path.join(METRICS);
    if metrics.exists() {
        return Ok(metrics);
    }
    refuse_dormant(path)?;
    let is_run = [RUN_JSON, COLLECTOR_DIR].iter().any(|name| path.join(name).exists());
    Err(match is_run {
        true if still_runs(path) => Failure::NoResult(format!(
            "{shown} is still running and has no report yet: wait for its end, or watch it with \
             `stage2-launch top {shown}`"
        )),
        true => Failure::NoResult(format!(
            "{shown} holds a run without a report ({METRICS} is missing); write it with \
             `stage2-launch report {shown}`"
        )),
        false => refused_run(given),
    })
}

/// Whether the record of a run is open, and a process that answers writes into its folder.
fn still_runs(run: &Path) -> bool {
    let is_open = RunRecord::read(run).is_ok_and(|record| record.state == RunState::Running);
    is_open && control::find(&control::Target::Run(run.to_owned())).is_ok()
}

/// An output must not replace what is compared, nor any file of a run.
fn refuse_input<'i>(out: &Path, inputs: impl Iterator<Item = &'i Input>) -> Result<(), Failure> {
    let Ok(out_file) = out.canonicalize() else { return Ok(()) };
    let shown = visible_path(out);
    for input in inputs {
        if input.path.canonicalize().is_ok_and(|path| path == out_file) {
            return Err(Failure::Usage(format!(
                "{shown} is one of the reports that are compared; write to another file"
            )));
        }
    }
    match out_file.ancestors().skip(1).find(|folder| is_of_run(&out_file, folder)) {
        Some(run) => Err(Failure::Usage(format!(
            "{shown} is a file of the run in {}; write to another file",
            visible_path(run)
        ))),
        None => Ok(()),
    }
}

/// Whether a file that exists is one of the run in a folder. Where no list tells, all files there are.
fn is_of_run(file: &Path, folder: &Path) -> bool {
    let Ok(name) = file.strip_prefix(folder) else { return false };
    if !folder.join(RUN_JSON).exists() {
        // A run of a baseline has its report alone.
        return name == Path::new(METRICS);
    }
    match RunRecord::read(folder) {
        Ok(record) if !record.files.is_empty() => {
            name == Path::new(RUN_JSON) || record.files.iter().any(|of| Path::new(of) == name)
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_from_the_page_to_the_report() {
        let link = |file: &str, from: &str| link_to(Path::new(file), Path::new(from));
        assert_eq!(link("/r/A 1/report.html", "/r"), "A%201/report.html");
        assert_eq!(link("/r/a/report.html", "/r/pages/x"), "../../a/report.html");
        assert_eq!(link("/r/a:b/report.html", "/r/a:b"), "report.html");
    }
}
