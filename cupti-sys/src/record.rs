//! Turns the bytes of an activity record into a copy of the struct that CUPTI wrote there.
//!
//! CUPTI writes the newest layout that *it* knows. From 11.8 to 13.5 every newer layout begins with
//! the older one unchanged, so [`read`]ing the oldest one ([`Kernel`], [`Memcpy`], ...) works with
//! all of them, and a newer one (`CUpti_ActivityKernel13`, ...) works where the record is long
//! enough. What lies between two records, however, depends on the version: buffers are walked with
//! [`crate::Walker::next_record`].

use crate::bindings as cupti;

/// The part of a kernel record that every version has.
pub type Kernel = cupti::CUpti_ActivityKernel8;
/// The part of a memcpy record that every version has.
pub type Memcpy = cupti::CUpti_ActivityMemcpy5;
/// The record of a memcpy between two GPUs.
pub type MemcpyPeer = cupti::CUpti_ActivityMemcpyPtoP4;
/// The part of a memset record that every version has.
pub type Memset = cupti::CUpti_ActivityMemset4;
/// The part of a graph-launch record that every version has.
pub type GraphTrace = cupti::CUpti_ActivityGraphTrace;
/// The part of a device record that every version has.
pub type Device = cupti::CUpti_ActivityDevice4;

/// A record struct that [`read`] may copy out of bytes.
///
/// # Safety
/// Any bytes are a valid value: integers, raw pointers, and unions and arrays of them.
pub unsafe trait Record: Copy {}

macro_rules! records {
    ($($record:ident)*) => {
        $(
            // SAFETY: bindgen made it of integers, raw pointers, and unions and arrays of them.
            unsafe impl Record for cupti::$record {}
        )*
    };
}

records! {
    CUpti_ActivityDevice4 CUpti_ActivityGraphTrace CUpti_ActivityKernel8 CUpti_ActivityKernel13
    CUpti_ActivityMemcpy5 CUpti_ActivityMemcpyPtoP4 CUpti_ActivityMemset4
}

/// Copies a record out of the bytes that begin with it; `None` if there are too few.
///
/// The bytes may go on after the record, and need no alignment. Pointers in the copy are CUPTI's:
/// valid as long as CUPTI promises in the process that it wrote them in, and meaningless elsewhere.
pub fn read<R: Record>(bytes: &[u8]) -> Option<R> {
    let bytes = bytes.get(..size_of::<R>())?;
    // SAFETY: as many bytes as the struct has are readable, and any bytes are a valid one.
    Some(unsafe { bytes.as_ptr().cast::<R>().read_unaligned() })
}

/// The kind of the record that the bytes begin with.
pub fn kind(bytes: &[u8]) -> Option<cupti::CUpti_ActivityKind> {
    bytes.first_chunk::<4>().map(|kind| u32::from_ne_bytes(*kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_need_no_alignment() {
        let mut shifted = vec![0xff; 1 + size_of::<Kernel>()];
        shifted[1 + 16..][..8].copy_from_slice(&42_u64.to_ne_bytes());
        let kernel: Kernel = read(&shifted[1..]).expect("a kernel");
        let start = kernel.start;
        assert_eq!(start, 42);
        assert!(read::<Kernel>(&shifted[2..]).is_none());
    }
}
