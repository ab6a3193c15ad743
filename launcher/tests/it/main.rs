//! What the launcher does, from its command line to the files of a bundle.

mod agent_texts;
mod ask;
mod bench;
mod bench_collector;
mod common;
mod ctl;
mod demo;
mod diff;
mod doctor;
mod dormant_run;
mod dry_run;
mod export;
mod failing_workload;
mod folders;
mod gates;
mod gpu;
mod install;
mod jobs;
mod live;
mod loading;
mod ncu_python;
mod ncu_regions;
mod next;
#[allow(dead_code, reason = "the tests of its tables use the rest")]
#[path = "../../../crates/report/tests/it/nsys_tables/fixture.rs"]
mod nsys_export;
mod nsys_fails;
mod nsys_real;
mod operators;
mod passes;
mod private;
mod python_runner;
mod ranks;
mod refused;
mod report;
mod report_again;
mod rotation;
mod runs;
mod seeds;
mod server;
mod showing;
mod signals;
mod sources;
mod top;
mod usage;
mod verdicts;
