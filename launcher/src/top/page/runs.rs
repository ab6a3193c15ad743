//! Which run each process is of: what is of two runs is never one number.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use stage2_contract::order::IntoOrdered as _;
use stage2_contract::text::{shorten, visible};
use stage2_live::{Look, Watched};

use super::{Id, View, id};
use crate::bundle::WINDOWS_DIR;
use crate::live_source::COLLECTOR;

/// Processes of one run.
#[derive(Debug)]
pub(super) struct Run {
    /// Its folder, or what there is instead: the host.
    folder: PathBuf,
    /// How it is called: different from all others.
    pub(super) name: String,
    pub(super) members: BTreeSet<Id>,
}

/// The runs of these processes, by their folders. One without a trace file is of no run.
pub(super) fn runs<'p>(all: impl Iterator<Item = &'p Watched> + Clone) -> Vec<Run> {
    let mut by_folder: BTreeMap<PathBuf, Vec<&Watched>> = BTreeMap::new();
    for process in all.filter(|process| !process.file.is_empty()) {
        by_folder.entry(run_folder(process)).or_default().push(process);
    }
    let mut parts: Vec<(PathBuf, Vec<&Watched>)> = Vec::new();
    for (folder, processes) in by_folder {
        match parts.iter_mut().find(|(_, known)| are_one_job(known, &processes)) {
            Some((_, known)) => known.extend(processes),
            None => parts.push((folder, processes)),
        }
    }
    let ending = |folder: &Path, parts: usize| {
        let mut names: Vec<_> = folder.iter().rev().take(parts).map(|of| of.as_bytes()).collect();
        names.reverse();
        visible(&names.join(&b'/'))
    };
    let is_known = |name: &str| parts.iter().filter(|(of, _)| ending(of, 1) == name).count() > 1;
    let run = |(folder, processes): &(PathBuf, Vec<&Watched>)| {
        let name = ending(folder, 1);
        Run {
            name: if is_known(&name) { ending(folder, 2) } else { name },
            folder: folder.clone(),
            members: processes.iter().map(|process| id(process)).collect(),
        }
    };
    parts.iter().map(run).collect()
}

/// Names of runs in so many columns. What all begin with gives way, so that they stay different and can be read.
pub(super) fn names_apart<'n>(
    names: impl Iterator<Item = &'n str>,
    width: usize,
) -> BTreeMap<&'n str, String> {
    let names: BTreeSet<&str> = names.into_set();
    let Some(first) = names.first() else { return BTreeMap::new() };
    let are_same = |at: usize| names.iter().all(|name| name.get(..at) == first.get(..at));
    let ends = first.char_indices().map(|(at, _)| at).take_while(|at| are_same(*at));
    let common = ends.last().filter(|at| *at > 1 && names.len() > 1).unwrap_or(0);
    // A word stays whole.
    let words = first.get(..common).and_then(|start| start.rfind(['-', '_', '.', ' ', '/']));
    let words = words.map_or(0, |at| at + 1);
    let cut = |name: &str, common: usize| match name.get(common..) {
        Some(rest) if common > 0 && name.chars().count() > width => {
            format!("…{}", shorten(rest, width.saturating_sub(1)))
        }
        _ => shorten(name, width),
    };
    let last = |name: &str| match name.rfind(['-', '_', '.', ' ', '/']) {
        Some(at) if name.chars().count() > width => format!("…{}", &name[at + 1..]),
        _ => name.to_owned(),
    };
    let all = [words, common].map(|common| {
        let cut = names.iter().map(|name| (*name, cut(name, common)));
        cut.into_map()
    });
    let are_different = |all: &BTreeMap<&str, String>| all.values().into_set().len() == names.len();
    // The number at the end of a run's name tells it apart, and its date does not.
    let is_cut = |name: &&str| all[0][name].trim_start_matches('…').contains('…');
    let has_number = |name: &&str| last(name).chars().skip(1).all(|of| of.is_ascii_digit());
    if names.iter().any(|name| is_cut(name) && has_number(name)) {
        let by_end: BTreeMap<&str, String> =
            names.iter().map(|name| (*name, last(name))).into_map();
        if are_different(&by_end) && by_end.values().all(|name| name.chars().count() <= width) {
            return by_end;
        }
    }
    // If neither tells them apart, the ends of whole names say most.
    all.into_iter()
        .find(are_different)
        .unwrap_or_else(|| names.iter().map(|name| (*name, shorten(name, width))).collect())
}

/// The number of the run of each process of a look.
pub(super) fn run_numbers(look: &Look) -> Vec<Option<usize>> {
    let runs = runs(look.processes.iter());
    let number = |of: &Watched| runs.iter().position(|run| run.members.contains(&id(of)));
    look.processes.iter().map(number).collect()
}

/// What is known of one run.
pub(super) fn part(view: &View, run: &Run) -> View {
    let is_its = |folder: &Path| {
        let real = folder.canonicalize();
        without_window(folder) == run.folder
            || real.is_ok_and(|real| without_window(&real) == run.folder)
    };
    let tokens_set = view.tokens_set.iter().filter(|of| is_its(&of.0)).cloned().collect();
    View {
        tokens_set,
        reported_tokens: view.reported_tokens.iter().filter(|of| is_its(&of.0)).cloned().collect(),
        ..of_members(view, &run.members)
    }
}

/// What is known of these processes.
pub(super) fn of_members(view: &View, members: &BTreeSet<Id>) -> View {
    let is_member = |of: &&Watched| members.contains(&id(of));
    View {
        look: Look {
            processes: view.look.processes.iter().filter(is_member).cloned().collect(),
            is_reading: view.look.is_reading,
            ..Look::default()
        },
        state: view.state.clone(),
        has_colour: view.has_colour,
        is_text: view.is_text,
        ended: view.ended.clone(),
        phases: view.phases.clone(),
        now_ns: view.now_ns,
        ..View::default()
    }
}

/// Whether two folders hold ranks of one job, such as one folder of each host: different ranks of as many, and neither
/// has all of them.
fn are_one_job(one: &[&Watched], other: &[&Watched]) -> bool {
    let all = || one.iter().chain(other);
    let ranks: Option<Vec<u64>> = all().map(|process| process.rank).collect();
    let Some(mut ranks) = ranks else { return false };
    ranks.sort_unstable();
    let has_doubles = ranks.windows(2).any(|pair| pair.first() == pair.last());
    let worlds: BTreeSet<Option<u64>> = all().map(|process| process.world).into_set();
    let hosts = |of: &[&Watched]| of.iter().map(|of| of.host.clone()).into_set();
    let is_one = match worlds.first().filter(|_| worlds.len() == 1) {
        Some(Some(world)) => ranks.len() as u64 <= *world,
        Some(None) => hosts(one).is_disjoint(&hosts(other)),
        None => false,
    };
    is_one && !has_doubles
}

/// The folder of the run of a process; where only the name of its file is known, its host.
fn run_folder(process: &Watched) -> PathBuf {
    let folder = Path::new(&process.file).parent().filter(|of| !of.as_os_str().is_empty());
    let Some(folder) = folder else { return PathBuf::from(&process.host) };
    let run = folder.parent().filter(|_| folder.ends_with(COLLECTOR)).unwrap_or(folder);
    without_window(run).to_owned()
}

/// Windows of a dormant run are of one run.
fn without_window(run: &Path) -> &Path {
    let windows = run.parent().filter(|windows| windows.ends_with(WINDOWS_DIR));
    windows.and_then(Path::parent).unwrap_or(run)
}
