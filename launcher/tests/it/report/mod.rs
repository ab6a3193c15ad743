//! Trace files in, reports out: golden files, brute-force checks and hostile input.

mod answer;
mod brute_force;
pub(crate) mod build;
mod children;
mod damage;
mod deep;
mod empty;
mod energy;
mod fixture;
mod golden;
mod hostile_names;
mod html;
mod insight;
mod libraries;
mod markdown;
mod meaning;
mod no_ranges;
mod outliers;
mod overhead;
mod part;
mod processes;
mod roles;
mod sampled;
mod sums;
mod verdicts;
mod vision;
