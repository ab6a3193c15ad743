//! Trace files in, reports out: golden files, brute-force checks and hostile input.

mod agreement;
mod answer;
mod brute_force;
mod damage;
mod deep;
mod empty;
mod energy;
mod fixture;
mod golden;
mod hostile_names;
mod layers;
mod libraries;
mod meaning;
mod no_ranges;
mod outliers;
mod overhead;
mod pages;
mod part;
mod processes;
mod roles;
mod sampled;
mod utilisation;
