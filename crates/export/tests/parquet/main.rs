//! Tables of `stage2-parquet`, read back.

#[path = "../it/common/mod.rs"]
mod common;
mod hostile_names;
mod tables;
