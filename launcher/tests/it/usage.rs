//! The words of a command line: what is understood, what is not, and what is said then; where the values of
//! settings come from.

use crate::common::{Sandbox, expect_parts, four_at_once, lossy, says, stderr, stdout};
use predicates::prelude::*;
use predicates::str::contains;

#[test]
fn help_has_examples_and_lists_what_works() {
    let sandbox = Sandbox::new();
    let help = stdout(&sandbox.launch(&["--help"]).assert().success());
    sandbox.launch_strictly(&["help"]).assert().success().stdout(help.clone());
    let parts = ["Examples:", "demo", "report", "diff", "export", "doctor", "--dry-run"];
    expect_parts(&help, "help", &parts);
    expect_parts(&help, "help", &["Exit status", "!probe-gpu", "!Write the manual pages"]);
    sandbox.launch(&["--version"]).assert().success().stdout(contains(env!("CARGO_PKG_VERSION")));
}

#[test]
fn wrong_usage_ends_with_two_and_makes_nothing() {
    let sandbox = Sandbox::new();
    sandbox.write("bare/file", "x");
    let cases = [
        (&[][..], "Usage:"),
        (&["--no-such-option"], "stage2-launch: error: unexpected argument `--no-such-option`"),
        (&["run.mode=light"], "after `--`"),
        (&["--"], "Usage:"),
        (&["-v"], "after `--`"),
        (&["python"], "to run a program: stage2-launch --allow-empty -- python"),
        (&["python", "-m", "runner"], "comes after `--`"),
        (&["a=1", "demo"], "unknown key `a`"),
        (&["--light", "run.mode=deep", "--", "true"], "--light contradicts run.mode"),
        (&["run", "++run={mode: light}", "--deep", "--", "true"], "--deep contradicts run.mode"),
        (&["--light", "--deep", "--", "true"], "cannot be used with"),
        (&["run"], "after `--`"),
        (
            &["merge", "x.sqlite", "-o", "m"],
            "`x.sqlite` does not exist, and needs --nsys in front of it; stage2-launch merge --nsys x.sqlite -o DIR",
        ),
        (&["run", "python"], "to run a program: stage2-launch run --allow-empty -- python"),
        (&["report", "model/llm=llama_3_8b"], "give RUN_DIR as well"),
        (&["--dryrun", "--", "true"], "did you mean `--dry-run`?"),
        (&["export", "x", "--fromat", "chrome"], "did you mean `--format`?"),
        (&["--timeout", "soon", "--", "true"], "--timeout"),
        (&["--timeout", "0", "--", "true"], "--timeout"),
        (&["--color", "pink", "--", "true"], "--color"),
        (&["--run-dir", "", "--", "true"], "--run-dir"),
        (&["--config-dir", "nowhere", "--", "true"], "--config-dir nowhere"),
        (&["--config-dir", "secret", "--", "true"], "`--config-dir secret`: cannot be read"),
        (&["model.tokens.batch_size=0", "--", "true"], "`model.tokens.batch_size`"),
        (&["model.tokens.prompt_tokens=9223372036854775807", "--", "true"], "1 to 1099511627776"),
        (&["-q", "-v", "--", "true"], "--verbose"),
        (&["report"], "RUN_DIR"),
        (&["report", "nowhere"], "nowhere does not exist; "),
        (&["report", "bare"], "bare is not a run folder: no run.json in it; "),
        (&["report", "bare/file"], "bare/file is a text file, not the folder of a run; "),
        (&["merge"], "[--spool DIR | --nsys FILE | --ncu FILE]... -o DIR [KEY=VALUE]..."),
        (&["hardware=h20", "--", "true"], "did you mean `h200`? There are a10, "),
        (&["report", "--dry-run", "."], "--dry-run"),
        (&["config", "--", "x"], "--"),
        (&["+inputs.manifest=nowhere", "--", "true"], "inputs.manifest=nowhere"),
        (
            &["stage1.run_dir=nowhere", "--", "true"],
            "stage1.run_dir=nowhere cannot be used: No such",
        ),
        (&["stage1.run_dir=bare", "--", "true"], "contains metrics.json or operators.md"),
        (
            &["--dry-run", "model.llm.config_json=/nope", "--", "true"],
            "model.llm.config_json=/nope cannot be read",
        ),
        (&["model.llm.config_json=/nope", "--", "true"], "give the path of a model's config.json"),
        (&["--dry-run", "stage1.run_dir=bare", "--", "true"], "stage1.run_dir=bare cannot be used"),
        (&["--dry-run", "stage1.run_dir=bare/file", "--", "true"], "it is not a folder"),
        (&["profiling.collector.library=/no/such.so", "--", "true"], "/no/such.so"),
        (&["profiling.collector.library=/etc/passwd", "--", "true"], "not a shared library"),
    ];
    four_at_once(cases, |(words, part)| {
        let said = stderr(&sandbox.launch(words).assert().code(2).stdout(""));
        assert!(said.contains(part), "{words:?}: {said}");
        let is_help = said.contains("\nUsage:");
        assert!(is_help || said.chars().count() <= THREE_LINES, "{words:?}: {said}");
    });
    assert!(!sandbox.path("tmp").exists(), "a wrong command line makes no folder");
    sandbox.write("earlier/torch_profiler/operators.md", "");
    for there in ["earlier", "${run.dir}/stage1"] {
        let stage1 = format!("stage1.run_dir={there}");
        sandbox.launch(&["--dry-run", &stage1, "--", "true"]).assert().code(0);
    }
}

#[test]
fn a_mistyped_word_is_told_what_was_probably_meant_in_three_lines_at_most() {
    let sandbox = Sandbox::new();
    sandbox.write("report.html", "<!DOCTYPE html>");
    sandbox.write("x.nsys-rep", "x");
    sandbox.write("trace.json", "{\"traceEvents\": []}");
    let capture = "x.nsys-rep is a report of Nsight Systems, not the folder of a run; `stage2-launch merge --nsys \
                   x.nsys-rep -o DIR` makes a run of it";
    let cases = [
        (&["diff", "x.nsys-rep", "x.nsys-rep"][..], capture),
        (&["export", "x.nsys-rep", "-f", "csv"], capture),
        (&["export", "x.nsys-rep", "-f", "parquet"], capture),
        (&["report", "x.nsys-rep"], capture),
        (
            &["top", "x.nsys-rep"],
            "Nsight Systems, not a trace file (.s2t) or the folder of a run; `stage2-launch merge",
        ),
        (&["ask", "x.nsys-rep"], capture),
        (&["query", "x.nsys-rep", "SELECT 1"], capture),
        (&["next", "x.nsys-rep"], capture),
        (&["baseline", "save", "main", "x.nsys-rep"], capture),
        (
            &["summarise", "x.nsys-rep"],
            "x.nsys-rep is a report of Nsight Systems, not a file of the collector",
        ),
        (&["diff", "a", "b", "--threshold", "5"], "did you mean `--fail-if CONDITION`?"),
        (&["diff", "a", "b", "--format", "json"], "did you mean `--json`?"),
        (&["diff", "a", "--baseline", "main"], "did you mean `baseline:NAME`?"),
        (
            &["diff", "a", "b", "--fail-if", "x.step_ms>5%"],
            "the limit has no sign: write 'x.step_ms>+5%'",
        ),
        (
            &["diff", "a", "b", "--fail-if", "x.step_ms>+5 percent"],
            "its metric has no unit `percent`",
        ),
        (
            &["report", "a", "b"],
            "`b` is not KEY=VALUE; report takes one run, and settings; to compare two runs: stage2-launch diff a b",
        ),
        (&["baseline", "show", "x"], "did you mean `list`?"),
        (&["ctl", "x.nsys-rep", "status"], capture),
        (&["run", "--annotate", "vlm", "--", "true"], "did you mean `vllm-steps`?"),
        (&["summary", "x"], "did you mean `ask RUN summary`?"),
        (&["ask", "trace.json"], "trace.json is a trace for Chrome or Perfetto"),
        (&["ask", "nowhere"], "nowhere does not exist; "),
        (&["export", "nowhere", "-f", "csv"], "nowhere does not exist; "),
        (
            &["ctl", "nowhere", "status"],
            "nowhere is neither a process ID nor an existing run folder",
        ),
        (&["ctl", "start", "1"], "the target comes before the verb: stage2-launch ctl 1 start"),
        (&["ctl", "--all", "strat"], "did you mean `start`?"),
        (&["ctl", "1", "pause"], "did you mean `stop`?"),
        (&["ctl", "satus"], "`satus` is not a verb of ctl; did you mean `status`?"),
        (&["ctl", "12", "stat"], "did you mean `status`?"),
        (&["ctl", "12", "wyh"], "`wyh` is not a verb of ctl; did you mean `why`?"),
        (&["baseline", "delte", "x"], "did you mean `remove`?"),
        (&["live"], "did you mean `top`?"),
        (&["run", "--light=true", "--", "true"], "`--light` takes no value, and `true` was given"),
        (&["python infer.py"], "to run a program: stage2-launch -- python infer.py"),
        (&["perfetto", "x"], "did you mean `export RUN --format perfetto`?"),
        (&["open", "x"], "did you mean `report RUN --open`?"),
        (&["ctl", "12"], "the verb is missing: stage2-launch ctl 12 VERB; it is one of status, "),
        (&["ctl", "strat", "12"], "`strat` is not a verb of ctl; did you mean `start`?"),
        (&["ctl", "start", "--pid", "1"], "did you mean `ctl PID start`?"),
        (&["top", "--pid", "1"], "did you mean `top PID`?"),
        (&["run", "light", "--", "true"], "did you mean `--light`?"),
        (&["deep", "--", "true"], "did you mean `--deep`?"),
        (&["trace", "--", "true"], "did you mean `run`?"),
        (&["snapshot", "12"], "did you mean `ctl TARGET snapshot`?"),
        (&["foo.bar=1", "--", "true"], "; `stage2-launch config` lists all keys, and settings"),
        (&["diff", "latest"], "; name the run before the change and the run after it: "),
        (&["merge", "--spool", ".", "-o", "m"], "; --spool takes .s2t files or their folder"),
        (&["diff", "a,b"], "the runs of diff are separate words: stage2-launch diff a b"),
        (&["hardware.peak=1", "--", "true"], "; `hardware` has dense_tflops, device_names"),
        (&["run.foo=1", "--", "true"], "; `run` has baseline, dir"),
        (&["run", "--annotate", "foo", "--", "true"], "it is not an annotation; use torch-ops"),
        (&["run", "--annotate", "foo", "--", "true"], "trtllm-steps; see `stage2-launch run"),
        (&["bench", "--rounds", "abc", "--", "true"], "it is not a whole number"),
        (&["ask", "kernal"], "stage2-launch ask RUN kernels-by-loss"),
        (&["baseline", "delete", "x"], "did you mean `remove`?"),
        (&["baseline", "save", "latest", "x"], "`latest` cannot name a baseline"),
        (&["baseline", "save", "x"], "name the run, stage2-launch baseline save x RUN"),
        (&["diff", "latest", "x"], "latest does not exist: it stands for the newest run"),
        (&["diff", "baseline:", "baseline:"], "the name of a baseline is missing"),
        (&["ask", "baseline:main"], "baseline:main is a baseline, which only `diff` takes"),
        (&["demo", "--fail-if", "x>1"], "did you mean `diff RUN_A RUN_B --fail-if`?"),
        (&["demo", "--", "--step", "5"], "`--step` found; did you mean `--steps`?"),
        (&["config", "profiling.collector.sample=4"], "must be 1/N"),
        (&["config", "model.llm=llama_3_8b"], "model/llm=PRESET selects"),
        (&["--timeout", "100ms", "--", "true"], "give whole seconds"),
        (&["--timeout", "-5", "--", "true"], "the time must be longer than zero"),
        (&["ask", "x", "--budget", "10"], "give a number of tokens, 64 or more"),
        (&["export", "x", "-f", "csv", "-o", "-"], "-o -: an export is a new file or folder"),
        (&["export", "x", "-f", "csv", "-o", "/dev/null"], "and not a stream"),
        (&["export", "x", "-f", "csv", "-o", "x.zip"], "compressed as .gz only"),
        (&["job", "nowhere"], "nowhere does not exist; "),
        (&["mcp", "nowhere"], "nowhere is not a folder; name the folder that"),
        (&["bench"], "stage2-launch bench -- python infer.py"),
        (&["merge", "nope", "--run-dir", "m"], "did you mean `-o DIR`?"),
        (&["--lite", "--", "true"], "did you mean `--light`?"),
        (&["run", "-light", "--", "true"], "did you mean `--light`?"),
        (&["export", "x", "-f", "csv", "-o", "no/x"], "the folder no does not exist"),
        (&["help", "dif"], "did you mean `diff`?"),
        (&["help", "nope"], "no subcommand `nope`; `stage2-launch help` lists them"),
        (&["--delay", "5", "--", "true"], "did you mean `--dormant` and then `ctl RUN_DIR start`?"),
        (&["report", "x", "-o", "y"], "a file elsewhere: stage2-launch report RUN_DIR --json -q >"),
        (&["merge", "a.nsys-rep"], "`a.nsys-rep` does not exist, and needs --nsys in front"),
        (&["completions", "zhs"], "did you mean `zsh`?"),
        (&["completions", "tcsh"], "there are no completions for tcsh, only for bash, "),
        (&["baseline", "add", "x"], "did you mean `save`?"),
        (&["pipeline.ncu.kernels=x", "--", "true"], "use pipeline.ncu.kernel_include"),
        (
            &["record", "-o", "x", "python3", "x.py"],
            "did you mean `stage2-launch run --run-dir x -- python3 x.py`?",
        ),
        (&["ls"], "the command of the shell `ls tmp/stage2` lists the runs. To run a program"),
        (&["run", "--output", "x", "--", "true"], "did you mean `--run-dir DIR`?"),
        (&["-o", "x", "--", "true"], "did you mean `--run-dir DIR`?"),
        (&["report", "x", "--run-dir", "y"], "did you mean `report RUN_DIR`?"),
        (&["--trace=cuda", "--", "true"], "did you mean `pipeline.nsys.trace=[cuda,nvtx]`?"),
        (&["run", "--hardware", "h200", "--", "true"], "did you mean `hardware=h200`?"),
        (&["--mode=light", "--", "true"], "did you mean `run.mode=light`?"),
        (&["--model", "llama", "--", "true"], "did you mean `model/llm=llama`?"),
        (&["--batch-size", "4", "--", "true"], "did you mean `model.tokens.batch_size=4`?"),
        (&["--counters", "--", "true"], "did you mean `profiling.collector.counters=VALUE`?"),
        (&["run", "--enable", "no"], "`pipeline.ncu.enable=no` or `pipeline.nsys.enable=no`?"),
        (&["diff", "a", "b", "--hardware", "h200"], "`--hardware` found; see"),
        (&["report", "x", "--hardware=h200"], "did you mean `hardware=h200`?"),
        (&["report", "x", "--mode", "light"], "`--mode` found; see"),
        (&["--light", "run.mode=lite", "--", "true"], "must be deep or light"),
        (&["--duration", "10", "--", "true"], "did you mean `--timeout`?"),
        (&["run", "--pid", "1"], "did you mean `ctl PID start` or `top PID`?"),
        (&["export", "x"], "FORMAT is one of perfetto, chrome, "),
        (&["completions"], "SHELL is one of bash, "),
        (&["diff", "x"], "two runs, and only x was given"),
        (&["diff", "x", "y", "-o", "."], ". is a folder; name a file with -o"),
        (
            &["query", "select 1", "."],
            "the run comes before the SQL: stage2-launch query . 'select 1'",
        ),
        (
            &["ask", "summary", "."],
            "the run comes before the question: stage2-launch ask . summary",
        ),
        (&["export", "x", "-f", "nsys"], "did you mean `sqlite`?"),
        (&["export", "x", "-f", "pandas"], "did you mean `parquet`?"),
        (&["--annotate", "vllm", "--", "true"], "did you mean `vllm-steps`?"),
        (&["stats", "x"], "did you mean `ask RUN summary`?"),
        (&["ask", "x", "host", "extra1", "extra2"], "x does not exist; "),
        (&["query", "x", "--color", "never"], "; usage: stage2-launch query <RUN> <SQL>"),
        (&["query", "x"], "query needs <SQL>"),
        (&["report"], "`latest` is the newest run"),
        (&["diff", "x", "against", "y"], "did you mean `--against`?"),
        (
            &["nsys", "profile", "a.py"],
            "nsys itself, in a separate pass: stage2-launch -- python a.py",
        ),
        (&["nsys", "profile", "-o", "x", "a.py"], "separate pass: stage2-launch -- COMMAND"),
        (&["export", "perfetto", "x"], "did you mean `-f perfetto`?"),
        (&["help", "tp"], "did you mean `top`?"),
        (&["config", "model/lm="], "did you mean `model/llm`?"),
        (&["--annotate", "torch-op", "--", "true"], "did you mean `torch-ops`?"),
        (&["top", "nowhere"], "nowhere does not exist; "),
        (
            &["top", "report.html"],
            "report.html is a page for a browser, not a trace file (.s2t) or the folder",
        ),
        (&["next", "."], ". is not a run folder: no run.json in it; "),
        (&["job", "."], "no trace file (*.s2t) in .; record with"),
        (&["top", "."], "or a trace file; `stage2-launch run -- COMMAND` makes a run"),
        (&["feed", "--prot", "1"], "did you mean `--port`?"),
        (&["feed", "--listen", "x"], "9464, 127.0.0.1:9464, [::1]:9464"),
        (
            &["baseline", "remove", "x"],
            "there is no baseline `x` in tmp/stage2/baselines; no baseline is saved in this folder",
        ),
        (&["doctor", "--foo"], "after `--`: stage2-launch doctor [OPTIONS] [KEY=VALUE]... -- "),
        (&["diff", "a", "b", "--strict"], "usage: stage2-launch diff --fail-if <CONDITION> <RUN>"),
        (&["merge", "report.html"], "`report.html` needs an option in front of it"),
    ];
    four_at_once(cases, |(words, part)| {
        let said = stderr(&sandbox.launch_strictly(words).assert().code(2).stdout(""));
        assert!(said.contains(part), "{words:?}: {said}");
        assert!(said.chars().count() <= THREE_LINES, "{words:?}: {said}");
    });
}

/// Of a terminal with 100 columns.
const THREE_LINES: usize = 300;

#[test]
fn a_word_that_is_no_setting_is_told_how_a_program_is_run() {
    let sandbox = Sandbox::new();
    let told = |words: &[&str], whole: &str| {
        let text = stderr(&sandbox.launch_strictly(words).assert().code(2).stdout(""));
        assert_eq!(text, format!("stage2-launch: error: {whole}\n"), "{words:?}");
    };
    let run = |word: &str, line: &str| {
        format!(
            "`{word}` is neither a subcommand nor KEY=VALUE; to run a program: stage2-launch {line}"
        )
    };
    told(&["foo"], &run("foo", "-- foo"));
    told(&["foo", "x", "run.mode=light"], &run("foo", "-- foo x run.mode=light"));
    told(
        &["run.mode=light", "~workload", "python", "a b.py", "x=1"],
        &run("python", "run.mode=light '~workload' -- python 'a b.py' x=1"),
    );
    told(&["a.py", "x"], &run("a.py", "-- python a.py x"));
    for (word, meant) in [
        ("demoo", "demo"),
        ("rnu", "run"),
        ("attach", "ctl TARGET start"),
        ("marge", "merge"),
        ("imprt", "import"),
    ] {
        let near =
            format!("`{word}` is neither a subcommand nor KEY=VALUE; did you mean `{meant}`?");
        told(&[word], &format!("{near} To run a program: stage2-launch -- {word}"));
        let wrong = format!("{near} Only options and KEY=VALUE settings go before `--`");
        told(&[word, "--", "x"], &wrong);
        // Its options are unknown.
        let assert = sandbox.launch_strictly(&[word, "--bogus"]).assert().code(2).stdout("");
        assert.stderr(says(format!("; {near}\n")).and(contains("--bogus")));
    }
    // Behind another subcommand a word is none, and what follows it belongs to the program.
    told(
        &["bench", "a=1", "ls", "-q"],
        "`ls` is not KEY=VALUE; to run a program: stage2-launch bench a=1 -- ls -q",
    );
    let words = ["run", "a.py", "--", "x"];
    told(&words, "`a.py` is not KEY=VALUE; only options and KEY=VALUE settings go before `--`");
}

#[test]
fn each_subcommand_lists_and_takes_its_own_options_only() {
    let sandbox = Sandbox::new();
    let common = ["--color", "--help", "--quiet", "--verbose"];
    let settings = ["--annotate", "--config-dir", "--group", "--run-dir", "--timeout"];
    let accepted = ["--allow-empty", "--fail-on", "--require"];
    let modes = ["--deep", "--dry-run", "--keep-going", "--light", "--open"];
    let run = [&settings[..], &accepted, &modes].concat();
    let merge = [&accepted[..], &["--config-dir", "--open"]].concat();
    let captures = ["--ncu", "--nsys", "--output", "--spool"];
    let cases = [
        (&["--help"][..], [&run[..], &["--dormant", "--nsys", "--version"]].concat()),
        (&["demo", "--help"], run.clone()),
        (&["run", "--help"], [&run[..], &["--dormant", "--nsys"]].concat()),
        (&["report", "--help"], [&merge[..], &["--json"]].concat()),
        (&["merge", "--help"], [&merge[..], &captures].concat()),
        (&["import", "--help"], [&merge[..], &captures].concat()),
        (
            &["bench", "--help"],
            [&settings[..], &["--dry-run", "--ignore-failure", "--rounds", "--warmup"]].concat(),
        ),
        (&["config", "--help"], settings.to_vec()),
        (&["ctl", "--help"], vec!["--all"]),
        (&["ctl", "7", "status", "--help"], vec!["--all", "--json"]),
        (
            &["ctl", "7", "snapshot", "--help"],
            [&merge[..], &["--all", "--for", "--output"]].concat(),
        ),
    ];
    four_at_once(cases, |(words, own)| {
        let assert = sandbox.launch_strictly(words).assert().success().stderr("");
        let help = stdout(&assert);
        let options = help.split_once("\nOptions:").expect("options").1;
        let options = options.split("\nExamples:").next().unwrap_or_default();
        let word = |line: &str| line.split_whitespace().find(|w| w.starts_with("--")).map(own_name);
        let first = |line: &&str| line.trim_start().starts_with('-');
        let mut listed: Vec<String> = options.lines().filter(first).filter_map(word).collect();
        listed.sort();
        let mut expected = [&common[..], &own].concat();
        expected.sort_unstable();
        assert_eq!(listed, expected, "{words:?}: {help}");
        // What one command takes and this one does not is refused, in front of it, too.
        for option in ["--allow-empty", "--dry-run", "--keep-going"] {
            if let [name, _] = words
                && !own.contains(&option)
            {
                for words in [[name, option], [option, name]] {
                    let assert = sandbox.launch_strictly(&words).assert().code(2).stdout("");
                    assert.stderr(contains(format!("unexpected argument `{option}`")));
                }
            }
        }
    });
}

fn own_name(word: &str) -> String {
    word.trim_end_matches(',').to_owned()
}

#[test]
fn options_and_settings_may_precede_their_subcommand() {
    let sandbox = Sandbox::new();
    for words in [
        &["--timeout", "90", "-v", "config"][..],
        &["--timeout=90", "--color", "never", "config", "-v"],
        &["config", "-v", "--timeout", "90"],
    ] {
        let assert = sandbox.launch_strictly(words).assert().success();
        assert.stdout(contains("timeout_s: 90"));
    }
    let assert = sandbox.launch_strictly(&["hardware=h200", "-q", "config"]).assert().success();
    assert.stdout(contains("# override hardware=h200").or(contains("conf/hardware/h200.yaml")));
    let assert = sandbox.launch_strictly(&["--help", "export"]).assert().success();
    assert.stdout(contains("--window"));
    let assert = sandbox.launch_strictly(&["--version", "config"]).assert().success();
    assert.stdout(contains(env!("CARGO_PKG_VERSION")));
    // The value of an option is no subcommand.
    let words = ["--dry-run", "--run-dir", "config", "run.mode=light", "--", "true"];
    sandbox.launch_strictly(&words).assert().success().stdout(contains("/config"));
}

#[test]
fn an_unknown_option_is_told_where_the_command_belongs() {
    let sandbox = Sandbox::new();
    let told = |words: &[&str], hint: &str| {
        let text = stderr(&sandbox.launch_strictly(words).assert().code(2).stdout(""));
        let found = text.find("the command of the workload").map(|at| &text[at..]);
        assert_eq!(found.unwrap_or_default().trim(), hint, "{words:?}: {text}");
    };
    let place = "the command of the workload comes after `--`";
    let usage = &format!("{place}: stage2-launch [OPTIONS] [KEY=VALUE]... -- COMMAND [ARG]...");
    told(&["python", "-m", "runner"], &format!("{place}, e.g. stage2-launch -- python -m runner"));
    told(
        &["-v", "--run-dir", "my run", "a=1", "--color=never", "sh", "-c", "x y"],
        &format!(
            "{place}, e.g. stage2-launch -v --run-dir 'my run' a=1 --color=never -- sh -c 'x y'"
        ),
    );
    // Whether `python` is the value of `--bogus` cannot be told.
    told(&["--bogus", "python"], usage);
    told(&["a=1", "--bogus=1", "python"], usage);
    let line = "stage2-launch run a=1 -- python -m runner";
    told(&["a=1", "run", "python", "-m", "runner"], &format!("{place}, e.g. {line}"));
    for subcommand in [&["report", "DIR", "--bogus"][..], &["-v", "config", "a=1", "--bogus"]] {
        told(subcommand, "");
    }
}

#[test]
fn colors_are_for_those_who_want_them() {
    let sandbox = Sandbox::new();
    let wrong = ["run.mod=1", "--", "true"];
    let colored = |words: &[&str], no_color: bool| {
        let mut command = sandbox.launch(&[words, &wrong].concat());
        if no_color {
            command.env("NO_COLOR", "1");
        }
        command.assert().code(2).get_output().stderr.contains(&0x1b)
    };
    assert!(!colored(&[], false), "stderr is no terminal");
    assert!(colored(&["--color", "always"], false));
    assert!(colored(&["--color=always"], true), "what was said beats what is set");
    assert!(!colored(&["--color", "never"], false));
    let help = sandbox.launch(&["--color=always", "--help"]).assert().get_output().stdout.clone();
    assert!(help.contains(&0x1b), "the help, too");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let sandbox = Sandbox::new();
    let mut command = sandbox.std_launch(&["config"]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().expect("stage2-launch");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("end");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn errors_in_settings_name_the_nearest_key() {
    let sandbox = Sandbox::new();
    for (setting, parts) in [
        ("run.mod=light", ["override run.mod=light", "`run.mode`"]),
        ("runn.mode=light", ["`runn.mode`", "`run.mode`"]),
        ("workload=hidra", ["`hidra`", "`hydra`"]),
        ("run.timeout_s=soon", ["`run.timeout_s`", "whole number"]),
        ("profiling.collector.log=loud", ["`profiling.collector.log`", "info or debug"]),
        ("profiling.collector.ranges=[a", ["character", "`]`"]),
        ("run.mode=deep,light", ["character", "sweep"]),
    ] {
        let assert = sandbox.launch(&[setting, "--", "true"]).assert().code(2);
        let assert = assert.stderr(contains(parts[0])).stderr(contains(parts[1]));
        assert
            .stderr(predicate::function(|text: &str| lossy(text.as_bytes()).lines().count() == 1));
        sandbox.launch(&["config", setting]).assert().code(2).stderr(contains(parts[0]));
    }
}

#[test]
fn settings_of_the_workload_and_of_older_runners_are_sent_where_they_belong() {
    let sandbox = Sandbox::new();
    let cases = [
        ("infer.max_new_tokens=64", "stage2-launch -- COMMAND infer.max_new_tokens=64"),
        ("+torch_profiler.enabled=false", "go after `--`"),
        ("dataset/sampling@dataset.sampling=default", "go after `--`"),
        ("model=llama_1b", "model/llm=PRESET"),
        ("nsys.gating_nvtx=false", "pipeline.nsys.capture_range"),
        ("ncu.gating_nvtx=false", "`pipeline.ncu.gating_nvtx`"),
        ("ncu=ncu.high", "`profiling/ncu`"),
        ("run.dir=${oc.env:HOME}", "\"KEY=$HOME\""),
        ("nsys.nvtx_capture=decode", "capture_range=nvtx pipeline.nsys.nvtx_capture=decode (or"),
        ("+model.target=alt", "use model/llm=PRESET or model.llm.config_json=FILE"),
        ("runner@stage1_runner=stage1.no-static", "use workload=stage1, which switches"),
        ("profiling/torch=torch-profiler.min", "go after `--`"),
        ("+torch_profiler.enabled=false", "workload=stage1 switch it off already"),
        // Those of the tools are checked, and the nearest key is named.
        ("pipeline.nsys.capture_rnge=nvtx", "`pipeline.nsys.capture_range`"),
        ("pipeline.ncu.topn=3", "`pipeline.ncu.top_n`"),
        ("pipeline.nsys.capture_range=nvtx", "pipeline.nsys.nvtx_capture"),
        ("profiling/ncu=ncu.hoper", "`ncu.hopper`"),
        ("model/llm=lama_3_8b", "`llama_3_8b`"),
        ("run.keep_last=0", "run.keep_last"),
        ("hardware.memory_gb_per_sec=1", "`hardware.memory_gb_per_s`"),
    ];
    four_at_once(cases, |(setting, part)| {
        sandbox.launch(&[setting, "--", "true"]).assert().code(2).stderr(contains(part));
    });
    for (words, part) in [
        (&["merge", "-o", "m", "--nsys", "x", "+model.target=x"][..], "use model/llm=PRESET"),
        (
            &["merge", "-o", "m", "--nsys", "x", "infer.a=1"],
            "this is a workload setting, and this command runs no",
        ),
    ] {
        let assert = sandbox.launch(words).assert().code(2).stderr(contains(part));
        assert.stderr(contains("after `--`").not());
    }
    let assert = sandbox.launch(&["--", "+run.mode=deep", "+inputs.manifest=x"]).assert().code(127);
    assert.stderr(contains("settings of stage2-launch go before `--`"));
    // Hydra refuses a + for a key that is there; here it is a note.
    let words = ["-v", "+run.mode=light", "hydra.run.dir=${hydra:runtime.cwd}/out", "--", "true"];
    let assert = sandbox.launch(&words).assert().success();
    assert.stderr(contains("note: +run.mode=light was taken as run.mode=light"));
    assert!(sandbox.path("out/run.json").is_file());
}

#[test]
fn config_shows_every_value_with_its_origin() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "presets/runner/quick.yaml",
        "# @package _global_\ndefaults: [stage2]\nrun:\n  tee: true\n",
    );
    let words = ["config", "--config-dir", "presets", "runner=quick", "run.mode=light"];
    let words = [&words[..], &["--timeout", "90s", "workload=hydra"]].concat();
    let text = stdout(&sandbox.launch(&words).assert().success().stderr(""));
    for (value, origin) in [
        ("mode: light", "# override run.mode=light"),
        ("tee: true", "# presets/runner/quick.yaml:4"),
        ("timeout_s: 90", "# option --timeout 90"),
        ("kill_grace_s: 10", "# conf/runner/stage2.yaml:8"),
        ("dir: null", "# conf/runner/stage2.yaml:5"),
        ("append:", "# conf/workload/hydra.yaml:"),
    ] {
        let line = text.lines().find(|line| line.trim_start().starts_with(value));
        assert!(line.is_some_and(|line| line.contains(origin)), "{value} {origin} in {text}");
    }
    let gated = "profiling/nsys=nsys.gated";
    let set = ["config", "model/llm=llama_3_8b", "+pipeline.nsys.env_var.A='1'", gated];
    let assert = sandbox.launch(&set).assert().success();
    assert.stdout(contains("hidden_size: 4096").and(contains("decode@*")));
}
