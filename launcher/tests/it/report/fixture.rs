//! A small run with everything in it that a report has to cope with.

use std::fs;
use std::path::Path;

use stage2_contract::trace::{Losses, Mark, MonoNs, NONE, RANGE_OUTSIDE, RANGE_UNKNOWN, Record};

use crate::common::trace::{Build, RunFolder};

const ELEMENTWISE: &[u8] = b"_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_";
const GEMM: &[u8] = b"_ZN7cutlass7Kernel2I62cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64_32x6_nn_align8EEvNT_6ParamsE";
/// Two kernels whose short names are the same.
const REDUCE: [&[u8]; 2] = [b"_Z6reduceIfEvPT_", b"_Z6reduceIfEvPT_i"];
const HOSTILE: &[u8] = b"=cmd|' /C \"calc\",'!A0`\x1b[2J\x07<img src=x>\xff\xe2\x80\xae|\r\n";

/// A folder with the run and its reports.
pub(crate) fn reported() -> RunFolder {
    let folder = RunFolder::new();
    write(&folder.path(""));
    folder.reports();
    folder
}

/// Writes the run to `run_dir`.
pub(crate) fn write(run_dir: &Path) {
    full().save(run_dir, "node-1-100.s2t");
    killed().save(run_dir, "node-1-200.s2t");
    ranges_only().save(run_dir, "node-1-400.s2t");
    let collector = run_dir.join("collector");
    let whole = torn().bytes();
    fs::write(collector.join("node-1-300.s2t"), &whole[..whole.len() - 5]).expect("torn");
    fs::write(collector.join("notes.s2t"), "no spool at all").expect("no spool");
    fs::write(collector.join("README"), "not looked at").expect("other");
    let run = serde_json::json!({
        "schema": 1, "started": "2026-11-20T19:35:00.000Z",
        "command": ["python", "-m", "runner", "prompt=a b|c`<d>"],
        "passes": [{"name": "collect", "status": "ok", "exit": {"code": 0}, "duration_ms": 4210}],
        "findings": [{"severity": "warning", "what": "nsys was not found", "why": "", "remedy": "install it"}],
    });
    fs::write(run_dir.join("run.json"), run.to_string()).expect("run.json");
    let env = serde_json::json!({"driver": "580.159", "cuda": {"version": "13.0"}, "gpus": []});
    fs::write(run_dir.join("env.json"), env.to_string()).expect("env.json");
    fs::write(run_dir.join("config.yaml"), "report:\n  top_n: 6\n").expect("config.yaml");
}

/// Two devices, nested ranges, graph kernels, copies, and names that try to break out.
fn full() -> Build {
    let mut b = Build::process(100, "/usr/bin/python3");
    b.meta("cupti.version", "13.0").anchor(1_000).anchor(2_000_000);
    for (id, name) in [
        (1, b"prefill".as_slice()),
        (2, b"decode"),
        (3, b"layer.0"),
        (4, ELEMENTWISE),
        (5, GEMM),
        (6, HOSTILE),
        (7, b"NCCL"),
        (8, b"allreduce"),
        (9, REDUCE[0]),
        (10, REDUCE[1]),
        (11, b""),
    ] {
        b.name(id, name);
    }
    b.device(0, "NVIDIA H200", 1).device(1, "NVIDIA H200", 33);
    b.shape(1, 4, 64).shape(2, 5, 132).shape(3, 6, 1);
    b.shape(4, 9, 8).shape(5, 10, 8).shape(6, 11, 2);
    b.path(1, NONE, 1).path(2, 1, 3).path(3, NONE, 2).path(4, 3, 3).path(5, NONE, 6);
    b.path_in(6, 3, 8, 7).path(7, NONE, 11);

    // Prefill: one instance; its last kernel ends after the range.
    b.open(1, 1, 0, 10_000).open(2, 2, 1, 12_000);
    b.kernel(2, 1, 1, (15_000, 25_000)).kernel(2, 2, 1, (20_000, 60_000));
    b.close(2, 30_000).kernel(1, 4, 1, (61_000, 62_000)).kernel(1, 5, 1, (63_000, 64_500));
    b.copy(1, 1, 4096, (11_000, 12_000)).fill(1, 256, (12_000, 12_100));
    b.close(1, 50_000);
    // Decode: four instances, the first one cold, on two devices; one has one kernel more.
    let node = 1 << 33 | 5;
    b.add(Record::GraphNode { node, path: 4, range: 0 });
    for (i, start) in [(0, 100_000), (1, 200_000), (2, 230_000), (3, 260_000)] {
        let range = 10 + i;
        b.open(range, 3, 0, start);
        b.kernel(range, 1, 1, (start + 1_000, start + 9_000));
        b.kernel(range, 1, 2, (start + 5_000, start + 12_000));
        b.node(range, 2, 1, (start + 9_000, start + 11_000), node);
        if i == 3 {
            b.open(20, 6, range, start + 9_500).kernel(20, 4, 2, (start + 12_000, start + 14_000));
            b.close(20, start + 9_800);
        }
        b.close(range, start + if i == 0 { 60_000 } else { 20_000 + i });
    }
    // A start/end range that outlives the range around it goes on at the top.
    b.open(30, 3, 0, 300_000).open(31, 4, 30, 301_000).close(30, 305_000);
    b.continues(32, 5, 0, 305_000, 31).kernel(32, 3, 1, (306_000, 307_000)).close(31, 310_000);
    b.open(33, 7, 0, 320_000).kernel(33, 6, 1, (321_000, 321_000));
    // What has no range, no valid time, or no sense.
    b.kernel(RANGE_OUTSIDE, 1, 1, (5_000, 6_000)).kernel(RANGE_UNKNOWN, 2, 1, (400_000, 401_500));
    b.untimed(10, 1, 1).kernel(999, 1, 1, (402_000, 403_000)).kernel(10, 99, 9, (104_000, 104_500));
    b.copy(RANGE_OUTSIDE, 8, 1 << 20, (410_000, 411_000)).copy(10, 77, 1, (112_000, 112_500));
    b.graph(4, 1, (420_000, 430_000));
    b.add(Record::Mark(Mark {
        at: MonoNs(1),
        thread: 1,
        name: 1,
        domain: NONE,
        category: 0,
        payload: None,
    }));
    b.close(777, 500_000).end();
    b
}

/// Killed, with losses, on a simulated device, and with no clock reading of the GPU.
fn killed() -> Build {
    let mut b = Build::process(200, "/usr/bin/python3");
    b.meta("cupti.simulated", "1").name(1, b"decode").name(2, b"triton_red_fused_3");
    b.device(0, "Simulated <H200>", 0).shape(1, 2, 16).path(1, NONE, 1);
    b.open(1, 1, 0, 1_000).kernel(1, 1, 1, (2_000, 4_000)).kernel(1, 1, 1, (3_000, 6_000));
    b.add(Record::Losses(Losses {
        cupti_dropped: 12,
        buffers_refused: 1,
        range_events: 3,
        names_cut: 2,
        ..Losses::default()
    }));
    b
}

/// To be cut short; the first device again, seen from another process.
fn torn() -> Build {
    let mut b = Build::process(300, "/opt/worker");
    b.anchor(1).device(0, "NVIDIA H200", 1).name(1, b"prefill").path(1, NONE, 1);
    b.open(1, 1, 0, 1_000).name(2, GEMM).shape(1, 2, 4).kernel(1, 1, 1, (2_000, 7_000)).flush();
    b.close(1, 9_000).end();
    b
}

/// GPU collection was off.
fn ranges_only() -> Build {
    let mut b = Build::process(400, "/usr/bin/python3");
    b.meta("gpu.off", "CUPTI is held by another tool | nsys").name(1, b"tokenise");
    b.path(1, NONE, 1).open(1, 1, 0, 1_000).close(1, 3_500).end();
    b
}
