//! The command of a workload -> the model that it names, with the sizes from its `config.json` or
//! GGUF file.
//!
//! The launcher reads the model on the machine of the workload and keeps it in the run's folder
//! (`command_model.json`), because a report may be made on another machine, and it opens no file
//! that a bundle names. Nothing is downloaded.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use stage2_contract::order::Order as _;
use stage2_contract::text::redact::Redactor;
use stage2_contract::text::{shorten, visible, visible_path};
use stage2_model::finding::Id;
use stage2_model::{Dtype, Finding};
use stage2_read::files::{self, write_whole};

use super::engine_config::EngineConfig;
use super::flops::StoredWeights;
use super::gguf;
use super::hugging_face::{self, HuggingFace};
use crate::workload_config::MODEL;

/// Name of the file in the run's folder.
const FILE: &str = "command_model.json";
/// Maximum size of the file, bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Maximum number of characters of a text that are kept.
const MOST_CHARS: usize = 4096;
/// Maximum number of words of a command that are read.
const MOST_WORDS: usize = 4096;
/// Maximum number of snapshots of a model in the cache that are read.
const MOST_SNAPSHOTS: usize = 256;
/// Maximum number of GPUs that a model is split over, for each kind of parallelism.
const MOST_GPUS: u64 = 4096;
const GGUF: &str = "gguf";

/// Options that name the model. `_` is equivalent to `-`.
const MODEL_OPTIONS: [&str; 4] = ["--model", "--model-path", "--model-name-or-path", "--model-id"];
/// The option that names the model if its value is a GGUF file; Python's `-m` names a module.
const FILE_OPTION: &str = "-m";
/// Words that the model follows in the command of an engine.
const SERVE: [&str; 2] = ["serve", "trtllm-serve"];
const TENSOR_PARALLEL: [&str; 4] = ["--tensor-parallel-size", "-tp", "--tp-size", "--tp"];
const PIPELINE_PARALLEL: [&str; 4] = ["--pipeline-parallel-size", "-pp", "--pp-size", "--pp"];
const DTYPE: [&str; 1] = ["--dtype"];
const QUANTIZATION: [&str; 2] = ["--quantization", "-q"];
const KV_CACHE_DTYPE: [&str; 3] = ["--kv-cache-dtype", "--cache-type-k", "-ctk"];

const NAME_IT: &str = "name a model whose sizes are known: model/llm=NAME or \
    model.llm.config_json=FOLDER (model.from_command=false: ignore the command)";

/// The model that the command of a workload names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommandModel {
    /// The words that name it: `--model /models/llama`.
    words: String,
    /// Words that name another model, if any do.
    also: Option<String>,
    found: Found,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Found {
    Sizes(Box<CommandSizes>),
    /// Why there are no sizes, with the remedy.
    Problem(String),
}

/// The sizes of a model, with its data types and parallelism from the command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct CommandSizes {
    /// The file that contains the sizes.
    file: String,
    pub(crate) name: String,
    pub(crate) read: HuggingFace,
    /// Size of the weights, if the file determines it.
    pub(crate) stored: Option<StoredWeights>,
    pub(crate) kv_cache_dtype: Option<Dtype>,
    /// Number of GPUs that the model is split over; null: all that run it.
    pub(crate) gpus: Option<u64>,
}

/// Copies the files about the model of a run, from its engine and from its command, from the folder
/// `from` of the run to the folder `to` of a part of the run. Returns a finding if that fails.
pub fn copy_models(from: &Path, to: &Path) -> Option<Finding> {
    let kept = CommandModel::read(from, &mut Vec::new());
    let copied = EngineConfig::copy(from, to);
    copied.and_then(|()| kept.map_or(Ok(()), |kept| kept.write(to))).err().map(not_kept)
}

fn not_kept(error: anyhow::Error) -> Finding {
    Id::ModelNotKept.found(
        "the model of the run cannot be written to the bundle",
        format!("{error:#}: the report may lack the floor, MFU and MBU"),
        "free some space and run again, or name the model: model/llm=NAME",
    )
}

impl CommandModel {
    /// Writes the model that `command` names, run in the folder `cwd`, to the folder of the run,
    /// unless that folder has one, and without secrets. `variable` reads the environment of the
    /// workload. Returns a finding if that fails.
    pub fn keep(
        run_dir: &Path,
        command: &[OsString],
        cwd: &Path,
        variable: &dyn Fn(&str) -> Option<OsString>,
        redactor: &Redactor,
    ) -> Option<Finding> {
        let kept = Self::read(run_dir, &mut Vec::new());
        if kept.is_some_and(|kept| kept.sizes().is_some()) {
            return None;
        }
        let mut found = Self::find(command, cwd, variable)?;
        for text in found.texts() {
            *text = shorten(&redactor.text(text), MOST_CHARS);
        }
        found.write(run_dir).err().map(not_kept)
    }

    /// What it cites of the command and of paths.
    fn texts(&mut self) -> impl Iterator<Item = &mut String> {
        let of_found = match &mut self.found {
            Found::Sizes(sizes) => [Some(&mut sizes.file), Some(&mut sizes.name)],
            Found::Problem(problem) => [Some(problem), None],
        };
        of_found.into_iter().flatten().chain([&mut self.words]).chain(&mut self.also)
    }

    fn write(&self, run_dir: &Path) -> anyhow::Result<()> {
        write_whole(&run_dir.join(FILE), &serde_json::to_string(self)?)
    }

    /// Reads the model from the folder of a run.
    pub(crate) fn read(run_dir: &Path, findings: &mut Vec<Finding>) -> Option<Self> {
        let bytes = match files::read(&run_dir.join(FILE), MAX_FILE_BYTES) {
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            other => other.map_err(|error| error.to_string()),
        };
        let parsed =
            bytes.and_then(|bytes| serde_json::from_slice(&bytes).map_err(|e| e.to_string()));
        let told = |why: String| {
            let what = format!("{FILE} cannot be used: {}", visible(why.as_bytes()));
            findings.push(Id::ModelUnknown.found(
                what,
                "the model of the command is not known",
                NAME_IT,
            ));
        };
        let mut kept: Self = parsed.map_err(told).ok()?;
        if let Found::Sizes(sizes) = &mut kept.found {
            let texts = [&mut sizes.name, &mut sizes.file].into_iter();
            for text in texts.chain(&mut sizes.read.assumptions) {
                *text = visible(text.as_bytes());
            }
        }
        Some(kept)
    }

    fn find(
        command: &[OsString],
        cwd: &Path,
        variable: &dyn Fn(&str) -> Option<OsString>,
    ) -> Option<Self> {
        // `env HF_HOME=/x vllm serve NAME` also sets variables.
        let variable = |name: &str| {
            let set = command.iter().find_map(|word| split(word).filter(|(key, _)| *key == name));
            set.map(|(_, value)| value.to_owned()).or_else(|| variable(name))
        };
        let mut first: Option<(String, PathBuf, Found)> = None;
        let mut also = None;
        for Named { words, value, how } in named(command) {
            let (file, found) = match located(value, how, cwd, &variable) {
                None => continue,
                Some(Ok(file)) if first.is_some() => (file, None),
                Some(Ok(file)) => {
                    let found = sizes(command, value, &file);
                    (file, Some(found.map(|sizes| Found::Sizes(Box::new(sizes)))))
                }
                Some(Err(problem)) => (cwd.join(value), Some(Err(problem))),
            };
            match (&first, found) {
                (Some((_, other, _)), _) if how == How::Plain || *other == file => {}
                (Some(_), _) => also = also.or(Some(words)),
                // A program may use any folder with a config.json of its own.
                (None, Some(Err(_))) if how == How::Plain => {}
                (None, found) => {
                    let found = found?.unwrap_or_else(Found::Problem);
                    first = Some((words, file, found));
                }
            }
        }
        let (words, _, found) = first?;
        Some(Self { words, also, found })
    }

    /// Sizes of the model; `None`: [`Self::findings`] contains the reason.
    pub(crate) fn sizes(&self) -> Option<&CommandSizes> {
        match &self.found {
            Found::Sizes(sizes) => Some(sizes),
            Found::Problem(_) => None,
        }
    }

    /// Findings if the command names several models, or a model without known sizes.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let words = visible(self.words.as_bytes());
        let several = self.also.as_ref().map(|other| {
            let other = visible(other.as_bytes());
            Id::ModelSeveral.found(
                format!("the command names several models: {words} and {other}"),
                "the floor, MFU and MBU are those of the first model",
                NAME_IT,
            )
        });
        let problem = match &self.found {
            Found::Sizes(_) => None,
            Found::Problem(problem) => Some(Id::ModelUnknown.found(
                format!("the sizes of the model of the command ({words}) are not known"),
                visible(problem.as_bytes()),
                NAME_IT,
            )),
        };
        several.into_iter().chain(problem).collect()
    }

    /// Where the sizes come from, in a line.
    pub(crate) fn source(&self, sizes: &CommandSizes) -> String {
        let words = visible(self.words.as_bytes());
        format!("The sizes are those of {}, which the command names ({words})", sizes.file)
    }
}

/// A word that may name the model.
struct Named<'c> {
    /// The word as it is in the command, with its option or key.
    words: String,
    value: &'c OsStr,
    how: How,
}

#[derive(Clone, Copy, PartialEq)]
enum How {
    /// An option that always names a model.
    Option,
    /// `KEY=VALUE` of a Hydra app; the value may also be a preset.
    Key,
    /// The word after `serve`.
    Serve,
    /// A word that is not an option and does not follow one.
    Plain,
}

/// Splits a word `KEY=VALUE`.
fn split(word: &OsStr) -> Option<(&str, &OsStr)> {
    let bytes = word.as_bytes();
    let at = bytes.iter().position(|byte| *byte == b'=')?;
    let (key, value) = bytes.split_at_checked(at)?;
    Some((std::str::from_utf8(key).ok()?, OsStr::from_bytes(value.get(1..)?)))
}

/// The words that may name the model, those with an option or key first.
fn named(command: &[OsString]) -> Vec<Named<'_>> {
    let text = |word: &OsStr| visible(word.as_bytes());
    let is_model = |option: &str| MODEL_OPTIONS.contains(&&*option.replace('_', "-"));
    let mut found: Vec<Named<'_>> = Vec::new();
    for pair in command.windows(2).take(MOST_WORDS) {
        let [before, word] = pair else { continue };
        let (before_text, word_text) = (before.to_string_lossy(), word.to_string_lossy());
        let is_gguf = Path::new(word).extension().is_some_and(|ending| ending == GGUF);
        let (words, value, how) =
            if is_model(&before_text) || (before_text == FILE_OPTION && is_gguf) {
                (format!("{} {}", text(before), text(word)), word.as_os_str(), How::Option)
            } else if let Some((key, value)) = split(word) {
                let how = if is_model(key) { How::Option } else { How::Key };
                if how == How::Key && !MODEL.contains(&key.trim_start_matches('+')) {
                    continue;
                }
                (text(word), value, how)
            } else if word_text.starts_with('-')
                || (before_text.starts_with('-') && split(before).is_none())
            {
                continue;
            } else {
                let program = Path::new(before).file_name().and_then(OsStr::to_str);
                let is_served = program.is_some_and(|word| SERVE.contains(&word));
                let how = if is_served { How::Serve } else { How::Plain };
                (text(word), word.as_os_str(), how)
            };
        found.push(Named { words, value, how });
    }
    found.order_by_key(|named| !matches!(named.how, How::Option | How::Key));
    found
}

/// The file with the sizes of a model, or the problem with it; `None` if the word names no model.
fn located(
    value: &OsStr,
    how: How,
    cwd: &Path,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Option<Result<PathBuf, String>> {
    let path = cwd.join(value);
    let is_gguf = path.extension().is_some_and(|ending| ending == GGUF);
    let is_said = how != How::Plain;
    match path.metadata() {
        Ok(about) if about.is_dir() => {
            let config = path.join("config.json");
            match config.symlink_metadata() {
                Ok(_) => Some(Ok(config)),
                Err(_) => is_said
                    .then(|| Err(format!("the folder {} has no config.json", visible_path(&path)))),
            }
        }
        Ok(_) if is_gguf => Some(Ok(path)),
        // Weights of another format, or anything else.
        Ok(about) if about.is_file() => None,
        Ok(_) => is_said
            .then(|| Err(format!("{} is neither a folder nor a GGUF file", visible_path(&path)))),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let name = value.to_str().filter(|name| is_hub_name(name))?;
            let is_told = how == How::Serve || (how == How::Option && name.contains('/'));
            let unknown =
                || format!("{name} is neither a folder nor in the cache of the Hugging Face hub");
            cached(name, variable).map(Ok).or_else(|| is_told.then(|| Err(unknown())))
        }
        Err(error) => is_said.then(|| Err(format!("{}: {error}", visible_path(&path)))),
    }
}

fn sizes(command: &[OsString], model: &OsStr, file: &Path) -> Result<CommandSizes, String> {
    let is_gguf = file.extension().is_some_and(|ending| ending == GGUF);
    let (mut read, stored) = match is_gguf {
        true => gguf::read(file).map(|(read, stored)| (read, Some(stored)))?,
        false => (hugging_face::read(file).map_err(|error| error.to_string())?, None),
    };
    read.shape.check().map_err(|error| format!("{}: {error}", visible_path(file)))?;
    let value = |options: &[&str]| option_value(command, options);
    read.dtype = value(&DTYPE).and_then(|name| Dtype::parse(&name)).or(read.dtype);
    // For weights that are quantised when they are loaded; otherwise config.json has the type.
    read.weight_dtype = read.weight_dtype.or(match value(&QUANTIZATION).as_deref() {
        Some("fp8") => Some(Dtype::Fp8),
        Some("bitsandbytes") => Some(Dtype::Int4),
        _ => None,
    });
    let parallel = |options: &[&str]| {
        let size = value(options)?.parse::<u64>().ok();
        size.filter(|size| (1..=MOST_GPUS).contains(size))
    };
    let (tensor, pipeline) = (parallel(&TENSOR_PARALLEL), parallel(&PIPELINE_PARALLEL));
    let split = tensor.unwrap_or(1).saturating_mul(pipeline.unwrap_or(1));
    // llama.cpp puts layers on every GPU of the machine.
    let is_known = !is_gguf || tensor.or(pipeline).is_some();
    let name = Path::new(model).file_stem().filter(|_| is_gguf).or(Path::new(model).file_name());
    Ok(CommandSizes {
        file: visible_path(file),
        name: visible(name.unwrap_or(model).as_bytes()),
        read,
        stored,
        kv_cache_dtype: value(&KV_CACHE_DTYPE).and_then(|name| cache_dtype(&name)),
        gpus: is_known.then_some(split),
    })
}

/// Parses a type of the KV cache, as vLLM and SGLang (`fp8_e4m3`) or llama.cpp (`q8_0`) name it.
fn cache_dtype(name: &str) -> Option<Dtype> {
    match name {
        "f16" => Some(Dtype::Fp16),
        "f32" => Some(Dtype::Fp32),
        _ if name.starts_with("fp8") => Some(Dtype::Fp8),
        _ if name.starts_with("q8_") => Some(Dtype::Int8),
        _ if name.starts_with("q4_") => Some(Dtype::Int4),
        _ => Dtype::parse(name),
    }
}

/// The last value of one of `options` in the command: parsers use the last one.
fn option_value(command: &[OsString], options: &[&str]) -> Option<String> {
    let is_option = |word: &str| options.contains(&&*word.replace('_', "-"));
    command.windows(2).take(MOST_WORDS).rev().find_map(|pair| {
        let [before, word] = pair else { return None };
        let value = match split(word).filter(|(key, _)| is_option(key)) {
            Some((_, value)) => value,
            None => word
                .as_os_str()
                .to_str()
                .filter(|_| before.to_str().is_some_and(is_option))?
                .as_ref(),
        };
        Some(value.to_str()?.to_owned())
    })
}

/// `NAME` or `ORGANISATION/NAME`.
fn is_hub_name(name: &str) -> bool {
    let is_part = |part: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        part.starts_with(|c: char| c.is_ascii_alphanumeric()) && part.chars().all(is_plain)
    };
    name.len() <= 200 && name.split('/').count() <= 2 && name.split('/').all(is_part)
}

/// The `config.json` of a model that lies in the local cache of the Hugging Face hub.
fn cached(name: &str, variable: &dyn Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let folder = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let hub = folder("HF_HUB_CACHE").or_else(|| folder("HUGGINGFACE_HUB_CACHE"));
    let home = || folder("HF_HOME").map(|home| home.join("hub"));
    let cache = || folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
    let hub = hub.or_else(home).or_else(|| Some(cache()?.join("huggingface/hub")))?;
    let model = hub.join(format!("models--{}", name.replace('/', "--")));
    let snapshots = model.join("snapshots");
    let config = |snapshot: &Path| {
        let file = snapshot.join("config.json");
        file.is_file().then_some(file)
    };
    let main = files::read_text(&model.join("refs/main"), 1 << 20).ok();
    let main = main.filter(|commit| is_hub_name(commit.trim()));
    if let Some(found) = main.and_then(|commit| config(&snapshots.join(commit.trim()))) {
        return Some(found);
    }
    let others = fs::read_dir(snapshots).ok()?.take(MOST_SNAPSHOTS).flatten();
    others.filter_map(|entry| config(&entry.path())).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = r#"{"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
        "vocab_size": 100, "intermediate_size": 128, "num_attention_heads": 4,
        "torch_dtype": "bfloat16"}"#;

    /// A folder with models, folders without a valid model, and a cache of the hub.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let huge = " ".repeat(17 << 20);
        let layers = CONFIG.replace("_layers\": 2", "_layers\": 1000000000");
        for (name, bytes) in [
            ("llama/config.json", CONFIG.as_bytes()),
            ("other/config.json", CONFIG.as_bytes()),
            ("empty/weights.bin", b""),
            ("huge/config.json", huge.as_bytes()),
            ("cut/config.json", &CONFIG.as_bytes()[..60]),
            ("latin/config.json", b"{\"model_type\": \"\xff\"}"),
            ("mamba/config.json", br#"{"model_type": "mamba"}"#),
            ("layers/config.json", layers.as_bytes()),
            ("heads/config.json", CONFIG.replace("heads\": 4", "heads\": 0").as_bytes()),
            ("bad.gguf", b"GGUF\x03\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0\0\0\0\0"),
            ("yolo.pt", b""),
            ("hub/models--org--it/snapshots/a1/config.json", CONFIG.as_bytes()),
            ("hub/models--org--it/snapshots/b2/config.json", CONFIG.as_bytes()),
            ("hub/models--org--it/refs/main", b"a1\n"),
        ] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, bytes).expect("a file");
        }
        fs::create_dir(folder.path().join("piped")).expect("a folder");
        let mut mkfifo = std::process::Command::new("mkfifo");
        let pipes = ["fifo", "piped/config.json"].map(|name| folder.path().join(name));
        assert!(mkfifo.args(pipes).status().expect("mkfifo").success());
        std::os::unix::fs::symlink("loop", folder.path().join("loop")).expect("a link");
        folder
    }

    fn find(folder: &Path, line: &str) -> Option<CommandModel> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let hub = folder.join("hub").into_os_string();
        let variable = |name: &str| (name == "HF_HUB_CACHE").then(|| hub.clone());
        CommandModel::find(&words, folder, &variable)
    }

    fn sizes_of(folder: &Path, line: &str) -> CommandSizes {
        let found = find(folder, line).expect(line);
        found.sizes().unwrap_or_else(|| panic!("{line}: {found:?}")).clone()
    }

    #[test]
    fn the_words_of_every_engine_name_the_model() {
        let folder = folder();
        for (line, words, file) in [
            ("vllm serve llama --port 1", "llama", "llama/config.json"),
            (
                "env A=1 /opt/vllm serve --seed 0 --model=llama",
                "--model=llama",
                "llama/config.json",
            ),
            (
                "python -m vllm.entrypoints.openai.api_server --model llama",
                "--model llama",
                "llama/",
            ),
            ("python -m sglang.launch_server --model-path llama", "--model-path llama", "llama/"),
            ("torchrun --nproc-per-node 2 x.py --model_path ./llama", "--model_path", "llama/"),
            ("trtllm-serve llama", "llama", "llama/"),
            ("python app.py +model.path=llama infer.x=1", "+model.path=llama", "llama/"),
            ("python my.py llama", "llama", "llama/config.json"),
            ("vllm serve org/it", "org/it", "snapshots/a1/config.json"),
        ] {
            let found = find(folder.path(), line).expect(line);
            let sizes = found.sizes().expect(line);
            assert!(found.words.contains(words), "{line}: {found:?}");
            assert!(sizes.file.contains(file), "{line}: {found:?}");
            assert_eq!((sizes.gpus, found.findings().len()), (Some(1), 0), "{line}");
        }
        // None of these words names a model: for instance, the command sets another cache folder,
        // or the word is the value of another option.
        for line in [
            "env HF_HUB_CACHE=/none python x.py org/it",
            "python -m llama",
            "x --tokenizer llama",
            "yolo --model yolo.pt",
            "train --model resnet50",
            "app model=group/preset",
            "x empty",
            "x cut",
            "x",
        ] {
            assert_eq!(find(folder.path(), line), None, "{line}");
        }
    }

    #[test]
    fn the_words_of_types_and_sizes_count() {
        let folder = folder();
        let line = "vllm serve llama --tensor-parallel-size 2 -pp=2 --dtype half --quantization fp8 \
                    --kv-cache-dtype fp8_e4m3";
        let sizes = sizes_of(folder.path(), line);
        assert_eq!((sizes.gpus, sizes.kv_cache_dtype), (Some(4), Some(Dtype::Fp8)));
        assert_eq!(
            (sizes.read.dtype, sizes.read.weight_dtype),
            (Some(Dtype::Fp16), Some(Dtype::Fp8))
        );
        let sizes = sizes_of(folder.path(), "vllm serve llama -tp 1 --tp-size=4");
        assert_eq!(sizes.gpus, Some(4), "the last one overrides those before");
        for size in ["0", "-1", "x", "18446744073709551616", "99999"] {
            let sizes = sizes_of(folder.path(), &format!("vllm serve llama --tp_size={size}"));
            assert_eq!((sizes.gpus, sizes.read.dtype), (Some(1), Some(Dtype::Bf16)), "{size}");
        }
    }

    #[test]
    fn files_of_the_gguf_package_give_the_bytes_of_their_tensors() {
        let folder = folder();
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fuzz/corpus/gguf");
        for name in ["llama", "qwen3moe"] {
            let copy = folder.path().join(format!("{name}.gguf"));
            fs::copy(corpus.join(name), copy).expect("a copy");
        }
        let sizes = sizes_of(folder.path(), "llama-cli -m llama.gguf -ngl 99 -ctk q8_0");
        let stored = StoredWeights { dense: 20_640, routed_experts: 0, embedding: 416 };
        assert_eq!((sizes.name.as_str(), sizes.stored, sizes.gpus), ("llama", Some(stored), None));
        assert_eq!(
            (sizes.read.dtype, sizes.kv_cache_dtype),
            (Some(Dtype::Fp16), Some(Dtype::Int8))
        );
        let shape = &sizes.read.shape;
        assert_eq!((shape.num_hidden_layers, shape.hidden_size, shape.vocab_size), (2, 32, 12));
        let sizes = sizes_of(folder.path(), "llama-server --model qwen3moe.gguf -tp 2");
        let stored = StoredWeights { dense: 2752, routed_experts: 6912, embedding: 128 };
        assert_eq!((sizes.stored, sizes.gpus), (Some(stored), Some(2)));
    }

    #[test]
    fn what_gives_no_sizes_says_why_in_a_line_and_what_to_do() {
        let folder = folder();
        for (model, said) in [
            ("empty", "empty has no config.json"),
            ("huge", "larger than 16 MiB"),
            ("cut", "is not a JSON object"),
            ("latin", "utf-8"),
            ("mamba", "\"mamba\" cannot be modelled"),
            ("layers", "num_hidden_layers=1000000000 is out of range"),
            ("heads", "num_attention_heads is 0"),
            ("bad.gguf", "18446744073709551615 tensors"),
            ("fifo", "neither a folder nor a GGUF file"),
            ("piped", "piped/config.json: cannot be read"),
            ("loop", "loop: "),
            ("org/none", "neither a folder nor in the cache"),
        ] {
            let found =
                find(folder.path(), &format!("vllm serve --model {model} other")).expect(model);
            assert_eq!(found.sizes(), None, "{model}: the first that is named counts");
            let told = found.findings();
            let [finding] = &told[..] else { panic!("{model}: {told:?}") };
            assert!(finding.why.contains(said), "{model}: {finding:?}");
            assert!(
                finding.what.contains(model) && finding.remedy.contains("model/llm="),
                "{finding:?}"
            );
            assert!(!finding.to_string().contains('\n'), "{finding:?}");
        }
        let two = find(folder.path(), "bench --model llama --model other").expect("the first");
        let told = two.findings();
        assert!(two.sizes().is_some_and(|sizes| sizes.file.contains("/llama/")), "{two:?}");
        assert!(told[0].what.contains("--model llama and --model other"), "{told:?}");
    }

    #[test]
    fn what_was_kept_is_read_again_wherever_the_model_is() {
        let (folder, run) = (folder(), tempfile::tempdir().expect("a folder"));
        let none = |_: &str| None;
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let keep = |line: &str| {
            CommandModel::keep(run.path(), &words(line), folder.path(), &none, &Redactor::default())
        };
        let read = || CommandModel::read(run.path(), &mut Vec::new());
        assert_eq!((keep("x y"), read()), (None, None));
        // A model downloaded during the run is found at the end of the run.
        assert_eq!(keep("vllm serve org/late"), None);
        assert!(read().expect("a problem").sizes().is_none());
        // What may be a secret is cited nowhere.
        assert_eq!(keep("tool serve hf_AbCdEfGhIjKlMnOpQrStUvWxYz01234567"), None);
        let text = fs::read_to_string(run.path().join(FILE)).expect("a file");
        assert!(text.contains("in the cache") && !text.contains("AbCdEf"), "{text}");
        assert_eq!(keep("vllm serve llama"), None);
        let found = read().expect("a model");
        drop(folder.close());
        let part = tempfile::tempdir().expect("a folder");
        fs::create_dir(run.path().join("hook")).expect("a folder");
        fs::write(run.path().join("hook/engine-7.json"), "{\"engine\": \"vllm\"}").expect("a file");
        assert_eq!(copy_models(run.path(), part.path()), None);
        assert_eq!(CommandModel::read(part.path(), &mut Vec::new()), Some(found.clone()));
        let engine = EngineConfig::read(part.path(), &mut Vec::new());
        assert!(engine.is_some_and(|engine| engine.engine == "vllm"));
        let off = Redactor::off();
        let again = CommandModel::keep(run.path(), &words("x"), Path::new("/"), &none, &off);
        assert_eq!((again, read()), (None, Some(found.clone())));
        let sizes = found.sizes().expect("sizes");
        assert_eq!((sizes.name.as_str(), sizes.read.shape.hidden_size), ("llama", 64));
        assert!(found.source(sizes).contains("llama/config.json, which the command names (llama)"));
        for text in ["{", "", "[1]"] {
            fs::write(run.path().join(FILE), text).expect("a file");
            let mut told = Vec::new();
            assert_eq!(CommandModel::read(run.path(), &mut told), None);
            assert!(told[0].what.contains(FILE), "{told:?}");
        }
    }
}
