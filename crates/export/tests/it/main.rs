//! Runs written in every format, and read back.

mod common;
mod formats;
