//! The overrides that a workload was given, compared with its configuration -> those without effect.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use crate::workload_config::{FOLDER, Tree, Workload, shown, text_of};
use stage2_config::hydra::{Action, Override, Value, hydra_key};
use stage2_contract::order::IntoOrdered as _;
use stage2_model::Finding;
use stage2_model::finding::{Id, Severity};

/// More overrides than this are not checked.
const MAX_WORDS: usize = 500;
/// Once there are this many findings, the overrides behind are not checked.
const MAX_TOLD: usize = 8;

/// What is wrong with the overrides at the end of `argv`, the command of the collect pass. `appended`
/// are those that a preset of ours added: a workload need not know them.
pub fn overrides(workload: &Workload, argv: &[String], appended: &[String]) -> Vec<Finding> {
    let Some(tree) = &workload.tree else { return Vec::new() };
    let given = given(argv);
    let keys: BTreeSet<&str> = given.iter().filter_map(|word| hydra_key(word)).into_set();
    let leaves = tree.leaves();
    let mut findings = Vec::new();
    let mut checked = 0;
    for word in given.iter().copied().take(MAX_WORDS) {
        if findings.len() >= MAX_TOLD {
            break;
        }
        checked += 1;
        let reached = |words: &Vec<String>| words.iter().any(|known| known == word);
        if !workload.overrides.as_ref().is_none_or(reached) {
            findings.push(Id::WorkloadOverride.about(word).found(
                format!("the override {word} did not reach the workload's configuration"),
                format!("{FOLDER}/overrides.yaml does not list it"),
                "check that the command passes its words on to the Hydra app",
            ));
            continue;
        }
        let Ok(o) = Override::parse(word) else { continue };
        // Of several for one key the last one counts.
        let last = argv.iter().rev().find(|other| hydra_key(other) == Some(o.key.as_str()));
        if is_choice(&o, workload, tree) || last.is_none_or(|last| last != word) {
            continue;
        }
        findings.extend(without_effect(&o, tree));
        if !appended.iter().any(|preset| preset == word) {
            findings.extend(made_up(&o, workload, &keys, &leaves));
        }
    }
    let overrides = match given.len() - checked {
        0 => return findings,
        1 => "1 more override was".to_owned(),
        left => format!("{left} more overrides were"),
    };
    findings.push(Id::WorkloadOverride.graded(
        Severity::Note,
        format!("{overrides} not checked"),
        format!(
            "a report checks at most {MAX_WORDS} overrides, and stops after {MAX_TOLD} findings"
        ),
        "correct the overrides that are named, and run again",
    ));
    findings
}

/// The words at the end of a command that a Hydra app reads as overrides, except for Hydra's own.
fn given(argv: &[String]) -> Vec<&String> {
    let is_override = |word: &&String| hydra_key(word).is_some();
    let mut words: Vec<&String> = argv.iter().skip(1).rev().take_while(is_override).collect();
    words.reverse();
    let is_hydras = |key: &str| key.starts_with("hydra.") || key.starts_with("hydra/");
    let is_apps = |word: &&String| hydra_key(word).is_some_and(|key| !is_hydras(key));
    words.into_iter().filter(is_apps).collect()
}

/// Whether an override chooses a preset of the workload's.
fn is_choice(o: &Override, workload: &Workload, tree: &Tree) -> bool {
    let of_a_group = o.package.is_some() || o.key.contains('/');
    of_a_group || workload.groups.contains(&o.key) || tree.raw(&o.key).is_some_and(Json::is_object)
}

/// What to say of an override whose value is not the one that the workload ran with.
fn without_effect(o: &Override, tree: &Tree) -> Option<Finding> {
    let found = tree.raw(&o.key);
    let is_as_asked = match (&o.action, found) {
        (Action::Delete(_), found) => found.is_none(),
        (_, None) => false,
        (Action::Set(value) | Action::Add(value) | Action::AddOrSet(value), Some(found)) => {
            same(value, found)
        }
    };
    if is_as_asked {
        return None;
    }
    let wanted = if matches!(o.action, Action::Delete(_)) { "nothing" } else { &o.word };
    let found = found.map_or_else(|| "no such key".to_owned(), |found| shown(&text_of(found)));
    Some(Id::WorkloadOverride.about(&o.word).found(
        format!("the override {} had no effect on the workload", o.word),
        format!("asked for: {wanted}; {FOLDER}/config.yaml has for {}: {found}", o.key),
        "check how the workload changes its configuration after Hydra composed it",
    ))
}

/// What to say of an override that made a key which the workload's own configuration does not have:
/// nothing is next to it except what was made in the same way, and no file of the workload names it.
fn made_up(
    o: &Override,
    workload: &Workload,
    keys: &BTreeSet<&str>,
    leaves: &[String],
) -> Option<Finding> {
    let (part, _) = o.key.split_once('.')?;
    let inside = format!("{part}.");
    let within = |key: &str, given: &&str| {
        key.strip_prefix(*given).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let mut beside = leaves.iter().filter(|leaf| leaf.starts_with(&inside));
    if beside.any(|leaf| !keys.iter().any(|given| within(leaf, given))) {
        return None;
    }
    let name = o.key.rsplit('.').next().unwrap_or_default();
    match (&o.action, &workload.own_keys) {
        (Action::Set(_) | Action::Delete(_), _) => return None,
        (_, Some(own)) if own.top.contains(part) && own.all.contains(name) => return None,
        // Hydra itself refuses + for a key that has a value; ++ goes both ways.
        (Action::AddOrSet(_), None) => return None,
        _ => {}
    }
    let last = o.key.rsplit_once('.').map_or(o.key.as_str(), |(parent, _)| parent);
    let like = |leaf: &&String| {
        let parent = leaf.rsplit_once('.').map_or("", |(parent, _)| parent);
        !leaf.starts_with(&inside) && parent.split('.').next_back() == last.split('.').next_back()
    };
    let near = leaves.iter().find(like);
    let word = &o.word;
    Some(Id::WorkloadOverride.about(word).found(
        format!("the override {word} created a key that is not in the workload's configuration"),
        format!(
            "nothing else stands below {part} in {FOLDER}/config.yaml: unless the workload's code \
             asks for {}, it did not read it",
            o.key
        ),
        match near {
            Some(near) => format!("the configuration has {near}, which may be meant"),
            None => "see which keys the workload has, e.g. with --cfg job".to_owned(),
        },
    ))
}

/// Whether a value of the command line is the one that was composed; also where that cannot be told,
/// because references are in it, or because maps are merged.
fn same(asked: &Value, found: &Json) -> bool {
    if found.as_str().is_some_and(|text| text.contains("${")) {
        return true;
    }
    match (asked, found) {
        (Value::Map(_), _) => true,
        (Value::List(asked), Json::Array(found)) => {
            asked.len() == found.len()
                && asked.iter().zip(found).all(|(asked, found)| same(&asked.value, found))
        }
        (Value::List(_), _) => false,
        (Value::Null, found) => found.is_null(),
        (Value::Text(text) | Value::Literal(text), _) if text.contains("${") => true,
        (asked, found) => {
            let text = match asked {
                Value::Bool(asked) => asked.to_string(),
                Value::Int(asked) => asked.to_string(),
                Value::Float(asked) => asked.to_string(),
                Value::Text(asked) | Value::Literal(asked) => asked.clone(),
                _ => return false,
            };
            let other = text_of(found);
            let numbers = text.parse::<f64>().ok().zip(other.parse::<f64>().ok());
            // A schema turns 1 into true, "x" into an enumeration's X, 5 into 5.0.
            text.eq_ignore_ascii_case(&other)
                || numbers.is_some_and(|(a, b)| a == b)
                || truth(&text).is_some_and(|asked| truth(&other) == Some(asked))
        }
    }
}

/// What OmegaConf takes for a truth value.
fn truth(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" | "y" => Some(true),
        "false" | "0" | "no" | "off" | "n" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload_config::tests::left;

    const CONFIG: &[u8] = b"run: {repeats: 3, tee: true, lr: 1.0e-05}\nmodel: {name: tiny}\n\
        path: '${hydra:runtime.cwd}/x'\nlist: [1, a]\nflag: 1\nmode: FAST\n\
        pipeline: {torch_profiler: {enable: false, enabled: true}}\n\
        torch_profiler: {enabled: false}\nkeep: {a: 1}\n";

    fn findings_of(words: &[&str], config: &[u8], appended: &[&str]) -> Vec<String> {
        let hydra = b"hydra: {runtime: {choices: {model: tiny, db: x}}}\n";
        let (workload, _) = left(&[("config.yaml", config), ("hydra.yaml", hydra)]);
        let words = ["python", "-m", "app"].iter().chain(words).map(|w| (*w).to_owned());
        let appended: Vec<String> = appended.iter().map(|w| (*w).to_owned()).collect();
        let findings = overrides(&workload, &words.collect::<Vec<_>>(), &appended);
        findings.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn overrides_that_the_configuration_shows_are_no_finding() {
        for word in [
            "run.repeats=3",
            "run.tee=yes",
            "run.lr=0.00001",
            "model=tiny",
            "db=x",
            "dataset/sampling@dataset.sampling=default",
            "path=/elsewhere",
            "run.repeats='${n}'",
            "list=[1,a]",
            "flag=true",
            "mode=fast",
            "~nothing",
            "hydra.run.dir=/x",
            "+keep.b=glob(x)",
            "++run.repeats=3",
        ] {
            assert_eq!(findings_of(&[word], CONFIG, &[]), [""; 0], "{word}");
        }
        let both = ["run.repeats=5", "run.repeats=3"];
        assert_eq!(findings_of(&both, CONFIG, &[]), [""; 0], "the last one counts");
    }

    #[test]
    fn overrides_without_effect_name_both_values() {
        for (word, parts) in [
            ("run.repeats=5", ["run.repeats=5", "run.repeats: 3"]),
            ("run.repeat=5", ["run.repeat=5", "no such key"]),
            ("~run.repeats", ["~run.repeats", "run.repeats: 3"]),
            ("list=[1,b]", ["list=[1,b]", "[1,\"a\"]"]),
            ("run.tee=null", ["run.tee=null", "true"]),
        ] {
            let findings = findings_of(&[word], CONFIG, &[]);
            assert_eq!(findings.len(), 1, "{word}: {findings:?}");
            assert!(parts.iter().all(|part| findings[0].contains(part)), "{word}: {findings:?}");
        }
    }

    #[test]
    fn keys_that_only_the_command_line_knows_are_told_with_the_one_that_is_there() {
        let word = "+torch_profiler.enabled=false";
        let findings = findings_of(&[word], CONFIG, &[]);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].contains("created a key"), "{findings:?}");
        assert!(findings[0].contains("pipeline.torch_profiler.enable"), "{findings:?}");
        assert_eq!(findings_of(&[word], CONFIG, &[word]), [""; 0], "a preset of ours added it");
        // Both ways with ++, and a file of the workload's that names the key: then it is its own.
        let both = "++torch_profiler.enabled=false";
        assert_eq!(findings_of(&[both], CONFIG, &[]), [""; 0]);
        let of_files = |own: &[&str], word: &str| {
            let (mut workload, _) = left(&[("config.yaml", CONFIG)]);
            let all: BTreeSet<String> = own.iter().map(|key| (*key).to_owned()).collect();
            // The last one stands below another key.
            let top = own.iter().rev().skip(1).map(|key| (*key).to_owned()).collect();
            workload.own_keys = Some(crate::workload_config::OwnKeys { top, all });
            overrides(&workload, &["app".into(), word.into()], &[]).len()
        };
        assert_eq!(of_files(&["torch_profiler", "enabled"], word), 0);
        assert_eq!(of_files(&["enabled"], word), 1);
        assert_eq!(of_files(&["enabled", "torch_profiler"], word), 1, "below another key");
        assert_eq!(of_files(&["x"], both), 1);
        assert_eq!(of_files(&["torch_profiler", "enabled"], both), 0);
        // Beside keys of its own the workload may well read it.
        assert_eq!(findings_of(&["+keep.b=1"], b"keep: {a: 1, b: 1}\n", &[]), [""; 0]);
    }

    #[test]
    fn overrides_beyond_the_limits_are_counted() {
        let wrong: Vec<String> = (0..MAX_TOLD + 3).map(|n| format!("no.such{n}=1")).collect();
        let wrong: Vec<&str> = wrong.iter().map(String::as_str).collect();
        let all = findings_of(&wrong[..MAX_TOLD], CONFIG, &[]);
        assert_eq!(all.len(), MAX_TOLD, "all were checked");
        let findings = findings_of(&wrong, CONFIG, &[]);
        assert_eq!(findings.len(), MAX_TOLD + 1, "{findings:?}");
        let last = &findings[MAX_TOLD];
        assert!(last.starts_with("3 more overrides were not checked"), "{last}");
        let fine = vec!["run.repeats=3"; MAX_WORDS + 1];
        let findings = findings_of(&fine, CONFIG, &[]);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].starts_with("1 more override was not checked"), "{findings:?}");
    }

    #[test]
    fn words_that_never_reach_hydra_are_told() {
        let files: [(&str, &[u8]); 2] =
            [("config.yaml", b"a: 1\n"), ("overrides.yaml", b"- a=1\n")];
        let (workload, _) = left(&files);
        let of = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
            overrides(&workload, &words, &[])
        };
        assert_eq!(of(&["env", "A=b", "python", "app.py", "a=1"]), []);
        assert_eq!(of(&["app.py", "hydra/job_logging=disabled", "hydra.verbose=true", "a=1"]), []);
        let findings = of(&["sh", "-c", "python app.py a=1", "b=2"]);
        assert!(findings[0].what.contains("b=2 did not reach"), "{findings:?}");
        assert_eq!(overrides(&Workload::default(), &["x".into(), "b=2".into()], &[]), []);
    }
}
