//! A guest for the collector: `guest HAZARD` does one thing that a guest may do to it.
//!
//! It plays the CUDA program (on the simulated driver that `STAGE2_TEST_SIM` names) and the NVTX
//! client (it loads `NVTX_INJECTION64_PATH` as NVTX does), so no GPU and no NVIDIA file is needed.

#![allow(unreachable_pub, reason = "the modules are one program")]

mod commanded;
mod crowd;
mod cuda;
mod delicate;
mod ends;
mod forks;
mod hazards;
mod hostile;
mod nvtx;
mod payload;
mod process;
mod repeated;
mod schemas;
mod soak;
mod tools;

fn main() {
    let hazard = std::env::args().nth(1).unwrap_or_default();
    let all = hazards::NAMED.iter().chain(hazards::OTHERS);
    match all.clone().find(|(name, _)| *name == hazard) {
        Some((_, run)) => run(),
        None => {
            let known: Vec<&str> = all.map(|(name, _)| *name).collect();
            eprintln!("guest: no hazard {hazard:?}; known: {}", known.join(", "));
            std::process::exit(2);
        }
    }
}
