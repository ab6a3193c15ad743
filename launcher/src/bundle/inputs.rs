//! The command of the workload and the manifest of its inputs -> `inputs.yaml`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Serialize;

use crate::redaction;
use stage2_config::hydra::hydra_key;
use stage2_read::files;
use stage2_report::WorkloadFacts;

/// Contents of `inputs.yaml`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Inputs {
    pub(crate) simulated: bool,
    pub(crate) argv: Vec<String>,
    pub(crate) cwd: String,
    /// The words of it that a Hydra app reads as overrides.
    pub(crate) hydra_overrides: Vec<String>,
    /// As the command says it in a usual way; else what the workload's own configuration says.
    pub(crate) model: Option<String>,
    /// Keys of the workload's own configuration that say what ran; empty: it left none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) configured: BTreeMap<String, String>,
    pub(crate) manifest: Option<Manifest>,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Manifest {
    /// Who named it: `inputs.manifest` of this program, or a key of the workload's configuration.
    given_by: String,
    path: PathBuf,
    size_bytes: u64,
    /// What is in it: YAML or JSON as such, anything else line by line; none when it is too big.
    entries: Option<serde_json::Value>,
}

/// A bigger manifest is named and not copied.
const MAX_MANIFEST_BYTES: u64 = 1 << 20;

impl Inputs {
    pub(crate) fn new(command: &[OsString], cwd: &Path, manifest: Option<Manifest>) -> Inputs {
        let argv: Vec<String> = command.iter().map(|w| w.to_string_lossy().into_owned()).collect();
        // What `env` sets in front of the program is no override.
        let is_env = argv.first().is_some_and(|word| word == "env" || word.ends_with("/env"));
        let program = argv.iter().skip(1).skip_while(|word| is_env && word.contains('='));
        let hydra_overrides: Vec<String> =
            program.filter(|word| hydra_key(word).is_some()).cloned().collect();
        let model = model_of(&argv);
        Inputs {
            simulated: false,
            cwd: cwd.to_string_lossy().into_owned(),
            model: model.map(|model| redaction::text(&model)),
            configured: BTreeMap::new(),
            hydra_overrides: redaction::words(&hydra_overrides),
            argv: redaction::words(&argv),
            manifest,
        }
    }

    /// Adds what the workload's own configuration says, where the user said nothing.
    pub(crate) fn complete(&mut self, workload: &WorkloadFacts) {
        self.configured = redaction::variables(&workload.configured);
        self.model = self.model.take().or_else(|| workload.model.clone());
        if let (None, Some((key, path))) = (&self.manifest, &workload.manifest) {
            // A list that is gone by now still stands among the keys.
            let given_by = format!("{key} of the workload's configuration");
            self.manifest = Manifest::read(path).ok().map(|read| Manifest { given_by, ..read });
        }
    }
}

/// `--model X`, `--model=X`, or the override `model`, `model.path` or `model.name`.
fn model_of(argv: &[String]) -> Option<String> {
    let options = ["--model", "--model-path", "--model_name_or_path", "--model-name-or-path"];
    for (at, word) in argv.iter().enumerate() {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (word.as_str(), None),
        };
        let key = hydra_key(word)
            .is_some_and(|key| ["model", "model.path", "model.name", "model.id"].contains(&key));
        if options.contains(&name) {
            return value.or_else(|| argv.get(at + 1).cloned());
        }
        if key && value.is_some() {
            return value;
        }
    }
    None
}

impl Manifest {
    pub(crate) fn read(path: &Path) -> anyhow::Result<Manifest> {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let (shown, remedy) = (path.display(), "give a file that lists the inputs");
        let failed = || format!("inputs.manifest={shown} cannot be read; {remedy}");
        let found = files::open(&absolute).and_then(|file| file.metadata()).with_context(failed)?;
        let size_bytes = found.len();
        let mut entries: Option<serde_json::Value> = None;
        if size_bytes <= MAX_MANIFEST_BYTES {
            let bytes = files::read(&absolute, MAX_MANIFEST_BYTES).with_context(failed)?;
            let text = String::from_utf8_lossy(&bytes);
            let lines = || text.lines().map(str::to_owned).collect();
            redaction::json(entries.insert(parse(&text).unwrap_or_else(lines)));
        }
        let given_by = "inputs.manifest".to_owned();
        Ok(Manifest { given_by, path: absolute, size_bytes, entries })
    }
}

/// A list or a map in YAML (or JSON, which is YAML); a bare text is for the caller to split.
fn parse(text: &str) -> Option<serde_json::Value> {
    let value: serde_json::Value = serde_saphyr::from_str(text).ok()?;
    (value.is_array() || value.is_object()).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(words: &[&str]) -> Inputs {
        let command: Vec<OsString> = words.iter().map(OsString::from).collect();
        Inputs::new(&command, Path::new("/cwd"), None)
    }

    #[test]
    fn overrides_and_model_are_found_in_the_command() {
        let found = inputs(&["python", "-m", "runner", "model=tiny", "+a.b=[1, 2]", "--lr=3"]);
        assert_eq!(found.hydra_overrides, ["model=tiny", "+a.b=[1, 2]"]);
        assert_eq!(found.model.as_deref(), Some("tiny"));
        assert_eq!(inputs(&["serve", "--model", "org/m"]).model.as_deref(), Some("org/m"));
        assert_eq!(inputs(&["serve", "--model=org/m"]).model.as_deref(), Some("org/m"));
        assert_eq!(inputs(&["serve", "--model"]).model, None);
        assert_eq!(inputs(&["true"]).model, None);
        let found = inputs(&["env", "CUDA_VISIBLE_DEVICES=0", "python", "app.py", "a=1"]);
        assert_eq!(found.hydra_overrides, ["a=1"]);
    }

    #[test]
    fn the_workloads_configuration_fills_what_the_user_did_not_say() {
        let dir = tempfile::tempdir().expect("folder");
        let list = dir.path().join("list.txt");
        std::fs::write(&list, "a\n").expect("write");
        let facts = WorkloadFacts {
            model: Some("deepseek_ocr".into()),
            manifest: Some(("dataset.subset_filelist".into(), list.clone())),
            configured: [("device".to_owned(), "cuda:0".to_owned())].into(),
        };
        let mut found = inputs(&["python", "app.py"]);
        found.complete(&facts);
        assert_eq!(found.model.as_deref(), Some("deepseek_ocr"));
        assert_eq!(found.configured["device"], "cuda:0");
        let manifest = found.manifest.as_ref().expect("a list");
        assert_eq!(manifest.given_by, "dataset.subset_filelist of the workload's configuration");
        assert_eq!(manifest.entries, Some(serde_json::json!(["a"])));
        let mut said = inputs(&["python", "app.py", "model=tiny"]);
        said.manifest = Some(Manifest::read(&list).expect("a list"));
        said.complete(&facts);
        assert_eq!(said.model.as_deref(), Some("tiny"));
        assert_eq!(said.manifest.expect("a list").given_by, "inputs.manifest");
        let gone = WorkloadFacts { manifest: Some(("x".into(), dir.path().join("no"))), ..facts };
        found.manifest = None;
        found.complete(&gone);
        assert!(found.manifest.is_none());
    }

    #[test]
    fn manifests_are_read_by_shape() {
        let dir = tempfile::tempdir().expect("folder");
        let path = dir.path().join("m");
        let entries = |text: &[u8]| {
            std::fs::write(&path, text).expect("write");
            Manifest::read(&path).expect("manifest").entries
        };
        assert_eq!(entries(b"- a.png\n- b.png\n"), Some(serde_json::json!(["a.png", "b.png"])));
        assert_eq!(entries(b"{\"n\": 2}"), Some(serde_json::json!({"n": 2})));
        assert_eq!(entries(b"a.png\nb.png\n"), Some(serde_json::json!(["a.png", "b.png"])));
        assert_eq!(entries(b"a: [1\n\xff"), Some(serde_json::json!(["a: [1", "\u{fffd}"])));
        assert_eq!(entries(&vec![b'a'; (1 << 20) + 1]), None);
        assert!(Manifest::read(dir.path()).is_err_and(|e| format!("{e:#}").contains("a folder")));
        assert!(Manifest::read(&dir.path().join("no")).is_err());
    }
}
