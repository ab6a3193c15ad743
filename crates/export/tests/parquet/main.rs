//! Tables of `stage2-parquet`, read back.

#[path = "../it/common/mod.rs"]
mod common;
mod long_names;
mod tables;
