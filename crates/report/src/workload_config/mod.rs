//! What the bundle says of the workload, compared with what ran.
//!
//! A Hydra app writes the configuration that it ran with into `stage1/.hydra`. [`Workload`] reads it:
//! model, token counts and manifest are taken from there where the user gave none. What the user said
//! and what that configuration says must not contradict each other without a finding that names both.

mod contradictions;
mod overrides;

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::inputs::redact_json;
use crate::llm::hugging_face::{self, HuggingFace};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use stage2_contract::text::redact::Redactor;
use stage2_contract::text::visible;
use stage2_model::finding::Id;
use stage2_model::{Dtype, Finding, TokenCounts};
use stage2_read::files::{self, write_whole};
use stage2_read::layout::INPUTS_YAML;

pub use contradictions::contradictions;
pub use overrides::overrides;

/// Where Hydra leaves what it composed, in the run's folder.
pub const FOLDER: &str = "stage1/.hydra";
/// Keys of the files that the workload composed its configuration from, in the run's folder.
const OWN_KEYS: &str = "workload_keys.json";
/// The `config.json` of the workload's model, in the run's folder.
const MODEL_CONFIG: &str = "model_config.json";
/// Larger files are not a configuration.
const LIMIT_BYTES: u64 = 4 << 20;
/// Larger copies are none of ours.
const MAX_COPY_BYTES: u64 = 16 << 20;

/// Keys that name the model, the most telling first.
pub(crate) const MODEL: [&str; 8] = [
    "model.name",
    "model.path",
    "model.id",
    "model.model_name_or_path",
    "model_name",
    "model_path",
    "model_name_or_path",
    "model",
];
const DTYPE: [&str; 3] = ["model.dtype", "infer.dtype", "dtype"];
const PROMPT_TOKENS: [&str; 2] = ["infer.prompt_tokens", "prompt_tokens"];
/// The most steps that a sequence takes; it may end earlier.
const NEW_TOKENS: [&str; 3] =
    ["infer.max_new_tokens", "generation.max_new_tokens", "max_new_tokens"];
const BATCH_SIZE: [&str; 2] = ["infer.batch_size", "batch_size"];
const MANIFEST: [&str; 2] = ["inputs.manifest", "dataset.subset_filelist"];
const DEVICE: [&str; 1] = ["device"];

/// A workload's own configuration. Nothing in it where there is none.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    /// What was composed; none: there is no such file, or it cannot be used.
    pub(crate) tree: Option<Tree>,
    /// The overrides that Hydra was given.
    pub overrides: Option<Vec<String>>,
    /// Groups of which a preset was chosen.
    pub groups: Vec<String>,
    /// Keys in the files that it was composed from; none: they are not known.
    own_keys: Option<OwnKeys>,
    /// What the copy of its model's `config.json` says.
    model_config: Option<HuggingFace>,
    /// `workload.manifest_key` of this program: the key that names its list of inputs.
    manifest_key: Option<String>,
    /// Where this program was started; none: the bundle does not say.
    started_in: Option<PathBuf>,
}

impl Workload {
    /// Reads what the workload of the bundle in `run_dir` left. `manifest_key` is the setting of that
    /// name.
    pub fn read(
        run_dir: &Path,
        manifest_key: Option<&str>,
        findings: &mut Vec<Finding>,
    ) -> Workload {
        let folder = run_dir.join(FOLDER);
        let mut read = |name: &str| {
            read_yaml(&folder.join(name)).unwrap_or_else(|problem| {
                findings.push(Id::WorkloadConfigUnread.about(name).found(
                    format!("{FOLDER}/{name} cannot be used: {problem}"),
                    "what the workload was configured with is not known from it",
                    "",
                ));
                None
            })
        };
        let values = read("config.yaml");
        let hydra = read("hydra.yaml").unwrap_or_default();
        let overrides = read("overrides.yaml");
        let cwd = hydra.pointer("/hydra/runtime/cwd").and_then(Value::as_str).map(str::to_owned);
        let choices = hydra.pointer("/hydra/runtime/choices").and_then(Value::as_object);
        Workload {
            tree: values.filter(Value::is_object).map(|values| Tree { values, cwd }),
            overrides: overrides.and_then(|words| serde_json::from_value(words).ok()),
            own_keys: copy(run_dir, OWN_KEYS).and_then(|text| serde_json::from_str(&text).ok()),
            groups: choices.into_iter().flat_map(Map::keys).cloned().collect(),
            model_config: copy(run_dir, MODEL_CONFIG)
                .and_then(|text| hugging_face::from_json(&text).ok()),
            manifest_key: manifest_key.map(str::to_owned),
            started_in: started_in(run_dir),
        }
    }

    /// Copies what the configuration refers to outside of the bundle into it, right after the run: a
    /// report may be made on another machine, or of someone else's bundle, and then opens none of the
    /// files that the bundle names.
    pub fn keep(run_dir: &Path) -> Vec<Finding> {
        // The reports list what is wrong with these files.
        let workload = Workload::read(run_dir, None, &mut Vec::new());
        let hydra = read_yaml(&run_dir.join(FOLDER).join("hydra.yaml")).ok().flatten();
        let keys = hydra.as_ref().and_then(keys_of_sources);
        let keys = keys.and_then(|keys| serde_json::to_string_pretty(&keys).ok());
        let model = workload.model_folder().and_then(|(_, folder)| {
            // Only what is one: the path could lead to any file.
            Some(hugging_face::read_with_text(&folder).ok()?.1)
        });
        let texts = [(OWN_KEYS, keys), (MODEL_CONFIG, model)].into_iter();
        let failed = texts.filter_map(|(name, text)| {
            let error = write_whole(&run_dir.join(name), &text?).err()?;
            Some(Id::WorkloadConfigUnread.about(name).found(
                format!("{name} is missing"),
                format!("{error:#}"),
                "free some space, and run again: reports know less of the workload without it",
            ))
        });
        failed.collect()
    }

    /// Takes the secrets out of what it left: findings and pages show parts of it.
    pub fn redact(&mut self, redactor: &Redactor) {
        if let Some(tree) = &mut self.tree {
            redact_json(redactor, "", &mut tree.values);
        }
        self.overrides = self.overrides.take().map(|words| redactor.words(words));
    }

    /// Whether it left a configuration.
    pub fn is_known(&self) -> bool {
        self.tree.is_some()
    }

    /// The first of `keys` that has a plain value, and the value.
    fn first<'k>(&self, keys: &[&'k str]) -> Option<(&'k str, String)> {
        let tree = self.tree.as_ref()?;
        keys.iter().find_map(|key| Some((*key, tree.scalar(key)?)))
    }

    /// Every name that it gives its model, with the key.
    pub fn models(&self) -> Vec<(&'static str, String)> {
        MODEL.iter().filter_map(|key| self.first(&[*key])).collect()
    }

    /// The model's name.
    pub fn model(&self) -> Option<String> {
        self.first(&MODEL).map(|(_, name)| shown(&name))
    }

    /// The key of the type that it computes in and the type's name, where it has one.
    pub fn dtype_name(&self) -> Option<(&'static str, String)> {
        self.first(&DTYPE)
    }

    /// The type that it computes in, where it names one.
    pub fn dtype(&self) -> Option<Dtype> {
        Dtype::parse(&self.dtype_name()?.1)
    }

    /// The keys that may name its list of inputs, the most telling first.
    fn manifest_keys(&self) -> Vec<&str> {
        let named = self.manifest_key.as_deref().filter(|named| !MANIFEST.contains(named));
        named.into_iter().chain(MANIFEST).collect()
    }

    /// The list of inputs that it reads, and the key that names it; relative to where it ran.
    pub fn manifest(&self) -> Option<(&str, PathBuf)> {
        let (key, path) = self.first(&self.manifest_keys())?;
        Some((key, self.cwd().join(path)))
    }

    /// Where it ran; empty: that is not known.
    fn cwd(&self) -> &Path {
        Path::new(self.tree.as_ref().and_then(|tree| tree.cwd.as_deref()).unwrap_or_default())
    }

    /// `model.path`: its value, and the folder.
    fn model_folder(&self) -> Option<(String, PathBuf)> {
        let folder = self.tree.as_ref()?.scalar("model.path")?;
        let path = self.cwd().join(&folder);
        Some((folder, path))
    }

    /// Tokens of one generation. Decode steps are those that it may take at most.
    pub fn tokens(&self) -> TokenCounts {
        let count = |keys| self.first(keys).and_then(|(_, text)| text.parse().ok());
        TokenCounts {
            batch_size: count(&BATCH_SIZE),
            prompt_tokens: count(&PROMPT_TOKENS),
            decode_steps: count(&NEW_TOKENS),
            images_per_prompt: None,
            crops_per_image: None,
        }
    }

    /// The sizes of its model, and where they stand: those of the folder `model.path`, else those of
    /// `model.architecture` and `model.config`, which are those of a Hugging Face configuration.
    pub(crate) fn shape(&self) -> Option<(HuggingFace, String)> {
        let tree = self.tree.as_ref()?;
        if let (Some((folder, _)), Some(read)) = (self.model_folder(), self.model_config.clone()) {
            return Some((read, format!("model.path={}", shown(&folder))));
        }
        let mut config = tree.raw("model.config")?.as_object()?.clone();
        if let Some(kind) = tree.scalar("model.architecture") {
            config.entry("model_type").or_insert(Value::String(kind));
        }
        let read = hugging_face::from_json(&Value::Object(config).to_string()).ok()?;
        Some((read, "model.config".to_owned()))
    }

    /// What it says of the run: keys and their values.
    pub fn configured(&self) -> BTreeMap<String, String> {
        let manifest = self.manifest_keys();
        let keys: [&[&str]; 7] =
            [&MODEL, &DTYPE, &DEVICE, &BATCH_SIZE, &PROMPT_TOKENS, &NEW_TOKENS, &manifest];
        let found = keys.iter().filter_map(|keys| self.first(keys));
        found.map(|(key, value)| (key.to_owned(), shown(&value))).collect()
    }
}

/// The text of a copy that [`Workload::keep`] made.
fn copy(run_dir: &Path, name: &str) -> Option<String> {
    files::read_text(&run_dir.join(name), MAX_COPY_BYTES).ok()
}

fn started_in(run_dir: &Path) -> Option<PathBuf> {
    let inputs = read_yaml(&run_dir.join(INPUTS_YAML)).ok()??;
    inputs.get("cwd")?.as_str().filter(|cwd| !cwd.is_empty()).map(PathBuf::from)
}

/// A YAML file; none where there is no such file.
fn read_yaml(path: &Path) -> Result<Option<Value>, String> {
    let text = match files::read_text(path, LIMIT_BYTES) {
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        other => other.map_err(|e| e.to_string())?,
    };
    serde_saphyr::from_str(&text).map(Some).map_err(|e| {
        let text = e.to_string();
        visible(text.lines().next().unwrap_or("no valid YAML").as_bytes())
    })
}

/// References that are followed from one key.
const MAX_CHAIN: usize = 8;
const MAX_DEPTH: usize = 16;
/// Characters of a value that is shown.
const SHOWN: usize = 200;

/// A composed configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    /// The values; references are still in them.
    pub(crate) values: Value,
    /// What `${hydra:runtime.cwd}` stands for.
    cwd: Option<String>,
}

impl Tree {
    /// What stands at `key`, as it was written.
    fn raw(&self, key: &str) -> Option<&Value> {
        key.split('.').try_fold(&self.values, |value, part| value.get(part))
    }

    /// The value at `key`; nothing where there is none (null and OmegaConf's `???` included), or where
    /// it depends on what only the workload knows.
    pub(crate) fn value(&self, key: &str) -> Option<Value> {
        let mut key = key.to_owned();
        for _ in 0..MAX_CHAIN {
            match self.raw(&key)? {
                Value::Null => return None,
                Value::String(text) if text == "???" => return None,
                Value::String(text) => match whole_reference(text) {
                    Some(reference) => key = absolute(&key, reference)?,
                    None => {
                        // Where it is not known, what stays is a reference.
                        let cwd = self.cwd.as_deref().unwrap_or("${}");
                        let filled = text.replace("${hydra:runtime.cwd}", cwd);
                        return (!filled.contains("${")).then_some(Value::String(filled));
                    }
                },
                other => return Some(other.clone()),
            }
        }
        None
    }

    pub(crate) fn scalar(&self, key: &str) -> Option<String> {
        match self.value(key)? {
            Value::String(text) => Some(text),
            value @ (Value::Bool(_) | Value::Number(_)) => Some(value.to_string()),
            _ => None,
        }
    }

    /// Every key that holds no map, and every empty map, dotted.
    pub(crate) fn leaves(&self) -> Vec<String> {
        fn walk(value: &Value, prefix: &str, depth: usize, found: &mut Vec<String>) {
            let map = value.as_object().filter(|map| !map.is_empty() && depth < MAX_DEPTH);
            let Some(map) = map else { return found.push(prefix.to_owned()) };
            for (key, value) in map {
                let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                walk(value, &key, depth + 1, found);
            }
        }
        let mut found = Vec::new();
        walk(&self.values, "", 0, &mut found);
        found
    }
}

/// The key in a text that is one reference to a key.
fn whole_reference(text: &str) -> Option<&str> {
    let inner = text.trim().strip_prefix("${")?.strip_suffix('}')?;
    (!inner.contains(['{', '}', ':', '$'])).then_some(inner.trim())
}

/// A reference at `key` as a key from the top: each dot in front of it goes one level up.
fn absolute(key: &str, reference: &str) -> Option<String> {
    let name = reference.trim_start_matches('.');
    let up = reference.len() - name.len();
    if up == 0 {
        return Some(name.to_owned());
    }
    let parts: Vec<&str> = key.split('.').collect();
    let kept = parts.get(..parts.len().checked_sub(up)?)?;
    Some(kept.iter().copied().chain([name]).collect::<Vec<_>>().join("."))
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

pub(crate) fn shown(text: &str) -> String {
    stage2_contract::text::shorten(text, SHOWN)
}

// An override of the command line can make a key. Only the files tell whether the app had it before.

const MAX_FOLDER_DEPTH: usize = 5;
/// Files that are read; an app with more of them is not judged.
const MAX_FILES: usize = 300;
/// Entries of folders that are looked at, whatever they are; an app with more is not judged.
const MAX_ENTRIES: usize = 10_000;
/// Larger files are not a configuration.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The keys of an app's own files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct OwnKeys {
    /// Names that may stand at the top of what is composed: top keys, groups, and packages.
    pub(crate) top: BTreeSet<String>,
    /// Names of keys, at any depth.
    pub(crate) all: BTreeSet<String>,
}

/// The keys in the YAML files of the app whose `hydra.yaml` says `hydra`.
/// Nothing where the files cannot all be read: then a key may stand in any of them.
fn keys_of_sources(hydra: &Value) -> Option<OwnKeys> {
    keys_within(hydra, MAX_ENTRIES)
}

fn keys_within(hydra: &Value, max_entries: usize) -> Option<OwnKeys> {
    let runtime = hydra.pointer("/hydra/runtime")?;
    let cwd = Path::new(runtime.get("cwd")?.as_str()?);
    let mut walk = Walk { max_entries, ..Walk::default() };
    let mut folders = 0;
    for source in runtime.get("config_sources")?.as_array()? {
        let text = |key| source.get(key).and_then(Value::as_str).unwrap_or_default();
        let folder = match (text("provider"), text("schema")) {
            // Hydra's own files, and classes, which the composed configuration shows whole.
            ("hydra", _) | (_, "structured") => continue,
            (_, "file") => PathBuf::from(text("path")),
            (_, "pkg") => cwd.join(text("path").replace('.', "/")),
            _ => return None,
        };
        folders += 1;
        walk.folder(&folder, 0)?;
    }
    (folders > 0 && walk.files > 0).then_some(walk.found)
}

/// A way through folders, with what was found on it.
#[derive(Default)]
struct Walk {
    found: OwnKeys,
    files: usize,
    entries: usize,
    max_entries: usize,
}

impl Walk {
    /// Reads a folder and those in it. Nothing where a part of it is not read.
    fn folder(&mut self, folder: &Path, depth: usize) -> Option<()> {
        for entry in folder.read_dir().ok()? {
            let entry = entry.ok()?;
            self.entries += 1;
            if self.entries > self.max_entries {
                return None;
            }
            let (path, kind) = (entry.path(), entry.file_type().ok()?);
            let is_yaml = path.extension().is_some_and(|end| end == "yaml" || end == "yml");
            if kind.is_dir() {
                if depth == MAX_FOLDER_DEPTH {
                    return None;
                }
                let group = path.file_name().map(|name| name.to_string_lossy().into_owned());
                self.found.top.extend(group);
                self.folder(&path, depth + 1)?;
            } else if kind.is_symlink() && path.is_dir() {
                // It may lead anywhere: it is not followed, and so the keys are not known.
                return None;
            } else if is_yaml {
                self.files += 1;
                if self.files > MAX_FILES {
                    return None;
                }
                self.found.add(&files::read_text(&path, MAX_FILE_BYTES).ok()?);
            }
        }
        Some(())
    }
}

impl OwnKeys {
    fn add(&mut self, text: &str) {
        self.all.extend(names(text).map(str::to_owned));
        let starts = text.lines().map(|line| line.trim_start_matches(['{', '"', '\'']));
        // `group@package: preset`, and `# @package a.b` on the first line.
        let packages = text.split('@').skip(1);
        let packages = packages.map(|rest| rest.strip_prefix("package ").unwrap_or(rest));
        self.top.extend(starts.chain(packages).map(leading).filter(|name| !name.is_empty()));
    }
}

/// The name that a text starts with; empty where it starts with anything else.
fn leading(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || "_-".contains(*c)).collect()
}

/// Words in front of a colon: every key of a YAML file, and some words that are none. A preset may be
/// mounted below its own name, so only the name counts, not its place.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices(':').filter_map(|(at, _)| {
        let end = text.get(..at)?.trim_end().trim_end_matches(['"', '\'']);
        let is_inside = |c: char| !(c.is_alphanumeric() || "_-".contains(c));
        end.rsplit(is_inside).next().filter(|name| !name.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A workload that left `config` and `hydra`.
    pub(in crate::workload_config) fn left(files: &[(&str, &[u8])]) -> (Workload, Vec<Finding>) {
        let dir = tempfile::tempdir().expect("folder");
        let folder = dir.path().join(FOLDER);
        std::fs::create_dir_all(&folder).expect("folder");
        for (name, bytes) in files {
            std::fs::write(folder.join(name), bytes).expect("file");
        }
        let mut findings = Vec::new();
        (Workload::read(dir.path(), None, &mut findings), findings)
    }

    #[test]
    fn model_tokens_and_manifest_are_read_where_workloads_say_them() {
        let config = b"model: {name: deepseek_ocr, path: '${hydra:runtime.cwd}/m', dtype: bf16}\n\
            infer: {max_new_tokens: 64, batch_size: 2, prompt_tokens: '${n}'}\nn: 913\n\
            dataset: {subset_filelist: lists/a.txt}\ndevice: cuda:0\n";
        let hydra = b"hydra: {runtime: {cwd: /app, choices: {model: x, hydra/env: default}}}\n";
        let (workload, findings) = left(&[("config.yaml", config), ("hydra.yaml", hydra)]);
        assert_eq!(findings, []);
        assert_eq!(workload.model().as_deref(), Some("deepseek_ocr"));
        let tokens = workload.tokens();
        assert_eq!((tokens.batch_size, tokens.prompt_tokens), (Some(2), Some(913)));
        assert_eq!(tokens.decode_steps, Some(64));
        let manifest = workload.manifest().expect("a list");
        assert_eq!(manifest, ("dataset.subset_filelist", "/app/lists/a.txt".into()));
        assert_eq!(workload.configured()["device"], "cuda:0");
        assert_eq!(workload.groups, ["hydra/env", "model"]);
        assert_eq!(workload.models()[1], ("model.path", "/app/m".to_owned()));
    }

    #[test]
    fn sizes_are_those_of_the_configured_network() {
        let config = b"model: {architecture: llama, config: {vocab_size: 512, hidden_size: 64, \
            intermediate_size: 192, num_hidden_layers: 2, num_attention_heads: 4}}\n";
        let (workload, _) = left(&[("config.yaml", config)]);
        let (read, from) = workload.shape().expect("sizes");
        assert_eq!((read.shape.hidden_size, from.as_str()), (64, "model.config"));
        assert_eq!(read.name.as_deref(), Some("llama"));
    }

    #[test]
    fn reports_read_the_copies_of_what_lies_outside_of_the_bundle() {
        let host = tempfile::tempdir().expect("folder");
        let run = host.path().join("run");
        for folder in ["run/stage1/.hydra", "conf", "m"] {
            std::fs::create_dir_all(host.path().join(folder)).expect("folders");
        }
        let sizes = |hidden: u64| {
            format!(
                "{{\"model_type\": \"llama\", \"vocab_size\": 512, \"hidden_size\": {hidden}, \
                 \"intermediate_size\": 192, \"num_hidden_layers\": 2, \
                 \"num_attention_heads\": 4}}"
            )
        };
        let write = |name: &str, text: &str| {
            std::fs::write(host.path().join(name), text).expect("file");
        };
        let cwd = host.path().display();
        write("conf/config.yaml", "data: {list: x}\n");
        write("m/config.json", &sizes(64));
        write(
            "run/stage1/.hydra/config.yaml",
            &format!("model: {{path: ./m, config: {}}}\n", sizes(32)),
        );
        let sources = "config_sources: [{path: conf, schema: pkg, provider: main}]";
        write(
            "run/stage1/.hydra/hydra.yaml",
            &format!("hydra: {{runtime: {{cwd: '{cwd}', {sources}}}}}\n"),
        );
        let read = || {
            let workload = Workload::read(&run, None, &mut Vec::new());
            let hidden = workload.shape().map(|(read, from)| (read.shape.hidden_size, from));
            (workload.own_keys.is_some(), hidden)
        };
        let of_config = Some((32, "model.config".to_owned()));
        assert_eq!(read(), (false, of_config.clone()), "a report reads nothing of the machine");
        assert_eq!(Workload::keep(&run), []);
        std::fs::remove_dir_all(host.path().join("conf")).expect("removed");
        std::fs::remove_dir_all(host.path().join("m")).expect("removed");
        assert_eq!(read(), (true, Some((64, "model.path=./m".to_owned()))), "from the copies");
        // What is no model is not copied, and hides no sizes.
        std::fs::remove_file(run.join(MODEL_CONFIG)).expect("removed");
        write("m", "{\"secret\": 1}");
        assert_eq!(Workload::keep(&run), []);
        assert!(!run.join(MODEL_CONFIG).exists());
        assert_eq!(read().1, of_config);
    }

    #[test]
    fn hostile_and_absent_files_are_told_or_nothing() {
        assert!(left(&[]).1.is_empty());
        let deep = "[".repeat(100_000);
        let huge = vec![b'#'; (4 << 20) + 1];
        let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n\
            c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n\
            e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n\
            g: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\nh: [*g,*g,*g,*g,*g,*g,*g,*g,*g]\n";
        for bytes in [b"a: [1" as &[u8], b"\xff\xfe", deep.as_bytes(), &huge, bomb.as_bytes()] {
            let (workload, findings) = left(&[("config.yaml", bytes)]);
            assert!(!workload.is_known());
            assert_eq!(findings.len(), 1, "{}", String::from_utf8_lossy(&bytes[..4]));
            assert!(findings[0].what.len() < 1000, "{findings:?}");
        }
        // Values of other kinds than expected are nothing.
        let odd =
            b"model: [1]\ninfer: {max_new_tokens: many, batch_size: -1, prompt_tokens: 1.5}\n";
        let files: [(&str, &[u8]); 3] =
            [("config.yaml", odd), ("hydra.yaml", b"3"), ("overrides.yaml", b"{}")];
        let (workload, _) = left(&files);
        assert!(workload.is_known() && workload.model().is_none() && workload.shape().is_none());
        assert_eq!(workload.tokens(), TokenCounts::default());
        assert_eq!(workload.overrides, None);
    }

    #[test]
    fn references_are_followed_and_what_only_the_workload_knows_is_nothing() {
        let tree = Tree {
            values: json!({
                "a": {"enable": "${.enabled}", "enabled": true, "up": "${..n}", "far": "${b.c}"},
                "b": {"c": "${a.up}", "path": "${hydra:runtime.cwd}/m", "env": "${oc.env:HOME}/m"},
                "n": 64, "circle": "${circle}", "open": "???", "none": null, "above": "${....x}",
                "part": "x${n}", "empty": {},
            }),
            cwd: Some("/srv".into()),
        };
        assert_eq!(tree.value("a.enable"), Some(json!(true)));
        assert_eq!(tree.scalar("a.far").as_deref(), Some("64"));
        assert_eq!(tree.scalar("b.path").as_deref(), Some("/srv/m"));
        for key in ["b.env", "circle", "open", "none", "above", "part", "b.nothing", "n.x", ""] {
            assert_eq!(tree.value(key), None, "{key}");
        }
        assert!(tree.leaves().contains(&"a.up".to_owned()));
        assert!(tree.leaves().contains(&"empty".to_owned()));
        let bare = Tree { cwd: None, ..tree };
        assert_eq!(bare.value("b.path"), None);
    }

    #[test]
    fn deep_trees_are_walked_to_a_bound() {
        let deep = (0..200).fold(json!(1), |inner, _| json!({"k": inner}));
        let tree = Tree { values: deep, cwd: None };
        assert_eq!(tree.leaves(), [["k"; MAX_DEPTH].join(".")]);
        assert!(shown(&"x".repeat(5000)).chars().count() <= SHOWN + 1);
    }

    fn hydra(cwd: &Path, schema: &str, path: &str) -> Value {
        json!({"hydra": {"runtime": {"cwd": cwd, "config_sources": [
            {"path": "hydra.conf", "schema": "pkg", "provider": "hydra"},
            {"path": path, "schema": schema, "provider": "main"},
            {"path": "", "schema": "structured", "provider": "schema"},
        ]}}})
    }

    #[test]
    fn keys_of_all_files_are_found_however_the_folder_is_named() {
        let dir = tempfile::tempdir().expect("folder");
        let conf = dir.path().join("app/conf");
        std::fs::create_dir_all(conf.join("model")).expect("folders");
        std::fs::write(conf.join("config.yaml"), "inputs:\n  manifest: null # x\n\"quoted\": 1\n")
            .expect("file");
        std::fs::write(conf.join("model/a.yaml"), "# @package pkg.x\n{name: x, deep-er: 2}\n")
            .expect("file");
        std::fs::write(conf.join("notes.txt"), "other: 1\n").expect("file");
        for (schema, path) in [("pkg", "app.conf".to_owned()), ("file", conf.display().to_string())]
        {
            let found = keys_of_sources(&hydra(dir.path(), schema, &path)).expect("keys");
            for key in ["inputs", "manifest", "quoted", "name", "deep-er"] {
                assert!(found.all.contains(key), "{key} in {found:?}");
            }
            assert!(!found.all.contains("other"), "{found:?}");
            for (key, expected) in
                [("inputs", true), ("model", true), ("pkg", true), ("manifest", false)]
            {
                assert_eq!(found.top.contains(key), expected, "{key} in {found:?}");
            }
        }
    }

    #[test]
    fn what_cannot_be_read_as_a_whole_says_nothing() {
        let dir = tempfile::tempdir().expect("folder");
        let conf = dir.path().join("conf");
        let of = || keys_of_sources(&hydra(dir.path(), "file", &conf.display().to_string()));
        assert_eq!(of(), None, "no folder");
        std::fs::create_dir(&conf).expect("folder");
        assert_eq!(of(), None, "no file");
        std::fs::write(conf.join("a.yaml"), "a: 1\n").expect("file");
        assert_eq!(of().map(|found| found.all.len()), Some(1));
        assert_eq!(keys_of_sources(&hydra(dir.path(), "s3", "x")), None);
        assert_eq!(keys_of_sources(&json!({"hydra": 3})), None);
        std::fs::write(conf.join("b.yaml"), b"\xff").expect("file");
        assert_eq!(of(), None, "one that is no text");
        std::fs::remove_file(conf.join("b.yaml")).expect("removed");
        std::os::unix::fs::symlink(&conf, conf.join("circle")).expect("link");
        assert_eq!(of(), None, "a folder without end");
        std::fs::remove_file(conf.join("circle")).expect("removed");
        std::fs::create_dir(conf.join("empty")).expect("folder");
        let within =
            |most| keys_within(&hydra(dir.path(), "file", &conf.display().to_string()), most);
        assert_eq!(within(2).map(|found| found.all.len()), Some(1));
        assert_eq!(within(1), None, "folders count as well");
    }
}
