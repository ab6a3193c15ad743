//! The tools: what a client sees of each, and its arguments -> the command line of the verb.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use rmcp::model::{JsonObject, Tool as Listed, ToolAnnotations};
use serde_json::{Value, json};
use stage2_contract::text::{shorten, visible};

use crate::runs::Runs;

/// Longest text of an argument, bytes: what the system lets a program have is twice that.
const TEXT_LIMIT: usize = 64 << 10;
/// Most texts of an argument.
const TEXTS: usize = 256;
/// Longest run, s.
const LONGEST_RUN_S: u64 = 3600;
/// A run where no time was given, s.
const USUAL_RUN_S: u64 = 600;

/// A tool.
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    about: &'static str,
    params: &'static [Param],
    /// Whether it needs the consent of the person who started the server.
    pub(crate) needs_consent: bool,
    /// The command line of its verb.
    command: fn(&Arguments, &Runs, usize) -> Result<Call, String>,
}

/// A parameter of a tool.
struct Param {
    name: &'static str,
    kind: Kind,
    is_required: bool,
    about: &'static str,
}

/// What a parameter is.
#[derive(Clone, Copy)]
enum Kind {
    /// The name of a run.
    Run,
    /// One run or several.
    Runs,
    Text,
    Texts,
    Flag,
    Number(u64),
    OneOf(&'static [&'static str]),
}

/// What a call runs.
#[derive(Debug, PartialEq)]
pub(crate) enum Call {
    /// The server itself answers: the runs, so many at most.
    List(usize),
    /// A verb that reads a run.
    Read(Vec<OsString>),
    /// A verb that lets a workload run, and may take so many seconds.
    Work { words: Vec<OsString>, limit_s: u64, directory: Option<PathBuf>, run: Option<PathBuf> },
}

/// The arguments of a call, checked.
struct Arguments<'a>(&'a JsonObject);

const fn param(name: &'static str, kind: Kind, about: &'static str) -> Param {
    Param { name, kind, is_required: false, about }
}

const fn required(name: &'static str, kind: Kind, about: &'static str) -> Param {
    Param { name, kind, is_required: true, about }
}

const RUN: Param = required("run", Kind::Run, "A run, as list_runs names it");
const FORMAT: Param =
    param("format", Kind::OneOf(&["json", "markdown"]), "json (columnar, the default) or markdown");

/// All of them, in the order in which they are used.
pub(crate) const TOOLS: &[Tool] = &[
    Tool {
        name: "list_runs",
        about: "Lists the runs that can be asked, newest first",
        params: &[param("limit", Kind::Number(200), "Most runs to list; 20 if not given")],
        needs_consent: false,
        command: |given, _, _| {
            Ok(Call::List(usize::try_from(given.number("limit").unwrap_or(20)).unwrap_or(20)))
        },
    },
    Tool {
        name: "ask",
        about: "Answers a question about a run: summary, time, idle, host, kernels-by-loss, late-ranks, \
                collectives, memory-bound, requests, next, compare, caveats or coverage. Begin with \
                summary. Each number has a unit, a basis and its place in metrics.json",
        params: &[
            RUN,
            param(
                "question",
                Kind::Text,
                "The question; summary if not given, and one that does not exist lists all",
            ),
            param("other", Kind::Run, "For compare: the run after the change"),
            param("stage", Kind::Text, "Only this stage, for instance decode"),
            param(
                "budget",
                Kind::Number(1_000_000),
                "Most tokens of the answer; 2000 if not given",
            ),
            FORMAT,
        ],
        needs_consent: false,
        command: |given, runs, _| {
            let mut words = verb("ask", given);
            words.extend(given.option("--stage", "stage"));
            words.extend(given.number("budget").map(|tokens| format!("--budget={tokens}").into()));
            let question = given.is_given("question").then(|| given.text("question"));
            let question = question.unwrap_or("summary");
            words.extend(["--".into(), given.run("run", runs)?, question.into()]);
            if given.is_given("other") {
                words.push(given.run("other", runs)?);
            }
            Ok(Call::Read(words))
        },
    },
    Tool {
        name: "query",
        about: "Runs one read-only SELECT of SQLite over the tables of a run; schema lists them",
        params: &[
            RUN,
            required("sql", Kind::Text, "The SELECT"),
            param("rows", Kind::Number(100_000), "Most rows; 200 if not given"),
            FORMAT,
        ],
        needs_consent: false,
        command: |given, runs, _| {
            let mut words = verb("query", given);
            words.extend(given.number("rows").map(|rows| format!("--rows={rows}").into()));
            words.extend(["--".into(), given.run("run", runs)?, given.text("sql").into()]);
            Ok(Call::Read(words))
        },
    },
    Tool {
        name: "schema",
        about: "Lists the tables of a run with their columns and numbers of rows, or explains one",
        params: &[RUN, param("table", Kind::Text, "Explain the columns of this table"), FORMAT],
        needs_consent: false,
        command: |given, runs, _| {
            let mut words = verb("schema", given);
            words.extend(["--".into(), given.run("run", runs)?]);
            words.extend(given.is_given("table").then(|| given.text("table").into()));
            Ok(Call::Read(words))
        },
    },
    Tool {
        name: "next",
        about: "Names the experiment that would confirm the first advice of a run: command, metric, value \
                before, expected value, and what would refute it",
        params: &[RUN, FORMAT],
        needs_consent: false,
        command: |given, runs, _| {
            let mut words = verb("next", given);
            words.extend(["--".into(), given.run("run", runs)?]);
            Ok(Call::Read(words))
        },
    },
    Tool {
        name: "diff",
        about: "Compares runs before a change with runs after it, and separates changes from noise",
        params: &[
            required("before", Kind::Runs, "A run or several"),
            required("after", Kind::Runs, "A run or several; several on each side show the noise"),
            param("expect", Kind::Texts, "Changes that have to be there: decode.step_ms<-20%"),
            param("fail_if", Kind::Texts, "Changes that must not be: decode.step_ms>+5%+0.2ms"),
            param(
                "format",
                Kind::OneOf(&["markdown", "json"]),
                "markdown (a screen, the default) or json (everything)",
            ),
        ],
        needs_consent: false,
        command: |given, runs, _| {
            let mut words: Vec<OsString> = vec!["diff".into()];
            words.extend((given.text("format") == "json").then(|| "--json".into()));
            for (option, name) in [("--expect=", "expect"), ("--fail-if=", "fail_if")] {
                words.extend(given.texts(name).map(|text| format!("{option}{text}").into()));
            }
            let [before, after] = [given.runs("before", runs)?, given.runs("after", runs)?];
            for run in after {
                let mut word = OsString::from("--against=");
                word.push(run);
                words.push(word);
            }
            words.push("--".into());
            words.extend(before);
            Ok(Call::Read(words))
        },
    },
    Tool {
        name: "run",
        about: "Runs a command under the profiler, once, and names the run that it made. One at a time",
        params: &[
            required("command", Kind::Texts, "The words of the command; no shell reads them"),
            param(
                "directory",
                Kind::Text,
                "Where to run it; the folder of the server if not given",
            ),
            param("settings", Kind::Texts, "Settings of stage2-launch, KEY=VALUE"),
            param("deep", Kind::Flag, "Run it again under nsys and ncu, where they are installed"),
            param(
                "timeout_s",
                Kind::Number(LONGEST_RUN_S),
                "Ends each of its runs after so long; 600 if not given",
            ),
        ],
        needs_consent: true,
        command: |given, runs, number| {
            let (run, deep) = (runs.new_folder(number), given.flag("deep"));
            let timeout_s = given.number("timeout_s").unwrap_or(USUAL_RUN_S).max(1);
            let mut words: Vec<OsString> = vec!["run".into()];
            words.push(if deep { "--deep" } else { "--light" }.into());
            words.extend([
                "--run-dir".into(),
                run.clone().into(),
                format!("--timeout={timeout_s}s").into(),
            ]);
            for setting in given.texts("settings") {
                if setting.starts_with('-') || !setting.contains('=') {
                    return Err(format!(
                        "settings are KEY=VALUE, and `{}` is none",
                        shown(setting)
                    ));
                }
                words.push(setting.into());
            }
            words.push("--".into());
            words.extend(given.texts("command").map(OsString::from));
            let directory = given.is_given("directory").then(|| given.text("directory").into());
            // The runs of a deep run, and the time in which reports are written.
            let limit_s = timeout_s * if deep { 4 } else { 1 } + 300;
            Ok(Call::Work { words, limit_s, directory, run: Some(run) })
        },
    },
    Tool {
        name: "ctl",
        about: "Asks a recorded process for its status or why nothing moves, has it start or stop recording, \
                or takes a snapshot of it, which is a new run",
        params: &[
            required("target", Kind::Text, "The number of a process, or a run (all its processes)"),
            required(
                "verb",
                Kind::OneOf(&["status", "why", "start", "stop", "snapshot"]),
                "What to do",
            ),
            param(
                "for_s",
                Kind::Number(LONGEST_RUN_S),
                "For start and snapshot: record this many seconds",
            ),
        ],
        needs_consent: true,
        command: |given, runs, number| {
            let (target, verb) = (given.text("target"), given.text("verb"));
            let is_process = !target.is_empty() && target.bytes().all(|byte| byte.is_ascii_digit());
            let target =
                if is_process { OsString::from(target) } else { given.run("target", runs)? };
            let mut words: Vec<OsString> = vec!["ctl".into(), target, verb.into()];
            // Of `why` the sentence for people is short, and its JSON is not.
            if ["status", "why"].contains(&verb) {
                words.extend((verb == "status").then(|| "--json".into()));
                return Ok(Call::Read(words));
            }
            let run = (verb == "snapshot").then(|| runs.new_folder(number));
            match &run {
                Some(run) => words.extend(["-o".into(), run.clone().into()]),
                None => words.push("--json".into()),
            }
            words.extend((verb == "stop").then(|| "--wait".into()));
            let for_s = given.number("for_s").filter(|_| ["start", "snapshot"].contains(&verb));
            words.extend(for_s.map(|seconds| format!("--for={seconds}s").into()));
            Ok(Call::Work { words, limit_s: for_s.unwrap_or(60) + 120, directory: None, run })
        },
    },
];

/// A verb, and in which format it answers.
fn verb(name: &str, given: &Arguments<'_>) -> Vec<OsString> {
    let json = (given.text("format") != "markdown").then(|| "--json".into());
    std::iter::once(name.into()).chain(json).collect()
}

impl Tool {
    /// What a client sees of it.
    pub(crate) fn listed(&self) -> Listed {
        let properties: JsonObject = self.params.iter().map(Param::property).collect();
        let needed: Vec<&str> =
            self.params.iter().filter(|param| param.is_required).map(|param| param.name).collect();
        let mut schema = JsonObject::new();
        schema.insert("type".to_owned(), "object".into());
        schema.insert("properties".to_owned(), properties.into());
        schema.insert("required".to_owned(), needed.into());
        schema.insert("additionalProperties".to_owned(), false.into());
        let about =
            ToolAnnotations::new().read_only(!self.needs_consent).open_world(self.needs_consent);
        Listed::new(self.name, self.about, Arc::new(schema)).with_annotations(about)
    }

    /// What a call of it runs. `number` is that of a run to come.
    pub(crate) fn call(
        &self,
        given: &JsonObject,
        runs: &Runs,
        number: usize,
    ) -> Result<Call, String> {
        let wrong = |why: String| format!("{}: {why}", self.name);
        if let Some(name) = given.keys().find(|name| self.params.iter().all(|it| it.name != **name))
        {
            let known: Vec<&str> = self.params.iter().map(|param| param.name).collect();
            return Err(wrong(format!(
                "no argument is called `{}`; there are {}",
                shown(name),
                known.join(", ")
            )));
        }
        for param in self.params {
            let value = given.get(param.name).filter(|value| !value.is_null());
            let is_right = value.map_or(!param.is_required, |value| param.accepts(value));
            if !is_right {
                return Err(wrong(format!(
                    "`{}` has to be {}: {}",
                    param.name,
                    param.wanted(),
                    param.about
                )));
            }
        }
        (self.command)(&Arguments(given), runs, number)
    }
}

impl Param {
    fn property(&self) -> (String, Value) {
        let text = json!({"type": "string", "maxLength": TEXT_LIMIT});
        let mut property = match self.kind {
            Kind::Run | Kind::Text => text,
            Kind::Runs => json!({"anyOf": [text, {"type": "array", "items": text, "minItems": 1}]}),
            Kind::Texts => json!({"type": "array", "items": text, "maxItems": TEXTS}),
            Kind::Flag => json!({"type": "boolean"}),
            Kind::Number(most) => json!({"type": "integer", "minimum": 0, "maximum": most}),
            Kind::OneOf(texts) => json!({"enum": texts}),
        };
        property["description"] = self.about.into();
        (self.name.to_owned(), property)
    }

    fn accepts(&self, value: &Value) -> bool {
        let is_text = |value: &Value| {
            value.as_str().is_some_and(|text| text.len() <= TEXT_LIMIT && !text.contains('\0'))
        };
        let are_texts = |value: &Value| {
            value.as_array().is_some_and(|all| all.len() <= TEXTS && all.iter().all(is_text))
        };
        match self.kind {
            Kind::Run | Kind::Text => is_text(value),
            Kind::Runs => is_text(value) || (are_texts(value) && value != &json!([])),
            Kind::Texts => are_texts(value) && !(self.is_required && value == &json!([])),
            Kind::Flag => value.is_boolean(),
            Kind::Number(most) => value.as_u64().is_some_and(|number| number <= most),
            Kind::OneOf(texts) => value.as_str().is_some_and(|text| texts.contains(&text)),
        }
    }

    fn wanted(&self) -> String {
        match self.kind {
            Kind::Run | Kind::Text => format!("a text of at most {TEXT_LIMIT} bytes"),
            Kind::Runs => format!("a text, or a list of at most {TEXTS}"),
            Kind::Texts => format!("a list of at most {TEXTS} texts"),
            Kind::Flag => "true or false".to_owned(),
            Kind::Number(most) => format!("a whole number from 0 to {most}"),
            Kind::OneOf(texts) => format!("one of {}", texts.join(", ")),
        }
    }
}

/// What was checked is there, in its type; what was not given is empty.
impl Arguments<'_> {
    fn is_given(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| !value.is_null())
    }

    fn text(&self, name: &str) -> &str {
        self.0.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn texts(&self, name: &str) -> impl Iterator<Item = &str> {
        let texts = match self.0.get(name) {
            Some(Value::Array(texts)) => texts.as_slice(),
            Some(text @ Value::String(_)) => std::slice::from_ref(text),
            _ => &[],
        };
        texts.iter().filter_map(Value::as_str)
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.0.get(name).and_then(Value::as_u64)
    }

    fn flag(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or_default()
    }

    fn option(&self, option: &str, name: &str) -> Option<OsString> {
        self.0.get(name).and_then(Value::as_str).map(|text| format!("{option}={text}").into())
    }

    fn run(&self, name: &str, runs: &Runs) -> Result<OsString, String> {
        runs.find(self.text(name)).map(Into::into)
    }

    fn runs(&self, name: &str, runs: &Runs) -> Result<Vec<OsString>, String> {
        self.texts(name).map(|text| runs.find(text).map(Into::into)).collect()
    }
}

fn shown(text: &str) -> String {
    shorten(&visible(text.as_bytes()), 80)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, given: Value) -> Result<Call, String> {
        let folder = tempfile::tempdir().expect("folder");
        std::fs::create_dir(folder.path().join("a")).expect("folder");
        std::fs::create_dir(folder.path().join("b")).expect("folder");
        let tool = TOOLS.iter().find(|tool| tool.name == name).expect("tool");
        let root = folder.path().canonicalize().expect("root");
        let call = tool.call(given.as_object().expect("object"), &Runs::new(root.clone()), 3);
        let short = |word: OsString| -> OsString {
            word.to_string_lossy().replace(&*root.to_string_lossy(), "ROOT").into()
        };
        call.map(|call| match call {
            Call::Read(words) => Call::Read(words.into_iter().map(short).collect()),
            other => other,
        })
    }

    #[test]
    fn texts_of_a_client_are_words_and_never_options() {
        let read = |words: &[&str]| Ok(Call::Read(words.iter().map(OsString::from).collect()));
        for (tool, given, words) in [
            (
                "ask",
                json!({"run": "a", "question": "--help", "stage": "-x", "budget": 7}),
                &["ask", "--json", "--stage=-x", "--budget=7", "--", "ROOT/a", "--help"][..],
            ),
            ("ask", json!({"run": "a"}), &["ask", "--json", "--", "ROOT/a", "summary"]),
            (
                "ask",
                json!({"run": "a", "question": "compare", "other": "b", "format": "markdown"}),
                &["ask", "--", "ROOT/a", "compare", "ROOT/b"],
            ),
            (
                "query",
                json!({"run": "a", "sql": "-- x\nselect 1", "rows": 3}),
                &["query", "--json", "--rows=3", "--", "ROOT/a", "-- x\nselect 1"],
            ),
            ("next", json!({"run": "a", "format": null}), &["next", "--json", "--", "ROOT/a"]),
            ("ctl", json!({"target": "7", "verb": "status"}), &["ctl", "7", "status", "--json"]),
            ("ctl", json!({"target": "a", "verb": "why"}), &["ctl", "ROOT/a", "why"]),
            (
                "diff",
                json!({"before": ["a", "b"], "after": "b", "expect": ["x.y<-1%"]}),
                &["diff", "--expect=x.y<-1%", "--against=ROOT/b", "--", "ROOT/a", "ROOT/b"],
            ),
        ] {
            assert_eq!(call(tool, given), read(words), "{tool}");
        }
    }

    #[test]
    fn a_run_needs_words_and_ends() {
        let given = json!({"command": ["--light", "x"], "settings": ["a=1"], "timeout_s": 5});
        let Ok(Call::Work { words, limit_s, run: Some(_), .. }) = call("run", given) else {
            panic!("a run")
        };
        let end: Vec<OsString> =
            ["--timeout=5s", "a=1", "--", "--light", "x"].map(OsString::from).into();
        assert!(words.ends_with(&end), "{words:?}");
        assert_eq!(limit_s, 305);
        for wrong in [json!({}), json!({"command": []}), json!({"command": "rm -r x"})] {
            assert!(
                call("run", wrong).expect_err("refused").contains("`command` has to be a list")
            );
        }
        let wrong = json!({"command": ["x"], "settings": ["--deep"]});
        assert!(call("run", wrong).expect_err("refused").contains("KEY=VALUE"));
    }

    #[test]
    fn arguments_that_do_not_fit_are_refused_with_what_would() {
        for (tool, given, said) in [
            ("ask", json!({"run": "a", "question": 7}), "ask: `question` has to be a text"),
            ("ask", json!({"run": "a", "question": "x", "budget": -1}), "from 0 to 1000000"),
            ("ask", json!({"run": "a", "question": "x", "budget": 1.5}), "whole number"),
            ("ask", json!({"run": "a", "question": "x\0"}), "`question` has to be"),
            (
                "query",
                json!({"run": "a", "sql": "x".repeat(TEXT_LIMIT + 1)}),
                "at most 65536 bytes",
            ),
            ("schema", json!({"run": "a", "file": "/etc/passwd"}), "no argument is called `file`"),
            ("schema", json!({"run": "../.."}), "is not a run below"),
            ("schema", json!({"run": "a", "format": "xml"}), "one of json, markdown"),
            ("diff", json!({"before": "a", "after": []}), "`after` has to be"),
            (
                "ctl",
                json!({"target": "a", "verb": "kill"}),
                "one of status, why, start, stop, snapshot",
            ),
        ] {
            let refused = call(tool, given).expect_err(tool);
            assert!(refused.contains(said), "{refused}");
        }
    }
}
