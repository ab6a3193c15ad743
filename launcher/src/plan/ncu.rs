//! Settings -> the ncu pass, as far as it is known before the collect pass has found the kernels.

use std::path::Path;

use super::collect::workload_of_pass;
use super::nsys::limit_of;
use super::{Capture, KernelChoice, Kind, Pass, Profiler, Request, SEES_NO_SIMULATOR};
use crate::bundle::NCU_DIR;
use crate::tools::ncu::command::{self, Available, Files, Filter};
use crate::tools::ncu::config::Ncu;
use crate::tools::ncu::select::Selection;

/// The files of the profiling run `name` in the folder of the pass; the first has the plain names.
pub(crate) fn files(folder: &Path, name: Option<&str>) -> Files {
    let plain = |file: &str| folder.join(name.map_or(file.to_owned(), |n| format!("{n}.{file}")));
    Files {
        report: folder.join(format!("{}.ncu-rep", name.unwrap_or("run"))),
        log: plain("messages.txt"),
        raw: plain("raw.csv"),
        details: plain("details.csv"),
    }
}

pub(super) fn pass(request: &Request<'_>) -> Option<Pass> {
    let ncu = &request.config.pipeline.ncu;
    if !ncu.enable {
        return None;
    }
    let folder = request.run_dir.join(NCU_DIR);
    let workload = workload_of_pass(request, "ncu");
    let files = files(&folder, None);
    let (filter, mut notes) = placeholder(ncu);
    notes.push(
        "its arguments are those for the newest ncu; a run asks the installed one for its version, and leaves out \
         sections and metrics that it does not know"
            .to_owned(),
    );
    if ncu.ncu_cli.replay_mode.is_range() {
        let most = ncu.regions.most;
        notes.push(format!(
            "it stands for one such run for each region that the collect pass finds, {most} at most"
        ));
    }
    for file in request.nsys_files {
        notes.push(format!(
            "where neither the collect pass nor the nsys pass knows kernels, they are those of {}",
            file.display()
        ));
    }
    let tool = command::Request {
        settings: ncu,
        version: None,
        workload: &workload,
        available: &Available::default(),
    };
    let argv = command::profile(&tool, &filter, &files, &mut Vec::new());
    let before = command::lists(&ncu.executable, &folder).into();
    let is_exported = ncu.ncu_cli.export.csv;
    let after = if is_exported { command::imports(&ncu.executable, &files).into() } else { vec![] };
    Some(Pass {
        name: "ncu",
        argv,
        outputs: vec![files.report.clone()],
        capture: Capture::of_pass(&folder),
        limits: limit_of(request, ncu.time_budget_s, ncu.size_limit_bytes),
        skip: request.simulator.is_some().then(|| SEES_NO_SIMULATOR.to_owned()),
        folders: vec![folder.clone()],
        profiler: Some(Profiler {
            kind: Kind::Ncu {
                settings: Box::new(ncu.clone()),
                choice: Box::new(KernelChoice {
                    stage_is_explicit: request.explicit.contains("pipeline.ncu.stage"),
                    nsys_files: request.nsys_files.to_vec(),
                    nsys: request.config.pipeline.nsys.clone(),
                }),
            },
            workload,
            folder,
            around: (before, after),
            notes,
        }),
        ..Pass::default()
    })
}

/// The filter with a word in the place of what the collect pass will find.
fn placeholder(ncu: &Ncu) -> (Filter, Vec<String>) {
    let mut findings = Vec::new();
    let mut filter = Filter::new(ncu, &Selection::unknown(), &mut findings);
    let mut notes: Vec<String> = findings.iter().map(ToString::to_string).collect();
    if filter.kernel_name.is_none() && !ncu.ncu_cli.replay_mode.is_range() {
        let count = ncu.top_n.map_or("ALL".to_owned(), |n| format!("TOP_{n}"));
        let word = format!("{count}_KERNELS");
        notes.push(format!(
            "{word} stands for the mangled names of the kernels, which the collect pass finds"
        ));
        filter.kernel_name = Some(format!("regex:^({word})$"));
    }
    (filter, notes)
}
