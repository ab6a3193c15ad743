//! Spools in, reports out: golden files, brute-force checks and hostile input.

mod brute_force;
mod build;
mod damage;
mod deep;
mod fixture;
mod golden;
mod html;
mod insight;
mod markdown;
mod meaning;
mod sums;
