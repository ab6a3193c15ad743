//! The collector is loaded into workloads and never linked: its constructor would run here. Of CUPTI the
//! launcher knows the places only.

use std::path::Path;

#[test]
fn the_launcher_does_not_link_the_collector() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = std::process::Command::new(cargo)
        .args(["tree", "-p", "stage2-launch", "-e", "all", "--prefix", "none", "--format", "{p}"])
        .args(["--offline", "--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")])
        .output()
        .expect("cargo");
    let tree = String::from_utf8(output.stdout).expect("UTF-8");
    let names: Vec<_> = tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(
        output.status.success() && names.contains(&"stage2-launch"),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(!names.contains(&"stage2"), "stage2-launch depends on the collector:\n{tree}");
}

#[test]
fn the_launcher_knows_where_a_cupti_may_lie_and_no_more_of_it() {
    fn look(folder: &Path, uses: &mut usize) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                look(&path, uses);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = std::fs::read_to_string(&path).expect("a file");
                for used in text.split("cupti_sys::").skip(1) {
                    assert!(used.starts_with("places"), "{}: {:.40}", path.display(), used);
                    *uses += 1;
                }
            }
        }
    }
    let mut uses = 0;
    look(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut uses);
    assert!(uses > 0, "nothing was looked at");
}
