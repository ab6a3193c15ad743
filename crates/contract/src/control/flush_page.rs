//! The page of memory by which the launcher asks all collectors of a run to bring their trace files up to date,
//! because it is about to hand on a signal that may end them: where each number stands in it.
//!
//! The launcher makes the page, as a file in memory that cannot shrink, and names it in a variable as
//! `PATH:NONCE`. It reads and writes the file; each collector maps it and looks at it as a [`FlushPage`]. Numbers
//! are in the byte order of the machine, which both sides share.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Bytes of the file.
pub const FLUSH_PAGE_BYTES: usize = 4096;

/// What stands at the beginning of the page. All other bytes are zero.
#[derive(Debug)]
#[repr(C)]
pub struct FlushPage {
    /// Says that this is the page which the variable means.
    pub nonce: AtomicU64,
    /// Grows with each wish of the launcher.
    pub wishes: AtomicU32,
    /// Processes that look.
    pub watchers: AtomicU32,
    /// Wishes that were granted, over all processes.
    pub granted: AtomicU32,
}

impl FlushPage {
    /// Offset of [`FlushPage::nonce`] in the file, bytes.
    pub const NONCE: u64 = offset_of!(FlushPage, nonce) as u64;
    /// Offset of [`FlushPage::wishes`] in the file, bytes.
    pub const WISHES: u64 = offset_of!(FlushPage, wishes) as u64;
    /// Offset of [`FlushPage::watchers`] in the file, bytes.
    pub const WATCHERS: u64 = offset_of!(FlushPage, watchers) as u64;
    /// Offset of [`FlushPage::granted`] in the file, bytes.
    pub const GRANTED: u64 = offset_of!(FlushPage, granted) as u64;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A launcher and a collector of two versions meet in one run.
    #[test]
    fn the_numbers_stay_where_they_are() {
        let places = [FlushPage::NONCE, FlushPage::WISHES, FlushPage::WATCHERS, FlushPage::GRANTED];
        assert_eq!((places, size_of::<FlushPage>()), ([0, 8, 12, 16], 24));
    }
}
