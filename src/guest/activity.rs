//! A full buffer into its records, decoded, with the texts that they point to. Our thread calls this;
//! behind it nobody needs CUPTI to understand a record.
//!
//! Each record of the first activity API is read as the oldest struct of its kind
//! ([`cupti_sys::record`]): from CUPTI 11.8 to 13.x records are only ever extended at their end. Only
//! CUPTI knows where a record ends ([`Walker`]). Records of the second one hold the chosen [`fields`],
//! in the places that CUPTI tells ([`chosen`]).

pub(crate) mod chosen;
pub(crate) mod fields;

use std::ffi::c_char;
use std::ptr;

use cupti_sys::bindings as sys;
use cupti_sys::{Walker, record};
use stage2_contract::trace::{Device, GpuNs, Queue, Shape};

use crate::base::diag;
use crate::guest::pool::{CHOSEN_RECORD_BYTES, FullBuffer, RECORD_BYTES, records_in};

/// Longer texts are cut, bytes. The longest kernel name seen in real captures is below 4 KiB.
const TEXT_LIMIT: usize = 64 << 10;

/// What a CUPTI activity record says.
#[derive(Debug, PartialEq)]
pub(crate) enum Activity {
    /// A kernel ran. The shape has no number and no name yet.
    Kernel { ran: Execution, shape: Shape, name: Text },
    /// A copy or a fill ran.
    Transfer {
        ran: Execution,
        /// Bytes moved or filled.
        bytes: u64,
        /// `CUpti_ActivityMemcpyKind` of a copy; `None` for a fill.
        copy_kind: Option<u8>,
    },
    /// A whole graph ran.
    Graph { ran: Execution, graph: u32 },
    /// A GPU is there. Its name is the text.
    Device(Device, Text),
    /// A kind that we did not ask for, or too few bytes for its kind.
    Unreadable,
}

/// Where and when something ran on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Execution {
    /// Start; 0 where CUPTI could not take it.
    pub(crate) start: GpuNs,
    pub(crate) end: GpuNs,
    /// Where it was queued. The queue has no number yet.
    pub(crate) queue: Queue,
    /// Correlation id of the launching call.
    pub(crate) correlation: u32,
    /// Node of an executable graph; 0 is none.
    pub(crate) graph_node: u64,
}

impl Execution {
    /// CUPTI took both times, and they are in order.
    pub(crate) fn is_timed(&self) -> bool {
        self.start.0 != 0 && self.end >= self.start
    }
}

/// Where and when the work of a record ran: these fields have the same names in all structs.
macro_rules! execution {
    ($record:ident, $graph_node:expr) => {
        Execution {
            start: GpuNs($record.start),
            end: GpuNs($record.end),
            queue: Queue {
                id: 0,
                device: $record.deviceId,
                context: $record.contextId,
                stream: $record.streamId,
            },
            correlation: $record.correlationId,
            graph_node: $graph_node,
        }
    };
}

/// Reads the record that starts at `bytes[0]`. Bytes behind its end may follow. `None`: unreadable.
#[inline]
fn decode(bytes: &[u8]) -> Option<Activity> {
    Some(match record::kind(bytes)? {
        sys::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL => {
            let kernel: record::Kernel = record::read(bytes)?;
            Activity::Kernel {
                ran: execution!(kernel, kernel.graphNodeId),
                shape: Shape {
                    id: 0,
                    name: 0,
                    grid: [kernel.gridX, kernel.gridY, kernel.gridZ].map(|size| size as u32),
                    block: [kernel.blockX, kernel.blockY, kernel.blockZ].map(|size| size as u32),
                    static_shared_bytes: kernel.staticSharedMemory as u32,
                    dynamic_shared_bytes: kernel.dynamicSharedMemory as u32,
                    registers_per_thread: kernel.registersPerThread.into(),
                    local_bytes_per_thread: kernel.localMemoryPerThread,
                },
                name: Text(kernel.name),
            }
        }
        sys::CUPTI_ACTIVITY_KIND_MEMCPY => {
            let copy: record::Memcpy = record::read(bytes)?;
            let (ran, copy_kind) = (execution!(copy, copy.graphNodeId), Some(copy.copyKind));
            Activity::Transfer { ran, bytes: copy.bytes, copy_kind }
        }
        sys::CUPTI_ACTIVITY_KIND_MEMCPY2 => {
            let copy: record::MemcpyPeer = record::read(bytes)?;
            let (ran, copy_kind) = (execution!(copy, copy.graphNodeId), Some(copy.copyKind));
            Activity::Transfer { ran, bytes: copy.bytes, copy_kind }
        }
        sys::CUPTI_ACTIVITY_KIND_MEMSET => {
            let fill: record::Memset = record::read(bytes)?;
            let ran = execution!(fill, fill.graphNodeId);
            Activity::Transfer { ran, bytes: fill.bytes, copy_kind: None }
        }
        sys::CUPTI_ACTIVITY_KIND_GRAPH_TRACE => {
            let launch: record::GraphTrace = record::read(bytes)?;
            Activity::Graph { ran: execution!(launch, 0), graph: launch.graphId }
        }
        sys::CUPTI_ACTIVITY_KIND_DEVICE => {
            let device: record::Device = record::read(bytes)?;
            let described = Device {
                id: device.id,
                name: Vec::new(),
                multiprocessors: device.numMultiprocessors,
                compute_capability: (device.computeCapabilityMajor, device.computeCapabilityMinor),
                memory_bytes: device.globalMemorySize,
                bandwidth_kb_per_s: device.globalMemoryBandwidth,
                core_clock_khz: device.coreClockRate,
                l2_bytes: device.l2CacheSize,
                uuid: device.uuid.bytes.map(|byte| byte as u8),
            };
            Activity::Device(described, Text(device.name))
        }
        _ => return None,
    })
}

/// The text that a record points to: the name of a kernel or of a GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Text(*const c_char);

impl Text {
    pub(crate) fn address(self) -> usize {
        self.0 as usize
    }

    /// Its bytes; none where the record points to nothing.
    pub(crate) fn bytes(self) -> &'static [u8] {
        if self.0.is_null() {
            return &[];
        }
        // SAFETY: only `decode` and `chosen` make these, of what a record of CUPTI's points to. CUPTI keeps that
        // text for the life of the process, NUL-terminated; no byte behind the NUL is read.
        unsafe {
            let length = libc::strnlen(self.0, TEXT_LIMIT);
            std::slice::from_raw_parts(self.0.cast(), length)
        }
    }
}

/// Calls `each` with every record of a buffer of either activity API. Gives about how many records could
/// not be read. `walker` is that of the CUPTI that filled the buffer.
pub(crate) fn for_each(full: &FullBuffer, walker: Walker, each: impl FnMut(&Activity)) -> u64 {
    match full.layouts() {
        None => walk(full, walker, each),
        Some(Ok(layouts)) => chosen::for_each(full.bytes(), layouts, each),
        Some(Err(_)) => records_in(full.valid, CHOSEN_RECORD_BYTES),
    }
}

/// Calls `each` with every record of a buffer, up to the end of its valid bytes. Gives about how many
/// records are behind one that CUPTI rejects, which ends the walk; it is one of them.
///
/// No iterator: with the copies that it makes of each record, the drain takes a fifth longer.
fn walk(full: &FullBuffer, walker: Walker, mut each: impl FnMut(&Activity)) -> u64 {
    let (start, valid) = (full.as_ptr(), full.valid);
    // How many were read, and where the last of them starts.
    let (mut read, mut last_at, mut last) = (0, 0, ptr::null_mut());
    if valid == 0 {
        return 0;
    }
    loop {
        // SAFETY: the buffer is as CUPTI completed it, and `last` is null or came from the call before.
        match unsafe { walker.next_record(start, valid, last) } {
            Ok(Some(next)) => last = next.as_ptr(),
            Ok(None) => return 0,
            Err(error) => {
                diag::debug(format_args!("a buffer ends in a record that CUPTI rejects: {error}"));
                return records_behind(read, last_at, valid, RECORD_BYTES);
            }
        }
        let at = (last as usize).wrapping_sub(start as usize);
        match full.bytes().get(at..) {
            Some(bytes) if !bytes.is_empty() && (read == 0 || at > last_at) => {
                (read, last_at) = (read + 1, at);
                each(&decode(bytes).unwrap_or(Activity::Unreadable));
            }
            // CUPTI left the buffer or turned back: nothing behind can be trusted.
            _ => return records_behind(read, last_at, valid, RECORD_BYTES),
        }
    }
}

/// About how many records lie behind the last of those that were `read`, which starts at `last_at`,
/// up to `valid` bytes: as many as their mean length gives, or `typical_bytes` where too few were read,
/// and at least one.
fn records_behind(read: u64, last_at: usize, valid: usize, typical_bytes: usize) -> u64 {
    let all = match read.checked_sub(1).and_then(|steps| (last_at as u64).checked_div(steps)) {
        Some(mean_bytes @ 1..) => (valid as u64).div_ceil(mean_bytes),
        _ => records_in(valid, typical_bytes),
    };
    all.saturating_sub(read).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hazard (Wrong data from the GPU): Records of every length and kind.
    /// Promise: None is read beyond its end.
    #[test]
    fn every_length_and_kind_is_survived() {
        for kind in 0..64u32 {
            let mut bytes = vec![0xFF; 256];
            bytes[..4].copy_from_slice(&kind.to_ne_bytes());
            let whole = match kind {
                sys::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL => size_of::<record::Kernel>(),
                sys::CUPTI_ACTIVITY_KIND_MEMCPY => size_of::<record::Memcpy>(),
                sys::CUPTI_ACTIVITY_KIND_MEMCPY2 => size_of::<record::MemcpyPeer>(),
                sys::CUPTI_ACTIVITY_KIND_MEMSET => size_of::<record::Memset>(),
                sys::CUPTI_ACTIVITY_KIND_GRAPH_TRACE => size_of::<record::GraphTrace>(),
                sys::CUPTI_ACTIVITY_KIND_DEVICE => size_of::<record::Device>(),
                _ => usize::MAX,
            };
            for length in 0..=bytes.len() {
                let is_read = decode(&bytes[..length]).is_some();
                assert_eq!(is_read, length >= whole, "kind {kind}, {length} bytes");
            }
        }
    }

    #[test]
    fn a_short_record_is_unreadable_not_half_read() {
        let whole = size_of::<record::Kernel>();
        let mut bytes = vec![0; whole];
        bytes[0] = sys::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL as u8;
        assert!(matches!(decode(&bytes), Some(Activity::Kernel { .. })));
        assert_eq!(decode(&bytes[..whole - 1]), None);
    }

    #[test]
    fn a_kernel_without_times_is_not_timed() {
        assert!(!Execution::default().is_timed());
        let backwards = Execution { start: GpuNs(5), end: GpuNs(4), ..Execution::default() };
        assert!(!backwards.is_timed());
    }

    #[test]
    fn records_behind_a_rejected_one_are_estimated_from_those_before_it() {
        let records_behind =
            |read, last_at, valid| records_behind(read, last_at, valid, RECORD_BYTES);
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
