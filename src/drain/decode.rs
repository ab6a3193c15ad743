//! The bytes of one CUPTI activity record into an [`Activity`].
//!
//! Fields are read at the offsets that hold from CUPTI 11.8 to 13.x (records are only ever
//! extended at their end; `cupti_sys::layout` asserts the offsets against the bindings). Where
//! a record ends, and the texts that it points to, are the business of `records`.

use stage2_spool::GpuNs;

/// A CUPTI activity record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activity {
    /// A kernel ran.
    Kernel(KernelActivity),
    /// A copy or a fill ran.
    Transfer(TransferActivity),
    /// A whole graph ran.
    Graph(GraphActivity),
    /// A GPU is there.
    Device(DeviceActivity),
    /// A kind that we did not ask for, or too few bytes for its kind.
    Unreadable,
}

/// Where and when something ran on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Execution {
    /// Start; 0 where CUPTI could not take it.
    pub start: GpuNs,
    /// End.
    pub end: GpuNs,
    /// CUPTI's device id.
    pub device: u32,
    /// CUPTI's context id.
    pub context: u32,
    /// CUPTI's stream id.
    pub stream: u32,
    /// Correlation id of the launching call.
    pub correlation: u32,
    /// Node of an executable graph; 0 is none.
    pub graph_node: u64,
}

impl Execution {
    /// Whether CUPTI took both times and they are in order.
    pub fn is_timed(&self) -> bool {
        self.start.0 != 0 && self.end >= self.start
    }
}

/// A kernel record.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KernelActivity {
    /// Where and when.
    pub execution: Execution,
    /// Address of the mangled, NUL-terminated name; CUPTI keeps it.
    pub name: usize,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Static shared memory per block, bytes.
    pub static_shared_bytes: u32,
    /// Dynamic shared memory per block, bytes.
    pub dynamic_shared_bytes: u32,
    /// Registers per thread.
    pub registers_per_thread: u32,
    /// Local memory per thread, bytes.
    pub local_bytes_per_thread: u32,
}

/// A copy or fill record.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TransferActivity {
    /// Where and when.
    pub execution: Execution,
    /// Bytes moved or filled.
    pub bytes: u64,
    /// `CUpti_ActivityMemcpyKind` of a copy; `None` for a fill.
    pub copy_kind: Option<u8>,
}

/// A graph-level record.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct GraphActivity {
    /// Where and when.
    pub execution: Execution,
    /// The executable graph.
    pub graph: u32,
}

/// A device record.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DeviceActivity {
    /// Index.
    pub id: u32,
    /// Address of its NUL-terminated name.
    pub name: usize,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Compute capability.
    pub compute_capability: (u32, u32),
    /// Global memory, bytes.
    pub memory_bytes: u64,
    /// Memory bandwidth, kB/s.
    pub bandwidth_kb_per_s: u64,
    /// Core clock, kHz.
    pub core_clock_khz: u32,
    /// L2 cache, bytes.
    pub l2_bytes: u32,
    /// UUID.
    pub uuid: [u8; 16],
}

/// The kinds of records that are read here.
mod kind {
    pub(super) use cupti_sys::bindings::{
        CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL as CONCURRENT_KERNEL,
        CUPTI_ACTIVITY_KIND_DEVICE as DEVICE, CUPTI_ACTIVITY_KIND_GRAPH_TRACE as GRAPH_TRACE,
        CUPTI_ACTIVITY_KIND_MEMCPY as MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY2 as MEMCPY2,
        CUPTI_ACTIVITY_KIND_MEMSET as MEMSET,
    };
}

/// Reads the record that starts at `bytes[0]`. Bytes behind its end may follow.
pub fn decode(bytes: &[u8]) -> Activity {
    Fields(bytes).activity().unwrap_or(Activity::Unreadable)
}

/// Reads fields at offsets; `None` beyond the end of the bytes.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn activity(&self) -> Option<Activity> {
        match self.u32(0)? {
            kind::CONCURRENT_KERNEL => self.kernel().map(Activity::Kernel),
            kind::MEMCPY => self.transfer(Offsets::MEMCPY).map(Activity::Transfer),
            kind::MEMCPY2 => self.transfer(Offsets::MEMCPY2).map(Activity::Transfer),
            kind::MEMSET => self.transfer(Offsets::MEMSET).map(Activity::Transfer),
            kind::GRAPH_TRACE => self.graph().map(Activity::Graph),
            kind::DEVICE => self.device().map(Activity::Device),
            _ => None,
        }
    }

    fn kernel(&self) -> Option<KernelActivity> {
        Some(KernelActivity {
            execution: Execution {
                start: GpuNs(self.u64(16)?),
                end: GpuNs(self.u64(24)?),
                device: self.u32(40)?,
                context: self.u32(44)?,
                stream: self.u32(48)?,
                correlation: self.u32(92)?,
                graph_node: self.u64(144)?,
            },
            name: self.u64(104)? as usize,
            grid: [self.u32(52)?, self.u32(56)?, self.u32(60)?],
            block: [self.u32(64)?, self.u32(68)?, self.u32(72)?],
            static_shared_bytes: self.u32(76)?,
            dynamic_shared_bytes: self.u32(80)?,
            registers_per_thread: u32::from(self.u16(6)?),
            local_bytes_per_thread: self.u32(84)?,
        })
    }

    fn transfer(&self, at: Offsets) -> Option<TransferActivity> {
        Some(TransferActivity {
            execution: Execution {
                start: GpuNs(self.u64(16)?),
                end: GpuNs(self.u64(24)?),
                device: self.u32(32)?,
                context: self.u32(36)?,
                stream: self.u32(40)?,
                correlation: self.u32(at.correlation)?,
                graph_node: self.u64(at.graph_node)?,
            },
            bytes: self.u64(8)?,
            copy_kind: at.copy_kind.and_then(|at| self.0.get(at).copied()),
        })
    }

    fn graph(&self) -> Option<GraphActivity> {
        Some(GraphActivity {
            execution: Execution {
                start: GpuNs(self.u64(8)?),
                end: GpuNs(self.u64(16)?),
                device: self.u32(24)?,
                context: self.u32(32)?,
                stream: self.u32(36)?,
                correlation: self.u32(4)?,
                graph_node: 0,
            },
            graph: self.u32(28)?,
        })
    }

    fn device(&self) -> Option<DeviceActivity> {
        Some(DeviceActivity {
            id: self.u32(112)?,
            name: self.u64(136)? as usize,
            multiprocessors: self.u32(44)?,
            compute_capability: (self.u32(104)?, self.u32(108)?),
            memory_bytes: self.u64(16)?,
            bandwidth_kb_per_s: self.u64(8)?,
            core_clock_khz: self.u32(36)?,
            l2_bytes: self.u32(28)?,
            uuid: self.0.get(120..136)?.try_into().ok()?,
        })
    }

    fn u16(&self, at: usize) -> Option<u16> {
        self.0.get(at..at + 2)?.try_into().ok().map(u16::from_ne_bytes)
    }

    fn u32(&self, at: usize) -> Option<u32> {
        self.0.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
    }

    fn u64(&self, at: usize) -> Option<u64> {
        self.0.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes)
    }
}

/// Where the transfer records differ.
#[derive(Clone, Copy)]
struct Offsets {
    correlation: usize,
    graph_node: usize,
    copy_kind: Option<usize>,
}

impl Offsets {
    const MEMCPY: Offsets = Offsets { correlation: 44, graph_node: 64, copy_kind: Some(4) };
    const MEMCPY2: Offsets = Offsets { correlation: 60, graph_node: 72, copy_kind: Some(4) };
    const MEMSET: Offsets = Offsets { correlation: 44, graph_node: 64, copy_kind: None };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_and_kind_is_survived() {
        for kind in 0..64u32 {
            let mut bytes = vec![0xFF; 256];
            bytes[..4].copy_from_slice(&kind.to_ne_bytes());
            for length in 0..bytes.len() {
                let _ = decode(&bytes[..length]);
            }
        }
    }

    #[test]
    fn a_short_record_is_unreadable_not_half_read() {
        let mut bytes = vec![0; 152];
        bytes[0] = kind::CONCURRENT_KERNEL as u8;
        assert!(matches!(decode(&bytes), Activity::Kernel(_)));
        assert_eq!(decode(&bytes[..151]), Activity::Unreadable);
    }

    #[test]
    fn a_kernel_without_times_is_not_timed() {
        assert!(!Execution::default().is_timed());
        let backwards = Execution { start: GpuNs(5), end: GpuNs(4), ..Execution::default() };
        assert!(!backwards.is_timed());
    }
}
