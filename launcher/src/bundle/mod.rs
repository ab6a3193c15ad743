//! The files of a run that say what it was -> the run folder, each written whole or not at all.

pub(crate) mod file_list;
mod folder;
mod inputs;
mod near;
mod record;
mod retention;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::config::{self, Origins, origins, yaml_with_origins};
use crate::env::{Environment, GpuFacts};
use crate::failure::Failure;
use crate::plan;
use crate::reports::Outcome;
use crate::terminal::Terminal;
use stage2_config::hydra::Node;
use stage2_contract::order::IntoOrdered as _;
use stage2_contract::text::numbers::{count, counted};
use stage2_contract::text::{visible, visible_path};
use stage2_contract::trace::pieces::piece_of;
use stage2_model::finding::Id;
use stage2_model::{Finding, ProcessCoverage, ProcessRow, Report, RunState};
use stage2_read::files::{self, plain_name, write_whole};
use stage2_read::layout::INPUTS_YAML;
use stage2_read::trace::folder::trace_files;

pub(crate) use folder::{Access, FolderError, LATEST, LatestLink, RunFolder, run_name};
pub(crate) use inputs::{Inputs, Manifest};
pub(crate) use near::{
    FOLDER_OF_RUNS, OF_BASELINES, hidden, newest_below, not_a_run, not_a_run_among, refused_run,
    run_named,
};
pub(crate) use record::{DEMO, now};
pub use record::{DoctorNote, PassRecord, RUN_JSON, RunRecord, SCHEMA, WindowRecord};
pub(crate) use retention::{Room, make_room, too_big};
pub use stage2_read::layout::{BASELINE_DIR, COLLECTOR_DIR, COUNTERS_DIR, NCU_DIR, NSYS_DIR};

pub(crate) const CONFIG_YAML: &str = "config.yaml";

pub(crate) struct Bundle {
    dir: PathBuf,
    /// What `run.json` says, as of the next [`Bundle::save`].
    pub(crate) record: RunRecord,
    environment: Option<Environment>,
    inputs: Inputs,
    config_yaml: String,
    access: Access,
}

impl Bundle {
    /// Starts a bundle in a folder that is there and empty.
    pub(crate) fn start(
        folder: &RunFolder,
        record: RunRecord,
        inputs: Inputs,
        config_yaml: String,
    ) -> Result<Bundle, FolderError> {
        let dir = folder.path();
        let access = Access::default();
        let bundle = Bundle { dir, record, environment: None, inputs, config_yaml, access };
        folder.claim(COLLECTOR_DIR)?;
        let written = bundle.save().and_then(|()| bundle.write_provenance());
        written
            .map_err(|e| FolderError::new(&bundle.dir, format!("{e:#}"), "choose another one"))?;
        Ok(bundle)
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Lets those read it who may, from now on.
    pub(crate) fn share(&mut self, access: Access, terminal: &Terminal) {
        self.access = access;
        // Made by `start`, so that nobody else can be in the way.
        if let Some(finding) = folder::refused(&self.dir.join(COLLECTOR_DIR)) {
            self.note(finding, terminal);
        }
        self.protect(terminal);
    }

    /// Brings what was written since to the modes of the bundle.
    pub(crate) fn protect(&mut self, terminal: &Terminal) {
        // A folder that is gone is told of elsewhere.
        if let Some(finding) = self.access.apply(&self.dir).filter(|_| self.dir.exists())
            && !self.record.findings.contains(&finding)
        {
            self.note(finding, terminal);
        }
    }

    pub(crate) fn save(&self) -> anyhow::Result<()> {
        self.record.write(&self.dir)
    }

    /// Tells a finding, and records it with the next [`Bundle::save`].
    pub(crate) fn note(&mut self, finding: Finding, terminal: &Terminal) {
        terminal.finding(&finding);
        self.record.findings.push(finding);
    }

    pub(crate) fn gpu(&self) -> Option<&GpuFacts> {
        self.environment.as_ref().map(|environment| &environment.gpu)
    }

    pub(crate) fn set_environment(&mut self, environment: Environment) -> anyhow::Result<()> {
        self.environment = Some(environment);
        self.write_provenance()
    }

    /// Writes `env.json`, `inputs.yaml` and `config.yaml`. Each says of itself whether the GPU was
    /// simulated: a file is often passed on without its neighbours.
    fn write_provenance(&self) -> anyhow::Result<()> {
        let Bundle { environment, inputs, config_yaml, .. } = self;
        let simulated = self.record.simulated;
        if let Some(environment) = environment {
            let processes = self.record.processes.clone();
            let marked = Environment { simulated, processes, ..environment.clone() };
            let json = serde_json::to_string_pretty(&marked).context("env.json")?;
            write_whole(&self.dir.join("env.json"), &format!("{json}\n"))?;
        }
        let marked = Inputs { simulated, ..inputs.clone() };
        let yaml = serde_saphyr::to_string(&marked).context("inputs.yaml")?;
        write_whole(&self.dir.join(INPUTS_YAML), &yaml)?;
        let mark = if simulated { "# simulated: no real GPU took part in this run\n" } else { "" };
        write_whole(&self.dir.join(CONFIG_YAML), &format!("{mark}{config_yaml}"))
    }

    pub(crate) fn passes_ended(&mut self) -> anyhow::Result<()> {
        self.record.finished = Some(now());
        self.record.state = RunState::Reporting;
        self.save()
    }

    /// Takes over what the reports found, or that there are none, and closes the record.
    pub(crate) fn finish(&mut self, outcome: &anyhow::Result<Outcome>) -> anyhow::Result<()> {
        match outcome {
            Ok(outcome) => {
                apply_outcome(&mut self.record, outcome);
                self.inputs.complete(&outcome.workload);
                self.write_provenance()?;
            }
            Err(error) => self.record.report_findings = vec![report_failure(&self.dir, error)],
        }
        self.close()
    }

    /// Closes the record of a run whose reports are elsewhere.
    pub(crate) fn close(&mut self) -> anyhow::Result<()> {
        self.record.files = files_of(&self.dir, MAX_LISTED_FILES);
        self.record.state = RunState::Closed;
        self.save()
    }
}

fn apply_outcome(record: &mut RunRecord, outcome: &Outcome) {
    let new = outcome.findings.iter().filter(|finding| !record.findings.contains(finding));
    record.report_findings = new.cloned().collect();
    record.coverage = outcome.coverage.clone();
    record.processes = outcome.processes.clone();
    record.simulated |= outcome.simulated;
}

/// Larger ones are not a configuration of ours.
pub(crate) const MAX_CONFIG_BYTES: u64 = 16 << 20;

/// Replaces `config.yaml` by what `change` makes of its text (none: it is not there) and of the origins
/// of its values. Comments on top of it stay, and one more names the `words` that it was changed by.
pub(crate) fn change_config(
    dir: &Path,
    words: &str,
    change: impl FnOnce(Option<&str>, &Origins) -> Result<Node, Failure>,
) -> Result<(), Failure> {
    let path = dir.join(CONFIG_YAML);
    let text = match files::read_text(&path, MAX_CONFIG_BYTES) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    };
    let text = text.map_err(|why| {
        let path = path.display();
        Failure::Usage(format!(
            "{path} cannot be used: {why}; remove it to start from the defaults"
        ))
    })?;
    let mut record = RunRecord::read(dir).map_err(Failure::no_result)?;
    let tree =
        change(text.as_deref(), &record.origins).map_err(|failure| in_folder(dir, failure))?;
    let head = text.iter().flat_map(|text| text.lines()).take_while(|line| line.starts_with('#'));
    let mut changed: String = head.flat_map(|line| [line, "\n"]).collect();
    let words = visible(words.as_bytes());
    changed.push_str(&format!("# after the run, by `stage2-launch report`: {words}\n"));
    changed.push_str(&yaml_with_origins(&tree));
    record.origins = origins(&tree);
    write_whole(&path, &changed).and_then(|()| record.write(dir)).map_err(Failure::no_result)
}

/// Names the folder of a `config.yaml` that cannot be used: which of several it is in is not said otherwise.
fn in_folder(dir: &Path, failure: Failure) -> Failure {
    match failure {
        Failure::Usage(text) if text.starts_with(CONFIG_YAML) => {
            Failure::Usage(format!("{}/{text}", visible_path(dir)))
        }
        other => other,
    }
}

/// Refuses to replace reports by ones without the settings that they were made with.
pub(crate) fn check_config(dir: &Path, record: &RunRecord) -> Result<(), Failure> {
    let text = files::read_text(&dir.join(CONFIG_YAML), MAX_CONFIG_BYTES).ok();
    let kept = config::check_kept(text.as_deref(), &record.origins, dir);
    kept.map_err(|error| in_folder(dir, error.into()))
}

/// Brings a report that was written again into `run.json`.
pub(crate) fn update_after_report(dir: &Path, outcome: &Outcome) -> anyhow::Result<RunRecord> {
    let mut record = RunRecord::read(dir)?;
    apply_outcome(&mut record, outcome);
    if record.state == RunState::Reporting {
        // Its passes were over: now the reports are there, too.
        record.state = RunState::Closed;
    }
    let ours = |path: &Path| {
        outcome.files.iter().any(|file| file == path)
            || [RUN_JSON, CONFIG_YAML].iter().any(|name| path == dir.join(name))
    };
    // What the user put there since stays the user's. A run that was killed has no list to go by.
    let mut there = files_of(dir, MAX_LISTED_FILES);
    if !record.files.is_empty() {
        there.retain(|file| record.files.contains(file) || ours(&dir.join(file)));
    }
    record.files = there;
    record.write(dir)?;
    Ok(record)
}

/// The folder of the bundles of windows, in that of a dormant run.
pub(crate) const WINDOWS_DIR: &str = "windows";

/// The bundles of the windows of a dormant run, in order.
pub(crate) fn window_bundles(run_dir: &Path) -> Vec<PathBuf> {
    let windows = run_dir.join(WINDOWS_DIR);
    // Most runs have none: a folder that hangs is not to be listed for that.
    if !windows.is_dir() {
        return Vec::new();
    }
    let entries = std::fs::read_dir(windows).into_iter().flatten().flatten();
    let mut found: Vec<(u64, PathBuf)> = entries
        .filter_map(|entry| Some((window_number(entry.file_name().to_str()?)?, entry.path())))
        .collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}

fn window_number(name: &str) -> Option<u64> {
    name.strip_prefix('w')?.parse().ok()
}

/// Refuses a dormant run where one report is meant: it has one for each window.
pub(crate) fn refuse_dormant(run_dir: &Path) -> Result<(), Failure> {
    if !RunRecord::read(run_dir).is_ok_and(|record| record.dormant) {
        return Ok(());
    }
    let shown = visible_path(run_dir);
    Err(Failure::Usage(match window_bundles(run_dir).first() {
        Some(first) => format!(
            "{shown} is a dormant run, with a bundle for each window; name one, e.g. {}",
            visible_path(first)
        ),
        None => format!(
            "{shown} is a dormant run without windows: nothing was recorded; record one while the workload runs: \
             `stage2-launch ctl RUN_DIR start --for 10s`"
        ),
    }))
}

/// What to tell of a bundle whose folder is not there any more; none: it is.
pub(crate) fn gone(dir: &Path) -> Option<Finding> {
    (!dir.exists()).then(|| {
        Id::BundleGone.found(
            format!("the folder of the run is gone: {}", dir.display()),
            "it was deleted or moved while the run went on, and nothing of the run is left there",
            "run again, and leave the folder alone until the run is over",
        )
    })
}

fn report_failure(dir: &Path, error: &anyhow::Error) -> Finding {
    gone(dir).unwrap_or_else(|| {
        Id::BundleNotWritten.found(
            "the reports could not be written",
            format!("{error:#}"),
            format!(
                "the trace files are kept; write the reports with `stage2-launch report {}`",
                plan::quote(dir)
            ),
        )
    })
}

/// More files than this are not listed (a workload may write any number into `stage1/`).
const MAX_LISTED_FILES: usize = 10_000;

/// Files of the bundle, relative to it, sorted, with their bytes; none for anything that is not a regular file.
pub(crate) fn sizes(dir: &Path) -> Vec<(String, Option<u64>)> {
    let size = |name: &str| {
        let found = std::fs::symlink_metadata(dir.join(name)).ok()?;
        found.is_file().then_some(found.len())
    };
    files_of(dir, MAX_LISTED_FILES).into_iter().map(|name| (name.clone(), size(&name))).collect()
}

/// Files under `dir`, at most `limit`, relative to it, sorted.
fn files_of(dir: &Path, limit: usize) -> Vec<String> {
    let mut found = Vec::new();
    for_each_file(dir, |entry| {
        if found.len() < limit {
            let path = entry.path();
            let relative = path.strip_prefix(dir).unwrap_or(&path);
            found.push(relative.to_string_lossy().into_owned());
        }
    });
    found.sort();
    found
}

/// Visits everything below `dir` that is not a folder; links are not followed.
fn for_each_file(dir: &Path, mut visit: impl FnMut(&std::fs::DirEntry)) {
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(_) => visit(&entry),
                Err(_) => {}
            }
        }
    }
}

/// Why the reports of `dir` cannot be made again as they are; none: nothing is gone.
pub(crate) fn lost_traces(dir: &Path, record: &RunRecord) -> Option<String> {
    // A process may come from an export of nsys.
    let files = record.processes.iter().map(|process| process.file.as_str());
    let told: BTreeSet<&str> = files.filter(|file| is_trace(file)).map(trace_name).into_set();
    let folder = dir.join(COLLECTOR_DIR);
    let found = trace_files(&folder).unwrap_or_default();
    let names: Vec<_> = found.iter().filter_map(|path| path.file_name()?.to_str()).collect();
    let there: BTreeSet<&str> = names.into_iter().map(trace_name).into_set();
    let gone: Vec<_> = told.difference(&there).collect();
    let first = visible(gone.first()?.as_bytes());
    let shown = visible_path(&folder);
    let others = match gone.len() - 1 {
        0 => " is".to_owned(),
        more => format!(" and {more} more are"),
    };
    let remedy = if there.is_empty() {
        String::new()
    } else {
        format!("; `stage2-launch merge --spool {shown} -o DIR` reports what is left")
    };
    Some(format!(
        "the reports of {} were made from trace files of which {first}{others} missing from {shown}, so \
         no report was written; restore the files to write them again{remedy}",
        visible_path(dir)
    ))
}

/// Why the reports of `dir` stay as they are: in a trace that was cut or damaged since, `now` has fewer kernels than they
/// tell of, or frames that cannot be read.
pub(crate) fn cut_trace(dir: &Path, record: &RunRecord, now: &Report) -> Option<String> {
    let found = &now.processes;
    let left = |before: &ProcessRow| {
        let of = |now: &&ProcessRow| trace_name(&now.file) == trace_name(&before.file);
        found.iter().filter(of).map(|now| now.kernels).fold(0, u64::saturating_add)
    };
    let traces = record.processes.iter().filter(|before| is_trace(&before.file));
    let cut = traces.map(|row| (row, left(row))).find(|(row, left)| *left < row.kernels);
    let damaged = || {
        let before = record.coverage["processes"].as_array()?;
        let of = |file: &str| {
            let same = |row: &&serde_json::Value| {
                row["file"].as_str().is_some_and(|name| trace_name(name) == trace_name(file))
            };
            before.iter().find(same)?["file_state"]["corrupt_frames"].as_u64()
        };
        let is_worse = |row: &&ProcessCoverage| {
            of(&row.file).is_some_and(|frames| row.file_state.corrupt_frames > frames)
        };
        now.coverage.processes.iter().find(is_worse)
    };
    let (what, remedy) = match cut {
        Some((cut, left)) => (
            format!(
                "made from {} kernels in {}, of which {} are left in the file: it was cut, emptied or damaged afterwards",
                count(cut.kernels),
                visible(cut.file.as_bytes()),
                count(left)
            ),
            found.iter().any(|now| now.kernels > 0),
        ),
        None => {
            let row = damaged()?;
            let frames = counted(row.file_state.corrupt_frames, "damaged frame");
            let file = visible(row.file.as_bytes());
            (format!("made from {file}, which has {frames} now: it was damaged afterwards"), true)
        }
    };
    let remedy = match remedy {
        true => format!(
            "; `stage2-launch merge --spool {} -o DIR` reports what is left",
            visible_path(&dir.join(COLLECTOR_DIR))
        ),
        false => ", or record the workload again".to_owned(),
    };
    Some(format!(
        "the reports of {} were {what}, so no report was written; restore the whole file to write them again{remedy}",
        visible_path(dir),
    ))
}

fn is_trace(file: &str) -> bool {
    plain_name(file).ends_with(".s2t")
}

/// What a trace is identified by: the name of its file, compressed or not, or the stem of its pieces.
fn trace_name(name: &str) -> &str {
    piece_of(name).map_or_else(|| plain_name(name), |(stem, _)| stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(findings: Vec<Finding>, simulated: bool) -> Outcome {
        let coverage = serde_json::json!({"attributed": 1});
        Outcome { findings, coverage, simulated, ..Outcome::default() }
    }

    fn finding(what: &str) -> Finding {
        Id::NsysComplains.found(what, "", "")
    }

    #[test]
    fn the_findings_of_a_report_replace_those_of_the_one_before() {
        let dir = tempfile::tempdir().expect("folder");
        let folder =
            RunFolder::Given(dir.path().join("run")).create(&Access::default()).expect("folder");
        let mut record = RunRecord::new("run".into(), vec!["x".into()]);
        record.findings.push(finding("of the run"));
        let inputs = Inputs::new(&["x".into()], Path::new("/"), None);
        let mut bundle = Bundle::start(&folder, record, inputs, "a: 1\n".into()).expect("bundle");
        bundle.set_environment(Environment::default()).expect("env.json");
        bundle.finish(&Err(anyhow::anyhow!("disk full"))).expect("run.json");
        assert!(bundle.record.report_findings[0].to_string().contains("disk full"));

        let both = outcome(vec![finding("of the run"), finding("of the report")], true);
        update_after_report(bundle.dir(), &both).expect("run.json");
        let again = update_after_report(bundle.dir(), &both).expect("run.json");
        assert_eq!(again, RunRecord::read(bundle.dir()).expect("run.json"));
        assert_eq!(again.findings, [finding("of the run")]);
        assert_eq!(again.report_findings, [finding("of the report")]);
        assert_eq!(again.coverage["attributed"], 1);

        bundle.finish(&Ok(both)).expect("run.json");
        for (file, mark) in [
            ("run.json", "\"simulated\": true"),
            ("env.json", "\"simulated\": true"),
            ("inputs.yaml", "simulated: true"),
            ("config.yaml", "# simulated"),
        ] {
            let text = std::fs::read_to_string(bundle.dir().join(file)).expect(file);
            assert!(text.contains(mark), "{file}: {text}");
        }
    }

    #[test]
    fn pieces_compression_and_exports_of_nsys_are_no_loss() {
        let folder = tempfile::tempdir().expect("folder");
        let collector = folder.path().join(COLLECTOR_DIR);
        std::fs::create_dir(&collector).expect("folder");
        let row = |file: &str| ProcessRow { file: file.to_owned(), ..ProcessRow::default() };
        let record = |files: &[&str]| RunRecord {
            processes: files.iter().map(|file| row(file)).collect(),
            ..RunRecord::default()
        };
        let of = |files: &[&str]| lost_traces(folder.path(), &record(files));
        assert_eq!(of(&["run.sqlite"]), None);
        let why = of(&["vm-1-p000001.s2t", "vm-2.s2t.gz"]).expect("gone");
        assert!(why.contains("vm-1 and 1 more are missing"), "{why}");
        // A trace that has lost kernels is told, one that grew is not.
        let rows = |kernels| [ProcessRow { kernels, ..row("vm-2.s2t") }, row("vm-9.s2t")];
        let told = RunRecord { processes: rows(7).into(), ..RunRecord::default() };
        let cut = |kernels| {
            let now = Report { processes: rows(kernels).into(), ..Report::default() };
            cut_trace(folder.path(), &told, &now)
        };
        assert_eq!([cut(7), cut(8)], [None, None]);
        assert!(cut(3).expect("cut").contains("7 kernels in vm-2.s2t, of which 3 are left"));
        // The first piece may have been deleted while the process ran.
        for name in ["vm-1-p000003.s2t.gz", "vm-2.s2t", "vm-3.s2t"] {
            std::fs::write(collector.join(name), "").expect("file");
        }
        assert_eq!(of(&["vm-1-p000001.s2t", "vm-2.s2t.gz"]), None);
    }

    #[test]
    fn a_damaged_record_is_told_with_the_command_for_its_traces() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join(RUN_JSON), "{").expect("a file");
        let traces = folder.path().join(COLLECTOR_DIR);
        std::fs::create_dir(&traces).expect("a folder");
        let said = RunRecord::read(folder.path()).expect_err("no record").to_string();
        assert!(said.contains(&format!("--spool {} -o DIR", traces.display())), "{said}");
    }
}
