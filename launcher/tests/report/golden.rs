//! Every artifact of the fixture, to the byte. `UPDATE_GOLDEN=1 cargo test -p stage2-launch` writes
//! the expected files again; look at the difference before you commit it.

use std::fs;
use std::path::{Path, PathBuf};

use stage2_launch::report::write_reports;

use crate::fixture;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn compare(name: &str, actual: &str) {
    let path = golden(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, actual).expect("golden file");
        return;
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    let difference = expected.lines().zip(actual.lines()).find(|(a, b)| a != b);
    assert!(
        expected == actual,
        "{name} is not what it was; first difference: {difference:#?}; if it is meant, run with \
         UPDATE_GOLDEN=1"
    );
}

#[test]
fn every_artifact_is_as_expected() {
    let folder = tempfile::tempdir().expect("folder");
    let run_dir = folder.path().join("20261120-193500-1");
    fs::create_dir(&run_dir).expect("run folder");
    fixture::write(&run_dir);
    let outcome = write_reports(&run_dir).expect("reports");
    let stable = |text: &str| text.replace(&folder.path().display().to_string(), "FOLDER");

    let written: Vec<&str> =
        outcome.files.iter().filter_map(|path| path.file_name()?.to_str()).collect();
    let expected = [
        "kernels.md",
        "kernels.csv",
        "metrics.json",
        "report.md",
        "operators.md",
        "stakeholder_summary.md",
    ];
    assert_eq!(written, expected);
    for (path, name) in outcome.files.iter().zip(written) {
        let text = stable(&fs::read_to_string(path).expect("UTF-8"));
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{name}");
        let simulated = if name.ends_with("md") { "SIMULATED" } else { "simulated" };
        assert!(text.contains(simulated), "{name} says that it is simulated");
        // The unit tests of these pages have golden files of the same names.
        match name {
            "operators.md" | "stakeholder_summary.md" => compare(&format!("run_{name}"), &text),
            name => compare(name, &text),
        }
    }
    compare("headline.txt", &stable(&(outcome.headline.join("\n") + "\n")));
    assert!(outcome.simulated);
    assert_eq!(outcome.coverage["verdict"]["status"], "partial");

    let again = write_reports(&run_dir).expect("reports");
    assert_eq!(again.findings, outcome.findings, "writing again changes nothing");
}
