//! `stage2-launch ask`: answers, the list of questions, exit statuses, and runs that cannot be read.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::process::Command;

use crate::common::{Sandbox, lossy, repository, says};
use predicates::prelude::PredicateBooleanExt as _;
use predicates::str::contains;
use serde_json::Value;
use stage2_contract::control::{Answer, SocketName, start_of};

fn sample(name: &str) -> String {
    repository("docs/sample").join(name).display().to_string()
}

#[test]
fn a_question_is_answered_within_its_budget() {
    let (sandbox, run) = (Sandbox::new(), sample("vllm_two_gpus"));
    let markdown = contains("`decode` takes 3.06 ms per step").and(contains("**stages**"));
    sandbox.launch_strictly(&["ask", &run]).assert().success().stdout(markdown);
    for tokens in ["64", "100", "2000", "10000000"] {
        let words = ["ask", &run, "host", "--stage", "decode", "--json", "--budget", tokens];
        let output = sandbox.launch_strictly(&words).assert().success();
        let text = lossy(&output.get_output().stdout);
        let limit: usize = tokens.parse::<usize>().expect("a number") * 4;
        assert!(text.len() <= limit, "{tokens}: {text}");
        let answer: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(answer["question"], "host");
    }
    let of =
        |word| lossy(&sandbox.launch_strictly(&["ask", &run, word]).output().expect(word).stdout);
    assert_eq!(of("why"), of("summary"));
    assert_eq!(of("ranks"), of("late-ranks"));
    let all = sandbox.launch_strictly(&["ask", &run, "kernels", "--all"]).assert().success();
    all.stdout(contains("\n| k").count(162));
    let other = sample("vllm_server");
    let words = ["ask", &run, "compare", &other];
    sandbox.launch_strictly(&words).assert().success().stdout(contains("**metrics**"));
}

/// A person reads no other answer than the console gave.
#[test]
fn a_terminal_has_the_words_of_the_console_of_next_and_of_diff() {
    const TERMINAL: &str = r#"
import fcntl, os, pty, struct, sys, termios
pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    os.execv(sys.argv[1], sys.argv[1:])
text = b""
try:
    while chunk := os.read(terminal, 4096):
        text += chunk
except OSError:
    pass
print(text.decode().replace("\r\n", "\n"), end="")
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"#;
    let sandbox = Sandbox::new();
    let [two, sorting, server] = ["vllm_two_gpus", "vllm_sorting", "vllm_server"].map(sample);
    let shown = |words: &[&str], colour: bool| {
        let launch = sandbox.std_launch(words);
        let mut command = Command::new("python3");
        command.args(["-c", TERMINAL]).arg(launch.get_program()).args(launch.get_args());
        command.current_dir(sandbox.path("")).env("TERM", "xterm-256color").env_remove("NO_COLOR");
        if !colour {
            command.env("NO_COLOR", "1");
        }
        let output = command.output().expect("python3");
        assert!(output.status.success(), "{words:?} {}", lossy(&output.stdout));
        lossy(&output.stdout)
    };
    let summary = shown(&["ask", &sorting], false);
    let first = "FIRST:    make priority (sorting_scheduler.py:18) faster (saves up to\n          1.08 ± 0.12 ms \
                 per step)\n";
    assert!(summary.contains(first), "{summary}");
    let pasted = summary.replace(" \\\n         ", "");
    let command = format!("\nask:      stage2-launch ask {sorting} host\n");
    assert!(pasted.contains(&command), "{summary}");
    assert_eq!(shown(&["ask", &sorting, "next"], false), shown(&["next", &sorting], false));
    let compared = shown(&["ask", &server, "compare", &sorting], false);
    assert_eq!(compared, shown(&["diff", &server, &sorting], false));
    let host = shown(&["ask", &two, "host"], false);
    assert!(host.lines().count() <= 22 && host.ends_with("--all\n"), "{host}");
    assert!(
        host.contains("22.9 ± 2.4         0.25  rank 0\n") && !host.contains('\u{1b}'),
        "{host}"
    );
    let rows = shown(&["query", &two, "SELECT * FROM step_times"], false);
    let schema = shown(&["schema", &two, "step_times"], false);
    for text in [&rows, &schema] {
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(!text.contains('|') && !text.contains('`'), "no Markdown: {text}");
    }
    assert!(rows.ends_with("rows.\n"), "{rows}");
    let coloured = shown(&["ask", &two, "host"], true);
    assert!(coloured.starts_with("\u{1b}[1mIn decode, 22.9 ± 2.4 % of the GPU's"), "{coloured}");
}

#[test]
fn what_does_not_exist_is_answered_with_the_list() {
    let (sandbox, run) = (Sandbox::new(), sample("vllm_two_gpus"));
    let server = sample("vllm_server");
    let list = contains("\n  kernels-by-loss  ").and(contains("\n  compare  "));
    let assert = sandbox.launch_strictly(&["ask", &run, "when\u{1b}"]).assert().code(2);
    // A reader of stdout waits for an answer.
    assert.stdout("").stderr(list.and(contains("no question `when\\x1b`")));
    let assert = sandbox.launch_strictly(&["ask", &run, "lat-ranks"]).assert().code(2);
    assert.stdout("").stderr(says("no question `lat-ranks`; did you mean `late-ranks`?\n"));
    let assert = sandbox.launch_strictly(&["ask", &run, "wyh"]).assert().code(2);
    assert.stdout("").stderr(says("no question `wyh`; did you mean `why`?\n"));
    let of = |words: &[&str]| lossy(&sandbox.launch(words).output().expect("output").stdout);
    for (words, typed) in [
        (&["why", "is", "it", "slow"][..], &["summary"][..]),
        (&["why is prefill slow"], &["summary", "--stage", "prefill"]),
        (&["which", "kernels"], &["kernels-by-loss"]),
        (&["who", "is", "late"], &["late-ranks"]),
        (&["is this run trustworthy?"], &["caveats"]),
        (&["what changed", &server], &["compare", &server]),
        (&["compare", "with", &server], &["compare", &server]),
    ] {
        let words = [&["ask", &run], words].concat();
        let asked = sandbox.launch(&words).assert().success();
        if words[2] != "compare" {
            asked.stderr(contains(format!("answering `{}`", typed[0])));
        }
        assert_eq!(of(&words), of(&[&["ask", &run], typed].concat()), "{words:?}");
    }
    for (words, expected) in [
        (&["why is the moon round"][..], "no word of `why is the moon round` names a question"),
        (&["idle", "host"], "`host` and `idle` are different questions; ask one at a time"),
        (
            &["host", "extra", "more"],
            "no stage and no question is called `extra`; `host` alone is a question",
        ),
        (&["how much memory is used"], "is not recorded"),
        (&["what changed"], "compare needs a second run"),
        (&["which kernels", &server], "`kernels-by-loss` is about one run"),
    ] {
        let assert = sandbox.launch_strictly(&[&["ask", &run], words].concat()).assert().code(2);
        let said = lossy(&assert.get_output().stderr).replace("\n    ", " ");
        assert!(said.contains(expected), "{said}");
    }
    let assert = sandbox.launch_strictly(&["ask", "latest"]).assert().code(2);
    assert.stderr(contains("latest does not exist: it stands for the newest run"));
    let assert = sandbox.launch_strictly(&["ask", &run, "--budget", "-5"]).assert().code(2);
    assert.stderr(contains("give a number of tokens, 64 or more"));
    let assert = sandbox.launch_strictly(&["ask", "sumary"]).assert().code(2);
    assert.stderr(contains("there is no run `sumary`").and(contains("ask RUN summary")));
    let assert = sandbox.launch_strictly(&["ask", "time", &run]).assert().code(2);
    assert.stderr(contains(format!("before the question: stage2-launch ask {run} time")));
    let words = ["ask", &run, "time", "--stage", "nothing"];
    sandbox.launch_strictly(&words).assert().code(2).stderr(contains("there are decode, prefill"));
    let words = ["ask", &run, "compare"];
    sandbox.launch_strictly(&words).assert().code(2).stderr(contains("second run"));
    let words = ["ask", &run, "time", &run];
    sandbox.launch_strictly(&words).assert().code(2).stderr(contains("one run"));
}

/// A report of a half of it would be called partial.
#[test]
fn a_run_that_still_runs_is_to_be_waited_for() {
    let sandbox = Sandbox::new();
    let (run, sockets) = (sandbox.path("live"), sandbox.path("run/stage2"));
    fs::create_dir(&run).expect("folder");
    let record = r#"{"schema": 2, "stage2_version": "1", "state": "running", "run_id": "live", "started": "2026-01-01T00:00:00Z",
                    "command": ["serve"]}"#;
    fs::write(run.join("run.json"), record).expect("a record");
    fs::create_dir_all(&sockets).expect("folder");
    fs::set_permissions(&sockets, fs::Permissions::from_mode(0o700)).expect("a private folder");
    let said = |words: &[&str]| {
        let mut command = sandbox.launch_strictly(words);
        let assert = command.env("XDG_RUNTIME_DIR", sandbox.path("run")).assert().code(70);
        lossy(&assert.get_output().stderr).replace("\n    ", " ")
    };
    let killed = "live holds a run without a report (metrics.json is missing); write it";
    assert!(said(&["ask", "live"]).contains(killed), "nothing of it runs");
    let pid = std::process::id();
    let start = start_of(&fs::read_to_string("/proc/self/stat").expect("it")).expect("a start");
    let name = SocketName::new("host", pid, start).to_file_name();
    let listener = UnixListener::bind(sockets.join(name)).expect("a socket");
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let _ = client.read(&mut [0; 256]);
            let answer = Answer::ok().with("option.out", run.display().to_string());
            let answer = answer.with("pid", pid).with("start_ticks", start);
            let _ = client.write_all(answer.to_text().as_bytes());
        }
    });
    let expected = "live is still running and has no report yet: wait for its end, or watch it with \
                    `stage2-launch top live`\n";
    for words in [&["ask", "live"][..], &["diff", "live", "live"]] {
        let said = said(words);
        assert!(said.ends_with(expected), "{said}");
    }
}

/// Samples of counters are in a file of their own, which may not have come along.
#[test]
fn a_report_without_its_timelines_says_so() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path("alone")).expect("folder");
    let metrics = repository("docs/sample/sampled_counters/metrics.json");
    fs::copy(metrics, sandbox.path("alone/metrics.json")).expect("a report");
    let missing = contains("timelines.json");
    for question in ["caveats", "kernels-by-loss", "memory-bound"] {
        sandbox
            .launch_strictly(&["ask", "alone", question])
            .assert()
            .success()
            .stdout(missing.clone());
        let whole = sample("sampled_counters");
        let assert = sandbox.launch_strictly(&["ask", &whole, question]).assert().success();
        assert.stdout(missing.clone().not());
    }
}

#[test]
fn what_cannot_be_read_is_no_answer() {
    let sandbox = Sandbox::new();
    let text = fs::read(repository("docs/sample/regions/metrics.json")).expect("a report");
    for (name, bytes) in [("cut", &text[..text.len() / 2]), ("empty", b""), ("other", b"{}")] {
        fs::create_dir(sandbox.path(name)).expect("folder");
        fs::write(sandbox.path(name).join("metrics.json"), bytes).expect("file");
        let assert = sandbox.launch_strictly(&["ask", name, "time"]).assert().code(70).stdout("");
        // Only what recorded the run can write its report again.
        assert.stderr(contains("write it again with").not());
    }
    fs::write(sandbox.path("cut/run.json"), "{}").expect("file");
    let assert = sandbox.launch_strictly(&["ask", "cut", "time"]).assert().code(70);
    assert.stderr(says("it is truncated; write it again with `stage2-launch report cut`"));
    // A part that everything needs is missing; the run can write it again only if its traces are there.
    let mut damaged: Value = serde_json::from_slice(&text).expect("JSON");
    damaged.as_object_mut().expect("an object").remove("kernels");
    fs::write(sandbox.path("cut/metrics.json"), damaged.to_string()).expect("file");
    let again =
        "kernels cannot be read (it is missing); write it again with `stage2-launch report cut`";
    for words in [&["ask", "cut"][..], &["diff", "cut", "cut"], &["next", "cut"]] {
        sandbox.launch_strictly(words).assert().code(70).stderr(says(again));
    }
    fs::copy(repository("docs/sample/regions/run.json"), sandbox.path("cut/run.json"))
        .expect("run");
    for words in [&["ask", "cut"][..], &["diff", "cut", "cut"], &["next", "cut"]] {
        let assert = sandbox.launch_strictly(words).assert().code(70);
        assert
            .stderr(contains("trace files of the run are missing"))
            .stderr(contains("stage2-launch report").not());
    }
    let newer = lossy(&text).replacen("\"schema_version\": 2", "\"schema_version\": 92", 1);
    fs::write(sandbox.path("newer.json"), newer).expect("file");
    let assert = sandbox.launch_strictly(&["ask", "newer.json"]).assert().code(70);
    assert.stderr(contains("newer stage2-launch"));
    sandbox.launch_strictly(&["ask", "nowhere"]).assert().code(2).stderr(contains("nowhere"));
}

/// A single step of a query may take minutes, and SQLite looks at the time between steps.
#[test]
fn a_query_ends_in_time_whatever_it_does() {
    let (sandbox, run) = (Sandbox::new(), sample("regions"));
    let searches: Vec<String> = (0..30).map(|at| format!("instr(h, n || '{at}')")).collect();
    let sql = format!(
        "WITH t(h, n) AS MATERIALIZED (SELECT replace(printf('%600000s', 'a'), ' ', 'a'), \
         replace(printf('%300000s', 'b'), ' ', 'a') || 'b') SELECT {} FROM t",
        searches.join(", ")
    );
    let begun = std::time::Instant::now();
    let assert =
        sandbox.launch_strictly(&["query", &run, &sql, "--seconds", "1"]).assert().code(70);
    assert.stdout("").stderr(contains("ended after 1 s"));
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}

/// Hazard: a script sums the rows of a CSV that was cut, and -q hides that.
#[test]
fn a_cut_csv_is_never_taken_for_all_rows() {
    const ROWS: &str =
        "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 300) SELECT ";
    let (sandbox, run) = (Sandbox::new(), sample("regions"));
    let ask = |what: &str, options: &[&str]| {
        let sql = format!("{ROWS}{what} AS x FROM c");
        let words = [&["query", "-q", &run, &sql, "--csv"], options].concat();
        sandbox.launch_strictly(&words).assert()
    };
    let assert = ask("x", &[]).success();
    assert.stderr(contains("warning: 200 of 300 rows; --rows 0 for all"));
    ask("x", &["--rows", "9"]).success().stderr("");
    ask("x", &["--rows", "0"]).success().stderr("");
    let assert = ask("printf('%0900000d', x)", &["--rows", "0", "--seconds", "200"]).code(70);
    let text =
        says("error: the result is cut: the first 74 rows; the others have no room in 64 MB");
    let output = assert.stderr(text).get_output().stdout.clone();
    assert_eq!(lossy(&output).lines().count(), 75);
}

#[test]
fn json_schemas_are_in_the_program() {
    let sandbox = Sandbox::new();
    let list = sandbox.launch_strictly(&["schema", "--json-schema"]).assert().success();
    let list = lossy(&list.get_output().stdout);
    for entry in fs::read_dir(repository("schemas")).expect("schemas") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = name.as_deref().and_then(|name| name.strip_suffix(".schema.json"));
        let name = name.expect("a schema");
        assert!(list.contains(&format!("| {name} | ")), "{list}");
        let text = fs::read_to_string(&path).expect(name);
        let words = ["schema", "--json-schema", name];
        sandbox.launch_strictly(&words).assert().success().stdout(text);
    }
    let words = ["schema", "--json-schema", "no\u{1b}"];
    let known = says("no schema `no\\x1b`; there are ask, ");
    sandbox.launch_strictly(&words).assert().code(2).stdout("").stderr(known);
    sandbox.launch_strictly(&["schema"]).assert().code(2);
    sandbox.launch_strictly(&["schema", "a", "--json-schema"]).assert().code(2);
}

/// Bundles are private: this is how another user finds one.
#[test]
fn a_folder_that_may_not_be_read_is_not_called_empty() {
    use std::os::unix::process::CommandExt as _;
    let sandbox = Sandbox::new();
    let run = sandbox.path("private");
    fs::create_dir(&run).expect("a folder");
    fs::copy(sample("regions") + "/metrics.json", run.join("metrics.json")).expect("a report");
    fs::write(run.join("run.json"), "{}").expect("a record");
    let is_root = nix::unistd::geteuid().is_root();
    // Root reads what nobody may read; its own files are then those of another user.
    let mode = if is_root { 0o700 } else { 0o000 };
    fs::set_permissions(&run, fs::Permissions::from_mode(mode)).expect("a mode");
    let parent = run.parent().expect("a folder");
    fs::set_permissions(parent, fs::Permissions::from_mode(0o755)).expect("a mode");
    let said = |words: &[&str]| {
        let mut command = sandbox.std_launch(words);
        if is_root {
            command.uid(65534).gid(65534);
        }
        let output = command.output().expect("the program starts");
        assert_eq!(output.status.code(), Some(70), "{words:?} {}", lossy(&output.stderr));
        lossy(&output.stderr).replace("\n    ", " ")
    };
    for words in [
        &["ask", "private"][..],
        &["query", "private", "SELECT 1"],
        &["diff", "private", "private"],
        &["report", "private"],
        &["export", "private", "-f", "csv"],
    ] {
        let said = said(words);
        assert!(said.contains("Permission denied") && said.contains("--group"), "{said}");
        assert!(!said.contains("holds no"), "{said}");
    }
    fs::set_permissions(&run, fs::Permissions::from_mode(0o700)).expect("a mode");
}
