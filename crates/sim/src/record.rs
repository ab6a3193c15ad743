//! Writes finished work as the bytes of CUPTI activity records.
//!
//! Offsets are those of the newest structs. Fields were only ever appended, so a record of an
//! older version is the front of this one: what does not fit its size is left out.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::abi::kind;
use crate::recorded::{Kernel, Work, recorded};
use crate::version::Version;

/// The one simulated device, and the one context.
pub(crate) const DEVICE_ID: u32 = 0;
pub(crate) const CONTEXT_ID: u32 = 1;
/// CUPTI's id of the default stream.
pub(crate) const NULL_STREAM_ID: u32 = 7;
/// Name of the device, which must not pass for a real one.
pub(crate) const DEVICE_NAME: &CStr = c"NVIDIA H200 (simulated)";

/// The compute capability (major) of the first GPUs whose hardware times kernels.
const BLACKWELL: u32 = 10;
/// The device is such a GPU, and not the recorded one.
pub(crate) static IS_BLACKWELL: AtomicBool = AtomicBool::new(false);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    /// Start, ns; 0 with `end_ns` 0 for a record without valid times.
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) stream_id: u32,
    pub(crate) correlation_id: u32,
}

/// What is wrong with the record of a kernel, besides its times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Damage {
    #[default]
    None,
    /// Its name is null.
    NoName,
    /// Its kind is [`kind::UNKNOWN`].
    UnknownKind,
}

/// `node` is (graph id, graph node id), zeros for a plain launch; `thread` calls the driver.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Record {
    Work { work: Work, span: Span, node: (u32, u64), grid_id: u64, damage: Damage },
    GraphTrace { span: Span, graph_id: u32 },
    Api { cbid: u32, start_ns: u64, end_ns: u64, thread: u32, correlation_id: u32, result: u32 },
    Device,
    Context,
}

impl Record {
    /// `CUpti_ActivityKind`.
    pub(crate) fn kind(&self) -> u32 {
        match self {
            Record::Work { work: Work::Kernel(_), .. } => kind::CONCURRENT_KERNEL,
            Record::Work { work: Work::Memcpy { .. }, .. } => kind::MEMCPY,
            Record::Work { work: Work::Memset { .. }, .. } => kind::MEMSET,
            Record::GraphTrace { .. } => kind::GRAPH_TRACE,
            Record::Api { .. } => kind::DRIVER,
            Record::Device => kind::DEVICE,
            Record::Context => kind::CONTEXT,
        }
    }

    /// Whether it is about work on the GPU, as against the device or the host.
    pub(crate) fn is_gpu_work(&self) -> bool {
        matches!(self, Record::Work { .. } | Record::GraphTrace { .. })
    }

    /// Bytes of the record in a version; 0 never happens for the kinds above.
    pub(crate) fn size(&self, version: &Version) -> usize {
        version.record_bytes(self.kind()).unwrap_or(0)
    }

    /// Writes the record over `out`, which is as long as [`Record::size`] says.
    pub(crate) fn encode(&self, out: &mut [u8]) {
        out.fill(0);
        let mut to = Fields(out);
        match *self {
            Record::Work { work: Work::Kernel(kernel), span, node, grid_id, damage } => {
                encode_kernel(&mut to, &kernel, span, node, grid_id);
                if damage == Damage::NoName {
                    to.u64(NAME_AT, 0);
                }
            }
            Record::Work { work: Work::Memcpy { bytes, copy_kind }, span, node, .. } => {
                // CUpti_ActivityMemoryKind: 1 pageable host memory, 3 device memory.
                let (from, into) = match copy_kind {
                    1 => (1, 3),
                    2 => (3, 1),
                    _ => (3, 3),
                };
                to.put(4, [copy_kind, from, into]);
                encode_transfer(&mut to, bytes, span, node);
                to.put(88, 1_u64.to_le_bytes());
            }
            Record::Work { work: Work::Memset { bytes, value }, span, node, .. } => {
                to.u32(4, value);
                encode_transfer(&mut to, bytes, span, node);
                to.put(50, 3_u16.to_le_bytes());
            }
            Record::GraphTrace { span, graph_id } => {
                to.u32(4, span.correlation_id);
                to.u64(8, span.start_ns);
                to.u64(16, span.end_ns);
                to.u32(24, DEVICE_ID);
                to.u32(28, graph_id);
                to.u32(32, CONTEXT_ID);
                to.u32(36, span.stream_id);
                to.u32(48, DEVICE_ID);
                to.u32(52, CONTEXT_ID);
            }
            Record::Api { cbid, start_ns, end_ns, thread, correlation_id, result } => {
                to.u32(4, cbid);
                to.u64(8, start_ns);
                to.u64(16, end_ns);
                to.u32(24, std::process::id());
                to.u32(28, thread);
                to.u32(32, correlation_id);
                to.u32(36, result);
            }
            Record::Device => encode_device(&mut to),
            Record::Context => {
                to.u32(4, CONTEXT_ID);
                to.u32(8, DEVICE_ID);
                to.put(12, 1_u16.to_le_bytes());
                to.put(14, 7_u16.to_le_bytes());
                to.put(32, u64::from(std::process::id()).to_le_bytes());
            }
        }
        // Last, as CUPTI does it: a record whose kind is 0 is not complete.
        let damaged = matches!(self, Record::Work { damage: Damage::UnknownKind, .. });
        to.u32(0, if damaged { kind::UNKNOWN } else { self.kind() });
    }
}

/// Where a kernel's record has its name.
const NAME_AT: usize = 104;

fn encode_kernel(to: &mut Fields, kernel: &Kernel, span: Span, node: (u32, u64), grid_id: u64) {
    to.put(6, kernel.registers_per_thread.to_le_bytes());
    // Partitioned global caching: not supported by the device.
    to.u32(8, 1);
    to.u32(12, 1);
    to.u64(16, span.start_ns);
    to.u64(24, span.end_ns);
    to.u64(32, span.end_ns);
    to.u32(40, DEVICE_ID);
    to.u32(44, CONTEXT_ID);
    to.u32(48, span.stream_id);
    for (axis, (blocks, threads)) in kernel.grid.into_iter().zip(kernel.block).enumerate() {
        to.u32(52 + axis * 4, blocks);
        to.u32(64 + axis * 4, threads);
    }
    to.u32(76, kernel.static_shared_bytes);
    to.u32(80, kernel.dynamic_shared_bytes);
    to.u32(84, kernel.local_bytes_per_thread);
    to.u32(92, span.correlation_id);
    to.u64(96, grid_id);
    to.u64(NAME_AT, kernel.name.as_ptr().addr() as u64);
    to.u64(144, node.1);
    to.u32(156, node.0);
    to.u32(172, 1);
}

/// The fields that copies and fills have at the same offsets.
fn encode_transfer(to: &mut Fields, bytes: u64, span: Span, node: (u32, u64)) {
    to.u64(8, bytes);
    to.u64(16, span.start_ns);
    to.u64(24, span.end_ns);
    to.u32(32, DEVICE_ID);
    to.u32(36, CONTEXT_ID);
    to.u32(40, span.stream_id);
    to.u32(44, span.correlation_id);
    to.u64(64, node.1);
    to.u32(72, node.0);
    to.u32(80, 1);
}

fn encode_device(to: &mut Fields) {
    to.u64(8, recorded().device_fact("global_memory_bandwidth_kb_per_s"));
    to.u64(16, recorded().device_fact("global_memory_bytes"));
    for (at, key) in [
        (24, "constant_memory_bytes"),
        (28, "l2_cache_bytes"),
        (32, "threads_per_warp"),
        (36, "core_clock_khz"),
        (40, "memcpy_engines"),
        (44, "multiprocessors"),
        (52, "max_warps_per_multiprocessor"),
        (56, "max_blocks_per_multiprocessor"),
        (60, "max_shared_bytes_per_multiprocessor"),
        (64, "max_registers_per_multiprocessor"),
        (68, "max_registers_per_block"),
        (72, "max_shared_bytes_per_block"),
        (76, "max_threads_per_block"),
        (104, "compute_capability_major"),
        (108, "compute_capability_minor"),
    ] {
        to.u32(at, u32::try_from(recorded().device_fact(key)).unwrap_or(u32::MAX));
    }
    if IS_BLACKWELL.load(Ordering::Relaxed) {
        to.u32(104, BLACKWELL);
    }
    to.u32(112, DEVICE_ID);
    to.put(120, *b"stage2-simulated");
    to.u64(136, DEVICE_NAME.as_ptr().addr() as u64);
    // Visible to CUDA.
    to.put(144, [1]);
}

/// A record being written; a field past its end is one that its version does not have.
struct Fields<'a>(&'a mut [u8]);

impl Fields<'_> {
    fn put<const N: usize>(&mut self, at: usize, value: [u8; N]) {
        if let Some(field) = self.0.get_mut(at..at + N) {
            field.copy_from_slice(&value);
        }
    }

    fn u32(&mut self, at: usize, value: u32) {
        self.put(at, value.to_le_bytes());
    }

    fn u64(&mut self, at: usize, value: u64) {
        self.put(at, value.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Span = Span { start_ns: 10, end_ns: 30, stream_id: 9, correlation_id: 77 };

    fn u32_at(bytes: &[u8], at: usize) -> u32 {
        u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
    }

    #[test]
    fn a_kernel_record_has_its_fields_where_cupti_has_them() {
        let work = recorded().sequences[0][0].work;
        let record = Record::Work {
            work,
            span: SPAN,
            node: (2, 0x2_0000_0005),
            grid_id: 4,
            damage: Damage::None,
        };
        let mut bytes = vec![0xff; 216];
        record.encode(&mut bytes);
        assert_eq!(u32_at(&bytes, 0), kind::CONCURRENT_KERNEL);
        assert_eq!((u32_at(&bytes, 16), u32_at(&bytes, 24)), (10, 30));
        assert_eq!((u32_at(&bytes, 48), u32_at(&bytes, 92)), (9, 77));
        assert_eq!((u32_at(&bytes, 52), u32_at(&bytes, 64)), (512, 256));
        assert_eq!((u32_at(&bytes, 144), u32_at(&bytes, 148), u32_at(&bytes, 156)), (5, 2, 2));
    }

    #[test]
    fn an_older_record_is_the_front_of_a_newer_one() {
        let record = Record::GraphTrace { span: SPAN, graph_id: 3 };
        let (mut old, mut new) = (vec![0; 48], vec![0; 56]);
        record.encode(&mut old);
        record.encode(&mut new);
        assert_eq!(old, new[..48]);
        assert_eq!(u32_at(&new, 52), CONTEXT_ID);
    }

    #[test]
    fn the_device_is_the_recorded_one_and_says_that_it_is_simulated() {
        let mut bytes = vec![0; 184];
        Record::Device.encode(&mut bytes);
        assert_eq!(u32_at(&bytes, 44), 132);
        assert_eq!((u32_at(&bytes, 104), u32_at(&bytes, 108)), (9, 0));
        assert!(DEVICE_NAME.to_str().expect("ASCII").contains("simulated"));
    }
}
