//! tests/gpu/floor.cpp and launches.cpp as they are built on a machine with a GPU, on the simulated one.
//! Needs a C++ compiler and the headers of CUPTI 13.3 or later, in the folder that
//! `STAGE2_TEST_CUPTI_INCLUDE` names; says so where there are none.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use crate::common::{collector, simulator, skipped};
use serde_json::Value;

/// The paths of the programs `floor` and `launches`, built once; or why they cannot be built.
fn programs() -> Result<&'static (PathBuf, PathBuf), String> {
    static BUILT: OnceLock<Result<(PathBuf, PathBuf), String>> = OnceLock::new();
    BUILT.get_or_init(build).as_ref().map_err(Clone::clone)
}

fn build() -> Result<(PathBuf, PathBuf), String> {
    let include = std::env::var_os("STAGE2_TEST_CUPTI_INCLUDE").map(PathBuf::from);
    let has_it = |folder: &PathBuf| folder.join("cupti_activity.h").exists();
    let include =
        include.filter(has_it).ok_or("no cupti_activity.h; set STAGE2_TEST_CUPTI_INCLUDE")?;
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gpu");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("floor");
    std::fs::create_dir_all(&out).expect("folder");
    let compile = |source: &str, output: &str, more: &[&str]| {
        let source = here.join(source);
        let output = out.join(output);
        let mut command = Command::new(std::env::var_os("CXX").unwrap_or_else(|| "c++".into()));
        command.args(["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror"]).args(more);
        // NVIDIA's headers are not ours to be warned of.
        command.arg("-isystem").arg(&include).arg("-isystem").arg(here.join("cuda_types"));
        command.arg(&source).arg("-o").arg(&output).arg("-ldl");
        let status = command.status().map_err(|error| format!("no C++ compiler ({error})"))?;
        assert!(status.success(), "{} does not compile", source.display());
        Ok::<_, String>(output)
    };
    Ok((
        compile("floor.cpp", "floor.so", &["-shared", "-fPIC"])?,
        compile("launches.cpp", "launches", &[])?,
    ))
}

/// Runs the launches on a simulated CUPTI 13.5, with these variables and words.
fn run(launches: &Path, variables: &[(&str, &str)], words: &[&str]) -> (Output, Value) {
    let output = Command::new(launches)
        .env_clear()
        .env("STAGE2_SIM_FAST", "1")
        .env("STAGE2_SIM_CUPTI_VERSION", "13.5")
        .env("FLOOR_CUPTI", simulator())
        .envs(variables.iter().copied())
        .args(["--launches", "10000", "--replays", "100", "--driver"])
        .arg(simulator())
        .args(words)
        .output()
        .expect("the launches start");
    let line = serde_json::from_slice(&output.stdout).unwrap_or_default();
    (output, line)
}

/// The floor's line of JSON, which is the last one on stderr that is one.
fn told(output: &Output) -> Value {
    let stderr = String::from_utf8_lossy(&output.stderr);
    stderr.lines().rev().find_map(|line| serde_json::from_str(line).ok()).unwrap_or_default()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Kernels of 10,000 launches and 100 replays of 100 nodes, and of as many that are not measured.
const KERNELS: u64 = 2 * (10_000 + 100 * 100);
/// Kernels of a phase in which replays of a new graph and of an old one are waited for as well.
const SWITCHED_KERNELS: u64 = 2 * 10_000 + 3 * 2 * 100 * 100;

#[test]
fn every_kernel_is_counted_by_the_size_that_its_record_has() {
    let (floor, launches) = match programs() {
        Ok(programs) => programs,
        Err(why) => return skipped(&why),
    };
    let floor = floor.to_str().expect("a path");
    for (api, fields, bytes, by_layout) in [
        ("v1", "all", 248, 0),
        ("v2", "all", 248, 0),
        ("v2", "default", 102, 102),
        ("v2", "min", 28, 28),
        // The kind comes with any list, once.
        ("v2", "name", 12, 12),
        ("v2", "start,kind,grid_x,start", 16, 16),
    ] {
        let variables =
            [("CUDA_INJECTION64_PATH", floor), ("FLOOR_API", api), ("FLOOR_FIELDS", fields)];
        let (output, line) = run(launches, &variables, &[]);
        assert!(output.status.success(), "{api} {fields}: {}", text(&output));
        assert_eq!(line["kernels"], KERNELS);
        assert_eq!(line["all"]["eager_ns"]["batches"], 1, "{line}");
        let told = told(&output);
        assert_eq!(told["records"], KERNELS, "{api} {fields}: {told}");
        assert_eq!(told["record_bytes"], bytes, "{api} {fields}");
        assert_eq!(told["record_bytes_by_layout"], by_layout, "{api} {fields}");
        assert_eq!((&told["dropped"], &told["uneven_buffers"]), (&0.into(), &0.into()));
        let places = told["layout"].as_array().expect("places");
        let sum: u64 = places.iter().map(|place| place["bytes"].as_u64().expect("bytes")).sum();
        assert_eq!(sum, by_layout, "the fields fill the record: {told}");
    }
}

#[test]
fn a_floor_that_lost_records_or_cannot_be_is_none() {
    let (floor, launches) = match programs() {
        Ok(programs) => programs,
        Err(why) => return skipped(&why),
    };
    let floor = floor.to_str().expect("a path");
    for (variable, value, part) in [
        ("STAGE2_SIM_FAULT", "drop=1000", "not all of it"),
        ("STAGE2_SIM_FAULT", "enable=27", "enable: error 27"),
        ("STAGE2_SIM_CUPTI_VERSION", "13.0", "13.3 (130300) or later"),
        ("FLOOR_CUPTI", "/no/such/libcupti.so", "/no/such/libcupti.so"),
        ("FLOOR_CUPTI", "", "set FLOOR_CUPTI"),
        ("FLOOR_API", "v3", "`v3`"),
        ("FLOOR_API", "v1", "FLOOR_FIELDS needs FLOOR_API=v2"),
        ("FLOOR_FIELDS", "start,strat", "`strat`"),
    ] {
        let mut variables =
            vec![("CUDA_INJECTION64_PATH", floor), ("FLOOR_API", "v2"), ("FLOOR_FIELDS", "min")];
        variables.push((variable, value));
        let (output, _) = run(launches, &variables, &[]);
        assert_eq!(output.status.code(), Some(3), "{variable}={value}: {}", text(&output));
        assert!(text(&output).contains(part), "{part} in {}", text(&output));
    }
}

#[test]
fn what_is_switched_records_its_own_phase_only() {
    let (floor, launches) = match programs() {
        Ok(programs) => programs,
        Err(why) => return skipped(&why),
    };
    let floor = floor.to_str().expect("a path");
    for (api, how) in [
        ("v1", "disable"),
        ("v1", "finalize"),
        ("v2", "disable"),
        ("v2", "unsubscribe"),
        ("v2", "finalize"),
    ] {
        let (output, line) = run(launches, &[("FLOOR_API", api)], &["--switch", floor, how]);
        assert!(output.status.success(), "{api} {how}: {}", text(&output));
        for phase in ["before", "on", "off"] {
            for measure in ["eager_ns", "graph_ns", "waited_ns", "kept_ns"] {
                let least = line[phase][measure]["min"].as_f64();
                assert!(least.is_some_and(|ns| ns > 0.0), "{measure} in {line}");
            }
        }
        assert_eq!(told(&output)["records"], SWITCHED_KERNELS, "{api} {how}");
    }
    for (api, how, fault, part) in [
        ("v1", "unsubscribe", "", "v1 has no subscriber"),
        ("v2", "finalize", "fail=cuptiFinalize:999", "finalize"),
        ("v2", "perish", "", "`perish` is no way to stop"),
    ] {
        let variables = [("FLOOR_API", api), ("STAGE2_SIM_FAULT", fault)];
        let (output, _) = run(launches, &variables, &["--switch", floor, how]);
        assert_eq!(output.status.code(), Some(1), "{api} {how}");
        assert!(text(&output).contains(part), "{part} in {}", text(&output));
    }
}

/// Runs floor.sh on the simulated GPU: its exit status, what it printed, and its lines of raw.jsonl.
fn script(mode: &str, ways: &str, fault: &str, folder: &Path) -> (Option<i32>, String, Vec<Value>) {
    let out = folder.join(mode);
    let output = Command::new("bash")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gpu/floor.sh"))
        .arg(mode)
        .arg(collector())
        // The launcher is not started.
        .arg(collector())
        .arg(&out)
        .arg(simulator())
        .env("CUPTI_INCLUDE", std::env::var_os("STAGE2_TEST_CUPTI_INCLUDE").unwrap_or_default())
        .envs([("DEVICE", "simulated"), ("STAGE2_SIM_FAST", "1"), ("WAYS", ways)])
        .env("STAGE2_SIM_FAULT", fault)
        .envs([("ROUNDS", "1"), ("LAUNCHES", "10000"), ("REPLAYS", "100")])
        .output()
        .expect("bash starts");
    let raw = std::fs::read_to_string(out.join("raw.jsonl")).unwrap_or_default();
    let rows = raw.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &text(&output);
    (output.status.code(), said, rows)
}

#[test]
fn the_script_measures_every_way_and_says_which_it_could_not() {
    if let Err(why) = programs() {
        return skipped(&why);
    }
    let folder = tempfile::tempdir().expect("folder");
    let (status, said, rows) = script("cost", "", "", folder.path());
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("1 whole rounds, 8 processes"), "{said}");
    assert_eq!(rows.len(), 8);
    let floors = rows.iter().filter(|row| !row["floor"].is_null());
    assert!(floors.clone().all(|row| row["floor"]["records"] == KERNELS), "{rows:?}");
    assert_eq!(floors.count(), 4);
    // What the collector says it used is told beside the table.
    assert!(said.contains("- NOTE collector v1: stage2: CUPTI 130501"), "{said}");
    assert!(said.contains("| floor v2, min fields | 28 |"), "{said}");

    let (status, said, rows) = script("fields", "untraced;start;min + name", "", folder.path());
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("| min + name | 36 | "), "{said}");
    assert_eq!(rows.len(), 4, "{rows:?}");

    let (status, said, _) = script("off", "v2 min", "fail=cuptiFinalize:999", folder.path());
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("| v2 min, unsubscribe | "), "{said}");
    assert!(said.contains("- FAIL v2 min, finalize, launches: exit status 1: floor: "), "{said}");

    let (status, said, _) = script("cost", "no such way", "", folder.path());
    assert_eq!(status, Some(2), "{said}");
}
