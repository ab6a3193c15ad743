//! The folder of a run -> the experiment that would confirm its first advice.

use std::path::Path;

use serde::Deserialize;
use stage2_ask::{RunFiles, next as experiment};
use stage2_contract::text::visible_path;
use stage2_diff::Run;
use stage2_read::files;

use super::diff::{metrics_of, whole_report_of};
use super::ending::printed;
use crate::cli::NextArgs;
use crate::failure::Failure;
use crate::terminal::width;

const INPUTS: &str = "inputs.yaml";
const CONFIG: &str = "config.yaml";
const RUN: &str = "run.json";
/// Larger files are none of ours.
const LIMIT_BYTES: u64 = 1 << 20;
/// Behind the name of the run, for the folder of the next one.
const AFTER: &str = "-after";

pub(crate) fn next(args: NextArgs) -> Result<u8, Failure> {
    let path = metrics_of(&args.run)?;
    let read = whole_report_of(&path)?;
    // `latest` may be another run by the time that the commands are used.
    let path = path.canonicalize().unwrap_or(path);
    let folder = path.parent().unwrap_or(Path::new("."));
    let label = visible_path(folder);
    let run = Run { label: &label, report: &read.report, left_out: &read.left_out };
    let settings = text_of(&folder.join(CONFIG)).map(|text| settings(&text)).unwrap_or_default();
    let directory = text_of(&folder.join(INPUTS)).and_then(|text| directory(&text));
    let command = text_of(&folder.join(RUN)).and_then(|text| command(&text));
    let after = format!("{label}{AFTER}");
    let files = RunFiles {
        directory: directory.as_deref(),
        command: command.as_deref(),
        settings: &settings,
        after: &after,
    };
    let found = experiment(&run, &files);
    printed(&match (args.json, width(&std::io::stdout())) {
        (true, _) => found.to_json() + "\n",
        (false, Some(columns)) => found.to_text(columns),
        (false, None) => found.to_markdown(),
    })
}

/// A file of the run; nothing if it cannot be read: the experiment then says less.
fn text_of(path: &Path) -> Option<String> {
    String::from_utf8(files::read(path, LIMIT_BYTES).ok()?).ok()
}

#[derive(Deserialize)]
struct Inputs {
    cwd: Option<String>,
}

fn directory(inputs: &str) -> Option<String> {
    serde_saphyr::from_str::<Inputs>(inputs).ok()?.cwd.filter(|folder| !folder.is_empty())
}

#[derive(Deserialize)]
struct Started {
    command: Vec<String>,
}

fn command(run: &str) -> Option<Vec<String>> {
    Some(serde_json::from_str::<Started>(run).ok()?.command)
}

/// The options and overrides of the command line, as the origins of the values name them.
fn settings(config: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for (_, origin) in config.lines().filter_map(|line| line.rsplit_once("  # ")) {
        let found = match (origin.strip_prefix("override "), origin.strip_prefix("option ")) {
            (Some(word), _) => vec![word.to_owned()],
            // The next run has a folder of its own, and `diff` compares a window with a whole run, not with a dormant one.
            (_, Some(option))
                if !["--run-dir", "--dormant"].iter().any(|no| option.starts_with(no)) =>
            {
                shlex::split(option).unwrap_or_default()
            }
            _ => continue,
        };
        // One option may set several values.
        if !found.iter().all(|word| words.contains(word)) {
            words.extend(found);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_run_has_the_options_and_overrides_of_this_one() {
        let config = "\
run:
  mode: light                # option --light
  dir: out                   # option --run-dir out
  timeout_s: 300             # option --timeout 5m
  keep_last: 50              # conf/runner/stage2.yaml:13
model:
  tokens:
    batch_size: 4            # override model.tokens.batch_size=4
  name: '  # override a=b'   # conf/x.yaml:1
";
        let expected = ["--light", "--timeout", "5m", "model.tokens.batch_size=4"];
        assert_eq!(settings(config), expected);
        assert!(settings("  mode: light  # option --dormant\n").is_empty(), "of a window");
        assert_eq!(settings("no: comments\n"), Vec::<String>::new());
    }

    #[test]
    fn the_folder_of_the_workload_is_read_where_it_is_whole() {
        assert_eq!(directory("simulated: false\ncwd: /a b\n").as_deref(), Some("/a b"));
        for text in ["", "cwd: ''", "cwd: [", "argv: [x]"] {
            assert_eq!(directory(text), None, "{text}");
        }
    }
}
