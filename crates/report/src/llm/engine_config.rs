//! The configuration of the engine's workers (`hook/engine-PID.json`) -> the model that ran, and the number of
//! GPUs that it is split over.
//!
//! `--annotate vllm-steps`, `sglang-steps`, `trtllm-steps` and `prefill-decode` write these files
//! from within the engine, so the sizes are those that the engine uses.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;
use stage2_contract::text::{visible, visible_path};
use stage2_model::finding::Id;
use stage2_model::{Dtype, Finding};
use stage2_read::layout::HOOK_DIR;
use stage2_read::{files, private};

use super::hugging_face::{self, HuggingFace};

/// A configuration has a few kilobytes, or some hundred for a model of several parts.
const SIZE_LIMIT_BYTES: u64 = 4 << 20;
/// Limit for the workers of an engine on one machine.
const MOST_FILES: usize = 64;

/// The configuration of a worker of the engine.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct EngineConfig {
    /// Name of the engine: `vllm`, for instance.
    pub(crate) engine: String,
    /// Version of the engine.
    pub(crate) version: Option<String>,
    #[serde(default)]
    rank: u64,
    /// Folder or name of the model, as the engine was given it.
    pub(crate) model: Option<String>,
    dtype: Option<String>,
    kv_cache_dtype: Option<String>,
    #[serde(default = "one")]
    tensor_parallel_size: u64,
    #[serde(default = "one")]
    pipeline_parallel_size: u64,
    #[serde(default)]
    config: Value,
}

fn one() -> u64 {
    1
}

/// The files of the workers in the folder of a run.
fn paths(run_dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(run_dir.join(HOOK_DIR)).into_iter().flatten().flatten();
    let is_one = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("engine-") && name.ends_with(".json")
    };
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).filter(is_one).collect();
    paths.sort();
    paths.truncate(MOST_FILES);
    paths
}

impl EngineConfig {
    /// Copies the files of the workers from the folder `from` of a run into the folder `to` of a
    /// part of it. Omits files that cannot be read.
    pub(super) fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
        let folder = to.join(HOOK_DIR);
        for path in paths(from) {
            let text = files::read_text(&path, SIZE_LIMIT_BYTES);
            let (Some(name), Ok(text)) = (path.file_name(), text) else { continue };
            private::create_folders(&folder)?;
            files::write_whole(&folder.join(name), &text)?;
        }
        Ok(())
    }

    /// Reads the configuration of the worker with the lowest rank from the folder of a run.
    pub(crate) fn read(run_dir: &Path, findings: &mut Vec<Finding>) -> Option<Self> {
        let mut found: Option<Self> = None;
        for path in paths(run_dir) {
            let read = files::read(&path, SIZE_LIMIT_BYTES).map_err(|error| error.to_string());
            let parse = |bytes: Vec<u8>| {
                serde_json::from_slice::<Self>(&bytes).map_err(|error| error.to_string())
            };
            match read.and_then(parse) {
                Ok(own) if found.as_ref().is_none_or(|first| own.rank < first.rank) => {
                    found = Some(own)
                }
                Ok(_) => {}
                Err(why) => findings.push(Id::ModelUnknown.found(
                    format!("{} cannot be used: {}", visible_path(&path), visible(why.as_bytes())),
                    "the floor, MFU and MBU may lack the model that the engine ran",
                    "name the model yourself: model/llm=NAME or model.llm.config_json=FOLDER",
                )),
            }
        }
        found
    }

    /// Number of GPUs that the model is split over.
    pub(crate) fn gpus(&self) -> u64 {
        self.tensor_parallel_size.max(1).saturating_mul(self.pipeline_parallel_size.max(1))
    }

    /// The sizes of its model.
    ///
    /// # Errors
    /// The configuration describes what cannot be modelled.
    pub(crate) fn shape(&self) -> Result<HuggingFace, String> {
        let mut read =
            hugging_face::from_json(&self.config.to_string()).map_err(|error| error.to_string())?;
        read.dtype = self.dtype.as_deref().and_then(Dtype::parse).or(read.dtype);
        Ok(read)
    }

    /// Data type of the KV cache; none: that of the model.
    pub(crate) fn kv_cache_dtype(&self) -> Option<Dtype> {
        Dtype::parse(self.kv_cache_dtype.as_deref()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a folder");
        fs::create_dir(dir.path().join(HOOK_DIR)).expect("a folder");
        for (name, text) in files {
            fs::write(dir.path().join(HOOK_DIR).join(name), text).expect("a file");
        }
        dir
    }

    #[test]
    fn the_worker_of_the_lowest_rank_speaks_for_all() {
        let worker = |rank: u64| {
            format!(
                r#"{{"pid": 7, "engine": "vllm", "version": "0.26.0", "rank": {rank}, "model": "/m{rank}",
                "dtype": "float16", "kv_cache_dtype": "fp8", "tensor_parallel_size": 2, "config":
                {{"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "vocab_size": 100,
                "intermediate_size": 128, "num_attention_heads": 4, "torch_dtype": "bfloat16"}}}}"#
            )
        };
        let dir =
            folder(&[("engine-9.json", &worker(1)), ("engine-8.json", &worker(0)), ("x", "")]);
        let mut findings = Vec::new();
        let found = EngineConfig::read(dir.path(), &mut findings).expect("one");
        assert_eq!((found.model.as_deref(), found.gpus(), findings.len()), (Some("/m0"), 2, 0));
        let read = found.shape().expect("a model");
        assert_eq!((read.shape.hidden_size, read.dtype), (64, Some(Dtype::Fp16)));
        assert_eq!(found.kv_cache_dtype(), Some(Dtype::Fp8));
    }

    #[test]
    fn files_that_are_none_are_told_and_cost_nothing_else() {
        let huge = " ".repeat(5 << 20);
        let files = [
            ("engine-1.json", "{\"engine\": 5}"),
            ("engine-2.json", "{"),
            ("engine-3.json", &huge),
        ];
        let dir = folder(&files);
        let mut findings = Vec::new();
        assert_eq!(EngineConfig::read(dir.path(), &mut findings), None);
        assert_eq!(findings.len(), 3, "{findings:?}");
        assert!(findings.iter().all(|finding| finding.what.contains("engine-")));
        assert_eq!(EngineConfig::read(&dir.path().join("none"), &mut findings), None);
        let unknown: EngineConfig = serde_json::from_str(r#"{"engine": "vllm"}"#).expect("sound");
        assert!(unknown.shape().is_err());
    }
}
