//! Every row of docs/seeds.md: its commands run, its tests and files exist.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::common::simulated::{built, collector};
use crate::common::{self, FAKE_NSYS, Sandbox, four_at_once, lossy, names_in, unpack};

/// A workload with the labels of the documents, on the simulated GPU.
const APP: &str = "#!/bin/sh\n\
    decode='register LLM decode_all\\nregistered 20\\n'\n\
    prefill='register LLM prefill\\nregistered 9\\n'\n\
    printf \"cuda\\n$prefill$decode$prefill$decode$prefill$decode$prefill$decode\" | GUEST obey\n";
/// A stand-in for ncu, which gives a real capture of another run.
const NCU: &str = r#"#!/bin/sh
case "$*" in
*--version*) echo "Version 2025.3.1.0 (build 1) (public-release)"; exit 0;;
*--list-sections*) cat "$FIXTURES/sections.txt"; exit 0;;
*--query-metrics*) exit 1;;
*--import*details*) cat "$FIXTURES/details.csv"; exit 0;;
*--import*) cat "$FIXTURES/raw.csv"; exit 0;;
esac
for word; do
  case "$before" in --export) echo report > "$word";; --log-file) echo "==PROF== Disconnected" > "$word";; esac
  before="$word"
done
exec app
"#;

/// A folder with the workload, its list of inputs, and the tools.
fn place() -> Sandbox {
    let sandbox = Sandbox::new();
    let app = APP.replace("GUEST", &built("examples/guest").display().to_string());
    for (name, text) in [("app", app.as_str()), ("python", &app), ("nsys", FAKE_NSYS), ("ncu", NCU)]
    {
        sandbox.executable(&format!("bin/{name}"), text);
    }
    for (from, to) in [
        ("nsys/decode.sqlite.xz", "decode.sqlite"),
        ("nsys/decode_cuda_gpu_kern_sum.csv", "kernels.csv"),
        ("ncu/decode.raw.csv.xz", "raw.csv"),
        ("ncu/decode.details.csv.xz", "details.csv"),
        ("ncu/sections.txt", "sections.txt"),
    ] {
        unpack(from, &sandbox.path("fixtures").join(to));
    }
    sandbox.write("inputs.yaml", "images: [a.png]\n");
    for report in ["report.nsys-rep", "report.qdrep"] {
        sandbox.write(report, "a report");
    }
    // Paths of the checkout are the same here.
    std::os::unix::fs::symlink(root().join("tests"), sandbox.path("tests")).expect("link");
    sandbox
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository").to_owned()
}

/// One step of a row's last column.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Run(String),
    /// A part of what the last command printed.
    Prints(String),
    /// A file that it left.
    Writes(String),
    /// A part of that file.
    Holds(String),
    /// Its exit status, where that is not 0.
    Exits(i32),
    Test(String),
    File(String),
}

/// The rows of the page: number and steps.
fn rows(page: &str) -> Vec<(String, Vec<Step>)> {
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()
    };
    let is_row = |line: &&str| {
        let number = line.strip_prefix("| ").and_then(|rest| rest.split(' ').next());
        number.is_some_and(|word| word.ends_with(|end: char| end.is_ascii_digit()))
    };
    page.lines()
        .filter(is_row)
        .map(|line| {
            let cells = cells(line);
            (cells[0].clone(), steps(cells.last().expect("a cell")))
        })
        .collect()
}

fn steps(cell: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    for (at, part) in cell.split('`').enumerate() {
        if at % 2 == 0 {
            let mut words = part.split_whitespace();
            if words.any(|word| word == "exits") {
                let status = words.next().expect("a status after `exits`");
                steps.push(Step::Exits(status.parse().expect("a number")));
            }
            continue;
        }
        let before = cell.split('`').nth(at - 1).unwrap_or_default();
        let text = part.to_owned();
        steps.push(match before.split_whitespace().last() {
            Some("prints") => Step::Prints(text),
            Some("writes") => Step::Writes(text),
            Some("holds") => Step::Holds(text),
            Some("test") => Step::Test(text),
            _ if text.starts_with("stage2-launch ") => Step::Run(text),
            _ => Step::File(text),
        });
    }
    steps
}

/// Names of all test functions of the repository.
fn tests_of(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && !path.ends_with("target") {
            tests_of(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = common::read(&path);
            let mut is_test = false;
            for line in text.lines().map(str::trim) {
                if line == "#[test]" {
                    is_test = true;
                } else if let Some(name) = line.strip_prefix("fn ").filter(|_| is_test) {
                    found.extend(name.split('(').next().map(str::to_owned));
                    is_test = false;
                }
            }
        }
    }
}

struct Ran {
    text: String,
    status: Option<i32>,
}

fn run(sandbox: &Sandbox, command: &str) -> Ran {
    let words = shlex::split(command).expect("words of a shell");
    let words: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
    let tools = std::env::join_paths([sandbox.path("bin"), "/usr/bin".into(), "/bin".into()]);
    let output = sandbox
        .launch_strictly(&words)
        .env("PATH", tools.expect("PATH"))
        .env("FIXTURES", sandbox.path("fixtures"))
        .env("FAKE_SQLITE", sandbox.path("fixtures/decode.sqlite"))
        .env("FAKE_KERNELS", sandbox.path("fixtures/kernels.csv"))
        .envs(collector())
        .env("STAGE2_TEST_SIM", built("libstage2_sim.so"))
        .env("STAGE2_SIM_FAST", "1")
        .output()
        .expect("stage2-launch");
    Ran { text: common::text(&output), status: output.status.code() }
}

#[test]
fn every_row_of_the_seeds_page_holds() {
    let page = common::read(&root().join("docs/seeds.md"));
    let rows = rows(&page);
    assert!(rows.len() > 140, "{} rows were found", rows.len());
    let mut tests = BTreeSet::new();
    for folder in ["launcher", "tests", "crates", "src"] {
        tests_of(&root().join(folder), &mut tests);
    }
    let sandbox = place();
    let table = "tests/fixtures/nsys/decode_cuda_gpu_kern_sum.csv";
    let made = run(&sandbox, &format!("stage2-launch merge --nsys {table} -o RUN"));
    assert_eq!(made.status, Some(0), "{}", made.text);

    // A command that stands in many rows runs once. What it is to write must not be there before.
    let runs = rows.iter().flat_map(|(_, steps)| steps).filter_map(|step| match step {
        // Those with folders of their own do not wait for each other.
        Step::Run(text) if text.contains(" run.dir=") => Some(text),
        _ => None,
    });
    let ran = Mutex::new(HashMap::new());
    four_at_once(runs.collect::<BTreeSet<_>>(), |text| {
        let done = run(&sandbox, text);
        ran.lock().expect("no panic").insert(text.clone(), done);
    });
    let mut known: HashMap<String, Ran> = ran.into_inner().expect("no panic");
    let mut wrong = Vec::new();
    for (number, steps) in &rows {
        if !steps.iter().any(|step| matches!(step, Step::Run(_) | Step::Test(_) | Step::File(_))) {
            wrong.push(format!("{number}: nothing shows it"));
        }
        let mut command: Option<&str> = None;
        let mut last: Option<PathBuf> = None;
        for (at, step) in steps.iter().enumerate() {
            let ran = command.and_then(|command| known.get(command));
            let fault = match step {
                Step::Run(text) => {
                    command = Some(text);
                    let files = written(steps.get(at + 1..).unwrap_or_default());
                    let there = files.map(|file| sandbox.path(file));
                    // Reports are written again.
                    if text.contains(" report ") {
                        known.remove(text);
                    }
                    if !known.contains_key(text) {
                        there.for_each(|file| drop(std::fs::remove_file(file)));
                    }
                    let ran = known.entry(text.clone()).or_insert_with(|| run(&sandbox, text));
                    let next = steps.get(at + 1);
                    let expected = if let Some(Step::Exits(status)) = next { *status } else { 0 };
                    (ran.status != Some(expected))
                        .then(|| format!("`{text}` ends with {:?}:\n{}", ran.status, ran.text))
                }
                Step::Exits(_) => None,
                Step::Prints(part) => (!ran.is_some_and(|ran| ran.text.contains(part.as_str())))
                    .then(|| format!("{command:?} does not print `{part}`")),
                Step::Writes(file) => {
                    last = Some(sandbox.path(file));
                    (!sandbox.path(file).is_file())
                        .then(|| format!("{command:?} does not write {file}"))
                }
                Step::Holds(part) => {
                    let text = last.as_ref().and_then(|file| std::fs::read(file).ok());
                    let text = lossy(&text.unwrap_or_default());
                    (!text.contains(part.as_str()))
                        .then(|| format!("{last:?} does not hold `{part}`:\n{text}"))
                }
                Step::Test(name) => {
                    (!tests.contains(name)).then(|| format!("there is no test {name}"))
                }
                Step::File(file) => {
                    (!root().join(file).is_file()).then(|| format!("there is no file {file}"))
                }
            };
            wrong.extend(fault.map(|fault| format!("{number}: {fault}")));
        }
    }
    assert!(wrong.is_empty(), "{} rows do not hold:\n{}", wrong.len(), wrong.join("\n"));
}

/// Files that a command is to write: what follows it, up to the next one, says so.
fn written(after: &[Step]) -> impl Iterator<Item = &String> {
    after.iter().take_while(|step| !matches!(step, Step::Run(_))).filter_map(|step| match step {
        Step::Writes(file) => Some(file),
        _ => None,
    })
}

#[test]
fn the_column_is_read_as_it_is_explained() {
    let page =
        "| A1 | x | y | `stage2-launch a` exits 2 prints `b c`; test `t`; `d/e.sh` |\n| # | a |\n";
    let expected = vec![
        Step::Run("stage2-launch a".into()),
        Step::Exits(2),
        Step::Prints("b c".into()),
        Step::Test("t".into()),
        Step::File("d/e.sh".into()),
    ];
    assert_eq!(rows(page), [("A1".to_owned(), expected)]);
}

/// As the script of the integration guide looks for them.
#[test]
fn what_the_documents_validate_is_there() {
    let sandbox = place();
    let ran = run(&sandbox, "stage2-launch -- app");
    assert_eq!(ran.status, Some(0), "{}", ran.text);
    let runs = names_in(&sandbox.path("tmp/stage2"));
    let newest = sandbox.path("tmp/stage2").join(runs.last().expect("a run"));
    let pages = ["kernels.md", "stakeholder_summary.md", "env.json", "config.yaml"];
    for name in ["nsys", "ncu", "nsys/run.nsys-rep"].iter().chain(&pages) {
        assert!(newest.join(name).exists(), "{name}");
    }
}
