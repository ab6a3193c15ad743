//! Summary files of any number of ranks -> one stream of periods, each of all ranks.
//!
//! First each file is looked at: whose it is, of which job, and how its clock lies to the others. Then groups of files
//! are merged minute by minute into files of the same format, groups of these again, and so on. What is held at a
//! time is one minute of a group. Only who the ranks are takes memory for each of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::file::{Entry, Reader, Writer};
use crate::late::Call;
use crate::period::{Member, PERIOD_NS, Period};

/// Files that are merged at once, by each thread.
const GROUP: usize = 128;
const BUFFER: usize = 1 << 15;
/// Calls of a file that tie its clock to others.
const TIES: usize = 24;
/// Files that are looked at together.
const LOOKED: usize = 1 << 12;
/// Files that are named where something is wrong with them.
const NAMED: usize = 16;

/// A summary file, as it was looked at.
#[derive(Clone, Debug)]
pub struct Source {
    /// The file.
    pub path: PathBuf,
    /// Whose it is.
    pub members: Vec<Member>,
    /// Its first and its last period.
    pub span: (u64, u64),
    communicators: BTreeSet<u64>,
    ends: Vec<(Call, u64)>,
    /// What makes its clock that of the job, ns.
    pub add_ns: i64,
}

/// What is wrong with files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Frames that were damaged.
    pub damaged: u64,
    /// Files that end within a frame: their rank was killed, or still runs.
    pub torn: u64,
    /// Files whose ranks are in other files already.
    pub doubled: u64,
    /// Files that cannot be read at all.
    pub unreadable: u64,
    /// Files without any period.
    pub empty: u64,
    /// Frames of kinds that this version does not know.
    pub unknown: u64,
    /// Files of other jobs, and how many jobs these are.
    pub other_jobs: (u64, u64),
    /// Some of these files, each with what is wrong with it.
    pub named: Vec<(PathBuf, String)>,
}

impl Faults {
    fn name(&mut self, path: &Path, why: impl Into<String>) {
        if self.named.len() < NAMED {
            self.named.push((path.to_owned(), why.into()));
        }
    }
}

/// The files of one job.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    /// In the order in which they are merged.
    pub sources: Vec<Source>,
    /// What is left out, and why.
    pub faults: Faults,
    /// Ends of one call are apart on the clock of the job, in the middle, ns; nothing where no two files share a call.
    pub clock_error_ns: Option<u64>,
}

/// Looks at all files. They may be of several jobs: the one with the most ranks stays.
pub fn look(paths: &[PathBuf]) -> Inventory {
    let mut paths: Vec<&PathBuf> = paths.iter().collect();
    paths.sort();
    let mut faults = Faults::default();
    let mut sources = Vec::new();
    let mut known: BTreeSet<u64> = BTreeSet::new();
    // Of a folder full of copies, only a part is in memory at a time.
    for part in paths.chunks(LOOKED) {
        look_at_all(part, &mut faults, &mut known, &mut sources);
    }
    let mut sources = one_job(sources, &mut faults);
    let clock_error_ns = tie_clocks(&mut sources);
    // Ranks of a host next to each other: most of what they do together is settled in the first group.
    sources.sort_by_cached_key(|source| {
        let first = source.members.first();
        first.map(|first| (first.host.clone(), first.rank, first.id))
    });
    Inventory { sources, faults, clock_error_ns }
}

fn look_at_all(
    paths: &[&PathBuf],
    faults: &mut Faults,
    known: &mut BTreeSet<u64>,
    sources: &mut Vec<Source>,
) {
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..threads() {
            scope.spawn(|| {
                while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let looked = look_at(path);
                    if let Ok(mut found) = found.lock() {
                        found.push((*path, looked));
                    }
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap_or_default();
    found.sort_by_key(|(path, _)| *path);
    for (path, looked) in found {
        let (source, damaged, torn, unknown) = match looked {
            Ok(looked) => looked,
            Err(error) => {
                faults.unreadable += 1;
                faults.name(path, format!("cannot be read: {error}"));
                continue;
            }
        };
        faults.damaged += damaged;
        faults.unknown += unknown;
        if torn {
            faults.torn += 1;
            faults.name(path, "ends within a frame");
        } else if damaged > 0 {
            faults.name(path, format!("{damaged} damaged frames"));
        }
        let Some(source) = source else {
            faults.empty += 1;
            faults.name(path, "holds no minute");
            continue;
        };
        if source.members.iter().any(|member| known.contains(&member.id)) {
            faults.doubled += 1;
            faults.name(path, "holds the ranks of another file");
            continue;
        }
        known.extend(source.members.iter().map(|member| member.id));
        sources.push(source);
    }
}

pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(8)
}

type Looked = (Option<Source>, u64, bool, u64);

fn look_at(path: &Path) -> io::Result<Looked> {
    let mut reader = open(path)?;
    let mut members: BTreeMap<u64, Member> = BTreeMap::new();
    let mut span: Option<(u64, u64)> = None;
    let (mut communicators, mut ends) = (BTreeSet::new(), Vec::new());
    loop {
        // Once its clock can be tied, a minute matters by its number alone.
        let brief = ends.len() >= TIES;
        let Some((index, entry)) = reader.next_looked(brief)? else { break };
        if let Some(index) = index {
            span = Some(span.map_or((index, index), |(a, b)| (a.min(index), b.max(index))));
        }
        match entry {
            Some(Entry::Member(member)) => drop(members.insert(member.id, member)),
            Some(Entry::Period(period)) => {
                communicators.extend(period.communicators.keys().copied());
                let mut calls: Vec<_> = period.arrivals.iter().collect();
                calls.sort_by_key(|(call, _)| call.order());
                let room = TIES - ends.len();
                ends.extend(calls.iter().take(room).map(|(call, at)| (**call, at.ends.0)));
            }
            None => {}
        }
    }
    let (damaged, torn) = reader.damage();
    let unknown = reader.unknown;
    let members: Vec<Member> = members.into_values().collect();
    let source = span.filter(|_| !members.is_empty()).map(|span| {
        let path = path.to_owned();
        Source { path, members, span, communicators, ends, add_ns: 0 }
    });
    Ok((source, damaged, torn, unknown))
}

fn open(path: &Path) -> io::Result<Reader<BufReader<File>>> {
    // Opening a pipe would wait for somebody to write to it.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    Reader::new(BufReader::with_capacity(BUFFER, File::open(path)?))
}

// Jobs: files that share a communicator are of one. Others are of one as long as no two of them have the same rank at
// the same time, as replicas without a common communicator do, and ranks that started anew.

#[derive(Default)]
struct Part {
    sources: Vec<Source>,
    ranks: BTreeMap<u64, Vec<(u64, u64)>>,
    world: Option<u64>,
}

impl Part {
    fn add(&mut self, source: Source) {
        for member in &source.members {
            if let Some(rank) = member.rank {
                self.ranks.entry(rank).or_default().push(source.span);
            }
            self.world = self.world.max(member.world);
        }
        self.sources.push(source);
    }

    fn fits(&self, other: &Self) -> bool {
        let meets = |a: &(u64, u64), b: &(u64, u64)| a.0 < b.1 && b.0 < a.1 || a == b;
        let clash = other.ranks.iter().any(|(rank, spans)| {
            let own = self.ranks.get(rank).into_iter().flatten();
            own.into_iter().any(|own| spans.iter().any(|span| meets(own, span)))
        });
        !clash && (self.world == other.world || self.world.is_none() || other.world.is_none())
    }
}

fn one_job(sources: Vec<Source>, faults: &mut Faults) -> Vec<Source> {
    let mut of: HashMap<u64, usize> = HashMap::new();
    let mut above: Vec<usize> = (0..sources.len()).collect();
    fn root(above: &mut [usize], mut at: usize) -> usize {
        while let Some(&next) = above.get(at).filter(|next| **next != at) {
            let beyond = above.get(next).copied().unwrap_or(next);
            above.get_mut(at).into_iter().for_each(|above| *above = beyond);
            at = next;
        }
        at
    }
    for (at, source) in sources.iter().enumerate() {
        for hash in &source.communicators {
            let other = *of.entry(*hash).or_insert(at);
            let (a, b) = (root(&mut above, at), root(&mut above, other));
            above.get_mut(a).into_iter().for_each(|above| *above = b);
        }
    }
    let mut parts: BTreeMap<usize, Part> = BTreeMap::new();
    for (at, source) in sources.into_iter().enumerate() {
        parts.entry(root(&mut above, at)).or_default().add(source);
    }
    let mut parts: Vec<Part> = parts.into_values().collect();
    parts.sort_by_key(|part| std::cmp::Reverse((part.ranks.len(), part.sources.len())));
    let mut jobs: Vec<Part> = Vec::new();
    for part in parts {
        match jobs.iter_mut().find(|job| job.fits(&part)) {
            Some(job) => part.sources.into_iter().for_each(|source| job.add(source)),
            None => jobs.push(part),
        }
    }
    let mut jobs = jobs.into_iter();
    let first = jobs.next().unwrap_or_default();
    for other in jobs {
        faults.other_jobs.0 += other.sources.len() as u64;
        faults.other_jobs.1 += 1;
        if let Some(source) = other.sources.first() {
            faults.name(&source.path, "is of another job");
        }
    }
    first.sources
}

// Clocks: a call ends in all its members at about the same time.

/// Gives each source what makes its clock that of the first one; gives how well the ends agree then.
fn tie_clocks(sources: &mut [Source]) -> Option<u64> {
    let mut of_call: HashMap<Call, Vec<(usize, u64)>> = HashMap::new();
    for (at, source) in sources.iter().enumerate() {
        for &(call, end) in &source.ends {
            of_call.entry(call).or_default().push((at, end));
        }
    }
    let mut add: Vec<Option<i64>> = vec![None; sources.len()];
    let mut done: BTreeSet<Call> = BTreeSet::new();
    for start in 0..sources.len() {
        if add.get(start).copied().flatten().is_some() {
            continue;
        }
        // Those that nothing ties keep their own clock, or have that of another process of their host.
        let host = |at: usize| {
            sources.get(at).and_then(|source| source.members.first()).map(|first| &first.host)
        };
        let mine = host(start);
        let same = (0..start).find(|&at| host(at) == mine).and_then(|at| *add.get(at)?);
        let mut next = vec![(start, same.unwrap_or(0))];
        while let Some((at, offset)) = next.pop() {
            let Some(place) = add.get_mut(at).filter(|known| known.is_none()) else { continue };
            *place = Some(offset);
            let mut apart: BTreeMap<usize, Vec<i64>> = BTreeMap::new();
            for (call, end) in sources.get(at).map(|source| source.ends.as_slice()).unwrap_or(&[]) {
                if !done.insert(*call) {
                    continue;
                }
                for &(other, its_end) in of_call.get(call).into_iter().flatten() {
                    if other != at && add.get(other).copied().flatten().is_none() {
                        let diff = i128::from(*end) - i128::from(its_end);
                        let diff = i64::try_from(diff).unwrap_or(i64::MAX);
                        apart.entry(other).or_default().push(diff);
                    }
                }
            }
            for (other, mut diffs) in apart {
                diffs.sort_unstable();
                let middle = diffs.get(diffs.len() / 2).copied().unwrap_or(0);
                next.push((other, offset.saturating_add(middle)));
            }
        }
    }
    for (source, add) in sources.iter_mut().zip(&add) {
        source.add_ns = add.unwrap_or(0);
    }
    let mut apart: Vec<u64> = Vec::new();
    for ends in of_call.values().filter(|ends| ends.len() > 1) {
        let at = |&(source, end): &(usize, u64)| {
            i128::from(end) + i128::from(add.get(source).copied().flatten().unwrap_or(0))
        };
        let ends: Vec<i128> = ends.iter().map(at).collect();
        let range = ends.iter().max().zip(ends.iter().min()).map_or(0, |(max, min)| max - min);
        apart.push(u64::try_from(range).unwrap_or(u64::MAX));
    }
    apart.sort_unstable();
    apart.get(apart.len() / 2).copied()
}

// Merging.

/// A file, by how many periods its clock is behind, and the last period that it had at the first look.
struct Input {
    path: PathBuf,
    shift: i64,
    last: u64,
}

/// Merges all files of `inventory`, with files of its own in `folder`, and gives the periods of all ranks to `take`, in
/// the order of time. A file that cannot be read further on the way, or lost its end since the first look, is counted
/// and named among the faults.
///
/// # Errors
/// When a file in `folder` cannot be written or read.
pub fn merge(
    inventory: &mut Inventory,
    folder: &Path,
    mut take: impl FnMut(Period) -> io::Result<()>,
) -> io::Result<()> {
    let half = (PERIOD_NS / 2) as i64;
    let mut inputs: Vec<Input> = inventory
        .sources
        .iter()
        .map(|source| Input {
            path: source.path.clone(),
            shift: source.add_ns.saturating_add(half).div_euclid(PERIOD_NS as i64),
            last: source.span.1,
        })
        .collect();
    let faults = Mutex::new(Faults::default());
    let mut level = 0;
    let mut own: Vec<PathBuf> = Vec::new();
    while inputs.len() > GROUP {
        let groups: Vec<&[Input]> = inputs.chunks(GROUP).collect();
        let name =
            |at: usize| folder.join(format!(".merge-{}-{level}-{at}.s2s", std::process::id()));
        let next = AtomicUsize::new(0);
        let failed: Mutex<Option<io::Error>> = Mutex::new(None);
        std::thread::scope(|scope| {
            for _ in 0..threads() {
                scope.spawn(|| {
                    loop {
                        let at = next.fetch_add(1, Ordering::Relaxed);
                        let Some(group) = groups.get(at) else { break };
                        if let Err(error) = merge_into(group, &name(at), &faults)
                            && let Ok(mut failed) = failed.lock()
                        {
                            *failed = Some(error);
                            break;
                        }
                    }
                });
            }
        });
        let written: Vec<PathBuf> = (0..groups.len()).map(name).collect();
        own.iter().for_each(|path| drop(std::fs::remove_file(path)));
        own.clone_from(&written);
        if let Some(error) = failed.into_inner().ok().flatten() {
            own.iter().for_each(|path| drop(std::fs::remove_file(path)));
            return Err(error);
        }
        inputs = written.into_iter().map(|path| Input { path, shift: 0, last: 0 }).collect();
        level += 1;
    }
    let merged = merge_group(&inputs, &faults, &mut take);
    own.iter().for_each(|path| drop(std::fs::remove_file(path)));
    let faults = faults.into_inner().unwrap_or_default();
    inventory.faults.unreadable += faults.unreadable;
    inventory.faults.torn += faults.torn;
    faults.named.into_iter().for_each(|(path, why)| inventory.faults.name(&path, why));
    merged
}

fn merge_into(group: &[Input], path: &Path, faults: &Mutex<Faults>) -> io::Result<()> {
    let mut writer = Writer::new(BufWriter::new(File::create_new(path)?))?;
    merge_group(group, faults, &mut |period| writer.write(&Entry::Period(Box::new(period))))?;
    writer.flush()
}

fn merge_group(
    inputs: &[Input],
    faults: &Mutex<Faults>,
    take: &mut dyn FnMut(Period) -> io::Result<()>,
) -> io::Result<()> {
    let fault = |path: &Path, error: &io::Error| {
        if let Ok(mut faults) = faults.lock() {
            faults.unreadable += 1;
            faults.name(path, format!("cannot be read further: {error}"));
        }
    };
    let next = |reader: &mut Reader<BufReader<File>>, input: &Input, at: &mut u64| loop {
        match reader.next_entry() {
            Ok(Some(Entry::Period(mut period))) => {
                *at = period.index.max(*at);
                period.index = period.index.saturating_add_signed(input.shift);
                return Some(*period);
            }
            Ok(Some(Entry::Member(_))) => {}
            Ok(None) => {
                // Folders that several hosts share show a file shorter at times than it was.
                if *at < input.last
                    && let Ok(mut faults) = faults.lock()
                {
                    faults.torn += 1;
                    faults
                        .name(&input.path, "became shorter while it was read: its end is missing");
                }
                return None;
            }
            Err(error) => {
                fault(&input.path, &error);
                return None;
            }
        }
    };
    let mut readers = Vec::with_capacity(inputs.len());
    for input in inputs {
        match open(&input.path) {
            Ok(mut reader) => {
                let mut at = 0;
                let period = next(&mut reader, input, &mut at);
                readers.push((reader, input, at, period));
            }
            Err(error) => fault(&input.path, &error),
        }
    }
    while let Some(index) =
        readers.iter().filter_map(|(.., period)| Some(period.as_ref()?.index)).min()
    {
        let mut all = Period { index, ..Period::default() };
        for (reader, input, at, period) in &mut readers {
            // A file may hold a minute twice, where its clock was set back.
            while let Some(found) = period.take_if(|period| period.index <= index) {
                all.merge(found);
                *period = next(reader, input, at);
            }
        }
        all.settle(false);
        take(all)?;
    }
    Ok(())
}
