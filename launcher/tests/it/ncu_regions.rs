//! Range replay under a stand-in for ncu: a run for each region, and the table that comes of them.

use crate::common::trace::Build;
use crate::common::{Sandbox, fake_ncu, names_in, row, stderr};
use stage2_contract::trace::NONE;

/// Reads a duration out of the range that stands in the report.
const IMPORT: &str = r#"
  case "$(cat "$2")" in decode/) ns=1,000;; attn/) ns=250;; mlp/) ns=600;; *) ns=7;; esac
  printf '"ID","Process ID","Kernel Name","Device","gpu__time_duration.sum"\n"","","","","ns"\n'
  printf '"0","9","range","0","%s"\n"1","9","range","0","%s"\n' "$ns" "$ns""#;
/// Writes the range that it was asked for into its report.
/// A range called `broken` gives nothing, as ncu does when no launch is in one.
const PROFILE: &str = r#""$@"; code=$?
if [ "$include" = broken/ ]; then echo "==WARNING== No ranges were profiled." > "$log"; exit $code; fi
echo "==PROF== Disconnected" > "$log"
printf %s "$include" > "$out""#;

/// decode with two ranges in it, and another one that is broken; prefill.
fn capture(sandbox: &Sandbox) {
    let mut b = Build::process(1, "python");
    b.anchor(1).device(0, "NVIDIA H200", 1);
    for (id, name) in [(1, "decode"), (2, "attn"), (3, "mlp"), (4, "broken"), (5, "prefill")] {
        b.name(id, name.as_bytes());
    }
    b.name(6, b"kernel").shape(1, 6, 1);
    b.path(1, NONE, 1).path(2, 1, 2).path(3, 1, 3).path(4, 1, 4).path(5, NONE, 5);
    for (open, path) in [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5)] {
        b.open(open, path, if (2..5).contains(&path) { 1 } else { 0 }, u64::from(path));
    }
    for (open, start) in [(2, 10), (3, 100), (4, 200), (5, 300)] {
        b.kernel(open, 1, 1, (start, start + 10 * open));
    }
    b.end();
    b.save(&sandbox.path("."), "spool.s2t");
}

fn launch(sandbox: &Sandbox, settings: &[&str]) -> assert_cmd::Command {
    let script =
        "echo ran >> count; [ -z \"$STAGE2_OUT\" ] || cp collector/spool.s2t \"$STAGE2_OUT\"";
    sandbox.launch_with_tools(&[settings, &["--", "sh", "-c", script]].concat())
}

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.executable("tools/ncu", &fake_ncu(IMPORT, PROFILE));
    capture(&sandbox);
    sandbox
}

const RANGE: &str = "pipeline.ncu.ncu_cli.replay_mode=range";

#[test]
fn each_region_has_a_run_of_its_own_and_a_row_at_its_place() {
    let sandbox = sandbox();
    launch(&sandbox, &[RANGE, "pipeline.nsys.enable=false"]).assert().success();
    let runs = sandbox.count();
    assert_eq!(runs, 1 + 4, "collect, and decode with the three ranges in it; not prefill");
    for file in ["decode/raw.csv", "decode_2fmlp/run.ncu-rep", "decode_2fattn/region.json"] {
        assert!(!sandbox.read(&format!("ncu/regions/{file}")).is_empty(), "{file}");
    }
    let metrics = sandbox.json("metrics.json");
    let regions = &row(&metrics["ncu_regions"], "scope", "aggregate")["regions"];
    let decode = row(regions, "path", "decode");
    assert_eq!(decode["inclusive"]["duration_ns"], 2000.0, "both instances");
    assert_eq!(decode["exclusive"]["duration_ns"], 300.0, "without attn and mlp");
    let mlp = row(regions, "path", "decode/mlp");
    assert_eq!(mlp["parent"], "decode");
    assert_eq!(mlp["exclusive"]["duration_ns"], 1200.0);
    assert!(!regions.to_string().contains("broken"), "{regions:#}");
    let said = sandbox.read("run.json");
    assert!(said.contains("region decode/broken"), "{said}");
    let page = sandbox.read("report.md");
    assert!(page.contains("## Regions under ncu") && page.contains("| `decode/attn` | `decode` |"));
    let mut table =
        csv::Reader::from_path(sandbox.latest("ncu_regions.csv")).expect("ncu_regions.csv");
    assert_eq!(table.records().count(), 3 * 3, "three regions for all, the process, the device");
}

#[test]
fn patterns_choose_regions_and_a_limit_is_told() {
    let sandbox = sandbox();
    let settings =
        [RANGE, "pipeline.ncu.regions.include=[prefill,*attn]", "pipeline.ncu.regions.most=1"];
    let assert = launch(&sandbox, &settings).assert().success();
    let said = stderr(&assert);
    assert!(said.contains("1 of 2 regions are measured"), "{said}");
    let names = names_in(&sandbox.latest("ncu/regions"));
    assert_eq!(names, ["prefill"], "the one with more GPU time");
}

#[test]
fn patterns_without_a_range_measure_nothing_and_are_told() {
    let sandbox = sandbox();
    let settings = [RANGE, "pipeline.nsys.enable=false", "pipeline.ncu.regions.include=[decod/]"];
    let assert = launch(&sandbox, &settings).assert().success();
    let said = stderr(&assert);
    let runs = sandbox.count();
    assert_eq!(runs, 1, "the collect pass alone: {said}");
    for text in [said, sandbox.read("report.md")] {
        assert!(text.contains("ncu measures nothing for decod/"), "{text}");
        assert!(text.contains("decode/attn"), "the ranges that there are: {text}");
    }
}

#[test]
fn without_recorded_ranges_one_run_measures_the_stage() {
    let sandbox = sandbox();
    std::fs::write(sandbox.path("collector/spool.s2t"), "").expect("file");
    launch(&sandbox, &[RANGE]).assert().success();
    assert!(sandbox.read("run.json").contains("instead of one for each region"));
    assert_eq!(sandbox.read("ncu/run.ncu-rep"), "decode/");
}
