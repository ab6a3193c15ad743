//! The collector is loaded into workloads and never linked: its constructor would run here.

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
