//! What runs the workload in a pass instead of the collector, and what follows the workload.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::tools::ncu::config::Ncu;
use crate::tools::nsys::config::Nsys;
use crate::tools::step::Step;

/// Another profiler, with everything that its pass is made from once the passes before are over.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Profiler {
    pub(crate) kind: Kind,
    pub(crate) workload: Vec<OsString>,
    pub(crate) folder: PathBuf,
    /// Commands around the profiling run, as far as they are known before it: those before, those
    /// after.
    pub(crate) around: (Vec<Step>, Vec<Step>),
    /// What a reader of the plan has to know.
    pub(crate) notes: Vec<String>,
}

impl Profiler {
    /// The program that is run, as the settings name it.
    pub(crate) fn executable(&self) -> &Path {
        match &self.kind {
            Kind::Nsys(nsys) => &nsys.executable,
            Kind::Ncu { settings, .. } => &settings.executable,
        }
    }

    /// Leaves out what nsys makes of its report, but for the SQLite export.
    pub(crate) fn without_tables(&mut self) {
        if let Kind::Nsys(nsys) = &mut self.kind {
            nsys.export.sqlite = true;
            nsys.export.stats_csv = false;
            self.around.1.truncate(1);
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Nsys(Box<Nsys>),
    Ncu {
        settings: Box<Ncu>,
        /// How its kernels are chosen, besides the settings.
        choice: Box<KernelChoice>,
    },
}

/// What the command line says of the kernels for Nsight Compute.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KernelChoice {
    /// It names the stage: another one is no substitute then.
    pub(crate) stage_is_explicit: bool,
    /// Captures of nsys, for where no pass knows the kernels.
    pub(crate) given: GivenCaptures,
}

/// Captures of Nsight Systems that were taken elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GivenCaptures {
    pub(crate) files: Vec<PathBuf>,
    /// How those are exported that are reports.
    pub(crate) nsys: Nsys,
}
