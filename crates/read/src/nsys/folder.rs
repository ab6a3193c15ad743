//! The exports of nsys in a folder -> the tables of each capture, the one to prefer first.
//!
//! Files of one capture begin with the same name: `run.sqlite`, `run.scrubbed.sqlite`,
//! `run_cuda_gpu_kern_sum.csv`.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::reports::capture_in;
use super::{Tables, csv, sqlite};
use crate::files;
use crate::trace::libraries::RangeNames;
use stage2_contract::order::Order as _;
use stage2_contract::text::visible_path;
use stage2_model::Finding;
use stage2_model::finding::Id;
use stage2_model::nsys::Source;

/// Ends of the names of copies that were made to be given away.
const SCRUBBED: [&str; 2] = [".scrubbed", "_scrubbed"];

/// The name of the capture at the beginning of the name of one of its files.
pub fn capture_name(file_name: &str) -> &str {
    let file_name = files::plain_name(file_name);
    let (stem, extension) = file_name.rsplit_once('.').unwrap_or((file_name, ""));
    match extension {
        "csv" => capture_in(stem).unwrap_or(stem),
        _ => SCRUBBED.iter().find_map(|end| stem.strip_suffix(end)).unwrap_or(stem),
    }
}

/// Reads every capture: its SQLite export, whole before scrubbed, else its CSV tables.
pub fn captures(folder: &Path, libraries: &RangeNames, findings: &mut Vec<Finding>) -> Vec<Tables> {
    let mut databases: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    let mut tables: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for path in files_in(folder, findings) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let of = match files::ending(&path) {
            "sqlite" => &mut databases,
            "csv" if !files::is_compressed(&path) => &mut tables,
            _ => continue,
        };
        of.entry(capture_name(&name).to_owned()).or_default().push(path);
    }
    let mut captures = Vec::new();
    let mut read = Vec::new();
    for (name, mut paths) in databases {
        // The whole export has the shortest name.
        paths.order_by_key(|path| path.as_os_str().len());
        let loaded = paths.iter().find_map(|path| {
            sqlite::load(path, libraries).map_err(|finding| findings.push(finding)).ok()
        });
        if let Some(loaded) = loaded {
            captures.push(loaded);
            read.push(name);
        }
    }
    for (name, paths) in tables {
        let within = |database: &&String| {
            name.strip_prefix(database.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
        };
        match read.iter().find(within) {
            Some(database) if *database == name => {}
            Some(database) => findings.push(Id::NsysNotRead.found(
                format!("the CSV tables {name}_* of nsys are not read"),
                format!("by their name they are of the capture {database}, whose SQLite is read"),
                "give them another name if they are of another capture",
            )),
            None => captures.push(csv::load(&paths, libraries)),
        }
    }
    captures.order_by_key(|c| {
        let rows = Reverse(!c.kernels.is_empty());
        (rows, c.source == Source::Csv, !c.complete, Reverse(c.counts.kernels))
    });
    captures
}

fn files_in(folder: &Path, findings: &mut Vec<Finding>) -> Vec<PathBuf> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => {
            if error.kind() != std::io::ErrorKind::NotFound {
                let what = format!("{} cannot be read", visible_path(folder));
                let remedy = "check the permissions of the folder";
                findings.push(Id::NsysUnreadable.found(what, error.to_string(), remedy));
            }
            return Vec::new();
        }
    };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    // A link is a second name of a file that is read.
    files.retain(|path| path.symlink_metadata().is_ok_and(|found| found.is_file()));
    files.sort();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_capture_share_its_name() {
        for (file, name) in [
            ("run.sqlite", "run"),
            ("run.scrubbed.sqlite", "run"),
            ("run.sqlite.gz", "run"),
            ("run.scrubbed.sqlite.gz", "run"),
            ("run_scrubbed.sqlite", "run"),
            ("run.nsys-rep", "run"),
            ("run_cuda_gpu_kern_sum.csv", "run"),
            ("run_gpukernsum_mangled.csv", "run"),
            ("run_nvtx_kern_sum.csv", "run"),
            ("decode_m_cuda_gpu_kern_sum_mangled.csv", "decode_m"),
            ("llama_gpu0_cuda_gpu_kern_sum.csv", "llama_gpu0"),
            ("x_cuda_graphs_off_cuda_gpu_kern_sum.csv", "x_cuda_graphs_off"),
            ("x_nvtx_off_nvtx_kern_sum_nvtx-name_base.csv", "x_nvtx_off"),
            ("run_cuda_gpu_kern_gb_sum_mangled.csv", "run"),
            ("run_cuda_of_a_later_version_sum.csv", "run"),
            ("cuda_gpu_kern_sum.csv", ""),
            ("kernels.csv", "kernels"),
            ("gpu_times.csv", "gpu_times"),
            ("v1.2.sqlite", "v1.2"),
            ("none", "none"),
        ] {
            assert_eq!(capture_name(file), name, "{file}");
        }
    }
}
