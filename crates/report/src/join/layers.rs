//! Kernels and the modules that launched them at capture -> the parts of the model, for each stage.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use crate::join::{Groups, Labels};
use stage2_contract::order::Order as _;
use stage2_contract::text::{kernel_name, visible};
use stage2_model::{LayerPart, LayerRow, StageRow};
use stage2_read::kernel_class::{KernelClass, class_of};
use stage2_read::trace::stats::{GroupKey, Work};
use stage2_read::trace::{Captured, ProcessCapture};

/// Kernels by group and module: all, and those in cold instances.
#[derive(Debug, Default)]
pub(super) struct ModuleTotals(HashMap<(GroupKey, String), [Captured; 2]>);

/// What a name holds -> the part. The first segment of a path that holds one of them decides.
const PARTS: [(&str, LayerPart); 13] = [
    // Before attention: `post_attention_layernorm`.
    ("norm", LayerPart::Norm),
    ("attn", LayerPart::Attention),
    ("attention", LayerPart::Attention),
    ("mixer", LayerPart::Attention),
    ("mlp", LayerPart::Mlp),
    ("ffn", LayerPart::Mlp),
    ("feed_forward", LayerPart::Mlp),
    ("moe", LayerPart::Mlp),
    ("experts", LayerPart::Mlp),
    ("lm_head", LayerPart::LmHead),
    ("embed", LayerPart::Embedding),
    ("wte", LayerPart::Embedding),
    ("sampler", LayerPart::Sampling),
];
/// Prefix of the paths of a draft model: `DRAFT` in the hook's `vllm_modules.py`.
const DRAFT: &str = "draft.";
/// Activation functions, which belong to the MLP.
const ACTIVATIONS: [&str; 4] = ["silu", "gelu", "swiglu", "act_and_mul"];

impl ModuleTotals {
    /// Adds the kernels of a process; `group` is the key of a group over all processes.
    pub(super) fn add_process(
        &mut self,
        process: &ProcessCapture,
        mut group: impl FnMut(GroupKey) -> GroupKey,
    ) {
        for work in &process.modules {
            let Some(name) = process.names.get(work.module as usize) else { continue };
            let [all, cold] = self.0.entry((group(work.key), visible(name))).or_default();
            add(all, work.captured);
            add(cold, work.cold);
        }
    }

    /// The rows of the stages in which the module of a kernel is known: longest part first, and within it
    /// the longest module. They leave out what the rows of kernels do: see [`keep_cold_of`](super::kernels::keep_cold_of).
    pub(super) fn rows(
        self,
        groups: &Groups,
        labels: &Labels<'_>,
        stages: &[StageRow],
    ) -> Vec<LayerRow> {
        let without_cold = stages.iter().filter(|stage| stage.leaves_cold_out());
        let without_cold: HashSet<&str> = without_cold.map(|stage| stage.stage.as_str()).collect();
        let stages: HashSet<&str> = self.0.keys().map(|(key, _)| labels.stage(key.path)).collect();
        let mut rest: HashMap<GroupKey, Captured> = HashMap::new();
        let leaves_cold_out = |key: &GroupKey| {
            without_cold.contains(labels.stage(key.path))
                && groups.get(key).is_some_and(|stats| stats.recorded.is_none())
        };
        for (key, stats) in groups {
            if matches!(key.work, Work::Kernel(_)) && stages.contains(labels.stage(key.path)) {
                let mut work = Captured { kernels: stats.calls, total_ns: stats.total_ns };
                if leaves_cold_out(key) {
                    take(
                        &mut work,
                        Captured { kernels: stats.cold_calls, total_ns: stats.cold_ns },
                    );
                }
                rest.insert(*key, work);
            }
        }
        let mut sums: BTreeMap<(&str, LayerPart, Option<String>), Captured> = BTreeMap::new();
        let mut classes = Classes::default();
        for ((key, module), [mut work, cold]) in self.0 {
            if leaves_cold_out(&key) {
                take(&mut work, cold);
            }
            if work.kernels == 0 {
                continue;
            }
            let part = match classes.of(&key, labels) {
                LayerPart::Communication => LayerPart::Communication,
                _ => part_of_module(&module),
            };
            add(sums.entry((labels.stage(key.path), part, Some(module))).or_default(), work);
            if let Some(rest) = rest.get_mut(&key) {
                take(rest, work);
            }
        }
        for (key, work) in rest.into_iter().filter(|(_, work)| work.kernels > 0) {
            let part = classes.of(&key, labels);
            add(sums.entry((labels.stage(key.path), part, None)).or_default(), work);
        }
        sorted(sums)
    }
}

fn add(sum: &mut Captured, more: Captured) {
    sum.kernels = sum.kernels.saturating_add(more.kernels);
    sum.total_ns = sum.total_ns.saturating_add(more.total_ns);
}

fn take(sum: &mut Captured, less: Captured) {
    sum.kernels = sum.kernels.saturating_sub(less.kernels);
    sum.total_ns = sum.total_ns.saturating_sub(less.total_ns);
}

fn sorted(sums: BTreeMap<(&str, LayerPart, Option<String>), Captured>) -> Vec<LayerRow> {
    let mut of_stage: HashMap<&str, u64> = HashMap::new();
    let mut of_part: HashMap<(&str, LayerPart), u64> = HashMap::new();
    for ((stage, part, _), work) in &sums {
        let stage_ns = of_stage.entry(stage).or_default();
        *stage_ns = stage_ns.saturating_add(work.total_ns);
        let part_ns = of_part.entry((stage, *part)).or_default();
        *part_ns = part_ns.saturating_add(work.total_ns);
    }
    let mut keyed: Vec<_> = sums.into_iter().collect();
    keyed.order_by_key(|((stage, part, _), work)| {
        let ns = |sum: Option<&u64>| Reverse(sum.copied().unwrap_or_default());
        let part_ns = ns(of_part.get(&(*stage, *part)));
        (ns(of_stage.get(stage)), *stage, part_ns, *part, Reverse(work.total_ns))
    });
    let row = |((stage, part, module), work): ((&str, LayerPart, Option<String>), Captured)| {
        let all = of_stage.get(stage).copied().filter(|&ns| ns > 0);
        LayerRow {
            stage: stage.to_owned(),
            part,
            module,
            kernels: work.kernels,
            kernel_sum_ns: work.total_ns,
            stage_kernel_sum_percent: all.map(|all| work.total_ns as f64 / all as f64 * 100.0),
        }
    };
    keyed.into_iter().map(row).collect()
}

fn part_of_module(path: &str) -> LayerPart {
    if path.starts_with(DRAFT) {
        return LayerPart::Draft;
    }
    let part = |segment: &str| {
        let found = PARTS.iter().find(|(text, _)| segment.contains(text));
        found.map(|(_, part)| *part)
    };
    path.split('.').find_map(part).unwrap_or(LayerPart::Other)
}

/// The parts of kernels by their names, each found once.
#[derive(Debug, Default)]
struct Classes(HashMap<u32, LayerPart>);

impl Classes {
    fn of(&mut self, key: &GroupKey, labels: &Labels<'_>) -> LayerPart {
        let Work::Kernel(shape) = key.work else { return LayerPart::Other };
        let tables = labels.tables;
        let Some(shape) = tables.shapes.get_index(shape as usize) else { return LayerPart::Other };
        *self.0.entry(shape.name).or_insert_with(|| {
            let name = tables.kernel_names.get_index(shape.name as usize);
            name.map_or(LayerPart::Other, |name| part_of_kernel(name))
        })
    }
}

fn part_of_kernel(name: &[u8]) -> LayerPart {
    let name = kernel_name(name);
    match class_of(&name) {
        KernelClass::Communication => LayerPart::Communication,
        KernelClass::Attention | KernelClass::KvCache | KernelClass::Rope => LayerPart::Attention,
        KernelClass::Norm => LayerPart::Norm,
        KernelClass::Moe => LayerPart::Mlp,
        KernelClass::Selection => LayerPart::Sampling,
        _ if ACTIVATIONS.iter().any(|part| name.demangled.contains(part)) => LayerPart::Mlp,
        _ => LayerPart::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_module_tells_its_part() {
        for (path, part) in [
            ("model.layers.*.self_attn.qkv_proj", LayerPart::Attention),
            ("model.layers.*.self_attn.q_norm", LayerPart::Attention),
            ("model.layers.*.mlp.gate_up_proj", LayerPart::Mlp),
            ("model.layers.*.block_sparse_moe.experts", LayerPart::Mlp),
            ("model.layers.*.post_attention_layernorm", LayerPart::Norm),
            ("model.norm", LayerPart::Norm),
            ("lm_head", LayerPart::LmHead),
            ("model.embed_tokens", LayerPart::Embedding),
            ("model.layers.*.gate", LayerPart::Other),
            ("draft.model.layers.*.self_attn.qkv_proj", LayerPart::Draft),
            ("model.draft.mlp", LayerPart::Mlp),
        ] {
            assert_eq!(part_of_module(path), part, "{path}");
        }
    }

    #[test]
    fn the_class_of_a_kernel_without_a_module_tells_its_part() {
        for (name, part) in [
            ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", LayerPart::Communication),
            ("triton_poi_fused_mul_silu_slice_1", LayerPart::Mlp),
            ("reshape_and_cache_flash_kernel", LayerPart::Attention),
            ("nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT", LayerPart::Other),
        ] {
            assert_eq!(part_of_kernel(name.as_bytes()), part, "{name}");
        }
    }
}
