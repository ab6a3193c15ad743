//! A look at processes -> the lines of a page, for a width and a height. Colour only repeats what a mark, a sign
//! or a word says, so that the page reads the same without.

mod answer;
mod foot;
mod gpus;
mod head;
mod help;
mod hosts;
mod kernels;
mod minute;
mod processes;
mod runs;
mod stages;

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use answer::answer;
use clap::ValueEnum;
pub(crate) use foot::goes_on;
use foot::{foot, keys};
use gpus::{counters, gpus};
use head::{head, is_first, nothing};
use help::help;
use hosts::hosts;
use kernels::{kernel_table, kernels_of, without_kernels};
use minute::minute;
use processes::{processes, sorted_processes, waits};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use runs::{of_members, part as part_of_run, run_numbers, runs};
use stage2_contract::order::{IntoOrdered as _, Order as _};
use stage2_contract::stats::P99_VALUES;
use stage2_contract::text::numbers::count;
use stage2_contract::text::shorten;
use stage2_live::{FileState, Look, SILENT_NS, StageNumbers, Watched, class_label};
use stage2_model::{
    HOST_SAMPLES_LEAST, MISSING_PERCENT, PathKind, PathRow, Role, TAIL_VALUES, TokenCounts,
    outlasts_step,
};
use stage2_read::roles::{Meant, RoleSettings};
use stage2_read::trace::stats::Series;
use stage2_report::operators::{OperatorSettings, is_operator};
use stages::{stage_table, whose_times};

use crate::live_source::Switch;

/// A process, by host and number.
pub(crate) type Id = (String, u32);

#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    /// The row of the stage.
    pub(crate) chosen: usize,
    pub(crate) processes_by: ProcessOrder,
    pub(crate) kernels_by: KernelOrder,
    /// Kernels above the first one that is shown.
    pub(crate) above: usize,
    pub(crate) frozen: bool,
    pub(crate) help: bool,
    /// Lines of the help above the first one that is shown.
    pub(crate) help_above: usize,
    /// The process whose numbers are shown, by host and number; `None`: all.
    pub(crate) only: Option<Id>,
    /// The next key states whether this is to be done.
    pub(crate) asked: Option<Switch>,
    /// Only stages and kernels with this in their names, or in the class, are shown. Empty: all.
    pub(crate) filter: String,
    /// Keys change the filter.
    pub(crate) types: bool,
    /// What came of the last key.
    pub(crate) said: Option<String>,
}

impl State {
    /// Whether the filter matches a name.
    fn is_wanted(&self, name: &str) -> bool {
        name.to_lowercase().contains(&self.filter.to_lowercase())
    }

    /// Whether the filter matches the name of a kernel or its class.
    fn is_wanted_kernel(&self, name: &str, class: u8) -> bool {
        self.is_wanted(name) || self.is_wanted(class_label(class))
    }
}

/// What the rows of processes are sorted by: the worst first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProcessOrder {
    /// Rank, host and number
    #[default]
    Rank,
    /// Median time of a call, the slowest first
    #[value(name = "p50")]
    StepTime,
    /// GPU busy time in calls, the least busy first
    Busy,
    /// Time spent waiting for other ranks, the least first: a late rank waits least
    Wait,
    /// Lost records, the most first
    Lost,
}

impl ProcessOrder {
    pub(crate) fn next(self) -> Self {
        match self {
            Self::Rank => Self::StepTime,
            Self::StepTime => Self::Busy,
            Self::Busy => Self::Wait,
            Self::Wait => Self::Lost,
            Self::Lost => Self::Rank,
        }
    }
}

/// What the rows of kernels are sorted by: the largest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum KernelOrder {
    #[default]
    Time,
    Mean,
}

impl KernelOrder {
    pub(crate) fn next(self) -> Self {
        if self == Self::Time { Self::Mean } else { Self::Time }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    /// What is watched: the name of the folder of a run.
    pub(crate) name: String,
    pub(crate) look: Look,
    /// Phases of processes with a socket, by number.
    pub(crate) phases: Vec<(u32, String)>,
    /// The runs of these processes, by number: one that is not recorded has no trace file that names it.
    pub(crate) runs: BTreeMap<u32, String>,
    pub(crate) now_ns: u64,
    /// How long the page has been frozen.
    pub(crate) frozen_ns: u64,
    pub(crate) state: State,
    pub(crate) has_colour: bool,
    /// The page is text that cannot be scrolled or asked for more.
    pub(crate) is_text: bool,
    /// Those of several targets of which there is nothing to show.
    pub(crate) empty_targets: Vec<String>,
    /// That the run has ended, and what to do next.
    pub(crate) ended: Option<String>,
    /// A run that has ended has its report already.
    pub(crate) has_report: bool,
    /// Of each report, its folder and the tokens per second of its stages.
    pub(crate) reported_tokens: Vec<(PathBuf, BTreeMap<String, f64>)>,
    /// Of each run, its folder and what its settings state of its tokens.
    pub(crate) tokens_set: Vec<(PathBuf, TokenCounts)>,
    /// Kernels that the page showed last, and those above them: a key scrolls by as many.
    pub(crate) kernels_shown: Cell<usize>,
    pub(crate) kernels_above: Cell<usize>,
    /// Lines of the help that have no room.
    pub(crate) help_beyond: Cell<usize>,
}

impl View {
    /// Whether the numbers of a process are of its past, which is still being read.
    fn is_unread(&self, process: &Watched) -> bool {
        self.look.is_reading || self.look.catches_up && process.is_behind
    }
}

const KERNEL_COLUMNS: usize = 72;
const HOST_COLUMNS: usize = 24;

/// Lines that the tables share, from which kernels are among them.
const KERNELS_FROM: usize = 10;

/// Lines that the tables share on a high screen.
const HIGH: usize = 30;

/// Rows of kernels that are more important than a line for each GPU.
const KERNELS_LEAST: usize = 6;

/// Lines below which kernels have none: a title and a sum say nothing.
const KERNELS_FIT: usize = 3;

/// Lines of the kernels that stay where a large cause on the host needs one.
const KERNELS_KEPT: usize = 4;

/// Lines from which one of them states whose times those of the stages are.
const WHOSE_FROM: usize = 3;

/// Lines from which one of them states what limits the chosen stage.
const ANSWER_FROM: usize = 24;

/// From this width, kernels have numbers per call, and from this one, the tables have more columns.
const WITH_CALLS: usize = 98;
const WIDE: usize = 130;
/// And from this one, names are whole.
pub(crate) const UNCUT: usize = 1_000;

/// A stage over all processes of a run.
#[derive(Default)]
pub(crate) struct Row {
    name: String,
    /// Where several runs are shown: its name, and its processes.
    run: Option<String>,
    members: Option<BTreeSet<Id>>,
    processes: u64,
    /// Of these, those that have a part in the rates.
    with_rates: u64,
    sum: StageNumbers,
    /// What the times are of, as in a report, and how many of these ended per second.
    each_per_s: Option<f64>,
    unit: &'static str,
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
    /// Parts of the time in calls, which add up to it.
    busy: Option<f64>,
    gaps: Option<f64>,
    idle: Option<f64>,
    /// Only the GPU work of other stages ran.
    other: Option<f64>,
    /// The part of `busy` in which communication waited.
    wait: Option<f64>,
    /// Of the processes that know theirs.
    tokens_per_s: Option<f64>,
    with_tokens: u64,
    requests: Option<f64>,
    launches_per_s: f64,
    /// Calls or steps with recorded work; and the processes with rates of which GPU work is recorded.
    recorded: f64,
    with_gpu: u64,
    other_ns: u64,
    /// No GPU work of it is recorded at all, neither now nor before.
    launches_none: bool,
    /// So large a share of the GPU records is missing that numbers of the GPU are not known.
    missing: Option<f64>,
}

/// At the end of a line that has no room for all.
const MORE: &str = " …";

/// The part of the time in which no work ran, within calls or between them. IDLE, of a stage, is another one.
const UNUSED: &str = "NO WORK";

/// How many stages can be chosen.
pub(crate) fn stages(view: &View) -> usize {
    rows(view).len()
}

/// How many kernels the chosen stage has.
pub(crate) fn kernels(view: &View) -> usize {
    rows(view)
        .get(view.state.chosen)
        .map_or(0, |row| kernels_of(&seen(view, Some(row)), row).0.len())
}

/// The process that is shown alone.
pub(crate) fn only(view: &View) -> Option<&Watched> {
    let is_chosen = |of: &&Watched| view.state.only.as_ref() == Some(&id(of));
    view.look.processes.iter().find(is_chosen)
}

/// The processes that are shown: all of them, or the chosen one alone.
fn shown(view: &View) -> impl Iterator<Item = &Watched> {
    let only = only(view).map(id);
    view.look.processes.iter().filter(move |of| only.as_ref().is_none_or(|only| *only == id(of)))
}

/// What is known of the processes that are shown, of the run of a row, without the others.
fn seen<'v>(view: &'v View, row: Option<&Row>) -> Cow<'v, View> {
    match only(view) {
        Some(process) => Cow::Owned(of_members(view, &[id(process)].into())),
        None => of_run(view, row),
    }
}

/// How the process that is shown alone is called: a run says more than a number.
fn alone(view: &View, process: &Watched) -> String {
    let all = runs(view.look.processes.iter());
    let run = all.iter().find(|run| all.len() > 1 && run.members.contains(&id(process)));
    match (run, process.rank) {
        (Some(run), None) if run.members.len() == 1 => run.name.clone(),
        (Some(run), _) => format!("{} of {}", who(process), run.name),
        (None, _) => who(process),
    }
}

/// What is known of the run of a row.
fn of_run<'v>(view: &'v View, row: Option<&Row>) -> Cow<'v, View> {
    match row.and_then(|row| row.members.as_ref()) {
        Some(members) => Cow::Owned(of_members(view, members)),
        None => Cow::Borrowed(view),
    }
}

fn id(process: &Watched) -> Id {
    (process.host.clone(), process.pid)
}

/// Shows alone the process below or above the one that is shown, with the same stage.
pub(crate) fn show_neighbour(view: &mut View, is_below: bool) {
    let (row, only) = (chosen_row(view), neighbour(view, is_below));
    (view.state.only, view.state.above) = (only, 0);
    keep_stage(view, row);
}

/// The row of the chosen stage.
pub(crate) fn chosen_row(view: &View) -> Option<Row> {
    rows(view).into_iter().nth(view.state.chosen)
}

/// Chooses the stage of this row, which may have another place by now: of the same run, if that is shown.
pub(crate) fn keep_stage(view: &mut View, row: Option<Row>) {
    let Some(row) = row else { return };
    let all = rows(view);
    let is_of_run = |of: &Row| match (&of.members, &row.members) {
        (Some(one), Some(other)) => !one.is_disjoint(other),
        _ => true,
    };
    let place =
        |is_it: &dyn Fn(&Row) -> bool| all.iter().position(|of| of.name == row.name && is_it(of));
    let at = place(&is_of_run).or_else(|| place(&|_| true));
    view.state.chosen = at.unwrap_or(view.state.chosen);
}

/// The process that the page shows above or below the chosen one; `None`, for all, is above the first.
fn neighbour(view: &View, is_below: bool) -> Option<Id> {
    let rows = rows(view);
    let sorted = sorted_processes(view, rows.get(view.state.chosen));
    let chosen = view.state.only.as_ref();
    let at = sorted.iter().position(|process| Some(&id(process)) == chosen);
    let next = match (at, is_below) {
        (None, true) => 0,
        (None, false) | (Some(0), false) => return None,
        (Some(at), true) => (at + 1).min(sorted.len().saturating_sub(1)),
        (Some(at), false) => at - 1,
    };
    sorted.get(next).map(|process| id(process))
}

/// The page, `height` lines at most.
pub(crate) fn page(view: &View, width: usize, height: usize) -> Vec<Line<'static>> {
    if view.state.help {
        return help(view, width, height);
    }
    let (kernels_shown, kernels_above) = (&view.kernels_shown, &view.kernels_above);
    let mut lines = head(view, width);
    let rows = rows(view);
    let chosen = view.state.chosen.min(rows.len().saturating_sub(1));
    if height >= ANSWER_FROM {
        lines.extend(answer(view, rows.get(chosen), width));
    }
    let (seen, all_seen) = (&*seen(view, rows.get(chosen)), &*seen(view, None));
    // Whatever there is to say, one stage and the titles of its columns stay.
    let mut foot = foot(view, &rows, width, height.saturating_sub(lines.len() + 2));
    // What is left is shared, next to the line of the keys; kernels get what the others leave.
    let left = height.saturating_sub(lines.len() + foot.len() + 5);
    // On a low screen, operators have only the lines that nothing else needs.
    let is_wanted = |row: &&Row| left >= HIGH || !is_unasked_operator(view, row);
    let wanted = Some(rows.iter().filter(is_wanted).count()).filter(|wanted| *wanted > 0);
    let for_stages = wanted.unwrap_or(rows.len()).clamp(1, (left / 3).max(1));
    // Where kernels have no room, processes have theirs.
    let is_low = left < KERNELS_FROM;
    let for_processes = if is_low { left.div_ceil(3) } else { left / 4 };
    let for_processes = view.look.processes.len().clamp(1, for_processes.max(1));
    let processes_in = |lines: usize, why_of_all: bool| {
        processes(view, (rows.get(chosen), &rows), (lines, why_of_all), width)
    };
    let mut processes = processes_in(for_processes, true);
    // Of a past that is still being read, they would look as if they were of now.
    let is_now = view.ended.is_none() && !view.look.is_reading;
    let (minute, mut states) = match left >= 14 && is_now {
        true => (minute(seen, rows.get(chosen), width), gpus(all_seen, left / 8, width)),
        false => (Vec::new(), Vec::new()),
    };
    // Of a run that has ended, they would be of its last second.
    let counters = match is_now {
        true => counters(all_seen, (left / 8).max(1), width),
        false => Vec::new(),
    };
    let for_hosts = if left < HIGH { left / 5 } else { left / 4 }.max(1);
    let hosts_in = |lines: usize| match is_first(view) {
        true => (Vec::new(), false),
        false => hosts(&of_run(view, rows.get(chosen)), rows.get(chosen), lines, width),
    };
    let (mut hosts, mut is_cut) = hosts_in(for_hosts);
    // The title of the hosts has its line already.
    let with_hosts = hosts.len().saturating_sub(1);
    let mut others = for_stages + processes.len() + with_hosts + minute.len() + counters.len();
    // The titles of the kernels and of the processes have their lines, too.
    let mut for_kernels = (left + 2).saturating_sub(others + states.len());
    let whose = rows.get(chosen).and_then(|row| whose_times(view, row, &rows, width));
    let whose = whose.filter(|_| left >= WHOSE_FROM);
    let mut for_stages = for_stages;
    // As long as there is more than one row, the columns are worth less than whose they are.
    if whose.is_some() && for_kernels == 0 && for_stages > 1 {
        for_stages -= 1;
    }
    for_kernels = for_kernels.saturating_sub(usize::from(whose.is_some()));
    // Kernels of the chosen stage are worth more than why a rank of another run is late.
    let hidden = without_kernels(seen, rows.get(chosen), width);
    let mut why_of_all = true;
    if for_kernels < KERNELS_FIT && hidden.is_some() {
        let fewer = processes_in(for_processes, false);
        let others_then = others - (processes.len() - fewer.len());
        let room =
            (left + 2).saturating_sub(others_then + states.len() + usize::from(whose.is_some()));
        if room >= KERNELS_FIT {
            (processes, others, for_kernels, why_of_all) = (fewer, others_then, room, false);
        }
    }
    // What the host does is worth more than the last kernels.
    let mut for_hosts = for_hosts;
    let kept = if states.len() > 1 { KERNELS_LEAST + 1 } else { KERNELS_KEPT };
    let kept = kept.max(left / 4);
    while is_cut && for_kernels > kept {
        let (more, is_still_cut) = hosts_in(for_hosts + 1);
        let taken = more.len().saturating_sub(hosts.len());
        if for_kernels < kept + taken {
            break;
        }
        (for_hosts, for_kernels, others) = (for_hosts + 1, for_kernels - taken, others + taken);
        (hosts, is_cut) = (more, is_still_cut);
    }
    // A title and a sum say nothing: stages have the lines, but one, which says what is missing.
    let hidden = match (for_kernels, for_stages) {
        (0, 0..2) | (KERNELS_FIT.., _) => None,
        _ => hidden,
    };
    if hidden.is_some() && for_kernels == 0 {
        for_stages -= 1;
    }
    if for_kernels < KERNELS_FIT {
        for_kernels = for_kernels.saturating_sub(usize::from(hidden.is_some()));
        for_stages = (for_stages + std::mem::take(&mut for_kernels)).min(rows.len());
    }
    if for_kernels <= KERNELS_LEAST && states.len() > 1 {
        states = gpus(all_seen, 1, width);
        for_kernels = (left + 2).saturating_sub(others + states.len());
        for_kernels = for_kernels.saturating_sub(usize::from(whose.is_some()));
    }
    let alone = only(view).map_or_else(String::new, |of| format!(" of {}", alone(view, of)));
    let kernels = match hidden.filter(|_| for_kernels < KERNELS_FIT) {
        Some(line) => vec![line],
        None => kernel_table(seen, rows.get(chosen), for_kernels, width),
    };
    // Of one process alone, the keys act on another view than the table.
    kernels_shown.set(if kernels.len() > 1 { seen.kernels_shown.get() } else { 0 });
    kernels_above.set(seen.kernels_above.get());
    foot.push(keys(view, width));
    let whose = whose.into_iter().collect();
    let above = [whose, minute, kernels, states, counters].concat();
    // No row is missing, and no text cut, while lines are free.
    let fixed = lines.len() + foot.len() + above.len() + 1 + for_stages;
    let free = height.saturating_sub(fixed + hosts.len() + processes.len());
    if free > 0 {
        processes = processes_in(for_processes + free, why_of_all);
        let lines = height.saturating_sub(fixed + processes.len() + 1).max(for_hosts);
        (hosts, _) = hosts_in(lines);
    }
    let below = [above, hosts, processes].concat();
    // What these leave, with the line of the title.
    let free = height.saturating_sub(lines.len() + foot.len() + below.len() + 1);
    let for_stages = for_stages.max(free.min(rows.len()));
    lines.extend(stage_table(view, (&rows, &alone, &nothing(view)), chosen, for_stages, width));
    lines.extend(below);
    lines.truncate(height.saturating_sub(foot.len()));
    let above = lines.len().max(height.saturating_sub(foot.len()));
    lines.resize(above, Line::default());
    lines.extend(foot);
    lines.truncate(height);
    lines
}

/// Processes that wait for a start.
fn dormant(view: &View) -> usize {
    view.phases.iter().filter(|of| is_dormant(of) && !is_stopped(view, of.0)).count()
}

/// Processes that were recorded, and wait for a start.
fn stopped(view: &View) -> usize {
    view.phases.iter().filter(|of| is_stopped(view, of.0)).count()
}

fn is_dormant((_, phase): &(u32, String)) -> bool {
    phase == "dormant"
}

fn is_stopped(view: &View, pid: u32) -> bool {
    // Its file has its end a moment later.
    let was_recorded =
        |of: &Watched| of.pid == pid && (of.state == FileState::Ended || of.counts.work > 0);
    view.phases.iter().any(|of| of.0 == pid && is_dormant(of))
        && view.look.processes.iter().any(was_recorded)
}

fn rows(view: &View) -> Vec<Row> {
    let all = runs(view.look.processes.iter());
    let mut rows = match all.as_slice() {
        [] | [_] => rows_of_run(view),
        all => {
            let only = only(view).map(id);
            let shown =
                all.iter().filter(|run| only.as_ref().is_none_or(|of| run.members.contains(of)));
            let rows = shown.flat_map(|run| {
                let rows = rows_of_run(&part_of_run(view, run)).into_iter();
                rows.map(|row| Row {
                    run: only.is_none().then(|| run.name.clone()),
                    members: Some(run.members.clone()),
                    ..row
                })
            });
            let mut rows: Vec<Row> = rows.collect();
            // Next to one that is recorded, the last rates of another one would look as if they were of now.
            let recorded = recorded(view);
            let is_old =
                |row: &Row| row.members.as_ref().is_some_and(|of| of.is_disjoint(&recorded));
            if !recorded.is_empty() {
                rows.iter_mut().filter(|row| is_old(row)).for_each(Row::without_rates);
            }
            rows
        }
    };
    // Those with work first, the model's in front, then what is no range of the program, operators last, and in one order
    // whatever their numbers do.
    let roles = RoleSettings::default();
    rows.order_by_cached_key(|row| {
        let place = match roles.of(&row.name, None) {
            Meant::Stage(Role::Prefill | Role::Decode) => 0,
            Meant::Stage(_) => 1,
            Meant::Apart(_) => 2,
        };
        let has_none = row.sum.launches == 0;
        let is_last = is_unasked_operator(view, row);
        (is_last, has_none, row.name.starts_with('('), place, row.name.clone(), row.run.clone())
    });
    rows
}

/// Whether a row is of an operator of PyTorch that the filter does not name.
fn is_unasked_operator(view: &View, row: &Row) -> bool {
    let range = PathRow { name: row.name.clone(), kind: PathKind::Range, ..PathRow::default() };
    view.state.filter.is_empty() && is_operator(&range, &OperatorSettings::default())
}

fn rows_of_run(view: &View) -> Vec<Row> {
    let mut all: BTreeMap<&str, Row> = BTreeMap::new();
    let of_engine = of_engine(view);
    let running = recorded(view);
    let windows = || shown(view).flat_map(|process| &process.window.stages);
    let of_engines: BTreeSet<&String> =
        windows().filter(|of| of.1.steps_with_requests > 0).map(|of| of.0).into_set();
    for process in shown(view) {
        let with_work =
            process.window.stages.iter().filter(|(_, sum)| sum.each().0 > 0 || sum.launches > 0);
        for (name, sum) in with_work {
            let Some(seconds) = seconds(process, sum) else { continue };
            let row = all.entry(name).or_default();
            row.name.clone_from(name);
            row.processes += 1;
            let is_of_engine = of_engines.contains(name);
            let is_other = sum.run.is_some()
                && is_of_engine
                && of_engine.as_ref().is_some_and(|of_engine| *of_engine != id(process));
            let mut counted = sum.clone();
            if is_other {
                counted.run = None;
            }
            // Calls next to steps are none.
            if is_of_engine && sum.steps_with_requests == 0 {
                counted.step_times = Series::default();
            }
            match process.has_no_gpu_records {
                // It has no part in the shares of the time in calls.
                true => (counted.window_ns, counted.busy_ns) = (0, 0),
                false => {
                    row.other_ns = row.other_ns.saturating_add(other_ns(process, name, sum));
                    row.recorded += sum.each().1;
                }
            }
            row.sum.add(&counted);
            if is_old(&running, process) {
                continue;
            }
            row.with_rates += 1;
            row.with_gpu += u64::from(!process.has_no_gpu_records);
            let add = |to: &mut Option<f64>, of: u64| {
                *to = Some(to.unwrap_or(0.0) + of as f64 / seconds).filter(|sum| *sum > 0.0);
            };
            add(&mut row.each_per_s, sum.each().0);
            if let Some(rate) = own_tokens_per_s(process, sum) {
                row.tokens_per_s = Some(row.tokens_per_s.unwrap_or(0.0) + rate);
                row.with_tokens += 1;
            }
            row.launches_per_s += sum.launches as f64 / seconds;
        }
    }
    if !view.state.filter.is_empty() {
        // A stage is also looked for by its kernels.
        let kernels = shown(view).flat_map(|process| &process.window.kernels);
        let with_kernel: BTreeSet<&str> = kernels
            .filter(|of| view.state.is_wanted_kernel(&of.name, of.class))
            .map(|of| &*of.stage)
            .into_set();
        all.retain(|name, _| view.state.is_wanted(name) || with_kernel.contains(name));
    }
    let mut rows: Vec<Row> = all.into_values().collect();
    for row in &mut rows {
        row.finish(view);
    }
    if let [(_, tokens)] = view.tokens_set.as_slice() {
        tokens_by_settings(&mut rows, tokens, view.ended.is_some());
    }
    rows
}

/// Tokens per second that follow from the settings of a run that goes on: a step of a decode makes a token of each
/// sequence, and a prefill before each decode reads the prompts.
fn tokens_by_settings(rows: &mut [Row], tokens: &TokenCounts, has_ended: bool) {
    let Ok(batch) = tokens.batch() else { return };
    let is_stage = |row: &Row, role: Role| {
        let is_live = !has_ended && row.sum.steps_with_requests == 0;
        is_live
            && matches!(RoleSettings::default().of(&row.name, None), Meant::Stage(of) if of == role)
    };
    let is_decode = |row: &&Row| is_stage(row, Role::Decode) && row.sum.within > 0;
    let decodes: Vec<u64> = rows.iter().filter(is_decode).map(|row| row.sum.steps).collect();
    let is_prefill = |row: &Row| {
        // One of each process may be cut.
        let is_before = |decodes: &u64| decodes.abs_diff(row.sum.steps) <= row.processes;
        let is_one = matches!(decodes.as_slice(), [decodes] if is_before(decodes));
        is_one && is_stage(row, Role::Prefill) && row.sum.within == 0
    };
    for row in rows.iter_mut().filter(|row| row.tokens_per_s.is_none()) {
        let each = match () {
            () if is_decode(&&*row) => Some(batch),
            () if is_prefill(row) => {
                tokens.prompt().ok().map(|prompt| prompt.saturating_mul(batch))
            }
            () => None,
        };
        row.tokens_per_s = each.zip(row.each_per_s).map(|(each, per_s)| each as f64 * per_s);
    }
}

/// The processes that are recorded now.
fn recorded(view: &View) -> BTreeSet<Id> {
    let is_recorded = |of: &&Watched| of.is_growing() && !is_silent(view, of);
    view.look.processes.iter().filter(is_recorded).map(id).collect()
}

/// Whether the last seconds of a process are of another time than those of the processes that are recorded now: it has no
/// rates next to them.
fn is_old(recorded: &BTreeSet<Id>, process: &Watched) -> bool {
    !recorded.is_empty() && !recorded.contains(&id(process))
}

/// The process that the times of an engine are of once its run has ended, as in a report: its ranks run the same
/// steps, so one with the most steps stands for all.
fn of_engine(view: &View) -> Option<(String, u32)> {
    let steps = |process: &&Watched| {
        let stages = process.window.stages.values();
        let of_engine = stages.filter(|sum| sum.run.is_some() && sum.steps_with_requests > 0);
        of_engine.map(|sum| sum.steps).fold(0, u64::saturating_add)
    };
    // The first one of those that have as many.
    let all: Vec<&Watched> = shown(view).filter(|process| steps(process) > 0).collect();
    all.into_iter().rev().max_by_key(steps).map(id)
}

impl Row {
    /// Its name, with that of the run where there are several.
    fn label(&self) -> String {
        match &self.run {
            Some(run) => format!("{} of {run}", self.name),
            None => self.name.clone(),
        }
    }

    /// What is per second of the last seconds is left out; of a whole run, tokens are per second in calls.
    fn without_rates(&mut self) {
        (self.each_per_s, self.launches_per_s) = (None, 0.0);
        self.tokens_per_s.take_if(|_| self.sum.run.is_none());
    }

    /// From sums to what is shown.
    fn finish(&mut self, view: &View) {
        let with_rates = self.with_rates.max(1) as f64;
        self.each_per_s = self.each_per_s.map(|sum| sum / with_rates);
        let of_all = self.tokens_per_s.map(|sum| sum / self.with_tokens.max(1) as f64);
        let has_one_gpu_each = shown(view).all(|process| process.device_totals.len() <= 1);
        let of_run = run_tokens_per_s(&self.sum, has_one_gpu_each);
        self.tokens_per_s = of_run.or(of_all.filter(|rate| *rate > 0.0));
        // A report also knows those that only the command or the settings of the run state: of all of its processes.
        let reported = match view.reported_tokens.as_slice() {
            [(_, tokens)] => tokens.get(&self.name).copied(),
            _ => None,
        };
        let is_all = shown(view).count() == view.look.processes.len();
        self.tokens_per_s = self.tokens_per_s.or(reported.filter(|_| is_all));
        self.launches_per_s /= self.with_gpu.max(1) as f64;
        self.unit = unit(&self.sum);
        self.p50_ns = self.sum.step_time(50);
        self.p99_ns = p99(&self.sum);
        self.requests = self.sum.requests_per_step();
        self.wait = mean_wait(view, &self.name);
        // Where no GPU work at all is recorded, how busy the GPU is is not known. A stage that never launched any has
        // its work elsewhere, if it has some: that says nothing of idle time.
        let before = shown(view).filter_map(|process| process.totals.get(&self.name));
        self.launches_none =
            self.sum.launches == 0 && before.map(|of| of.launches).all(|of| of == 0);
        self.missing = missing(shown(view));
        if self.missing.is_some() {
            (self.wait, self.recorded, self.launches_per_s) = (None, 0.0, 0.0);
        }
        let is_known = !self.launches_none && self.missing.is_none();
        self.busy = self.sum.busy_share().filter(|_| is_known);
        let window_ns = self.sum.window_ns as f64;
        self.other = self.busy.map(|busy| (self.other_ns as f64 / window_ns).min(1.0 - busy));
        let rest = self.busy.zip(self.other).map(|(busy, other)| 1.0 - busy - other);
        self.gaps = self.sum.gap_share().zip(rest).map(|(gaps, rest)| gaps.min(rest));
        self.idle = rest.map(|rest| (rest - self.gaps.unwrap_or(0.0)).max(0.0));
    }
}

/// Of enough calls or steps; of a run that has ended, of as many as in a report.
fn p99(sum: &StageNumbers) -> Option<u64> {
    let least = if sum.run.is_some() { TAIL_VALUES } else { P99_VALUES };
    let has_some = sum.timed_steps() >= least;
    sum.step_time(99).filter(|_| has_some)
}

/// Of the steps of an engine whose run has ended, as in a report: no more than the GPU did.
fn run_tokens_per_s(sum: &StageNumbers, has_one_gpu: bool) -> Option<f64> {
    let run = sum.run.as_ref().filter(|_| sum.steps_with_requests > 0)?;
    let (step_ns, steps) = (run.mean_ns()?, sum.recorded_steps.max(1));
    let work_ns = sum.busy_ns as f64 / steps as f64;
    let has_times = sum.timed_steps() * 10 >= sum.steps * 9;
    let is_whole = sum.recorded_steps == sum.steps && has_times && has_one_gpu;
    let is_longer = is_whole && outlasts_step(work_ns, step_ns);
    run.tokens_per_s().map(|rate| if is_longer { rate * step_ns / work_ns } else { rate })
}

/// Tokens per second of a process, of its calls that state them: of a whole run in these calls, else of the last seconds.
fn own_tokens_per_s(process: &Watched, sum: &StageNumbers) -> Option<f64> {
    let known = || {
        let part = if is_in_calls(process, sum) { sum.tokens_part()? } else { 1.0 };
        Some(sum.tokens as f64 / (seconds(process, sum)? * part))
    };
    let has_one_gpu = process.device_totals.len() <= 1;
    run_tokens_per_s(sum, has_one_gpu).or_else(|| known().filter(|_| sum.steps_with_tokens > 0))
}

/// How long only work of other stages ran in the calls of a stage. Of a run that has ended as in its report, which takes it
/// from the samples of the host, if there are any.
fn other_ns(process: &Watched, stage: &str, sum: &StageNumbers) -> u64 {
    let host = process.window.hosts.get(stage).filter(|_| process.window.is_whole);
    let host = host.filter(|host| host.samples >= HOST_SAMPLES_LEAST);
    match host {
        Some(host) => {
            let part = hosts::other_work(host).clamp(0.0, 1.0);
            (sum.window_ns.saturating_sub(sum.busy_ns) as f64 * part).round() as u64
        }
        None => sum.other_ns,
    }
}

/// What a call is called, as in a report.
fn unit(sum: &StageNumbers) -> &'static str {
    if sum.steps_with_requests > 0 || sum.within > 0 { "step" } else { "call" }
}

/// What the rates of a stage are over: the last seconds, and of a whole run the time in its calls.
fn seconds(process: &Watched, stage: &StageNumbers) -> Option<f64> {
    let (ns, of_all) = match is_in_calls(process, stage) {
        // The windows are those of the calls that are recorded.
        true => (stage.window_ns, stage.steps as f64 / stage.recorded_steps as f64),
        false => (process.window.ns, 1.0),
    };
    (ns > 0).then(|| ns as f64 / 1e9 * of_all)
}

fn is_in_calls(process: &Watched, stage: &StageNumbers) -> bool {
    stage.window_ns > 0 && process.window.is_whole && stage.recorded_steps > 0
}

/// The part of the time in calls in which a process that is shown waited for other ranks, on average.
fn mean_wait(view: &View, stage: &str) -> Option<f64> {
    let all = &view.look.processes;
    let only = only(view).map(id);
    let is_shown = |of: &Watched| only.as_ref().is_none_or(|only| *only == id(of));
    let shown = waits(view, stage).into_iter().zip(all).filter(|(_, process)| is_shown(process));
    let known: Vec<f64> = shown.filter_map(|(wait, _)| wait).collect();
    (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
}

/// The most columns of names: those of the longest where there is room for all.
fn most_columns(most: usize, longest: usize, width: usize) -> usize {
    if width >= UNCUT { longest.max(most) } else { most }
}

/// A line of as many cells, right-aligned in their columns, as are whole in it; the last ones are for wide terminals.
fn row_of<'c>(
    start: String,
    cells: impl Iterator<Item = (&'c String, usize)>,
    width: usize,
) -> String {
    let (mut line, mut columns) = (start.clone(), start.chars().count());
    for (cell, cell_width) in cells {
        columns += 1 + cell_width;
        if columns > width {
            break;
        }
        line.push_str(&format!(" {cell:>cell_width$}"));
    }
    line
}

/// How a process is called, in as few letters as possible.
fn who(process: &Watched) -> String {
    process.rank.map_or_else(|| process.pid.to_string(), |rank| format!("rank {rank}"))
}

/// Whether nothing more comes: no process has a socket, and all trace files have their end or have not grown for long.
/// A file that was taken away may come again.
pub(crate) fn is_over(view: &View) -> bool {
    let ended = |process: &Watched| match process.state {
        FileState::Ended => true,
        FileState::Growing | FileState::Cut | FileState::Damaged(_) => is_silent(view, process),
        _ => false,
    };
    // One that cannot be read says nothing of its process.
    let is_read = |of: &&Watched| !matches!(of.state, FileState::Unreadable(_));
    let mut all = view.look.processes.iter().filter(is_read).peekable();
    view.phases.is_empty() && all.peek().is_some() && all.all(ended)
}

/// What is missing of a process: records and events. Work that was recorded and not placed is shown next to it, a name that
/// was cut or a range that was not closed hides none, and CUPTI counts what it drops for want of a buffer itself.
fn lost(process: &Watched) -> u64 {
    let kept = [
        "unattributed",
        "names_cut",
        "unbalanced_range_ends",
        "unclosed_ranges",
        REFUSED,
        UNWRITTEN,
    ];
    let all = process.losses.iter().filter(|(kind, _)| !kept.contains(kind));
    let reader = process.corrupt_frames.saturating_add(process.counts.left_out);
    all.map(|(_, count)| *count).fold(reader, u64::saturating_add)
}

const DROPPED: &str = "dropped_by_cupti";
const REFUSED: &str = "buffers_refused";
const UNWRITTEN: &str = "unwritten_bytes";

fn loss(process: &Watched, kind: &str) -> u64 {
    process.losses.iter().filter(|of| of.0 == kind).fold(0, |sum, of| sum.saturating_add(of.1))
}

/// The share of the GPU records of these processes that CUPTI dropped, where a report would state it as well.
fn missing<'p>(all: impl Iterator<Item = &'p Watched>) -> Option<f64> {
    let (dropped, work) = all.fold((0.0, 0.0), |(dropped, work), of| {
        (dropped + loss(of, DROPPED) as f64, work + of.counts.work as f64)
    });
    Some(dropped / (dropped + work)).filter(|share| *share * 100.0 >= MISSING_PERCENT)
}

/// That they are missing.
fn missing_text(missing: f64) -> String {
    format!("{:.0}% of the GPU records are missing", missing * 100.0)
}

/// Records are whole: few of them have no places after the point. At most five characters, and two of [`lost_text`].
fn lost_count(lost: u64) -> String {
    match lost {
        0..10_000 => count(lost),
        10_000..1_000_000 => format!("{}k", lost / 1_000),
        1_000_000..1_000_000_000 => format!("{}M", lost / 1_000_000),
        _ => format!("{:.0e}", lost as f64),
    }
}

/// Whether an unknown amount is missing: the trace file ends before its process did, lacks bytes, or does not tell yet what
/// was dropped.
fn is_incomplete(process: &Watched) -> bool {
    let is_cut = matches!(process.state, FileState::Cut | FileState::Damaged(_));
    let has_untold =
        loss(process, UNWRITTEN) > 0 || loss(process, REFUSED) > 0 && loss(process, DROPPED) == 0;
    process.is_torn || process.is_cut_off || is_cut || has_untold
}

fn lost_text(lost: u64, is_incomplete: bool, text: impl Fn(u64) -> String) -> String {
    match (is_incomplete, lost) {
        (false, _) => text(lost),
        (true, 0) => "?".to_owned(),
        (true, _) => format!("{}+?", text(lost)),
    }
}

/// Whether a process without a socket is gone, or nothing was heard of it for long.
fn is_silent(view: &View, process: &Watched) -> bool {
    let has_socket = view.phases.iter().any(|(pid, _)| *pid == process.pid);
    let last = process.last_wall_ns.or(process.window.end_wall_ns);
    let is_old = |last: u64| view.now_ns.saturating_sub(last) > SILENT_NS;
    !has_socket && !process.is_behind && (process.is_gone || last.is_some_and(is_old))
}

const RECORDING: &str = "recording";

/// What a process does: its phase where it has a socket, else how things stand with its file.
fn state(view: &View, process: &Watched) -> String {
    let phase = view.phases.iter().find(|(pid, _)| *pid == process.pid);
    match (&process.state, phase) {
        (FileState::Growing | FileState::Waiting | FileState::Ended, None)
            if view.is_unread(process) =>
        {
            "reading".to_owned()
        }
        // As the first line counts them.
        (FileState::Growing | FileState::Waiting, Some((_, phase))) if phase == "on" => {
            RECORDING.to_owned()
        }
        (FileState::Growing, Some(_)) if is_stopped(view, process.pid) => "stopped".to_owned(),
        (FileState::Growing | FileState::Waiting, Some((_, phase))) => phase.clone(),
        // The file knows of its end before the socket is asked again; whether the process goes on, the socket tells.
        (FileState::Ended, Some((_, phase))) if phase == "on" || phase == "dormant" => {
            "stopped".to_owned()
        }
        (FileState::Ended, Some((_, phase))) => phase.clone(),
        (FileState::Growing, None) if process.is_torn => "cut".to_owned(),
        (FileState::Growing, None) if process.is_gone && process.is_cut_off => "killed".to_owned(),
        (FileState::Growing, None)
            if process.states_its_end && (process.is_gone || is_silent(view, process)) =>
        {
            "ended".to_owned()
        }
        (FileState::Growing, None) if is_silent(view, process) => "silent".to_owned(),
        (FileState::Growing, None) => RECORDING.to_owned(),
        (FileState::Waiting, None) => "empty".to_owned(),
        (FileState::Ended, _) => "ended".to_owned(),
        (FileState::Removed, _) => "removed".to_owned(),
        (FileState::Replaced, _) => "replaced".to_owned(),
        (FileState::Cut, _) => "cut".to_owned(),
        (FileState::Damaged(_), _) => "damaged".to_owned(),
        (FileState::Unreadable(_), _) => "unread".to_owned(),
        (FileState::Unreachable, _) => "no answer".to_owned(),
    }
}

/// The title of a column, with a mark where the rows are sorted by it.
fn marked(title: &str, is_order: bool) -> String {
    format!("{title}{}", if is_order { "▾" } else { "" })
}

fn plain(text: &str, width: usize) -> Line<'static> {
    Line::from(ended(text, width))
}

fn bold(text: &str, width: usize) -> Line<'static> {
    Line::from(Span::styled(ended(text, width), Style::new().add_modifier(Modifier::BOLD)))
}

/// A line that has no room for all ends behind a word, because a part of a number is another number.
fn ended(text: &str, width: usize) -> String {
    if text.trim_end().chars().count() <= width {
        return clip(text, width);
    }
    let kept = clip(text, (width + 1).saturating_sub(MORE.chars().count()));
    let words = kept.rsplit_once(' ').map_or("", |(words, _)| words.trim_end());
    if words.is_empty() { clip(text, width) } else { format!("{words}{MORE}") }
}

fn coloured(line: Line<'static>, colour: Color, view: &View) -> Line<'static> {
    if view.has_colour { line.style(colour) } else { line }
}

fn clip(text: &str, width: usize) -> String {
    text.chars().take(width).collect()
}

/// Exactly so many columns, where its characters have one each; the middle gives way.
fn padded(text: &str, width: usize) -> String {
    format!("{:width$}", shorten(text, width))
}

fn share(share: f64) -> String {
    let percent = share * 100.0;
    if percent >= 99.95 { "100%".to_owned() } else { format!("{percent:.1}%") }
}

fn in_brackets(of: f64) -> String {
    format!("({})", share(of))
}

fn part(of: u64, total: u64) -> String {
    or_dash((total > 0).then(|| share(of as f64 / total as f64)))
}

fn or_dash(value: Option<String>) -> String {
    value.unwrap_or_else(|| "-".to_owned())
}

fn ms(ns: u64) -> String {
    short(ns as f64 / 1e6)
}

/// At most seven characters.
fn short(value: f64) -> String {
    match value {
        v if v >= 1e15 => format!("{v:.0e}"),
        v if v >= 1e12 => format!("{:.1}T", v / 1e12),
        v if v >= 1e9 => format!("{:.1}G", v / 1e9),
        v if v >= 999_999.5 => format!("{:.1}M", v / 1e6),
        v if v >= 100.0 || v == 0.0 => count(v.round() as u64),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

#[cfg(test)]
mod tests;
