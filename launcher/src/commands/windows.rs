//! The windows of a dormant run -> a bundle for each, in `windows/`, and a page that compares them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use stage2_contract::text::visible_path;
use stage2_model::Status;
use stage2_model::finding::Id;
use stage2_read::files::{ending, write_whole};
use stage2_read::trace::file::one_of_each;

use super::diff;
use super::import::{BundleMaker, NewBundle, WindowFile, WindowKind};
use crate::bundle::{
    Bundle, COLLECTOR_DIR, RunFolder, RunRecord, WINDOWS_DIR, WindowRecord, window_bundles,
};
use crate::cli::{Acceptance, BrowserOptions, Captures};
use crate::failure::Failure;
use crate::terminal::Terminal;
use stage2_render::diff as view;

/// The page that compares them, without its ending.
const COMPARED: &str = "compared";

impl BundleMaker<'_> {
    /// Ends a dormant run, whose workload ended with this status: each window has its own bundle, and
    /// a run without one is as good as any. The exit status.
    pub(super) fn finish_dormant(
        &self,
        exit: u8,
        bundle: &mut Bundle,
        acceptance: &Acceptance,
    ) -> Result<u8, Failure> {
        let terminal = self.terminal;
        bundle.passes_ended().map_err(Failure::no_result)?;
        let (made, lacks_some) = self.make_windows(bundle);
        let compared = compare(bundle.dir(), terminal);
        if made.is_empty() && !lacks_some {
            let what = "no window was recorded";
            let why = "the workload started dormant, and nobody began one";
            let remedy = "while it runs: `stage2-launch ctl RUN_DIR start --for 10s`";
            terminal.result(&format!("{what}: {why}; {remedy}"));
            bundle.record.findings.push(Id::WindowNone.found(what, why, remedy));
        }
        bundle.close().map_err(Failure::no_result)?;
        compared?;
        terminal.result(&format!("bundle: {}", bundle.dir().display()));
        let passes = &bundle.record.passes;
        let is_met = |made: &&NewBundle| {
            made.result().is_some_and(|outcome| acceptance.is_met(outcome, passes))
        };
        // One good window is what the run was for.
        Ok(match made.iter().find(is_met).or(made.first()) {
            Some(made) => acceptance.status(exit, made.result(), passes, terminal),
            None if lacks_some => acceptance.status(exit, None, passes, terminal),
            None => exit,
        })
    }

    /// Makes a bundle of each window that the run left, and logs them in its record. Windows of several
    /// processes that have the same number belong together. Also whether some trace file is in no bundle.
    fn make_windows(&self, bundle: &mut Bundle) -> (Vec<NewBundle>, bool) {
        let run_dir = bundle.dir().to_owned();
        let (mut made, mut lacks_some) = (Vec::new(), false);
        let mut lack = |bundle: &mut Bundle, what: String, why: String| {
            lacks_some = true;
            let remedy = "its trace files are kept; `stage2-launch merge --spool` reads them";
            bundle.note(Id::WindowMissing.found(what, why, remedy), self.terminal);
        };
        let mut windows: BTreeMap<u64, Vec<WindowFile>> = BTreeMap::new();
        for path in trace_files(&run_dir.join(COLLECTOR_DIR)) {
            match WindowRecord::read(&path, String::new()) {
                Ok(window) => {
                    let file = WindowFile { path, kind: WindowKind::Moves };
                    windows.entry(window.number).or_default().push(file);
                }
                Err(error) => {
                    let what = format!("{} is in no window", visible_path(&path));
                    lack(bundle, what, format!("{error:#}"));
                }
            }
        }
        for (number, files) in windows {
            self.terminal.progress(&format!("writing the reports of window {number}"));
            let one = match self.make_window(&run_dir, number, &files) {
                Ok(one) => one,
                Err(error) => {
                    lack(bundle, format!("window {number} has no reports"), error.to_string());
                    continue;
                }
            };
            let inside = format!("{WINDOWS_DIR}/w{number}/");
            bundle.record.windows.extend(one.bundle.record.windows.iter().map(|window| {
                let file = format!("{inside}{}", window.file);
                WindowRecord { file, ..window.clone() }
            }));
            bundle.record.simulated |= one.bundle.record.simulated;
            made.push(one);
            // True at any moment, also of a run that is killed; its last state is saved by the end.
            if let Err(error) = bundle.save() {
                self.terminal.error(&format!("{error:#}"));
            }
        }
        (made, lacks_some)
    }

    fn make_window(
        &self,
        run_dir: &Path,
        number: u64,
        files: &[WindowFile],
    ) -> Result<NewBundle, Failure> {
        let dir = run_dir.join(WINDOWS_DIR).join(format!("w{number}"));
        let folder = RunFolder::Given(dir).create(self.access)?;
        let environment = run_dir.join("env.json");
        let made = self.make(&folder, &Captures::default(), files, &[], Some(&environment))?;
        for window in &made.bundle.record.windows {
            let ended = match &window.why {
                Some(why) => format!("ended by {why}"),
                None => "the process was killed within it".to_owned(),
            };
            self.terminal.result(&format!(
                "window {number} of process {}: {} records, {} lost, {ended}",
                window.pid, window.records, window.lost
            ));
        }
        made.tell(None, BrowserOptions::default(), self.terminal);
        Ok(made)
    }
}

/// Writes the page that compares windows, where several have GPU work.
pub(super) fn compare(run_dir: &Path, terminal: &Terminal) -> Result<(), Failure> {
    let folder = run_dir.join(WINDOWS_DIR);
    let with_work: Vec<PathBuf> =
        window_bundles(run_dir).into_iter().filter(|dir| has_work(dir)).collect();
    if with_work.len() < 2 {
        return Ok(());
    }
    let diff = diff::of_folders(&with_work)?;
    let page = folder.join(format!("{COMPARED}.md"));
    write_whole(&page, &view::markdown(&diff)).map_err(Failure::no_result)?;
    write_whole(&page.with_extension("html"), &view::html(&diff, &BTreeMap::new()))
        .map_err(Failure::no_result)?;
    view::warnings(&diff).iter().for_each(|finding| terminal.finding(finding));
    terminal.result(&format!("windows compared: {}", visible_path(&page)));
    Ok(())
}

/// Whether a window of a dormant run recorded GPU work.
pub(super) fn have_work(run_dir: &Path) -> bool {
    window_bundles(run_dir).iter().any(|dir| has_work(dir))
}

fn has_work(dir: &Path) -> bool {
    let coverage = RunRecord::read(dir).map(|record| record.coverage);
    coverage.is_ok_and(|coverage| coverage["verdict"]["status"] != serde_json::json!(Status::Empty))
}

fn trace_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    one_of_each(entries.map(|entry| entry.path()).filter(|path| ending(path) == "s2t").collect())
}
