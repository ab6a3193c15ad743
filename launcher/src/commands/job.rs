//! Traces -> summaries; summaries of any number of ranks -> the page of their job.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use stage2_contract::text::numbers::counted;
use stage2_contract::text::{listed, visible_path};
use stage2_contract::trace::Ending;
use stage2_contract::trace::pieces::piece_of;
use stage2_read::files;
use stage2_read::foreign::kind_of;
use stage2_read::trace::file::Trace;
use stage2_read::trace::folder::trace_files;
use stage2_render::{job_lines, write_job};
use stage2_summary::job::Fold;
use stage2_summary::{Entry, Period, Summariser, Writer, tree};

use super::ending::printed;
use crate::bundle::{COLLECTOR_DIR, not_a_run, run_named};
use crate::cli::{JobArgs, SummariseArgs};
use crate::failure::Failure;
use crate::terminal::Terminal;

/// The summary of all ranks, among the pages of a job.
const OF_ALL: &str = "job.s2s";
const SUMMARY: &str = "s2s";
/// Folders within a folder that is named.
const DEPTH: usize = 8;
const HOW_TO_RECORD: &str =
    "record with `stage2-launch run` or with STAGE2_OUT=DIR, and name the folder";
/// A table of hosts and racks is not larger.
const RACKS_BYTES: u64 = 16 << 20;

/// `stage2-launch summarise`: the summary of each trace, next to it or in a folder.
pub(crate) fn summarise(args: &SummariseArgs, terminal: &Terminal) -> Result<u8, Failure> {
    let mut traces = Vec::new();
    for path in &args.traces {
        traces.extend(traces_of(path)?);
    }
    if traces.is_empty() {
        let text =
            format!("there is no trace file (*.s2t) in {}; {HOW_TO_RECORD}", shown(&args.traces));
        return Err(Failure::Usage(text));
    }
    if let Some(folder) = &args.out {
        fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
    }
    let mut written = 0;
    for trace in &traces {
        match summarise_trace(trace, args.out.as_deref(), args.force) {
            Ok((path, note)) => {
                written += 1;
                terminal.result(&format!("{}{note}", visible_path(&path)));
                terminal.place(&path);
            }
            Err(error) => terminal.error(&of_file(trace, &error)),
        }
    }
    match written {
        0 => Err(Failure::NoResult("no trace could be summarised".to_owned())),
        _ => Ok(0),
    }
}

fn traces_of(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    let path = &run_named(path);
    check_given(path, &["s2t"])?;
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    // A run has them in a folder of its bundle.
    let of_run = path.join(COLLECTOR_DIR);
    trace_files(if of_run.is_dir() { &of_run } else { path }).map_err(|error| {
        Failure::NoResult(format!("{} cannot be read: {error}", visible_path(path)))
    })
}

/// Refuses what is neither a folder nor a file that is named like one of these kinds.
fn check_given(path: &Path, endings: &[&str]) -> Result<(), Failure> {
    if !path.exists() {
        return Err(Failure::Usage(not_a_run(path)));
    }
    if path.is_dir() || endings.contains(&files::ending(path)) {
        return Ok(());
    }
    let (what, _) = kind_of(path).unwrap_or_else(|_| ("a file".to_owned(), None));
    Err(Failure::Usage(format!(
        "{} is {what}, not a file of the collector (*.{}); name such a file, or its folder",
        visible_path(path),
        endings.join(", *.")
    )))
}

fn shown(paths: &[PathBuf]) -> String {
    listed(&paths.iter().map(|path| visible_path(path)).collect::<Vec<_>>(), 3)
}

/// The summary that the collector writes next to a trace file; pieces of a trace have one for all.
fn summary_beside(trace: &Path) -> PathBuf {
    let name = trace.file_name().unwrap_or_default().to_string_lossy();
    let plain = files::plain_name(&name);
    let whole = plain.strip_suffix(".s2t").unwrap_or(plain);
    let stem = piece_of(&name).map_or(whole, |(stem, _)| stem);
    trace.with_file_name(format!("{stem}.{SUMMARY}"))
}

/// Gives the path of the summary, and what the trace lacks.
fn summarise_trace(
    trace: &Path,
    out: Option<&Path>,
    force: bool,
) -> anyhow::Result<(PathBuf, String)> {
    let name = trace.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let plain = files::plain_name(&name);
    let stem = plain.strip_suffix(".s2t").unwrap_or(plain);
    let folder = out.or(trace.parent()).unwrap_or(Path::new("."));
    let path = folder.join(format!("{stem}.{SUMMARY}"));
    if path.exists() && !force {
        anyhow::bail!("{} already exists; --force replaces it", visible_path(&path));
    }
    let mut records = Trace::open(trace)?;
    let mut damaged = None;
    let mut summariser = Summariser::default();
    let mut entries: Vec<Vec<u8>> = Vec::new();
    for record in records.by_ref() {
        match record {
            Ok(record) => summariser.take(&record),
            Err(error) => {
                damaged = Some(error.to_string());
                break;
            }
        }
        entries.extend(summariser.ready().map(|entry| entry.frame()));
    }
    summariser.finish();
    entries.extend(summariser.ready().map(|entry| entry.frame()));
    files::stream_whole(&path, &|sink| {
        Writer::new(&mut *sink)?;
        Ok(entries.iter().try_for_each(|frame| sink.write_all(frame))?)
    })?;
    let note = match (damaged, records.end(), records.missing()) {
        (Some(error), ..) => format!(" (up to a fault: {error})"),
        (_, Ending::Torn { lost_bytes, .. }, _) => {
            format!(" (the trace is cut: {lost_bytes} bytes)")
        }
        (_, _, Some(missing)) => format!(" (without {missing})"),
        _ => String::new(),
    };
    Ok((path, note))
}

/// An error about a file, which it may name itself.
fn of_file(path: &Path, error: &anyhow::Error) -> String {
    let (path, text) = (visible_path(path), format!("{error:#}"));
    if text.contains(&path) { text } else { format!("{path}: {text}") }
}

fn unwritable(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    let path = visible_path(path);
    Failure::NoResult(format!("{path} cannot be written: {error}; check its space and permissions"))
}

/// `stage2-launch job`: the page of a job.
pub(crate) fn job(args: &JobArgs, terminal: &Terminal) -> Result<u8, Failure> {
    let paths: Vec<PathBuf> = args.paths.iter().map(|path| run_named(path)).collect();
    paths.iter().try_for_each(|path| check_given(path, &[SUMMARY, "s2t"]))?;
    let racks = args.racks.as_deref().map(racks).transpose()?.unwrap_or_default();
    let out = args.out.clone().unwrap_or_else(|| match paths.as_slice() {
        [only] if only.is_dir() => only.clone(),
        _ => PathBuf::from("."),
    });
    printed(&write(&paths, &out, &racks, terminal)?)
}

/// The page of the job that a run is, in its bundle.
pub(crate) fn of_run(run_dir: &Path, traces: &Path, terminal: &Terminal) {
    match write(&[traces.to_owned()], run_dir, &BTreeMap::new(), terminal) {
        Ok(text) => text.lines().for_each(|line| terminal.result(line)),
        Err(failure) => terminal.error(&format!("there is no page of the job: {failure}")),
    }
}

/// Writes the pages of the job of all files below `paths`; gives what the terminal shows.
fn write(
    paths: &[PathBuf],
    out: &Path,
    racks: &BTreeMap<String, String>,
    terminal: &Terminal,
) -> Result<String, Failure> {
    fs::create_dir_all(out).map_err(|error| unwritable(out, &error))?;
    let mut found = Found::default();
    for path in paths {
        found.take(path, DEPTH).map_err(|error| {
            Failure::NoResult(format!("{} cannot be read: {error}", visible_path(path)))
        })?;
    }
    // What an earlier call made of the same files is no further rank.
    let own = out.join(OF_ALL);
    if found.summaries.len() + found.traces.len() > 1 {
        found.summaries.retain(|path| !same(path, &own));
    }
    let mut summaries: Vec<PathBuf> = found.summaries.into_iter().collect();
    let temporary = tempfile::tempdir_in(out)
        .map_err(|error| unwritable(out, &files::without_its_name(error)))?;
    for (number, trace) in found.traces.iter().enumerate() {
        if summary_beside(trace).exists() {
            continue;
        }
        // Traces of several folders may have one name.
        let folder = temporary.path().join(number.to_string());
        fs::create_dir(&folder).map_err(|error| unwritable(&folder, &error))?;
        match summarise_trace(trace, Some(&folder), false) {
            Ok((path, _)) => summaries.push(path),
            Err(error) => terminal.error(&of_file(trace, &error)),
        }
    }
    if summaries.is_empty() && !found.traces.is_empty() {
        return Err(Failure::NoResult(format!(
            "no trace file in {} can be read, so there is no page of the job",
            shown(paths)
        )));
    }
    if summaries.is_empty() {
        return Err(Failure::Usage(format!(
            "there is no summary (*.s2s) and no trace file (*.s2t) in {}; {HOW_TO_RECORD}",
            shown(paths)
        )));
    }
    let mut inventory = tree::look(&summaries);
    // A summary in the temporary folder stands for its trace, which the user knows.
    let of_trace = |path: &Path| {
        let number = path.strip_prefix(temporary.path()).ok()?.iter().next()?.to_str()?;
        found.traces.iter().nth(number.parse().ok()?)
    };
    for (path, _) in &mut inventory.faults.named {
        if let Some(trace) = of_trace(path) {
            path.clone_from(trace);
        }
    }
    if inventory.sources.is_empty() {
        let named = inventory.faults.named.first();
        let named = named.map(|(path, why)| format!(", for instance {} {why}", visible_path(path)));
        let named = named.unwrap_or_default();
        return Err(Failure::NoResult(format!(
            "nothing can be read of {}{named}",
            counted(summaries.len() as u64, "summary")
        )));
    }
    let mut fold = Fold::default();
    let merged = whole(&mut inventory, temporary.path(), &own, &mut fold);
    merged.map_err(|error| unwritable(out, &error))?;
    let job = fold.finish(&inventory, |host| racks.get(host).cloned());
    let pages = write_job(&job, out).map_err(Failure::no_result)?;
    let mut text: String = job_lines(&job).iter().map(|line| format!("{line}\n")).collect();
    pages.iter().for_each(|page| text.push_str(&format!("{}\n", visible_path(page))));
    Ok(text)
}

/// Merges all files, and writes the summary of all ranks next to the pages.
fn whole(
    inventory: &mut tree::Inventory,
    temporary: &Path,
    own: &Path,
    fold: &mut Fold,
) -> io::Result<()> {
    let new = temporary.join(OF_ALL);
    let mut writer = Writer::new(BufWriter::new(
        File::options().write(true).create_new(true).mode(0o600).open(&new)?,
    ))?;
    for member in inventory.sources.iter().flat_map(|source| &source.members) {
        writer.write(&Entry::Member(member.clone()))?;
    }
    let take = |period: Period| {
        let entry = Entry::Period(Box::new(period));
        writer.write(&entry)?;
        if let Entry::Period(period) = entry {
            fold.add(*period);
        }
        Ok(())
    };
    tree::merge(inventory, temporary, take)?;
    writer.flush()?;
    fs::rename(new, own)
}

fn same(a: &Path, b: &Path) -> bool {
    match (a.canonicalize(), b.canonicalize()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

#[derive(Default)]
struct Found {
    summaries: BTreeSet<PathBuf>,
    traces: BTreeSet<PathBuf>,
}

impl Found {
    fn take(&mut self, path: &Path, depth: usize) -> io::Result<()> {
        if !path.is_dir() {
            match files::ending(path) {
                "s2t" => drop(self.traces.insert(path.to_owned())),
                _ => drop(self.summaries.insert(path.to_owned())),
            }
            return Ok(());
        }
        self.traces.extend(trace_files(path)?);
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let is_hidden = entry.file_name().to_string_lossy().starts_with('.');
            // Links are not followed: they may lead in a circle.
            let kind = entry.file_type()?;
            if kind.is_dir() && depth > 0 && !is_hidden {
                self.take(&entry.path(), depth - 1)?;
            } else if kind.is_file() && files::ending(&entry.path()) == SUMMARY && !is_hidden {
                self.summaries.insert(entry.path());
            }
        }
        Ok(())
    }
}

/// Hosts and their racks, of a CSV `host,rack`.
fn racks(path: &Path) -> Result<BTreeMap<String, String>, Failure> {
    let wrong = |why: String| {
        Failure::Usage(format!("--racks {}: {why}; give a CSV of host,rack", visible_path(path)))
    };
    let text = files::read_text(path, RACKS_BYTES).map_err(|error| wrong(error.to_string()))?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let pair = |line: &str| {
        let (host, rack) = line.split_once(',')?;
        let [host, rack] = [host, rack].map(|word| word.trim().trim_matches('"').to_owned());
        (!host.is_empty() && !rack.is_empty()).then_some((host, rack))
    };
    lines.map(|line| pair(line).ok_or_else(|| wrong(format!("{line:?} is not a pair")))).collect()
}
