//! The demo's way through the pipeline, with stand-ins for the files that lie beside the program. With its
//! NVTX ranges hidden, under the real collector on the simulated GPU, its decode step is found all the same.

use crate::common::simulated::{built, collector, demo_script};
use crate::common::{Sandbox, stderr};
use predicates::prelude::PredicateBooleanExt as _;
use predicates::str::contains;
use serde_json::{Value, json};

/// A folder as `cargo build` leaves it: the program, the collector, the demo and the simulator.
fn installed(sandbox: &Sandbox) -> assert_cmd::Command {
    sandbox.executable("bin/stage2-demo", "#!/bin/sh\necho \"$@\" cupti=$STAGE2_CUPTI\n");
    sandbox.write("bin/libstage2_sim.so", "");
    std::fs::copy(sandbox.path("libstage2.so"), sandbox.path("bin/libstage2.so")).expect("copy");
    let launch = sandbox.install_launcher("bin/stage2-launch");
    let mut command = assert_cmd::Command::new(launch);
    command.current_dir(sandbox.path("")).env_remove("STAGE2_COLLECTOR").env_remove("STAGE2_CUPTI");
    // No driver, whatever this machine has.
    command.env("CUDA_VISIBLE_DEVICES", "");
    // The stand-in of the workload records nothing.
    command.arg("--allow-empty");
    command
}

#[test]
fn without_a_gpu_everything_says_simulated() {
    let sandbox = Sandbox::new();
    let simulator = sandbox.path("bin/libstage2_sim.so").display().to_string();
    let assert = installed(&sandbox).args(["demo", "run.mode=light"]).assert().success();
    assert
        .stdout(format!("--device simulated --sim {simulator} --sync --quiet cupti={simulator}\n"))
        .stderr(contains("report: ").and(contains("simulated")));
    let run = sandbox.run_json();
    assert_eq!(run["simulated"], json!(true));
    assert_eq!(run["passes"][0]["environment"]["STAGE2_CUPTI"], json!(simulator));
    assert_eq!(run["tools"]["collector"]["path"], json!(sandbox.path("bin/libstage2.so")));
    let environment = sandbox.json("env.json");
    assert_eq!(environment["simulated"], json!(true));
    assert!(sandbox.read("config.yaml").starts_with("# simulated"));
    assert!(sandbox.read("inputs.yaml").contains("simulated: true"));
}

/// Somebody makes the demo longer, and writes its options as settings or before `--`.
/// They go after `--`, and every other way names that one.
#[test]
fn the_demo_can_be_made_longer() {
    let sandbox = Sandbox::new();
    let words = ["demo", "run.mode=light", "--", "--rounds", "200"];
    let longer = installed(&sandbox).args(words).assert().success();
    longer.stdout(contains("--quiet --rounds 200 cupti="));
    let help = installed(&sandbox).args(["demo", "--", "--help"]).assert().success();
    help.stdout("--help cupti=\n").stderr("");
    let version = installed(&sandbox).args(["demo", "--", "-V"]).assert().success();
    version.stdout("-V cupti=\n").stderr("");
    let words = ["demo", "run.mode=light", "--", "--quiet", "--device=simulated"];
    installed(&sandbox).args(words).assert().success().stderr(contains("report: "));
    for (option, why) in [("--device=gpu", "there is no GPU"), ("--sim=x", "for stage2-demo alone")]
    {
        let said = contains(why).and(contains("report: ").not());
        installed(&sandbox).args(["demo", "--", option]).assert().code(2).stdout("").stderr(said);
    }
    let instead = contains("stage2-launch demo --light -- --rounds 200");
    for words in [&["rounds=200"][..], &["--", "rounds=200"], &["--rounds", "200"]] {
        let said = instead.clone().and(contains("tip:").not());
        installed(&sandbox).arg("demo").args(words).assert().code(2).stdout("").stderr(said);
    }
}

/// The warning that it reads more than its weights is one of the lines of the answer, and not repeated above them.
#[test]
fn a_demo_ends_with_its_answer_and_the_next_command() {
    let sandbox = Sandbox::new();
    let [demo, simulator] =
        ["stage2-demo", "libstage2_sim.so"].map(|name| built(name).display().to_string());
    let settings = ["model/llm=llama_1b_random", "hardware=h200", "run.mode=light"];
    let counts = ["model.tokens.batch_size=1", "model.tokens.prompt_tokens=512"];
    let counters = ["profiling.collector.counters=on", "--run-dir", "own", "--"];
    let settings = [&settings[..], &counts, &counters].concat();
    let words = [&settings[..], &[&demo, "--device", "simulated", "--sim", &simulator]].concat();
    let said = stderr(&sandbox.launch_strictly(&words).envs(collector()).assert().success());
    assert!(!said.contains("warning:"), "{said}");
    let page = std::fs::read_to_string(sandbox.path("own/stakeholder_summary.md")).expect("a page");
    // On a busy machine, the simulated counters have gaps, and so do not show what it reads.
    let metrics = std::fs::read_to_string(sandbox.path("own/metrics.json")).expect("metrics");
    let has_gaps = metrics.contains("\"counters.gap\"");
    assert!(page.contains("**warning:**") || has_gaps, "{page}");
    assert_eq!(said.matches("simulated GPU").count(), 1, "{said}");
    // Advice on this run; that names the way on to a workload of the user.
    let next = said.lines().last().and_then(|line| line.strip_prefix("next:     stage2-launch "));
    let next = next.unwrap_or_else(|| panic!("{said}")).replace('\'', "");
    let own = contains("stage2-launch run --light -- COMMAND");
    sandbox.launch_strictly(&next.split(' ').collect::<Vec<_>>()).assert().success().stdout(own);
    // A fact in each line, on any screen.
    let labels =
        ["verdict", "time", "where", "kernel", "FIRST", "warnings", "coverage", "report", "next"];
    for (columns, most) in [(80, 14), (200, 10)] {
        let mut again = sandbox.launch_strictly(&["report", "own"]);
        let said = stderr(&again.env("COLUMNS", columns.to_string()).assert().success());
        let block: Vec<&str> =
            said.lines().skip_while(|line| !line.starts_with("verdict:")).collect();
        let found = block.iter().filter(|line| !line.starts_with(' '));
        // A short run may have too few samples of the host.
        let found = found.filter_map(|line| Some(line.split_once(':')?.0));
        let found: Vec<&str> = found.filter(|&label| label != "host").collect();
        let labels = labels.iter().filter(|label| !has_gaps || **label != "warnings");
        assert_eq!(found, labels.copied().collect::<Vec<_>>(), "{said}");
        let is_narrow =
            |line: &&str| line.chars().count() <= columns || line.starts_with("report:");
        assert!(block.len() <= most && block.iter().all(is_narrow), "{said}");
        assert!(!said.contains('\u{1b}'), "no colour without a terminal: {said:?}");
    }
    // A model that needs more than the GPU can do gives no floor, and no advice rests on it.
    sandbox.launch_strictly(&["report", "own", "model/llm=llama_3_8b"]).assert().success();
    let page = std::fs::read_to_string(sandbox.path("own/report.md")).expect("a page");
    let told = "the configured model cannot be what ran: MBU would be ";
    assert!(page.contains(told) && !page.contains("as far as the floor allows"), "{page}");
    // The same as a workload of the user.
    demo_script(&sandbox, "", "");
    let words = ["run.mode=light", "--run-dir", "other run", "--", "./demo"];
    let said = stderr(&sandbox.launch_strictly(&words).envs(collector()).assert().success());
    let mut last = said.lines().rev();
    let [next, report] = [0; 2].map(|_| last.next().unwrap_or_default());
    assert!(
        report.starts_with("report:   ") && report.ends_with("/other run/report.html"),
        "{said}"
    );
    // A command that can be copied, also with a blank in the name.
    assert!(next.starts_with("next:     stage2-launch next '"), "{said}");
}

#[test]
fn an_ordinary_run_is_not_marked() {
    let sandbox = Sandbox::new();
    installed(&sandbox).args(["--", "true"]).assert().success();
    assert_eq!(sandbox.run_json()["simulated"], json!(false));
    assert!(!sandbox.read("config.yaml").contains("simulated"));
}

#[test]
fn a_missing_file_is_named() {
    for missing in ["stage2-demo", "libstage2_sim.so", "libstage2.so"] {
        let sandbox = Sandbox::new();
        let mut command = installed(&sandbox);
        let path = sandbox.path("bin").join(missing);
        std::fs::remove_file(&path).expect("file");
        let assert = command.arg("demo").assert().code(70).stdout("");
        assert.stderr(contains(path.display().to_string()).and(contains("cargo build --release")));
        assert!(!sandbox.path("tmp").exists());
    }
}

/// Runs the demo where NVTX finds no tool; gives metrics.json and what the terminal showed.
fn hidden_demo(options: &str) -> (Sandbox, Value, String) {
    let sandbox = Sandbox::new();
    demo_script(&sandbox, "export NVTX_INJECTION64_PATH=/nowhere;", options);
    let mut command = sandbox.launch(&["-v", "run.mode=light", "--", "./demo"]);
    let assert = command.envs(collector()).assert().success();
    let metrics = sandbox.json("metrics.json");
    (sandbox, metrics, stderr(&assert))
}

fn only_row(metrics: &Value) -> &Value {
    let rows = metrics["inferred_steps"]["rows"].as_array();
    let Some([row]) = rows.map(Vec::as_slice) else { panic!("{:#}", metrics["inferred_steps"]) };
    row
}

#[test]
fn the_eager_step_of_694_kernels_is_found() {
    let (sandbox, metrics, said) = hidden_demo("--rounds 4 --steps 12");
    assert_eq!(metrics["coverage"]["total"]["ranges"], 0, "they are hidden");
    let row = only_row(&metrics);
    assert_eq!((&row["kernels_per_step"], &row["phases"]), (&694.into(), &4.into()), "{row:#}");
    assert_eq!(row["steps"], 4 * 12, "{row:#}");
    assert_eq!(row["before"]["kernels_median"], 662, "the prefill: {row:#}");
    let line = "inferred from the kernel sequence";
    assert!(said.contains(line), "{said}");
    let stages = metrics["stages"].as_array().expect("stages");
    let kernels = |name: &str| {
        let row = stages.iter().find(|row| row["stage"] == name);
        row.and_then(|row| row["kernels"].as_u64()).unwrap_or_else(|| panic!("{name}: {stages:#?}"))
    };
    // The warm-up is one prefill and one step.
    let expected = [
        ("start-up (inferred)", 662 + 694, 1),
        ("prefill (inferred)", 4 * 662, 4),
        ("decode (inferred)", 4 * 12 * 694, 4),
    ];
    for (stage, kernels_expected, rounds) in expected {
        // A step begins where the GPU waits longest, which on a busy machine is anywhere in it: each round is off by less than
        // a step.
        let off = kernels(stage).abs_diff(kernels_expected);
        assert!(off < rounds * 694, "{stage}: {off} of {stages:#?}");
    }
    let all: u64 = expected.iter().map(|(stage, ..)| kernels(stage)).sum();
    assert_eq!(all, 5 * 662 + 49 * 694, "each kernel is in one stage: {stages:#?}");
    assert!(sandbox.read("report.md").contains("## Inferred steps"));
}

#[test]
fn each_replay_of_a_graph_is_a_step() {
    let (_sandbox, metrics, _) = hidden_demo("--graph --rounds 4 --steps 12");
    let row = only_row(&metrics);
    assert_eq!((&row["steps"], &row["phases"]), (&48.into(), &4.into()), "{row:#}");
}
