//! A full buffer into its records, decoded, with the texts that they point to.
//!
//! CUPTI hands over its buffers and, with them, its way from record to record ([`Walker`]). From then
//! on nothing is asked of the GPU half.

use std::ptr;

use cupti_sys::Walker;
use cupti_sys::bindings::CUpti_Activity;

use crate::base::diag;
use crate::drain::decode::{self, Activity};
use crate::guest::pool::{FullBuffer, records_in};

/// Longer texts are cut, bytes. The longest kernel name seen in real captures is below 4 KiB.
const TEXT_LIMIT: usize = 64 << 10;

/// The text that a record points to: the name of a kernel or of a GPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text(usize);

impl Text {
    /// Where it lies.
    pub(super) fn address(self) -> usize {
        self.0
    }

    /// Its bytes; none where the record points to nothing.
    pub(super) fn bytes(self) -> &'static [u8] {
        if self.0 == 0 {
            return &[];
        }
        // SAFETY: only `Records` makes these, of what a record of CUPTI's points to. CUPTI keeps that
        // text for the life of the process, NUL-terminated; no byte behind the NUL is read.
        unsafe {
            let start = self.0 as *const u8;
            let length = libc::strnlen(start.cast(), TEXT_LIMIT);
            std::slice::from_raw_parts(start, length)
        }
    }
}

/// The records of one buffer, from its start to the end of its valid bytes.
pub(super) struct Records<'a> {
    full: &'a FullBuffer,
    walker: Walker,
    record: *mut CUpti_Activity,
    /// How many were read, and where the last of them starts.
    read: u64,
    last_at: usize,
    /// How many are behind one that ended the walk.
    unread: u64,
    ended: bool,
}

impl<'a> Records<'a> {
    /// `walker` is that of the CUPTI that filled the buffer.
    pub(super) fn new(full: &'a FullBuffer, walker: Walker) -> Self {
        let ended = full.bytes().is_empty();
        Records { full, walker, record: ptr::null_mut(), read: 0, last_at: 0, unread: 0, ended }
    }

    /// Calls `each` with every record and the text that it points to. Gives about how many records
    /// are behind one that CUPTI rejects, which ends the walk; it is one of them.
    ///
    /// No iterator: with the copies that it makes of each record, the drain takes a fifth longer.
    pub(super) fn for_each(mut self, mut each: impl FnMut(&Activity, Text)) -> u64 {
        while let Some(bytes) = self.next_bytes() {
            let activity = decode::decode(bytes);
            let address = match &activity {
                Activity::Kernel(kernel) => kernel.name,
                Activity::Device(device) => device.name,
                Activity::Transfer(_) | Activity::Graph(_) | Activity::Unreadable => 0,
            };
            each(&activity, Text(address));
        }
        self.unread
    }

    /// The bytes of the next record and all that follows it.
    #[inline]
    fn next_bytes(&mut self) -> Option<&'a [u8]> {
        if self.ended {
            return None;
        }
        let (start, valid) = (self.full.as_ptr(), self.full.valid);
        // SAFETY: the buffer is as CUPTI completed it, and `record` is null or came from the call
        // before.
        match unsafe { self.walker.next_record(start, valid, self.record) } {
            Ok(Some(next)) => {
                self.record = next.as_ptr();
                let at = (self.record as usize).wrapping_sub(start as usize);
                match self.full.bytes().get(at..) {
                    Some(bytes) if !bytes.is_empty() && (self.read == 0 || at > self.last_at) => {
                        (self.read, self.last_at) = (self.read + 1, at);
                        return Some(bytes);
                    }
                    // CUPTI left the buffer or turned back: nothing behind can be trusted.
                    _ => self.unread = records_behind(self.read, self.last_at, valid),
                }
            }
            Ok(None) => {}
            Err(error) => {
                diag::debug(format_args!("a buffer ends in a record that CUPTI rejects: {error}"));
                self.unread = records_behind(self.read, self.last_at, valid);
            }
        }
        self.ended = true;
        None
    }
}

/// About how many records lie behind the last of those that were `read`, which starts at `last_at`,
/// up to `valid` bytes: as many as their mean length gives, and at least one.
fn records_behind(read: u64, last_at: usize, valid: usize) -> u64 {
    let all = match read.checked_sub(1).and_then(|steps| (last_at as u64).checked_div(steps)) {
        Some(mean_bytes @ 1..) => (valid as u64).div_ceil(mean_bytes),
        _ => records_in(valid),
    };
    all.saturating_sub(read).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_behind_a_rejected_one_are_estimated_from_those_before_it() {
        // 10 kernels of CUDA 13 were read, 90 were not.
        assert_eq!(records_behind(10, 9 * 216, 100 * 216), 90);
        // Kernels and copies in turn.
        assert_eq!(records_behind(11, 10 * (216 + 96) / 2, 200 * (216 + 96) / 2), 189);
        // None or one was read: as if they were kernels.
        assert_eq!(records_behind(0, 0, 100 * 208), 100);
        assert_eq!(records_behind(1, 0, 100 * 208), 99);
        // Not even a whole one is there.
        assert_eq!(records_behind(0, 0, 0), 1);
        assert_eq!(records_behind(u64::MAX, usize::MAX, usize::MAX), 1);
    }
}
