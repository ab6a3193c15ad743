//! Command and settings -> the configurations that `bench` compares, as passes of one folder.

use super::collect::{self, limits, workload_of_pass};
use super::{Capture, Pass, Plan, Request, nsys, with_hook};

/// Folder and name of the pass without any library of ours.
const UNTRACED: &str = "untraced";

/// The passes, each with its output in a file: untraced, under the collector's NVTX half, under
/// the collector, under nsys.
pub(crate) fn bench(request: &Request<'_>) -> Plan {
    let mut findings = Vec::new();
    let mut passes = vec![untraced(request), collect::baseline(request)];
    let mut full = collect::pass(request, &mut findings);
    full.tee = None;
    full.capture = full.folders.first().map(|folder| log_in(folder.join("log.txt")));
    passes.push(full);
    let mut peer = nsys::pass(request);
    // The ranges are in the export; nobody reads the tables.
    if let Some(profiler) = peer.as_mut().and_then(|pass| pass.profiler.as_mut()) {
        profiler.without_tables();
    }
    passes.extend(peer);
    with_hook(request, passes, findings)
}

fn untraced(request: &Request<'_>) -> Pass {
    let folder = request.run_dir.join(UNTRACED);
    Pass {
        name: UNTRACED,
        argv: workload_of_pass(request, UNTRACED),
        capture: Some(log_in(folder.join("log.txt"))),
        folders: vec![folder],
        limits: limits(request.config),
        ..Pass::default()
    }
}

fn log_in(log: std::path::PathBuf) -> Capture {
    Capture { stdout: None, log }
}
