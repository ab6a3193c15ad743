//! Kernels of replayed graphs, by the module of the model that launched them when the graph was captured.

use crate::common::trace::{Build, RunFolder};
use serde_json::{Value, json};
use stage2_contract::trace::{NONE, RANGE_OUTSIDE, Record};

const NODE: u64 = 1 << 33;

/// A decode step that replays a graph of two layers: a projection each of attention and of the MLP, an
/// all-reduce that the MLP launches, and a kernel without a module; then a kernel that samples.
fn replayed(decode: &[u8]) -> Build {
    let mut build = Build::process(1, "x");
    build.anchor(1).device(0, "NVIDIA H200", 1);
    for (id, name) in [
        (1, decode),
        (2, b"stage2.module model.layers.0.self_attn.o_proj"),
        (3, b"stage2.module model.layers.1.self_attn.o_proj"),
        (4, b"stage2.module model.layers.1.mlp.down_proj"),
        (5, b"NCCL"),
        (6, b"ncclAllReduce"),
        (7, b"nvjet_sm90_tst_64x8_64x16_4x1_v_bz_TNT"),
        (8, b"ncclDevKernel_AllReduce_Sum_bf16_RING_LL"),
        (9, b"triton_poi_fused_0"),
        (10, b"topk_topp_sampling_kernel"),
    ] {
        build.name(id, name);
    }
    for shape in 1..=4 {
        build.shape(shape, 6 + shape, 1);
    }
    for path in 1..=4 {
        build.path(path, NONE, path);
    }
    build.path_in(5, 4, 6, 5);
    for (node, path) in [(1, 2), (2, 3), (3, 4), (4, 5), (5, NONE)] {
        build.open(50 + node, 2, 0, node).close(50 + node, node + 1);
        build.add(Record::GraphNode { node: NODE + node, path, range: RANGE_OUTSIDE });
    }
    for step in 0..10u64 {
        let at = 1_000_000 * (step + 1);
        build.open(100 + step, 1, 0, at);
        for (node, shape, ns) in [(1, 1, 100), (2, 1, 100), (3, 1, 300), (4, 2, 200), (5, 3, 50)] {
            let start = at + 1_000 * node;
            // The first call is a cold one.
            let ns = if step == 0 { ns + 100 * node } else { ns };
            build.node(100 + step, shape, 1, (start, start + ns), NODE + node);
        }
        build.kernel(100 + step, 4, 1, (at + 9_000, at + 9_250));
        build.close(100 + step, at + 900_000);
    }
    build.end();
    build
}

fn layers(build: &Build) -> (Value, String) {
    let folder = RunFolder::of([build]);
    folder.reports();
    let metrics: Value = serde_json::from_str(&folder.text("metrics.json")).expect("JSON");
    (metrics, folder.text("report.md"))
}

#[test]
fn a_replayed_kernel_belongs_to_the_module_of_its_capture() {
    let (metrics, report) = layers(&replayed(b"execute_context_0(0)_generation_4(4)"));
    let rows = metrics["layers"].as_array().expect("layers").iter();
    let rows: Vec<Value> = rows
        .map(|row| json!([row["part"], row["module"], row["kernels"], row["kernel_sum_ns"]]))
        .collect();
    let expected = [
        json!(["mlp", "model.layers.*.mlp.down_proj", 9, 2_700]),
        json!(["sampling", null, 9, 2_250]),
        json!(["attention", "model.layers.*.self_attn.o_proj", 18, 1_800]),
        json!(["communication", "model.layers.*.mlp.down_proj", 9, 1_800]),
        json!(["other", null, 9, 450]),
    ];
    assert_eq!(rows, expected);
    // Ranges that are open at capture are no stages.
    let stages: Vec<_> = metrics["stages"].as_array().expect("stages").iter().collect();
    assert_eq!(stages.len(), 1, "{stages:?}");
    let line = "decode by part of the model, % of the kernel time: MLP 30.0, sampling 25.0, \
        attention 20.0, communication 20.0, other 5.0";
    assert!(report.contains(line), "{report}");
    assert!(report.contains("| MLP | `model.layers.*.mlp.down_proj` | 9 |"), "{report}");
}

#[test]
fn without_modules_nothing_is_said_of_them() {
    let mut build = replayed(b"decode");
    build.records.retain(|record| !matches!(record, Record::GraphNode { .. }));
    let (metrics, report) = layers(&build);
    assert_eq!(metrics.get("layers"), None);
    assert!(!report.contains("by part of the model"), "{report}");
}
