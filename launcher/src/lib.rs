//! tmp
pub mod config;
pub fn run(_: impl Iterator<Item = std::ffi::OsString>) -> u8 {
    0
}
