//! Settings -> the nsys pass: the workload under `nsys profile`, then export and tables.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::collect::{limits, workload_of_pass};
use super::{Capture, Kind, Limits, Pass, Profiler, Request};
use crate::bundle::NSYS_DIR;
use crate::tools::Step;
use crate::tools::nsys::command;
use crate::tools::nsys::config::{CaptureRange, Nsys};
use stage2_model::Finding;
use stage2_model::finding::Id;

/// Name of every file of the pass, without extension.
pub(crate) const BASE: &str = "run";

/// The pass, where it is enabled, in the newest forms: the version of the tool is not known yet.
pub(super) fn pass(request: &Request<'_>) -> Option<Pass> {
    let mut nsys = request.config.pipeline.nsys.clone();
    let skip = request.simulator.as_ref().and_then(|_| only_ranges(&mut nsys).err());
    let nsys = &nsys;
    let folder = request.run_dir.join(NSYS_DIR);
    let workload = workload_of_pass(request, "nsys");
    // The configuration was checked when it was composed.
    let profile = command::profile(nsys, None, &workload, &folder.join(BASE)).ok()?;
    let limits = request.simulator.as_ref().map(|_| SEES_RANGES);
    let notes = std::iter::once(NEWEST_FORMS).chain(limits);
    nsys.enable.then(|| Pass {
        name: "nsys",
        argv: profile.argv,
        outputs: vec![profile.report.clone()],
        capture: Capture::of_pass(&folder),
        limits: limit_of(request, nsys.time_limit_s, nsys.size_limit_bytes),
        skip: skip.map(str::to_owned),
        folders: vec![folder.clone()],
        profiler: Some(Profiler {
            kind: Kind::Nsys(Box::new(nsys.clone())),
            workload,
            around: (Vec::new(), tables(nsys, &profile.report, &folder)),
            notes: notes.map(str::to_owned).collect(),
            folder,
        }),
        ..Pass::default()
    })
}

/// Tells of a range that starts no capture.
pub(super) fn without_gate(nsys: &Nsys) -> Option<Finding> {
    let range = nsys.nvtx_capture.as_deref().filter(|_| nsys.enable)?;
    (nsys.capture_range == CaptureRange::None).then(|| {
        let what = format!("pipeline.nsys.nvtx_capture={range} has no effect");
        let why = "pipeline.nsys.capture_range is none, with which nsys records the whole run";
        let remedy = "use pipeline.nsys.capture_range=nvtx, or pipeline.nsys.nvtx_capture=null";
        Id::SettingNoEffect.about("pipeline.nsys.nvtx_capture").found(what, why, remedy)
    })
}

const SEES_RANGES: &str = "it records NVTX ranges only: nsys sees no simulated GPU";
const NEWEST_FORMS: &str =
    "its arguments are those for the newest nsys; a run asks the installed one for its version";

/// Leaves what needs no GPU of what is traced; or why nothing is left.
fn only_ranges(nsys: &mut Nsys) -> Result<(), &'static str> {
    nsys.trace.retain(|api| api == "nvtx");
    if nsys.trace.is_empty() {
        return Err("nsys sees no simulated GPU, and pipeline.nsys.trace is without nvtx");
    }
    if nsys.capture_range == CaptureRange::CudaProfilerApi {
        return Err("nsys sees no simulated GPU, and with it no call of cudaProfilerStart");
    }
    Ok(())
}

/// The limit of a tool's own, else that of the workload. Tools need more time to end: they finish their reports.
pub(super) fn limit_of(
    request: &Request<'_>,
    seconds: Option<NonZeroU64>,
    bytes: Option<NonZeroU64>,
) -> Limits {
    const SHORTEST_GRACE: Duration = Duration::from_secs(30);
    let Limits { timeout, grace, .. } = limits(request.config);
    Limits {
        timeout: seconds.map(|s| Duration::from_secs(s.get())).or(timeout),
        grace: grace.max(SHORTEST_GRACE),
        bytes: bytes.map(NonZeroU64::get),
    }
}

fn tables(nsys: &Nsys, report: &Path, folder: &Path) -> Vec<Step> {
    let sqlite: PathBuf = folder.join(format!("{BASE}.sqlite"));
    let mut steps = Vec::new();
    if nsys.export.sqlite {
        steps.push(command::export(nsys, report, &sqlite));
    }
    if nsys.export.stats_csv {
        let input = if nsys.export.sqlite { &sqlite } else { report };
        steps.push(command::stats(nsys, None, input, BASE).step);
    }
    steps
}
