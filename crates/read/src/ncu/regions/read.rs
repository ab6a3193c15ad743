//! The folders of regions that were measured -> their ranges as launches, each at its own place.

use std::io::{BufReader, Read as _};
use std::path::{Path, PathBuf};

use crate::files;
use crate::ncu::load::{Launch, Source, load};
use crate::ncu::nvtx::Label;
use serde::{Deserialize, Serialize};
use stage2_contract::text::visible_path;
use stage2_model::{Finding, Severity};

/// Name of the file that says which region a folder is of.
pub const REGION_FILE: &str = "region.json";
/// Folders within each other that are looked into: a path is cut into parts of 200 bytes.
const DEEPEST: usize = 64;
/// A larger file says something else.
const LARGEST_BYTES: u64 = 4 << 20;

/// Which region a folder is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionFile {
    /// The ranges around it and itself, the outermost first.
    pub stack: Vec<Label>,
}

/// Reads all regions below `folder` (`ncu/regions`). The tables of ncu name a range without those
/// around it: its place is what the collect pass saw.
pub fn read(folder: &Path, findings: &mut Vec<Finding>) -> Vec<Launch> {
    let mut launches = Vec::new();
    let mut folders = Vec::new();
    find(folder, 0, &mut folders);
    folders.sort();
    for folder in folders {
        let region = match region(&folder) {
            Ok(region) => region,
            Err(why) => {
                findings.push(unusable(&folder.join(REGION_FILE), &why.to_string()));
                continue;
            }
        };
        launches.extend(launches_of(&folder, &region, findings));
    }
    launches
}

/// Folders with a region, however deep.
fn find(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    if folder.join(REGION_FILE).is_file() {
        found.push(folder.to_owned());
    }
    if depth < DEEPEST {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            find(&entry.path(), depth + 1, found);
        }
    }
}

fn region(folder: &Path) -> anyhow::Result<RegionFile> {
    let file = files::open(&folder.join(REGION_FILE))?;
    let region: RegionFile = serde_json::from_reader(file.take(LARGEST_BYTES))?;
    anyhow::ensure!(!region.stack.is_empty(), "it names no range");
    Ok(region)
}

fn launches_of(folder: &Path, region: &RegionFile, findings: &mut Vec<Finding>) -> Vec<Launch> {
    let mut pages = Vec::new();
    for path in ["raw.csv", "details.csv"].map(|name| folder.join(name)) {
        match files::open(&path) {
            Ok(file) => {
                pages.push(Source { name: visible_path(&path), input: BufReader::new(file) });
            }
            // A run that failed has left none, and was told about.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => findings.push(unusable(&path, &error.to_string())),
        }
    }
    let tables = load(pages);
    // Names of ranges are never mangled; what is said of joining kernels does not concern them.
    findings.extend(tables.findings.into_iter().filter(|f| f.severity != Severity::Note));
    let mut launches = tables.launches;
    launches.retain(Launch::is_range);
    launches.iter_mut().for_each(|launch| launch.ranges.clone_from(&region.stack));
    launches
}

fn unusable(path: &Path, why: &str) -> Finding {
    Finding::new(
        Severity::Warning,
        format!("{} cannot be used", visible_path(path)),
        stage2_contract::text::visible(why.as_bytes()),
        "the region is missing from the report; run the ncu pass again",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const RAW: &str = "\"ID\",\"Process ID\",\"Kernel Name\",\"Device\",\"gpu__time_duration.sum\"\n\
                       \"\",\"\",\"\",\"\",\"ns\"\n\"0\",\"7\",\"range\",\"0\",\"1,500\"\n";

    #[test]
    fn a_region_is_where_the_collector_saw_it_and_damaged_ones_are_named() {
        let dir = tempfile::tempdir().expect("folder");
        let write = |folder: &str, file: &str, text: &str| {
            std::fs::create_dir_all(dir.path().join(folder)).expect("folder");
            std::fs::write(dir.path().join(folder).join(file), text).expect("file");
        };
        let stack = r#"{"stack":[{"name":"decode","domain":null},{"name":"mlp","domain":"d"}]}"#;
        write("decode_2fmlp", REGION_FILE, stack);
        write("decode_2fmlp", "raw.csv", RAW);
        write("deep_/+er", REGION_FILE, r#"{"stack":[{"name":"x","domain":null}]}"#);
        write("deep_/+er", "raw.csv", RAW);
        write("bad", REGION_FILE, "{");
        write("empty", REGION_FILE, r#"{"stack":[]}"#);
        let mut findings = Vec::new();
        let launches = read(dir.path(), &mut findings);
        let paths: Vec<String> =
            launches.iter().map(|l| crate::ncu::nvtx::path(&l.ranges)).collect();
        assert_eq!(paths, ["decode/mlp@d", "x"]);
        assert_eq!(launches[0].metrics["gpu__time_duration.sum"].value, 1500.0);
        assert_eq!(findings.len(), 2, "{findings:?}");
        assert!(read(&dir.path().join("none"), &mut findings).is_empty());
    }
}
