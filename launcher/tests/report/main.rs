//! Spools in, reports out: golden files, brute-force checks and hostile input.

mod answer;
mod brute_force;
mod build;
mod children;
mod damage;
mod deep;
#[path = "../common/dom.rs"]
mod dom;
mod empty;
mod energy;
mod fixture;
mod golden;
#[path = "../common/golden.rs"]
mod golden_file;
mod hostile_names;
mod html;
mod insight;
mod libraries;
mod markdown;
mod meaning;
#[path = "../common/hostile_names.rs"]
mod names;
mod no_ranges;
#[allow(dead_code, reason = "the tests of its tables use the rest")]
#[path = "../../../crates/analysis/tests/nsys_tables/fixture.rs"]
mod nsys_export;
mod outliers;
mod overhead;
mod part;
mod processes;
mod roles;
mod sampled;
mod sums;
mod verdicts;
mod vision;
