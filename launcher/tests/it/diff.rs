//! `stage2-launch diff`: real pairs of runs of the demo on the simulated GPU, conditions, and what is refused.

use std::fs;

use crate::common::simulated::run_demo;
use crate::common::{self, LAUNCH, Sandbox, at_once, lossy, repository, says};
use predicates::prelude::PredicateBooleanExt as _;
use predicates::str::contains;
use serde_json::{Value, json};

fn sample(name: &str) -> String {
    repository("docs/sample").join(name).display().to_string()
}

/// A report of an earlier version.
fn earlier(name: &str) -> String {
    repository("tests/fixtures/reports").join(name).with_extension("json").display().to_string()
}

/// The reports of four runs that are alike: each began at another time.
fn four_runs(sandbox: &Sandbox, name: &str) -> [String; 4] {
    let mut report = common::json(&repository("docs/sample").join(name).join("metrics.json"));
    [1, 2, 3, 4].map(|number| {
        report["run"]["started"] = json!(format!("2026-11-0{number}T10:00:00Z"));
        let name = format!("{name}-{number}.json");
        sandbox.write(&name, &report.to_string());
        name
    })
}

fn json_of(sandbox: &Sandbox, words: &[&str]) -> Value {
    let words = [&["diff", "--json", "-q"], words].concat();
    let output = sandbox.launch_strictly(&words).assert().get_output().stdout.clone();
    serde_json::from_slice(&output).expect("JSON")
}

#[test]
fn runs_of_one_program_are_equal_and_a_longer_one_is_found() {
    let sandbox = Sandbox::new();
    at_once([("a", "4"), ("b", "4"), ("long", "6")], |(folder, steps)| {
        run_demo(&sandbox, folder, &["--steps", steps]);
    });
    let kernels = ["--fail-if", "decode.kernels>+0", "--fail-if", "decode.kernel_ms>+10%+0.1ms"];
    let words = [&["diff", "a", "b"], &kernels[..]].concat();
    let screen =
        contains(" call p50 ").and(contains("noise       ± within runs, (min): 5 % of the larger"));
    let passed = contains("--fail-if 'decode.kernels>+0' passed for a → b");
    // The runs that are missing can be recorded as they stand.
    let record = "record      stage2-launch demo --run-dir before-2 -- --device simulated \\\n            --steps 4 && ";
    let screen = screen.and(contains(record)).and(contains(" in the simulation (one run"));
    sandbox.launch_strictly(&words).assert().success().stdout(screen).stderr(passed);
    // The simulated GPU replays a recording: its kernels are the same to the nanosecond.
    let same = json_of(&sandbox, &["a", "b"]);
    for stage in same["comparisons"][0]["stages"].as_array().expect("stages") {
        assert_eq!(stage["presence"], "both", "{stage}");
        assert_eq!(stage["work_total"]["change_ns"], 0.0, "{stage}");
    }
    let words = ["diff", "a", "b", "long", "--fail-if", "run.kernels>+0"];
    let failed = contains("--fail-if 'run.kernels>+0' failed for a → long")
        .and(contains("failed for a → b").not());
    sandbox.launch_strictly(&words).assert().code(1).stderr(failed);
    // Two steps more of six in each instance: of a token the kernels are the same.
    let longer = json_of(&sandbox, &["a", "long"]);
    let decode = common::row(&longer["comparisons"][0]["stages"], "stage", "decode");
    let kernels = common::row(&decode["metrics"], "metric", "kernels");
    assert!(kernels["after"].is_number() && kernels["after"] == kernels["before"], "{kernels}");
    // Several a side, and the latest run by its name.
    fs::create_dir_all(sandbox.path("tmp/stage2")).expect("folder");
    std::os::unix::fs::symlink("../../b", sandbox.path("tmp/stage2/latest")).expect("link");
    let words = ["diff", "a", "--against", "latest", "long"];
    let assert = sandbox.launch_strictly(&words).assert().success();
    assert.stdout(contains("and the noise within the one"));
    let words = ["diff", "a", "b", "--against", "latest", "a/metrics.json"];
    sandbox.launch_strictly(&words).assert().code(2).stderr(contains("name each run once"));
    let same = contains("Both sides are the same run");
    // So is a copy of it.
    fs::create_dir_all(sandbox.path("copied")).expect("folder");
    fs::copy(sandbox.path("a/metrics.json"), sandbox.path("copied/metrics.json")).expect("a copy");
    let words = ["diff", "a", "copied"];
    sandbox.launch_strictly(&words).assert().success().stdout(same.clone());
    sandbox.launch_strictly(&["diff", "b", "latest"]).assert().success().stdout(same.clone());
    sandbox.launch_strictly(&["diff", "a", "latest"]).assert().success().stdout(same.not());
    // An improvement that was demanded is not there.
    let words = ["diff", "a", "b", "--expect", "decode.kernel_ms<-20%"];
    let said = contains("--expect 'decode.kernel_ms<-20%' was not met for a → b")
        .and(contains("the expected change did not happen"));
    sandbox.launch_strictly(&words).assert().code(1).stderr(said);
}

#[test]
fn a_condition_that_cannot_be_evaluated_is_told_below_the_page() {
    let [run, other] = ["vllm_two_gpus", "vllm_server"].map(sample);
    let command = format!("'{LAUNCH}' diff '{run}' '{other}' --fail-if 'decode.ttft_ms>+5%' 2>&1");
    let mut shell = std::process::Command::new("sh");
    let output = shell.args(["-c", &command]).output().expect("sh");
    let said = lossy(&output.stdout);
    assert!(said.find("noise ") < said.find("could not be evaluated"), "{said}");
    assert_eq!(output.status.code(), Some(1), "{said}");
}

#[test]
fn an_output_named_html_is_a_page_for_a_browser() {
    let sandbox = Sandbox::new();
    let [a, b] = ["vllm_server", "vllm_sorting"].map(sample);
    for (name, is_html) in [("d.html", true), ("d.HTM", true), ("d.md", false)] {
        let said = contains(format!("wrote {name}"));
        sandbox.launch_strictly(&["diff", &a, &b, "-o", name]).assert().success().stderr(said);
        let text = fs::read_to_string(sandbox.path(name)).expect(name);
        assert_eq!(text.starts_with("<!"), is_html, "{name}");
    }
    let assert = sandbox.launch_strictly(&["diff", &a, &b, "--json", "-o", "d.json"]).assert();
    assert.success().stdout("").stderr(contains("wrote d.json"));
    assert!(common::read(&sandbox.path("d.json")).starts_with('{'));
    let words = ["diff", &a, &b, "--fail-if", "decode.tokens_per_s>+5%"];
    let said = contains("did you mean --fail-if 'decode.tokens_per_s<-5%'");
    sandbox.launch_strictly(&words).assert().stderr(said);
}

/// The screen of a comparison.
fn screen(sandbox: &Sandbox, words: &[&str]) -> String {
    let words = [&["diff"], words].concat();
    let mut command = sandbox.launch_strictly(&words);
    lossy(&command.env("LINES", "24").assert().get_output().stdout)
}

#[test]
fn the_screen_in_the_documentation_is_that_of_the_program() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let runs = ["docs/sample/vllm_sorting", "docs/sample/vllm_server"];
    let mut command = std::process::Command::new(LAUNCH);
    command.current_dir(root).arg("diff").args(runs).envs([("COLUMNS", "80"), ("LINES", "24")]);
    let output = command.output().expect("stage2-launch");
    let page = common::read(format!("{root}/docs/diff.md").as_ref());
    let shown = page.split("```text\n").find(|block| block.starts_with(runs[0]));
    let shown = shown.and_then(|block| block.split("```").next()).expect("a screen");
    assert_eq!(lossy(&output.stdout).trim_end(), shown.trim_end());
}

/// The line *next* of a screen as one: a command in it can be copied, so that nothing of it is left out.
fn next_of(screen: &str) -> String {
    let lines = screen.lines().skip_while(|line| !line.starts_with("next  "));
    let is_its = |(at, line): &(usize, &str)| *at == 0 || line.starts_with("     ");
    let its = lines.enumerate().take_while(is_its).map(|(_, line)| line);
    let its = its.map(|line| line.trim_start_matches("next").trim_matches([' ', '\\']));
    its.collect::<Vec<_>>().join(" ")
}

#[test]
fn any_comparison_fits_a_terminal_of_80_by_24() {
    let sandbox = Sandbox::new();
    let before = ["llama_1b", "moe_small", "two_ranks"].map(earlier);
    let now = ["regions", "server_window", "vllm_server", "vllm_two_gpus"].map(sample);
    let runs = [&before[..], &now].concat();
    for (at, a) in runs.iter().enumerate() {
        for b in &runs[at..] {
            let shown = screen(&sandbox, &[a, b]);
            assert!((3..=22).contains(&shown.lines().count()), "{a} {b}:\n{shown}");
            assert!(shown.lines().all(|line| line.chars().count() <= 80), "{a} {b}:\n{shown}");
            assert_eq!(next_of(&shown), next_of(&screen(&sandbox, &[a, b, "--full"])), "{shown}");
            // Each kind of shading is explained.
            for fill in ["█ ", "░ ", "□ "] {
                let is_used = shown.contains(fill.split(' ').next().unwrap_or_default());
                assert_eq!(shown.contains(fill), is_used, "{a} {b}:\n{shown}");
            }
        }
    }
    // What does not fit is left out whole, never the word that it is noise.
    let shown = screen(&sandbox, &[&now[2], &now[3]]);
    let first = [
        "\nNot comparable: 1 vs 2 GPUs.\nTimes not comparable (one run per side)",
        " tokens/s ",
        "\nnext        ",
    ];
    assert!(first.iter().all(|text| shown.contains(text)), "{shown}");
    assert!(!shown.contains(" %; more"), "{shown}");
    let judges = ["shorter", "longer", "higher", "lower", "noise\n", "beyond"];
    assert!(judges.iter().all(|word| !shown.contains(word)), "{shown}");
    // Another terminal has other lines.
    let words = ["diff", &now[0], &now[2]];
    let wide = sandbox.launch_strictly(&words).env("COLUMNS", "120").assert().success();
    let wide = lossy(&wide.get_output().stdout);
    let longest = wide.lines().map(|line| line.chars().count()).max();
    assert!(longest.is_some_and(|chars| (100..=120).contains(&chars)), "{wide}");
    // Where the models differ, no row has a change, and no part a bar.
    let shown = screen(&sandbox, &[&before[0], &before[1]]);
    assert!(
        shown.contains("\nThe sides are not comparable, so no parts are compared.\n"),
        "{shown}"
    );
    assert!(!shown.contains(['□', '█', '±', '%']), "{shown}");
}

/// An all-clear stands over a number that got worse, or the answer has to be gathered.
/// The first line says in one sentence whether anything changed, and how many runs that is based on.
/// The verdict on a page, without its marks.
fn headline(page: &str) -> String {
    let found = page.lines().find_map(|line| line.split_once("<p class=\"verdict\">"));
    let mut text = String::new();
    for piece in found.map_or("", |(_, text)| text).split('<') {
        text.push_str(piece.split_once('>').map_or(piece, |(_, text)| text));
    }
    text.replace('\u{a0}', " ")
}

#[test]
fn the_first_line_says_whether_anything_changed() {
    let sandbox = Sandbox::new();
    let regions = sample("regions");
    let output = ["diff", &regions, &regions, "--html", "same.html"];
    let same = lossy(&sandbox.launch_strictly(&output).assert().success().get_output().stdout);
    let verdict = "Both sides are the same run: name another run to compare it with";
    assert_eq!(same.lines().nth(1), Some(verdict), "{same}");
    assert!(same.contains("\ncomparable  yes"), "{same}");
    let quiet = sandbox.launch_strictly(&["-q", "diff", &regions, &regions]).assert().success();
    quiet.stdout(format!("{verdict}\n")).stderr("");
    let page = common::read(&sandbox.path("same.html"));
    let answer = format!("<div class=\"plain\">\n<p class=\"verdict\">{verdict}</p>");
    assert!(page.contains(&answer) && !page.contains("within these two runs"), "{page}");
    let words = ["diff", &earlier("llama_1b"), &earlier("moe_small"), "--html", "other.html"];
    sandbox.launch_strictly(&words).assert().success().stdout(contains(
        "\nNot comparable: different models.\nTimes not comparable (one run per side)",
    ));
    assert!(!common::read(&sandbox.path("other.html")).contains("<div class=\"good\">"));
    // A warning about prefill does not colour the verdict on decode.
    let [before, after] = ["vllm_sorting", "vllm_server"].map(|name| four_runs(&sandbox, name));
    let [before, after] = [&before, &after].map(|runs| runs.each_ref().map(|run| &**run));
    let sides = [&before[..], &["--against"], &after[..]].concat();
    let better = screen(&sandbox, &[&sides[..], &["--html", "better.html"]].concat());
    let page = common::read(&sandbox.path("better.html"));
    let told = headline(&page);
    let said = "): decode is 1.39x faster (gone: priority (sorting_scheduler.py), idle -0.89 ms); \
                mixed is 1.17x faster";
    assert!(told.contains(said) && !page.contains("Not confirmed"), "{told}");
    let single = ["vllm_server", "vllm_sorting"].map(sample);
    let one = ["diff", &single[0], &single[1], "--html", "one.html"];
    sandbox.launch_strictly(&one).assert().success();
    let page = common::read(&sandbox.path("one.html"));
    let told = headline(&page);
    let said = "Changed (one run per side): decode is 1.39x slower (new: priority (sorting_scheduler.py), idle \
                +0.89 ms)";
    assert!(told.starts_with(said), "{told}");
    assert!(page.contains("\n<p>Not confirmed by several runs.</p>\n"), "{told}");
    let said = "Better (4 vs 4 runs without overlap, p = 0.029): decode is 1.39x faster (gone:";
    assert!(
        better.contains(said) && better.contains(" -28.2 %  [-28.2, -28.2]  better\n"),
        "{better}"
    );
    assert!(
        better.contains(
            "\ndecode: mean GPU window of all runs 4.638 → 3.455 ms per step (-1.18 ms; p50\n-1.30 ms)\n"
        ),
        "{better}"
    );
    assert!(better.contains("\nnext        the change helps: keep it\n"), "{better}");
    let page = common::read(&sandbox.path("better.html"));
    // Whoever is sent the page sees what ran. How long a run took in all is neither better nor worse.
    let ran = ["· 1x NVIDIA H100 80GB HBM3 · 2026-11-", "--scheduler-cls</span> sorting"];
    assert!(ran.iter().all(|fact| page.contains(fact)), "{page}");
    let title = page.split("<h1>").nth(1).and_then(|rest| rest.split("</h1>").next());
    let names = title.expect("a title").replace("<wbr>", "");
    let (old, new) = names.split_once(" → ").expect("both sides");
    assert!(old.contains("vllm_sorting") && new.contains("vllm_server"), "{names}");
    let run = page.split("<h2>Whole run</h2>").nth(1).expect("the whole run");
    assert!(run.contains("<td>duration, ms</td>") && run.contains("<td>shorter</td>"), "{run}");
    // That of its requests is.
    let of_run = run.lines().filter(|line| !line.contains("request_ms"));
    let is_judged = |line: &str| line.contains("class=\"bad\"") || line.contains("class=\"good\"");
    assert!(!of_run.clone().any(is_judged) && run.lines().any(is_judged), "{run}");
    // What was promised stands next to what was measured, above the reasons for doubt.
    let advice = "</p>\n</div>\n<dl>\n<div><dt>advice</dt>";
    let warning = "<div class=\"fair\"><dt>comparable</dt>";
    // So does what the cause itself made.
    let own = ": priority -0.89 ms (gone), everything else -0.29 ms (mostly idle)";
    let plain = page.replace("<wbr>", "").replace('\u{a0}', " ");
    assert!(plain.contains(own), "{:?}", plain.split("; measured:").nth(1));
    let parts = [advice, "; measured:<wbr> decode ", warning];
    let is_there = parts.map(|part| page.contains(part));
    assert!(page.contains("<div class=\"good\">") && is_there == [true; 3], "{is_there:?}");
    // What shares a bar is a table as well.
    assert!(page.contains(" smaller parts, one by one</summary>"), "{page}");
    // Each run has a mark on the page, and a row in the table; the marks of the sides differ without colour.
    let dot =
        "4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z\"><title>vllm_sorting-1.json: 4.623</title>";
    let other = "M0-6L6 0 0 6-6 0z\"><title>vllm_server-1.json: 3.321</title>";
    let scale = "<div class=\"scale\"><span>3.321</span><span>4.623 ms per step</span></div>";
    assert!(page.contains(other) && page.contains(scale), "{page}");
    assert!(
        page.contains("<h2 id=\"runs\">Individual runs</h2>") && page.matches(dot).count() == 1,
        "{page}"
    );
    let values = page.split("<summary>Values of each run</summary>").nth(1).expect("a table");
    assert!(values.contains("vllm_sorting-1.json</span></code></td><td class=\"n\">4.623</td>"));
    // Nothing is said of steps that do other work.
    let whole = screen(&sandbox, &[&sides[..], &["--full"]].concat());
    let of =
        |title: &str| whole.split("\n## ").find(|part| part.starts_with(title)).expect("a part");
    assert!(
        of("Individual runs").contains("| before | `vllm_sorting-1.json` | 4.623 |"),
        "{whole}"
    );
    let prefill = of("`prefill`");
    let judged = ["| better", "| worse", "| longer", "| shorter", "beyond noise"];
    assert!(prefill.contains("| not comparable |"), "{prefill}");
    assert!(judged.iter().all(|word| !prefill.contains(word)), "{prefill}");
    assert!(
        page.contains(
            "decode: mean GPU window of all runs 4.638 → 3.455 ms per step (-1.18 ms; p50 -1.30 ms)</h2>"
        ),
        "{page}"
    );
}

/// The numbers of diff are those of the reports, also where they are of unlike things.
#[test]
fn a_server_and_a_program_with_calls_are_shown_as_their_reports_have_them() {
    let sandbox = Sandbox::new();
    let [engine, calls] = ["vllm_server", "server_window"].map(sample);
    let shown = screen(&sandbox, &[&engine, &calls]);
    for times in ["p50 3.321 ms per step → 3.060 ms per call  ", "timed per step\nof an engine"] {
        assert!(shown.contains(times), "{shown}");
    }
    assert!(!shown.contains(" shorter") && !shown.contains('█'), "{shown}");
    // No row has a ±, and no kernel is compared.
    assert!(!shown.contains("\nnoise  ") && !shown.contains("by 1 %"), "{shown}");
    let words = ["diff", "-q", &engine, &calls, "--fail-if", "decode.step_ms>+5%"];
    let why = contains("so its numbers are not subtracted (3.321 ms per step → 3.060 ms per call)");
    sandbox.launch_strictly(&words).assert().code(1).stderr(why);
}

#[test]
fn a_quiet_comparison_keeps_what_would_mislead_without_it() {
    let sandbox = Sandbox::new();
    let [a, b] = ["llama_1b", "moe_small"].map(earlier);
    let words = ["diff", "-q", &a, &b, "--fail-if", "decode.tokens_per_s>+900%"];
    let assert = sandbox.launch_strictly(&words).assert();
    let said = lossy(&assert.get_output().stdout);
    assert!(said.starts_with("Not comparable: different models. "), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert.stderr(contains("did you mean --fail-if 'decode.tokens_per_s<-900%'"));
    let assert = sandbox.launch_strictly(&["diff", "-q", &a, &b, "--html", "d.html"]).assert();
    assert.success().stdout(contains("d.html\n"));
    // What was not decided did not pass.
    let [a, b] = ["vllm_server", "vllm_sorting"].map(sample);
    let words = ["diff", "-q", &a, &b, "--fail-if", "mixed.step_ms>+5%"];
    let assert = sandbox.launch_strictly(&words).assert().success();
    let said = lossy(&assert.get_output().stderr);
    let undecided = "--fail-if 'mixed.step_ms>+5%' was not decided for ";
    assert!(said.contains(undecided) && said.lines().count() == 1, "{said}");
    let decided = ["diff", "-q", &a, &b, "--fail-if", "mixed.step_ms>+500%"];
    let assert = sandbox.launch_strictly(&decided).assert().success();
    assert!(!lossy(&assert.get_output().stderr).contains("not decided"));
    let said = lossy(&sandbox.launch_strictly(&decided).assert().get_output().stdout);
    let same = "Changed (one run per side): decode is 1.39x slower (new: priority";
    assert!(said.starts_with(same), "{said}");
}

#[test]
fn the_fastest_of_three_sides_is_named_everywhere() {
    let sandbox = Sandbox::new();
    let [a, b] = ["vllm_sorting", "vllm_server"].map(sample);
    let copies = four_runs(&sandbox, "vllm_sorting");
    let words = [&*a, &copies[0], &b];
    let json = json_of(&sandbox, &words);
    assert_eq!(json["fastest"]["runs"], json!([b]), "{}", json["fastest"]);
    assert_eq!(json["fastest"]["stage"], "decode");
    let said =
        "vllm_server is fastest (one run per side): decode is 1.39x faster than vllm_sorting";
    let page = screen(&sandbox, &[&words[..], &["--html", "three.html"]].concat());
    assert!(page.replace("\n  ", " ").contains(said), "{page}");
    let page = common::read(&sandbox.path("three.html"));
    assert_eq!(headline(&page), said);
    let card = page.split("<div class=\"answer\">").nth(1).expect("a card");
    let card = card.split("<h2>").next().expect("its end");
    let parts = ["<div class=\"fair\">", "Not confirmed by several runs.", "<dt>next</dt>"];
    assert!(parts.iter().all(|part| card.contains(part)), "{card}");
    let alone = json_of(&sandbox, &[&a, &b]);
    assert!(alone.get("fastest").is_none(), "of one pair there is none");
}

#[test]
fn a_run_that_report_refuses_is_compared_with_a_warning() {
    let sandbox = Sandbox::new();
    let good = sample("regions");
    let whole = common::read(sample("regions/metrics.json").as_ref());
    sandbox.write("damaged/metrics.json", &whole);
    let said = contains("damaged/run.json is damaged, or of a newer version");
    let words = ["diff", &good, "damaged"];
    sandbox.launch_strictly(&words).assert().success().stderr(said.clone().not());
    sandbox.write("damaged/run.json", "{\"schema\": ");
    sandbox.launch_strictly(&words).assert().success().stderr(said);
}

#[test]
fn a_run_counts_once_also_in_a_copy_of_it() {
    let sandbox = Sandbox::new();
    let [one, two, other, _] = four_runs(&sandbox, "vllm_server");
    fs::create_dir(sandbox.path("copy")).expect("a folder");
    fs::copy(sandbox.path(&one), sandbox.path("copy/metrics.json")).expect("a copy");
    let refused = |words: &[&str], why: &str| {
        let assert = sandbox.launch_strictly(words).assert().code(2).stdout("");
        assert.stderr(contains(why).and(contains("name each run once")));
    };
    let twice = format!("{one} is named twice");
    let same = format!("{one} and copy are the same run");
    refused(&["diff", &one, &one, "--against", &two, &other], &twice);
    refused(&["diff", &two, &other, "--against", &one, "copy"], &same);
    refused(&["diff", &one, &two, "--against", "copy", &other], &same);
    refused(&["baseline", "save", "x", &one, &two, "copy"], &same);
    assert!(!sandbox.path("tmp").exists(), "nothing was saved");
    // Two reports of one run may differ by their settings.
    sandbox.launch_strictly(&["diff", &one, "copy"]).assert().success();
}

#[test]
fn a_baseline_outlives_its_runs_and_is_compared_by_its_name() {
    let sandbox = Sandbox::new();
    let (llama, moe) = (earlier("llama_1b"), earlier("moe_small"));
    let run = |words: &[&str]| sandbox.launch_strictly(words).assert();
    run(&["baseline", "list"]).success().stdout(contains("no baselines in tmp/stage2/baselines"));
    fs::create_dir_all(sandbox.path("tmp/stage2/one")).expect("folder");
    fs::copy(&llama, sandbox.path("tmp/stage2/one/metrics.json")).expect("copy");
    run(&["baseline", "save", "main", "tmp/stage2/one"]).success();
    fs::remove_dir_all(sandbox.path("tmp/stage2/one")).expect("removed");
    run(&["diff", "baseline:main", &moe]).success().stdout(contains("baseline:main → "));
    // A name is not taken twice by accident.
    run(&["baseline", "save", "main", &moe]).code(2).stderr(contains("--replace"));
    let [one, two, three, _] = four_runs(&sandbox, "vllm_server");
    run(&["baseline", "save", "main", &one, &two, "--replace"]).success();
    let both = contains("baseline:main (2 runs) → ").and(contains("(2 runs vs 1, "));
    run(&["diff", "baseline:main", &three]).success().stdout(both);
    let behind = contains("→ baseline:main (2 runs)");
    run(&["diff", &three, "--against", "baseline:main"]).success().stdout(behind);
    run(&["diff", "main", &three]).code(2).stderr(contains("did you mean `baseline:main`?"));
    let near = says("baselines; did you mean `main`?\n");
    run(&["diff", "baseline:mian", &three]).code(2).stderr(near);
    fs::write(sandbox.path("+5%"), "").expect("file");
    let unquoted = says("the shell made the file `+5%`, which you can delete; see");
    run(&["diff", &one, &two, "--fail-if", "decode.step_ms"]).code(2).stderr(unquoted);
    run(&["baseline", "list"]).success().stdout(contains("main").and(contains("2 runs")));
    run(&["baseline", "remove", "main"]).success();
    let gone =
        says("there is no baseline `main` in tmp/stage2/baselines; `stage2-launch baseline save");
    run(&["diff", "baseline:main", &moe]).code(2).stderr(gone);
    let left = fs::read_dir(sandbox.path("tmp/stage2/baselines")).expect("folder").count();
    assert_eq!(left, 0, "nothing is left of what was replaced or removed");
}

#[test]
fn names_and_reports_of_baselines_are_distrusted() {
    let sandbox = Sandbox::new();
    let good = sample("regions");
    let refused = |words: &[&str], code: i32, why: &str| {
        sandbox.launch_strictly(words).assert().code(code).stdout("").stderr(contains(why));
    };
    let long = "x".repeat(65);
    for name in ["../out", "a/b", "..", ".new-x", "a b", "\u{1b}[2J", &long] {
        let why = "cannot name a baseline";
        refused(&["baseline", "save", name, &good], 2, why);
        refused(&["baseline", "remove", name], 2, why);
        refused(&["diff", &format!("baseline:{name}"), &good], 2, why);
    }
    assert!(!sandbox.path("tmp").exists(), "nothing was made");
    // A report that cannot be compared later is not kept.
    let whole = common::read(sample("regions/metrics.json").as_ref());
    let mut report: Value = serde_json::from_str(&whole).expect("JSON");
    report["schema_version"] = json!(99);
    sandbox.write("newer.json", &report.to_string());
    sandbox.write("cut.json", &whole[..whole.len() / 2]);
    refused(&["baseline", "save", "x", "newer.json"], 70, "a newer stage2-launch wrote it");
    refused(&["baseline", "save", "x", &good, "cut.json"], 70, "truncated");
    assert!(!sandbox.path("tmp").exists(), "nothing was made");
    // One that was damaged later is named; a link leads nowhere.
    sandbox.write("tmp/stage2/baselines/cut/1.json", &whole[..99]);
    sandbox.write("tmp/stage2/baselines/empty/notes", "");
    std::os::unix::fs::symlink(&good, sandbox.path("tmp/stage2/baselines/link")).expect("link");
    refused(&["diff", "baseline:cut", &good], 70, "truncated");
    refused(&["diff", "baseline:empty", &good], 70, "holds no report");
    refused(&["diff", "baseline:link", &good], 2, "there is no baseline `link`");
    refused(&["baseline", "remove", "link"], 2, "there is no baseline `link`");
    let listed =
        contains("cannot be used").and(contains("it holds no report")).and(contains("link").not());
    sandbox.launch_strictly(&["baseline", "list"]).assert().success().stdout(listed);
}

#[test]
fn different_models_are_warned_of_and_every_format_is_written() {
    let sandbox = Sandbox::new();
    let (llama, moe) = (earlier("llama_1b"), earlier("moe_small"));
    let condition = "decode.gpu_busy_ms>+5%+0.2ms";
    let words = ["diff", &moe, &llama, "-o", "x.md", "--html", "x.html", "--fail-if", condition];
    // The screen has the warning: it is not repeated.
    let said = contains("beyond the limit").and(contains("the sides compute").not());
    let said = said.and(contains("the conditions compared unlike runs: different models"));
    let screen = contains("Not comparable: ").and(contains(" ms per token"));
    let screen = screen.and(contains("so no parts are compared").and(contains(" %").not()));
    sandbox.launch_strictly(&words).assert().code(1).stderr(said).stdout(screen);
    let page = common::read(&sandbox.path("x.html"));
    assert!(page.contains("<td>warning</td><td>model</td>"), "{page}");
    assert!(page.contains("matched by name without tile sizes, class and calls"), "{page}");
    let markdown = common::read(&sandbox.path("x.md"));
    assert!(
        markdown.contains("| `decode` | ms per token, call p50 | 14.855 | 16.318 |"),
        "{markdown}"
    );
    // In the other direction decode got lighter.
    let words =
        ["diff", &llama, &moe, "--fail-if", condition, "--fail-if", "decode.tokens_per_s<-5%"];
    sandbox.launch_strictly(&words).assert().success();
}

#[test]
fn what_cannot_be_compared_says_why_and_what_to_do() {
    let sandbox = Sandbox::new();
    let good = sample("regions");
    let refused = |words: &[&str], code: i32, why: &str| {
        let words = [&["diff"], words].concat();
        sandbox.launch_strictly(&words).assert().code(code).stdout("").stderr(says(why));
    };
    let whole = common::read(sample("regions/metrics.json").as_ref());
    let changed = |change: &dyn Fn(&mut Value)| {
        let mut report: Value = serde_json::from_str(&whole).expect("JSON");
        change(&mut report);
        report.to_string()
    };
    sandbox.write("cut.json", &whole[..whole.len() / 2]);
    sandbox.write("other.json", "{\"batch_size\": 1}");
    sandbox.write("newer.json", &changed(&|r| r["schema_version"] = json!(99)));
    sandbox.write("huge.json", &changed(&|r| r["kernels"]["rows"][0][5] = json!(1e300)));
    sandbox.write("empty.json", &changed(&|r| r["coverage"]["verdict"]["status"] = json!("empty")));
    sandbox.write("unreported/run.json", "{}");
    sandbox.write("nothing/notes.md", "");
    refused(&[&good], 2, "diff needs two runs");
    refused(&[&good, "absent"], 2, "absent does not exist");
    refused(&["unreported", "absent"], 2, "absent does not exist; `stage2-launch run");
    refused(&[&good, "cut.json"], 70, "cut.json: it is truncated");
    refused(&[&good, "other.json"], 2, "other.json is a JSON file, not the folder of a run");
    refused(&[&good, "newer.json"], 70, "a newer stage2-launch wrote it (schema version 99");
    refused(&[&good, "huge.json"], 70, "kernels");
    refused(&["empty.json", &good], 70, "empty.json (BEFORE) is EMPTY: ");
    refused(&[&good, "unreported"], 70, "stage2-launch report unreported");
    refused(&[&good, "nothing"], 2, "is not a run folder");
    // Conditions are read before any run is.
    let near = "there is no metric `setp_ms`; did you mean `step_ms`?";
    refused(&["absent", "absent", "--fail-if", "decode.setp_ms>+5%"], 2, near);
    refused(&["absent", "absent", "--fail-if", "decode.step_ms"], 2, "neither > nor <");
    refused(&[&good, &good, "--strict"], 2, "--fail-if");
    // So are their stages, once the runs are known.
    let near =
        "--fail-if 'decod.kernels>+5%': neither side has a stage `decod`; did you mean `decode`?";
    refused(&[&good, &good, "--fail-if", "decod.kernels>+5%"], 2, near);
    let several =
        "--fail-if may be repeated (it fails if one of them does): --fail-if 'decode.step_ms>+5%'";
    let or = "decode.step_ms>+5% or prefill.step_ms>+5%";
    refused(&[&good, &good, "--fail-if", or], 2, several);
    // What is compared is not written over.
    sandbox.write("mine.json", &whole);
    refused(&["mine.json", &good, "-o", "mine.json"], 2, "one of the reports that are compared");
    assert_eq!(common::read(&sandbox.path("mine.json")), whole);
    // Nor is any other file of a run.
    sandbox.write("run/metrics.json", &whole);
    sandbox.write("run/run.json", "{}");
    for name in ["report.html", "notes.md", "ncu/all.md"] {
        let file = format!("run/{name}");
        sandbox.write(&file, "a report");
        let option = if name.ends_with(".html") { "--html" } else { "-o" };
        refused(&[&good, &good, option, &file], 2, "is a file of the run in ");
        assert_eq!(common::read(&sandbox.path(&file)), "a report");
    }
    for (option, name, said) in [
        ("-o", "d.pdf", "; let the name of a page end in .html or .htm"),
        ("-o", "d.json", "; add --json"),
        ("--html", "d.md", "--html d.md: it is a page for a browser"),
    ] {
        refused(&[&good, &good, option, name], 2, said);
        assert!(!sandbox.path(name).exists(), "{name}");
    }
    for option in ["-o", "--html"] {
        let why = format!(
            "the folder nowhere does not exist; make it, or choose another path with {option}"
        );
        refused(&[&good, &good, option, "nowhere/x"], 2, &why);
    }
    refused(
        &[&good, &good, "--html", "nothing"],
        2,
        "nothing is a folder; name a file with --html",
    );
}

#[test]
fn names_of_foreign_bundles_act_in_no_format() {
    let sandbox = Sandbox::new();
    let hostile = "\u{1b}[2J</code><script>alert(1)</script>|`x`\n# heading";
    let mut report = common::json(sample("regions/metrics.json").as_ref());
    let before = report.to_string();
    for stage in report["stages"].as_array_mut().expect("stages") {
        stage["stage"] = json!(hostile);
    }
    for row in report["kernels"].as_array_mut().expect("kernels") {
        row["stage"] = json!(hostile);
        row["kernel"] = json!(hostile);
    }
    report["run"]["environment"][0]["value"] = json!(hostile);
    report["coverage"]["verdict"] = json!({"status": "partial", "text": hostile});
    sandbox.write("a.json", &before);
    sandbox.write("b.json", &report.to_string());
    let words = ["diff", "a.json", "b.json", "--html", "x.html"];
    let output = sandbox.launch_strictly(&words).assert().success().get_output().clone();
    let page = common::read(&sandbox.path("x.html"));
    let whole = sandbox.launch_strictly(&["diff", "--full", "a.json", "b.json"]).assert().success();
    let whole = lossy(&whole.get_output().stdout);
    for text in [&lossy(&output.stdout), &lossy(&output.stderr), &page, &whole] {
        assert!(!text.contains('\u{1b}') && !text.contains("\n# heading"), "{text}");
    }
    // Only its own script.
    assert!(page.matches("<script").count() == 1 && page.contains("&lt;script"), "{page}");
    let json = json_of(&sandbox, &["a.json", "b.json"]).to_string();
    assert!(!json.contains("\\u001b"), "{json}");
}

/// Runs given without `--against` are no missing runs: the advice puts them into two groups.
#[test]
fn several_runs_without_a_side_are_grouped_by_baseline() {
    let sandbox = Sandbox::new();
    let [before, after] = ["vllm_sorting", "vllm_server"].map(|name| four_runs(&sandbox, name));
    let save: Vec<&str> =
        ["baseline", "save", "main"].into_iter().chain(before.iter().map(|run| &**run)).collect();
    sandbox.launch_strictly(&save).assert().success();
    let words = [&["baseline:main"][..], &after.each_ref().map(|run| &**run)].concat();
    let shown = screen(&sandbox, &words);
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ").replace(" \\ ", " ");
    let command = format!("diff baseline:main --against {}", after.join(" "));
    assert!(words.contains(&command) && !words.contains("record"), "{shown}");
    assert!(shown.contains("baseline:main (4 runs)") && !shown.contains("main/1"), "{shown}");
    let named: Vec<&str> = before.iter().chain(&after).map(|run| &**run).collect();
    let shown = screen(&sandbox, &[&named[..1], &named[4..]].concat());
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ").replace(" \\ ", " ");
    let command = format!("diff {} --against {}", before[0], after.join(" "));
    assert!(words.contains(&command), "{shown}");
    let few = "record up to 4 runs per side, interleaved; to compare two groups";
    assert!(words.contains(few), "one run decides nothing: {shown}");
    // Two candidates are no side together.
    for (name, runs) in [("one", &after[..2]), ("two", &after[2..])] {
        let save: Vec<&str> =
            ["baseline", "save", name].into_iter().chain(runs.iter().map(|run| &**run)).collect();
        sandbox.launch_strictly(&save).assert().success();
    }
    let shown = screen(&sandbox, &["baseline:main", "baseline:one", "baseline:two"]);
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    let next = "record 2 more runs of the new version, then save each side's runs as a baseline and compare";
    assert!(words.contains(next) && !words.contains("--against"), "{shown}");
}
