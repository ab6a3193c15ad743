//! The demo workload: plays the prefill and decode of an LLM under NVTX ranges, on a real GPU or
//! on the simulated one, and prints one line of JSON with what the host measured.

mod cli;
mod gpu;
mod ptx;
mod real;
mod simulated;
mod summary;
mod workload;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Args, Device};
use crate::gpu::{Gpu, Unavailable};

/// Exit status when the asked-for device cannot be used.
const EXIT_NO_DEVICE: u8 = 3;

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("stage2-demo: {error:#}");
            let no_device = error.downcast_ref::<Unavailable>().is_some();
            ExitCode::from(if no_device { EXIT_NO_DEVICE } else { 1 })
        }
    }
}

fn run(args: &Args) -> anyhow::Result<()> {
    let gpu = open(args)?;
    let times = workload::play(gpu.as_ref(), args)?;
    summary::print(gpu.as_ref(), args, &times)
}

/// Opens the device that the command line asks for.
///
/// # Errors
/// [`Unavailable`] if it is not there.
fn open(args: &Args) -> anyhow::Result<Box<dyn Gpu>> {
    Ok(match args.device {
        Device::Gpu => Box::new(real::RealGpu::open()?),
        Device::Simulated => Box::new(simulated::SimulatedGpu::open(args.sim.as_deref())?),
    })
}
