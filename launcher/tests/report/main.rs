//! Spools in, reports out: golden files, brute-force checks and hostile input.

mod brute_force;
mod build;
mod damage;
mod fixture;
mod golden;
mod insight;
mod markdown;
mod meaning;
mod sums;
