//! What agents read before they do anything: each command in it can be given as it stands.

use crate::common::{Sandbox, copy_folder, lossy, repository};

const TEXTS: [&str; 3] =
    ["packaging/agents/SKILL.md", "packaging/agents/llms.txt", "docs/agents.md"];
/// Words that a reader replaces, and what stands for them here.
const WORDS: [(&str, &str); 13] = [
    ("RUN", "before"),
    ("BEFORE", "before"),
    ("AFTER", "after"),
    ("A", "before"),
    ("B", "after"),
    ("QUESTION", "time"),
    ("SQL", "SELECT * FROM kernels LIMIT 5"),
    ("TABLE", "kernels"),
    ("NAME", "ask"),
    ("CONDITION", "decode.step_ms<-10%"),
    ("ROOT", "."),
    ("COMMAND", "true"),
    ("SUBCOMMAND", "ask"),
];

/// Lines of blocks, and what stands in code quotes.
fn commands(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut in_block = false;
    for line in text.lines() {
        if line.starts_with("```") {
            in_block = !in_block;
        } else if in_block {
            found.push(line.to_owned());
        } else {
            found.extend(line.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    // What a client registers, or a shell does with the status, is no part of the command.
    found.retain(|line| line.starts_with("stage2-launch "));
    let own = |line: &String| line.split(" || ").next().unwrap_or_default().to_owned();
    found.iter().map(own).collect()
}

/// The words of a command, without the program; `[ROOT]` is optional.
fn words(command: &str) -> Vec<String> {
    let words = shlex::split(command).unwrap_or_else(|| panic!("no shell reads {command}"));
    let words = words.into_iter().skip(1).map(|word| {
        let name = word.trim_matches(['[', ']']);
        let stands = WORDS.iter().find(|(placeholder, _)| *placeholder == name);
        stands.map_or(word.clone(), |(_, stands)| (*stands).to_owned())
    });
    words.collect()
}

#[test]
fn each_command_of_the_texts_for_agents_is_accepted_and_answers() {
    let sandbox = Sandbox::new();
    for run in ["before", "after", "slow", "tmp/stage2/latest"] {
        let run = sandbox.path(run);
        std::fs::create_dir_all(run.parent().expect("a parent")).expect("a folder");
        copy_folder(&repository("docs/sample/vllm_two_gpus"), &run);
        // A gate of a run and itself is refused, so this is another run.
        if run.ends_with("after") {
            let path = run.join("metrics.json");
            let text = std::fs::read_to_string(&path).expect("metrics.json");
            let mut report: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            report["run"]["started"] = "2026-11-30T00:00:00Z".into();
            std::fs::write(&path, report.to_string()).expect("written");
        }
    }
    for text in TEXTS {
        let commands = commands(&std::fs::read_to_string(repository(text)).expect(text));
        assert!(commands.len() >= 7, "{text}: {commands:?}");
        for command in commands {
            let mut words = words(&command);
            let verb = words.first().cloned().unwrap_or_default();
            match verb.as_str() {
                // It says what it would start.
                "run" => words.insert(1, "--dry-run".to_owned()),
                // The demo has tests of its own, and no server runs here.
                "demo" | "ctl" => words.push("--help".to_owned()),
                // Its program may not be built.
                "mcp" => words.push("--help".to_owned()),
                _ => {}
            }
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let output = sandbox.launch_strictly(&words).output().expect("started");
            let printed = lossy(&output.stdout);
            let about = format!("{text}: {command}: {:?} {}", output.status, lossy(&output.stderr));
            let accepted: &[i32] = match verb.as_str() {
                // Two copies of a run do not differ; nothing of what it looks for may be installed.
                "diff" if command.contains("--expect") => &[1],
                "doctor" => &[0, 1],
                _ => &[0],
            };
            assert!(output.status.code().is_some_and(|code| accepted.contains(&code)), "{about}");
            assert!(!printed.is_empty(), "{about}");
            assert!(verb != "ask" || printed.len() <= 8_000, "{about}");
        }
    }
}
