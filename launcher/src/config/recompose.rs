//! The configuration of a bundle and overrides -> the one that its reports are written again with.
//!
//! What the run was made with stays, with its origins. Only what reports depend on can be changed: the
//! rest is the record of a run that is over.

use std::path::Path;

use super::advice::{Keys, within};
use super::compose::{Applied, apply, check_keys, skeleton, typed, valid_keys};
use super::defaults::{chooses_preset, merge_presets};
use super::error::ConfigError;
use super::interpolate::resolve;
use super::presets::Presets;
use super::print::Origins;
use super::resolvers::Moment;
use super::{Request, compose};
use stage2_config::hydra::{Node, Origin, Override, Value, join_key};

/// Name of the file in messages.
const FILE: &str = "config.yaml";
/// Parts of the configuration that reports depend on.
const OF_REPORTS: [&str; 6] = ["report", "model", "hardware", "operators", "roles", "stage1"];
/// A key among them that only a run heeds.
const OF_RUNS: &str = "operators.annotate";

/// The configuration of a bundle in `run_dir` after the overrides of `request`. `text`: its
/// `config.yaml`; where it has none, the built-in settings are the base. `origins`: those of its run.
pub(crate) fn recompose(
    text: Option<&str>,
    origins: &Origins,
    run_dir: &Path,
    request: &Request,
) -> Result<Node, ConfigError> {
    let presets = Presets::open(request.config_dir.as_deref())?;
    let (defaults, _) = compose(&Request::default())?.resolved(run_dir)?;
    let mut tree = match text {
        Some(text) => base(text, origins)?,
        None => defaults.clone(),
    };
    let overrides = request.overrides()?;
    overrides.iter().try_for_each(counts)?;
    let groups = presets.groups();
    let (choices, values): (Vec<_>, Vec<_>) =
        overrides.into_iter().partition(|o| chooses_preset(o, &groups));
    let chosen: Vec<String> = choices.iter().map(|o| o.key.replace('/', ".")).collect();
    let fresh = merge_presets(&presets, choices, false)?.tree;
    for key in &chosen {
        // As a whole: nothing of the preset before it may shine through.
        let nothing = Node { value: Value::Null, origin: Origin::Chosen };
        tree.set(key, nothing.clone());
        tree.set(key, fresh.get(key).cloned().unwrap_or(nothing));
    }
    let (skeleton, mut done) = (skeleton()?, Applied::default());
    let keys = Keys { valid: valid_keys(&skeleton, &presets)?, runs_workload: false };
    for o in &values {
        // A file of an older version lacks what came since.
        if let (None, Some(node)) = (tree.get(&o.key), defaults.get(&o.key)) {
            tree.set(&o.key, node.clone());
        }
        apply(&mut tree, o, &keys, &mut done)?;
    }
    let tree = resolve(&tree, &Moment::this())?;
    // What the file says may be of another version, and reports read it tolerantly.
    let of_file = |node: &Node| match &node.origin {
        Origin::Noted(_) => true,
        Origin::File { name, .. } => &**name == FILE,
        _ => false,
    };
    let mut new = Node { value: Value::Map(Vec::new()), origin: Origin::Chosen };
    for (key, node) in tree.leaves().into_iter().filter(|(_, node)| !of_file(node)) {
        new.set(&key, node.clone());
    }
    check_keys(&new, &skeleton, "", &keys)?;
    let mut whole = defaults;
    whole.merge(new);
    typed(whole)?;
    Ok(tree)
}

/// Refuses what no report depends on.
fn counts(o: &Override) -> Result<(), ConfigError> {
    let key = o.package.clone().unwrap_or_else(|| o.key.replace('/', "."));
    if OF_REPORTS.iter().any(|part| within(&key, part)) && !within(&key, OF_RUNS) {
        return Ok(());
    }
    let what = match key.as_str() {
        "run.top_n_kernels" => {
            "it has another name here; use report.top_n for the rows of kernels.md".to_owned()
        }
        _ => format!(
            "the run is over, and no report depends on it; what counts is below {}",
            OF_REPORTS.join(", ")
        ),
    };
    Err(ConfigError::Conflict { word: o.word.clone(), what })
}

/// What the file says, each value with the origin that the run recorded; bundles of older versions
/// recorded none, and there it is the line of the file.
fn base(text: &str, origins: &Origins) -> Result<Node, ConfigError> {
    let fault = |what: String| ConfigError::File { file: FILE.into(), what };
    let mut tree = Node::from_yaml(text, &FILE.into()).map_err(|e| {
        fault(format!("no valid YAML: {e}; repair it, or take it away to start from the defaults"))
    })?;
    if !matches!(tree.value, Value::Map(_)) {
        return Err(fault("the file has to be a mapping: lines `key: value`".into()));
    }
    as_recorded(&mut tree, "", origins);
    Ok(tree)
}

/// Gives the values below `key` their recorded origins, and makes their texts literal: the run has
/// resolved them, so `${` in one is part of a name.
fn as_recorded(node: &mut Node, key: &str, origins: &Origins) {
    if let Some(origin) = origins.get(key) {
        node.origin = Origin::Noted(origin.as_str().into());
    }
    match &mut node.value {
        Value::Text(text) => node.value = Value::Literal(std::mem::take(text)),
        Value::Map(pairs) => pairs
            .iter_mut()
            .for_each(|(name, node)| as_recorded(node, &join_key(key, name), origins)),
        Value::List(items) => items.iter_mut().for_each(|node| as_recorded(node, "", origins)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::print::{origins, with_origins};
    use super::*;

    /// `config.yaml` of a run, and what it becomes.
    fn again(of_run: &[&str], words: &[&str]) -> Result<(String, String), String> {
        let request = |words: &[&str]| Request {
            overrides: words.iter().map(|&word| word.to_owned()).collect(),
            no_workload: true,
            ..Request::default()
        };
        let dir = Path::new("/runs/1");
        let composed = compose(&request(of_run)).expect("a run's configuration");
        let tree = composed.resolved(dir).expect("resolved").0;
        let before = with_origins(&tree);
        let after = recompose(Some(&before), &origins(&tree), dir, &request(words));
        let after = after.map_err(|e| e.to_string())?;
        if words.is_empty() {
            assert_eq!(origins(&after), origins(&tree), "{of_run:?}");
        }
        Ok((before, with_origins(&after)))
    }

    fn line<'t>(text: &'t str, key: &str) -> &'t str {
        let found = text.lines().find(|line| line.trim_start().starts_with(key));
        found.unwrap_or_else(|| panic!("{key} in {text}"))
    }

    #[test]
    fn nothing_changes_without_overrides_whatever_the_run_was_told() {
        for of_run in [
            &[][..],
            &["run.mode=light", "model/llm=mixtral_8x7b", "hardware=h200"],
            &["workload=hydra", "+workload.append=['a  # \"b']", "inputs.manifest='x\\\"  # y'"],
            &["profiling.collector.ranges=[prefill, 'x: y']", "hardware.dense_tflops.bf16=1.5"],
        ] {
            let (before, after) = again(of_run, &[]).expect("no error");
            let differ = before.lines().zip(after.lines()).find(|(before, after)| before != after);
            assert_eq!(differ, None, "{of_run:?}");
            assert_eq!(after.lines().count(), before.lines().count(), "{of_run:?}");
        }
    }

    #[test]
    fn presets_are_replaced_as_wholes_and_values_change_with_their_origins() {
        let of_run = ["model/llm=mixtral_8x7b", "report.top_n=7", "run.mode=light"];
        let words = ["model/llm=llama_3_8b", "hardware=h200", "model.tokens.batch_size=4"];
        let (before, after) = again(&of_run, &words).expect("no error");
        assert!(line(&before, "moe:").ends_with("moe:") && line(&after, "moe: null").contains('#'));
        assert!(line(&after, "name: llama_3_8b").contains("# conf/model/llm/llama_3_8b.yaml:"));
        assert!(line(&after, "bf16: 989.5").contains("# conf/hardware/h200.yaml:"));
        assert!(line(&after, "batch_size: 4").contains("# override model.tokens.batch_size=4"));
        for kept in ["top_n: 7", "mode: light", "dir: "] {
            assert_eq!(line(&after, kept).split_whitespace().collect::<Vec<_>>(), {
                line(&before, kept).split_whitespace().collect::<Vec<_>>()
            });
        }
        // A bundle of an older version, which recorded no origins: the lines of its file stand for them.
        let request = Request { overrides: vec!["report.top_n=9".into()], ..Request::default() };
        let none = Origins::new();
        let last =
            recompose(Some(&after), &none, Path::new("/runs/1"), &request).expect("no error");
        let last = with_origins(&last);
        assert!(line(&last, "name: llama_3_8b").contains("# config.yaml:"), "{last}");
        assert!(line(&last, "top_n: 9").contains("# override report.top_n=9"), "{last}");
    }

    #[test]
    fn what_a_run_alone_depends_on_and_what_is_wrong_is_refused() {
        for (word, part) in [
            ("run.mode=light", "the run is over"),
            ("run.top_n_kernels=5", "use report.top_n"),
            ("+model.target=x", "use model/llm=PRESET or model.llm.config_json=FILE"),
            ("model=x", "model/llm=PRESET says which model the reports count with"),
            ("model/deepseek_ocr/arch@model=x", "use model/llm=PRESET"),
            ("workload=hydra", "the run is over"),
            ("profiling/ncu=ncu.high", "the run is over"),
            ("run.annotate=[torch-ops]", "the run is over"),
            ("hydra.run.dir=/x", "the run is over"),
            ("reports.top_n=3", "the run is over"),
            ("report.top_m=3", "unknown key `report.top_m`"),
            ("+report.top_m=3", "unknown key `report.top_m`"),
            ("report.top_n=many", "wrong value for `report.top_n`"),
            ("model/llm=llama_9", "no preset `llama_9`"),
            ("hardware@run=h200", "the run is over"),
            ("hardware", "KEY=VALUE"),
            ("hardware.source=${nowhere.x}", "no such key"),
        ] {
            let error = again(&[], &[word]).expect_err(word);
            assert!(error.contains(part), "{word}: {error}");
            assert!(!error.contains("after `--`") || word == "hardware", "{word}: {error}");
        }
    }

    #[test]
    fn files_of_other_versions_are_a_base_and_broken_ones_are_told() {
        let of = |text: Option<&str>, word: &str| {
            let request = Request { overrides: vec![word.into()], ..Request::default() };
            let tree = recompose(text, &Origins::new(), Path::new("/runs/1"), &request);
            tree.map(|tree| tree.to_json()).map_err(|e| e.to_string())
        };
        let other = "report:\n  top_n: 3\nlater: {key: 1}\n";
        let tree = of(Some(other), "model/llm=llama_3_8b").expect("a base");
        assert_eq!(tree["later"]["key"], 1);
        assert_eq!(tree["model"]["llm"]["name"], "llama_3_8b");
        let tree = of(None, "report.top_n=4").expect("the defaults are the base");
        assert_eq!((&tree["report"]["top_n"], &tree["run"]["dir"]), (&4.into(), &"/runs/1".into()));
        let tree = of(Some("report: 3\n"), "report.top_n=4").expect("it is replaced");
        assert_eq!(tree["report"]["top_n"], 4);
        for broken in ["a: [1", "just words", "- 1\n"] {
            let error = of(Some(broken), "hardware=h200").expect_err(broken);
            assert!(error.contains("config.yaml"), "{error}");
        }
    }
}
