//! The reports of both sides and their rows of GPU work -> which libraries have another version, and which
//! kernels of them are new, gone, renamed or changed.

use std::collections::{BTreeMap, BTreeSet};

use stage2_contract::order::Order as _;
use stage2_contract::text::{shorten, visible};
use stage2_model::Report;

use crate::compare::Run;
use crate::comparison::{LibraryChange, MatchedBy, Presence, StageChange, WorkKind};

/// In front of the name of a package, among the facts of the environment.
const PACKAGES: &str = "python.packages.";
/// Libraries that are compared at most: a report may hold anything.
const MOST_LIBRARIES: usize = 64;
const TEXT_LIMIT: usize = 60;

/// Packages whose libraries people know by another name, without what NVIDIA's packages begin and end with.
const NAMES: [(&str, &str); 9] = [
    ("cublas", "cuBLAS"),
    ("cudnn", "cuDNN"),
    ("nccl", "NCCL"),
    ("cuda-runtime", "CUDA runtime"),
    ("cutlass-dsl", "CUTLASS DSL"),
    ("triton", "Triton"),
    ("flash-attn", "FlashAttention"),
    ("flashinfer-python", "FlashInfer"),
    ("tensorrt-llm", "TensorRT-LLM"),
];

/// What the name of a kernel says of its library; the first that fits counts, since an engine's kernel may be
/// a template of CUTLASS, and PyTorch brings FlashAttention under its own name.
const KERNELS: [(&str, &[&str]); 10] = [
    ("vllm", &["vllm::"]),
    ("sglang", &["sgl_kernel::", "sglang::"]),
    ("TensorRT-LLM", &["tensorrt_llm::"]),
    ("FlashInfer", &["flashinfer::"]),
    ("torch", &["at::", "c10::", "pytorch_flash::", "at_cuda_detail::"]),
    ("FlashAttention", &["flash::"]),
    ("NCCL", &["nccl"]),
    ("Triton", &["triton_"]),
    ("cuDNN", &["cudnn"]),
    ("cuBLAS", &["nvjet", "cublas", "xmma_gemm", "ampere_", "volta_", "cutlass_80_", "gemv2"]),
];

/// The library that a kernel is of, by its demangled name.
pub(crate) fn library_of(demangled: &str) -> Option<&'static str> {
    let begins = |word: &str| {
        demangled.match_indices(word).any(|(at, _)| {
            let before = demangled.get(..at).and_then(|text| text.chars().next_back());
            !before.is_some_and(char::is_alphanumeric)
        })
    };
    KERNELS.iter().find(|(_, words)| words.iter().any(|word| begins(word))).map(|(name, _)| *name)
}

/// Libraries with another version, or other kernels; those with the most such kernels first.
pub(crate) fn libraries(
    before: &[Run<'_>],
    after: &[Run<'_>],
    stages: &[StageChange],
) -> Vec<LibraryChange> {
    let [mut a, mut b] = [before, after].map(versions);
    // An older report names no packages, and so says nothing of those that the other side has.
    if ![before, after].into_iter().all(names_packages) {
        a.retain(|name, _| b.contains_key(name));
        b.retain(|name, _| a.contains_key(name));
    }
    let mut found: BTreeMap<String, LibraryChange> = kernels(stages);
    for name in a.keys().chain(b.keys()) {
        found.entry(name.clone()).or_default();
    }
    let joined = |texts: Option<&BTreeSet<String>>| {
        texts.map(|texts| texts.iter().cloned().collect::<Vec<_>>().join(" | "))
    };
    let mut rows: Vec<LibraryChange> = found
        .into_iter()
        .map(|(library, row)| {
            let (before, after) = (joined(a.get(&library)), joined(b.get(&library)));
            LibraryChange { library, before, after, ..row }
        })
        .filter(|row| row.is_other_version() || row.new + row.vanished + row.renamed > 0)
        .collect();
    let weight = |row: &LibraryChange| row.new + row.vanished + row.renamed;
    rows.order_by_key(|row| std::cmp::Reverse((row.is_other_version(), weight(row))));
    rows
}

/// Kernels by library. One name in several stages counts once. Steps that do other work may take other kernels for that
/// alone.
fn kernels(stages: &[StageChange]) -> BTreeMap<String, LibraryChange> {
    let mut found: BTreeMap<String, LibraryChange> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let is_comparable = |stage: &&StageChange| {
        stage.apart.is_none() && stage.presence == Presence::Both && stage.other_work.is_none()
    };
    for row in stages.iter().filter(is_comparable).flat_map(|stage| &stage.work) {
        let name = |side: &Option<_>| side.as_ref().map(|side: &crate::WorkSide| side.name.clone());
        let names = (name(&row.before), name(&row.after));
        if row.kind != WorkKind::Kernel || !seen.insert((names, row.verdict.is_change())) {
            continue;
        }
        let library = found.entry(row.library.clone().unwrap_or_default()).or_default();
        let is_renamed = row.matched_by.is_some_and(|by| by != MatchedBy::Name);
        match row.presence() {
            Presence::New => library.new += 1,
            Presence::Vanished => library.vanished += 1,
            Presence::Both if is_renamed => library.renamed += 1,
            Presence::Both if row.verdict.is_change() => library.changed += 1,
            Presence::Both => {}
        }
    }
    found
}

fn names_packages(side: &[Run<'_>]) -> bool {
    side.iter().any(|run| run.report.run.environment.iter().any(|fact| is_version(&fact.key)))
}

/// The versions of a side by library.
fn versions(side: &[Run<'_>]) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, version) in side.iter().flat_map(|run| of_report(run.report)) {
        if found.len() < MOST_LIBRARIES || found.contains_key(&name) {
            found.entry(name).or_default().insert(version);
        }
    }
    found
}

fn of_report(report: &Report) -> Vec<(String, String)> {
    let shown = |text: &str| shorten(&visible(text.as_bytes()), TEXT_LIMIT);
    let packages = report.run.environment.iter().filter_map(|fact| {
        Some((shown(library_name(fact.key.strip_prefix(PACKAGES)?)), shown(&fact.value)))
    });
    let engine = report.engine.as_ref();
    let engine = engine.and_then(|run| {
        Some((shown(library_name(run.engine.as_ref()?)), shown(run.version.as_ref()?)))
    });
    let mut found: Vec<_> = packages.collect();
    // The engine says what ran; a package, what is installed.
    if let Some(engine) = engine {
        found.retain(|(name, _)| *name != engine.0);
        found.push(engine);
    }
    found
}

/// Whether a fact of the environment is the version of a library.
pub(crate) fn is_version(key: &str) -> bool {
    key.starts_with(PACKAGES)
}

/// The name of the library that a package brings: `nvidia-cublas-cu12` is `cuBLAS`.
fn library_name(package: &str) -> &str {
    let bare = package.strip_prefix("nvidia-").unwrap_or(package);
    let bare =
        bare.rsplit_once("-cu").filter(|(_, n)| n.parse::<u8>().is_ok()).map_or(bare, |x| x.0);
    NAMES.iter().find(|(name, _)| *name == bare).map_or(package, |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_and_kernels_are_of_the_library_that_people_name() {
        for (package, name) in [
            ("nvidia-cublas-cu12", "cuBLAS"),
            ("nvidia-cublas", "cuBLAS"),
            ("nvidia-cudnn-cu13", "cuDNN"),
            ("nvidia-nccl-cu12", "NCCL"),
            ("triton", "Triton"),
            ("vllm", "vllm"),
            ("nvidia-modelopt", "nvidia-modelopt"),
        ] {
            assert_eq!(library_name(package), name);
        }
        for (kernel, library) in [
            ("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT", Some("cuBLAS")),
            ("void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm>", Some("cuBLAS")),
            ("void cutlass::device_kernel<vllm::cutlass_3x_gemm>(x)", Some("vllm")),
            ("void at::native::vectorized_elementwise_kernel<4>(int)", Some("torch")),
            ("void pytorch_flash::flash_fwd_kernel<x>(y)", Some("torch")),
            ("void flash::flash_fwd_kernel<x>(y)", Some("FlashAttention")),
            ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)", Some("NCCL")),
            ("triton_red_fused_3", Some("Triton")),
            ("cudnn_generated_fort_native_sdpa_sm90", Some("cuDNN")),
            ("void cub::DeviceScan(x)", None),
            ("my_bat::kernel", None),
            ("", None),
        ] {
            assert_eq!(library_of(kernel), library, "{kernel}");
        }
    }
}
