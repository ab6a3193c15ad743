//! The files of a bundle -> the list of them at the end of `report.md`: what each is, and its size.
//!
//! It is written when all other files are: their sizes are not known before.

use std::path::Path;

use anyhow::Context as _;

use super::{BASELINE_DIR, COLLECTOR_DIR, COUNTERS_DIR, NCU_DIR, NSYS_DIR, sizes};
use stage2_contract::text::numbers::count;
use stage2_contract::text::{code, shorten, visible};
use stage2_read::files::{self, write_whole};
use stage2_render::FILES;
use stage2_render::table::Table;

const PAGE: &str = "report.md";
/// A larger page is none of ours: its tables are bounded.
const MAX_PAGE_BYTES: u64 = 256 << 20;
/// Rows; run.json names more.
const ROWS: usize = 400;
const PATH_CHARS: usize = 160;

pub(crate) fn has_page(run_dir: &Path) -> bool {
    run_dir.join(PAGE).is_file()
}

/// Puts the list at the end of the page in `run_dir`, in the place of an older one.
pub(crate) fn list_files(run_dir: &Path) -> anyhow::Result<()> {
    let path = run_dir.join(PAGE);
    let failed = || format!("{} cannot be read", path.display());
    let text = files::read_text(&path, MAX_PAGE_BYTES).with_context(failed)?;
    let page = text.rfind(&heading()).and_then(|at| text.get(..at)).unwrap_or(&text);
    write_whole(&path, &format!("{}\n{}", page.trim_end_matches('\n'), section(run_dir)))
}

/// Of the last section of the page. No foreign text can stand at the start of a line there.
fn heading() -> String {
    format!("\n## {FILES}\n")
}

fn section(run_dir: &Path) -> String {
    let files = sizes(run_dir);
    let rows = folded(&files);
    let table = Table::first(ROWS, &rows)
        .left("file", |(name, bytes)| {
            let text = code(&shorten(&visible(name.as_bytes()), PATH_CHARS));
            let is_plain = |c: char| c.is_ascii_alphanumeric() || "._/-".contains(c);
            match bytes.is_some()
                && name.chars().all(is_plain)
                && !name.contains("..")
                && name != PAGE
            {
                true => format!("[{text}]({name})"),
                false => text,
            }
        })
        .left("what it is", |(name, _)| meaning(name).to_owned())
        .right("bytes", |(name, bytes)| match bytes {
            _ if name == PAGE => "(this page)".to_owned(),
            Some(bytes) => count(*bytes),
            None => "(not a regular file)".to_owned(),
        });
    let others = files.iter().filter(|(name, _)| name != PAGE);
    let all = others.filter_map(|(_, bytes)| *bytes).fold(0, u64::saturating_add);
    format!(
        "{}\n{}Total without this page: {} bytes in {} files.\n",
        heading(),
        table.markdown_with_rest_in("run.json"),
        count(all),
        count(files.len().saturating_sub(1) as u64),
    )
}

/// The files, those of the hook's code as one: they are the same in every bundle.
fn folded(files: &[(String, Option<u64>)]) -> Vec<(String, Option<u64>)> {
    let (code, mut rows): (Vec<_>, Vec<_>) =
        files.iter().cloned().partition(|(name, _)| meaning(name) == HOOK_CODE);
    if let Some((first, _)) = code.first() {
        let bytes = code.iter().filter_map(|(_, bytes)| *bytes).fold(0, u64::saturating_add);
        let name = match code.len() {
            1 => first.clone(),
            more => format!("hook/ ({more} files)"),
        };
        let at = rows.partition_point(|(name, _)| name < first);
        rows.insert(at, (name, Some(bytes)));
    }
    rows
}

const HOOK_CODE: &str = "code that marks ranges in the workload";

fn meaning(name: &str) -> &'static str {
    let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
    let top = folder.split('/').next().unwrap_or_default();
    if name.split('/').rev().skip(1).any(|part| part == "stage1") {
        return "written by the workload";
    }
    let file = files::plain_name(file);
    match (top, file.rsplit_once('.').map_or("", |(_, ending)| ending), file) {
        ("", _, "run.json") => "what ran: passes, exit status, findings, coverage",
        ("", _, "env.json") => "the machine: GPUs, driver, tools, Python packages",
        ("", _, "workload_keys.json") => {
            "keys of the files that the workload's configuration is made from"
        }
        ("", _, "model_config.json") => {
            "config.json of the model that the workload's model.path names"
        }
        ("", _, "command_model.json") => "sizes of the model that the command names",
        ("", _, "config.yaml") => "all settings, each with its origin",
        ("", _, "inputs.yaml") => "the command of the workload, and what it reads",
        ("", _, "kernels.md") => "kernels by stage",
        ("", _, "kernels.csv") => "every kernel by range path, launch configuration and GPU",
        ("", _, "operators.md") => "operators by time",
        ("", _, "stakeholder_summary.md") => "the summary: stages, MFU, takeaways, recommendations",
        ("", _, "report.md") => "everything in tables",
        ("", _, "report.html") => "the same in one page for a browser",
        ("", _, "metrics.json") => "all numbers, for programs",
        ("", _, "timelines.json") => {
            "timelines of steps, and sampled counters of steps and kernels, for programs"
        }
        ("", _, "job.html" | "job.md" | "job.json" | "job.s2s") => {
            "what the summaries say of the job: docs/jobs.md"
        }
        ("", _, "ncu_regions.csv") => "counters of whole ranges, by ncu's range replay",
        ("hook", "json", _) => "what a worker of the engine was configured with",
        ("hook", ..) => HOOK_CODE,
        (BASELINE_DIR, "s2t", _) => "trace file of a process in the baseline pass: ranges only",
        (COUNTERS_DIR, "s2t", _) => {
            "trace file of a process in the counters pass: sampled counters"
        }
        (_, "s2t", _) => "trace file of a process",
        (_, "s2s", _) => "summary of a process, minute by minute",
        (_, _, "log.txt") => "what the commands of the pass and the workload wrote",
        (_, _, "cmd.txt") => "the commands of the pass",
        (COLLECTOR_DIR, _, "stdout.log" | "stderr.log") => "output of the workload",
        (NSYS_DIR, "nsys-rep" | "qdrep", _) => "Nsight Systems report (open it in nsys-ui)",
        (NSYS_DIR, "sqlite", _) => "SQLite export of the report of Nsight Systems",
        (NSYS_DIR, "qdstrm", _) => "raw capture of nsys, not imported",
        (NSYS_DIR, _, "summary.csv") => "link to the table of kernels of nsys stats",
        (NSYS_DIR, "csv", _) => "table of nsys stats",
        (NSYS_DIR, _, "SENSITIVE.txt") => "why nsys's files should not be shared",
        (NCU_DIR, "ncu-rep", _) => "Nsight Compute report (open it in ncu-ui)",
        (NCU_DIR, _, "sections.txt") => "sections that this ncu has",
        (NCU_DIR, _, "metrics.txt") => "metrics that the GPU has",
        (NCU_DIR, "csv", _) if file.contains("details") => "rules and sections of ncu, by launch",
        (NCU_DIR, "csv", _) => "counters of ncu, a row for each launch",
        (NCU_DIR, _, "region.json") => "which range the folder's tables are of",
        (NCU_DIR, _, "messages.txt") => "messages of ncu",
        _ => "(of a kind that this version does not know)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_file_has_its_meaning() {
        for (name, part) in [
            ("run.json", "what ran"),
            ("collector/a-1.s2t", "trace file of a process"),
            ("baseline/a-1.s2t", "ranges only"),
            ("counters/a-1.s2t", "sampled counters"),
            ("nsys/run.nsys-rep", "Nsight Systems report"),
            ("nsys/run.qdstrm", "raw capture"),
            ("nsys/run.first.qdstrm", "not imported"),
            ("nsys/run_nvtx_sum.csv", "nsys stats"),
            ("ncu/raw.csv", "a row for each launch"),
            ("ncu/regions/decode/details.csv", "rules"),
            ("ncu/regions/decode/region.json", "which range"),
            ("nsys/stage1/.hydra/config.yaml", "by the workload"),
            ("stage1/metrics.json", "by the workload"),
            ("notes.md", "does not know"),
        ] {
            assert!(meaning(name).contains(part), "{name}: {}", meaning(name));
        }
    }

    #[test]
    fn the_list_replaces_itself_and_follows_no_link() {
        let dir = tempfile::tempdir().expect("folder");
        let write =
            |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect(name);
        write("report.md", "# Report\n\nmetrics.json holds everything.\n");
        write("run.json", "{}\n");
        write("a|b\n.txt", "12345");
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("link")).expect("link");
        list_files(dir.path()).expect("listed");
        write("kernels.md", &"x".repeat(1_234));
        list_files(dir.path()).expect("listed again");
        let page = std::fs::read_to_string(dir.path().join("report.md")).expect("page");
        let start = "# Report\n\nmetrics.json holds everything.\n\n## Files";
        assert!(page.starts_with(start), "{page}");
        assert_eq!(page.matches("## Files of this bundle").count(), 1, "{page}");
        assert!(
            page.contains("| [`kernels.md`](kernels.md) | kernels by stage | 1,234 |"),
            "{page}"
        );
        let record =
            "| [`run.json`](run.json) | what ran: passes, exit status, findings, coverage | 3 |";
        assert!(page.contains(record), "{page}");
        assert!(page.contains("| `link` |") && page.contains("(not a regular file)"), "{page}");
        assert!(page.contains("1,242 bytes in 4 files"), "{page}");
        assert_eq!(page.lines().filter(|line| line.starts_with('|')).count(), 7, "{page}");
        std::fs::create_dir_all(dir.path().join("hook/a")).expect("folder");
        write("hook/a/b.py", "12");
        write("hook/engine-1.json", "{}");
        for (more, row) in [("hook/a/c.py", "| `hook/ (2 files)` |"), ("hook/d.py", "(3 files)`")] {
            write(more, "345");
            list_files(dir.path()).expect("listed again");
            let page = std::fs::read_to_string(dir.path().join("report.md")).expect("page");
            assert!(page.contains(row) && !page.contains(".py"), "{page}");
            assert!(page.contains("| [`hook/engine-1.json`](hook/engine-1.json) |"), "{page}");
        }
        std::fs::remove_file(dir.path().join("report.md")).expect("gone");
        assert!(list_files(dir.path()).expect_err("no page").to_string().contains("report.md"));
    }
}
