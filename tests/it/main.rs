//! The collector in guests of all kinds, on the simulated GPU.

/// Asserts a time or a share of time, in [`common::despite_other_work`]: the test is tried again where it does not hold.
macro_rules! assert_usual {
    ($holds:expr, $($what:tt)+) => {
        let holds: bool = $holds;
        if !holds {
            let what = format!($($what)+);
            eprintln!("{}:{}: {what}", file!(), line!());
            std::panic::panic_any($crate::common::Spoilt(what));
        }
    };
}

mod callbacks;
mod collector;
mod common;
mod control;
mod counters;
mod crowd;
mod cupti_calls;
mod delicate;
mod device_state;
mod drain_fails;
mod ends;
mod exports;
mod floor;
mod foreign;
mod forks;
mod forks_at_hooks;
mod host;
mod host_hazards;
mod hostile;
mod job;
mod layers;
mod libraries;
mod memory;
mod missing_records;
mod out_of_memory;
mod outputs;
mod payload_c;
mod private;
mod python;
mod rotation;
mod sampling;
mod second_api;
mod soak;
mod summary_file;
mod syscalls;
mod trouble;
mod why;
mod windows;
mod windows_of_every_cupti;
mod wrong_records;
