//! A full buffer into its records, decoded, with the texts that they point to. Our thread calls this;
//! behind it nobody needs CUPTI to understand a record.
//!
//! Each record of the first activity API is read as the oldest struct of its kind
//! ([`cupti_sys::record`]): from CUPTI 11.8 to 13.x records are only ever extended at their end. Only
//! CUPTI knows where a record ends ([`Walker`]). Records of the second one hold the chosen [`fields`],
//! in the places that CUPTI tells ([`Plan`]).

pub(crate) mod fields;

use std::ffi::c_char;
use std::ptr;

use cupti_sys::chosen_records::FieldRecord;
use cupti_sys::fields::{Field, Layout, Layouts, Number, Place};
use cupti_sys::{Walker, bindings as sys, record};
use stage2_contract::trace::{Device, GpuNs, Queue, Shape};

use crate::base::diag;
use crate::guest::pool::{CHOSEN_RECORD_BYTES, FullBuffer, RECORD_BYTES, records_in};

/// Longer texts are cut, bytes. The longest kernel name seen in real captures is below 4 KiB.
const TEXT_LIMIT: usize = 64 << 10;

#[derive(Debug, PartialEq)]
pub(crate) enum Activity {
    /// A kernel ran. The shape has no number and no name yet.
    Kernel { ran: Execution, shape: Shape, name: Text },
    /// A copy or a fill ran.
    Transfer {
        ran: Execution,
        bytes: u64,
        /// `CUpti_ActivityMemcpyKind` of a copy; `None` for a fill.
        copy_kind: Option<u8>,
    },
    /// A graph ran, as a whole.
    Graph { ran: Execution, graph: u32 },
    /// A GPU is there. Its name is the text.
    Device(Device, Text),
    /// A kind that we did not ask for, or too few bytes for its kind.
    Unreadable,
}

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

/// A copy or a fill: as [`execution`].
macro_rules! transfer {
    ($record:ident, $copy_kind:expr) => {
        Activity::Transfer {
            ran: execution!($record, $record.graphNodeId),
            bytes: $record.bytes,
            copy_kind: $copy_kind,
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
            transfer!(copy, Some(copy.copyKind))
        }
        sys::CUPTI_ACTIVITY_KIND_MEMCPY2 => {
            let copy: record::MemcpyPeer = record::read(bytes)?;
            transfer!(copy, Some(copy.copyKind))
        }
        sys::CUPTI_ACTIVITY_KIND_MEMSET => {
            let fill: record::Memset = record::read(bytes)?;
            transfer!(fill, None)
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
        // SAFETY: only `decode` and [`Plan::read`] make these, of what a record of CUPTI's points to. CUPTI keeps that
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
        Some(Ok(layouts)) => for_each_chosen(full.bytes(), layouts, each),
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

// Records of the second activity API. CUPTI tells with each buffer where the fields lie
// ([`cupti_sys::fields`]). Out of that comes a [`Plan`] for each kind, once a buffer. A record without one of
// the fields that were asked for counts as unreadable: nothing takes the place of what is not known.

/// Bytes that the numbers of a record may have: addresses and times all of them, others fewer.
const WHOLE: &[u16] = &[8];
const ANY: &[u16] = &[1, 2, 4, 8];
const UP_TO_4: &[u16] = &[1, 2, 4];
const UUID_BYTES: usize = 16;

#[derive(Clone, Debug)]
enum Plan {
    Kernel {
        ran: Ran,
        grid: [Number; 3],
        block: [Number; 3],
        static_shared: Number,
        dynamic_shared: Number,
        registers: Number,
        local: Number,
        name: Number,
    },
    Transfer {
        ran: Ran,
        bytes: Number,
        /// `None` for a fill.
        copy_kind: Option<Number>,
    },
    Graph {
        ran: Ran,
        graph: Number,
    },
    Device {
        /// Id, multiprocessors, major and minor compute capability, clock and L2 cache.
        small: [Number; 6],
        memory: Number,
        bandwidth: Number,
        name: Number,
        uuid: Place,
    },
}

#[derive(Clone, Debug)]
struct Ran {
    start: Number,
    end: Number,
    device: Number,
    context: Number,
    stream: Number,
    correlation: Number,
    graph_node: Option<Number>,
}

/// The ids of the fields of an [`Execution`], which each kind numbers in its own way.
macro_rules! ran {
    ($numbers:ident, $start:ident, $end:ident, $device:ident, $context:ident, $stream:ident,
     $correlation:ident, $graph_node:expr) => {
        Ran {
            start: $numbers.of(sys::$start, WHOLE)?,
            end: $numbers.of(sys::$end, WHOLE)?,
            device: $numbers.of(sys::$device, UP_TO_4)?,
            context: $numbers.of(sys::$context, ANY)?,
            stream: $numbers.of(sys::$stream, ANY)?,
            correlation: $numbers.of(sys::$correlation, ANY)?,
            graph_node: match $graph_node {
                Some(node) => Some($numbers.of(node, WHOLE)?),
                None => None,
            },
        }
    };
}

/// The fields of a layout as numbers of a width that they can have.
struct Numbers<'a>(&'a Layout);

impl Numbers<'_> {
    fn of(&self, field: u32, widths: &[u16]) -> Option<Number> {
        let field = Field::new(field);
        let place = self.0.place(field).filter(|place| widths.contains(&place.bytes));
        place.and_then(|_| self.0.number(field))
    }
}

impl Plan {
    /// The plan for a layout; `None` where it lacks a field, or cannot be right: a field has a width that
    /// it cannot have, or lies over another one.
    fn of(layout: &Layout) -> Option<Self> {
        if has_overlaps(layout.places()) {
            return None;
        }
        let numbers = Numbers(layout);
        let small = |field| numbers.of(field, UP_TO_4);
        Some(match layout.kind() {
            sys::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL => {
                let ran = ran! {
                    numbers, KERNEL_FIELD_START, KERNEL_FIELD_END, KERNEL_FIELD_DEVICE_ID,
                    KERNEL_FIELD_CONTEXT_ID, KERNEL_FIELD_STREAM_ID, KERNEL_FIELD_CORRELATION_ID,
                    Some(sys::KERNEL_FIELD_GRAPH_NODE_ID)
                };
                let three = |x, y, z| Some([small(x)?, small(y)?, small(z)?]);
                use sys::{KERNEL_FIELD_BLOCK_X, KERNEL_FIELD_BLOCK_Y, KERNEL_FIELD_BLOCK_Z};
                use sys::{KERNEL_FIELD_GRID_X, KERNEL_FIELD_GRID_Y, KERNEL_FIELD_GRID_Z};
                Plan::Kernel {
                    ran,
                    grid: three(KERNEL_FIELD_GRID_X, KERNEL_FIELD_GRID_Y, KERNEL_FIELD_GRID_Z)?,
                    block: three(KERNEL_FIELD_BLOCK_X, KERNEL_FIELD_BLOCK_Y, KERNEL_FIELD_BLOCK_Z)?,
                    static_shared: small(sys::KERNEL_FIELD_STATIC_SHARED_MEMORY)?,
                    dynamic_shared: small(sys::KERNEL_FIELD_DYNAMIC_SHARED_MEMORY)?,
                    registers: small(sys::KERNEL_FIELD_REGISTERS_PER_THREAD)?,
                    local: small(sys::KERNEL_FIELD_LOCAL_MEMORY_PER_THREAD)?,
                    name: numbers.of(sys::KERNEL_FIELD_NAME, WHOLE)?,
                }
            }
            sys::CUPTI_ACTIVITY_KIND_MEMCPY => Plan::Transfer {
                ran: ran! {
                    numbers, MEMCPY_FIELD_START, MEMCPY_FIELD_END, MEMCPY_FIELD_DEVICE_ID,
                    MEMCPY_FIELD_CONTEXT_ID, MEMCPY_FIELD_STREAM_ID, MEMCPY_FIELD_CORRELATION_ID,
                    Some(sys::MEMCPY_FIELD_GRAPH_NODE_ID)
                },
                bytes: numbers.of(sys::MEMCPY_FIELD_BYTES, WHOLE)?,
                copy_kind: Some(small(sys::MEMCPY_FIELD_COPY_KIND)?),
            },
            sys::CUPTI_ACTIVITY_KIND_MEMCPY2 => Plan::Transfer {
                ran: ran! {
                    numbers, MEMCPY2_FIELD_START, MEMCPY2_FIELD_END, MEMCPY2_FIELD_DEVICE_ID,
                    MEMCPY2_FIELD_CONTEXT_ID, MEMCPY2_FIELD_STREAM_ID, MEMCPY2_FIELD_CORRELATION_ID,
                    Some(sys::MEMCPY2_FIELD_GRAPH_NODE_ID)
                },
                bytes: numbers.of(sys::MEMCPY2_FIELD_BYTES, WHOLE)?,
                copy_kind: Some(small(sys::MEMCPY2_FIELD_COPY_KIND)?),
            },
            sys::CUPTI_ACTIVITY_KIND_MEMSET => Plan::Transfer {
                ran: ran! {
                    numbers, MEMSET_FIELD_START, MEMSET_FIELD_END, MEMSET_FIELD_DEVICE_ID,
                    MEMSET_FIELD_CONTEXT_ID, MEMSET_FIELD_STREAM_ID, MEMSET_FIELD_CORRELATION_ID,
                    Some(sys::MEMSET_FIELD_GRAPH_NODE_ID)
                },
                bytes: numbers.of(sys::MEMSET_FIELD_BYTES, WHOLE)?,
                copy_kind: None,
            },
            sys::CUPTI_ACTIVITY_KIND_GRAPH_TRACE => Plan::Graph {
                ran: ran! {
                    numbers, GRAPH_TRACE_FIELD_START, GRAPH_TRACE_FIELD_END,
                    GRAPH_TRACE_FIELD_DEVICE_ID, GRAPH_TRACE_FIELD_CONTEXT_ID,
                    GRAPH_TRACE_FIELD_STREAM_ID, GRAPH_TRACE_FIELD_CORRELATION_ID, None::<u32>
                },
                graph: small(sys::GRAPH_TRACE_FIELD_GRAPH_ID)?,
            },
            sys::CUPTI_ACTIVITY_KIND_DEVICE => {
                let uuid = layout.place(Field::new(sys::DEVICE_FIELD_UUID))?;
                Plan::Device {
                    small: [
                        small(sys::DEVICE_FIELD_ID)?,
                        small(sys::DEVICE_FIELD_NUM_MULTIPROCESSORS)?,
                        small(sys::DEVICE_FIELD_COMPUTE_CAPABILITY_MAJOR)?,
                        small(sys::DEVICE_FIELD_COMPUTE_CAPABILITY_MINOR)?,
                        small(sys::DEVICE_FIELD_CORE_CLOCK_RATE)?,
                        small(sys::DEVICE_FIELD_L2_CACHE_SIZE)?,
                    ],
                    memory: numbers.of(sys::DEVICE_FIELD_GLOBAL_MEMORY_SIZE, ANY)?,
                    bandwidth: numbers.of(sys::DEVICE_FIELD_GLOBAL_MEMORY_BANDWIDTH, ANY)?,
                    name: numbers.of(sys::DEVICE_FIELD_NAME, WHOLE)?,
                    uuid: Some(uuid).filter(|uuid| usize::from(uuid.bytes) == UUID_BYTES)?,
                }
            }
            _ => return None,
        })
    }

    /// Reads a record of the plan's layout. `None`: unreadable.
    #[inline]
    fn read(&self, record: &FieldRecord<'_>) -> Option<Activity> {
        // What has more than 32 bits here and fewer in the first API is cut to what that one would say:
        // call numbers wrap there, and "no stream" is all ones in both.
        let low = |number: Number| record.get(number).map(|value| value as u32);
        let three = |[x, y, z]: [Number; 3]| Some([low(x)?, low(y)?, low(z)?]);
        let text = |number| Some(Text(record.get(number)? as usize as *const _));
        Some(match self {
            Plan::Kernel {
                ran,
                grid,
                block,
                static_shared,
                dynamic_shared,
                registers,
                local,
                name,
            } => {
                let shape = Shape {
                    id: 0,
                    name: 0,
                    grid: three(*grid)?,
                    block: three(*block)?,
                    static_shared_bytes: low(*static_shared)?,
                    dynamic_shared_bytes: low(*dynamic_shared)?,
                    registers_per_thread: low(*registers)?,
                    local_bytes_per_thread: low(*local)?,
                };
                Activity::Kernel { ran: ran.read(record)?, shape, name: text(*name)? }
            }
            Plan::Transfer { ran, bytes, copy_kind } => Activity::Transfer {
                ran: ran.read(record)?,
                bytes: record.get(*bytes)?,
                copy_kind: match copy_kind {
                    Some(kind) => Some(u8::try_from(record.get(*kind)?).unwrap_or(u8::MAX)),
                    None => None,
                },
            },
            Plan::Graph { ran, graph } => {
                Activity::Graph { ran: ran.read(record)?, graph: low(*graph)? }
            }
            Plan::Device { small, memory, bandwidth, name, uuid } => {
                let [id, multiprocessors, major, minor, clock, l2] = *small;
                let uuid = record.bytes.get(usize::from(uuid.offset)..)?;
                let described = Device {
                    id: low(id)?,
                    name: Vec::new(),
                    multiprocessors: low(multiprocessors)?,
                    compute_capability: (low(major)?, low(minor)?),
                    memory_bytes: record.get(*memory)?,
                    bandwidth_kb_per_s: record.get(*bandwidth)?,
                    core_clock_khz: low(clock)?,
                    l2_bytes: low(l2)?,
                    uuid: *uuid.first_chunk::<UUID_BYTES>()?,
                };
                Activity::Device(described, text(*name)?)
            }
        })
    }
}

impl Ran {
    #[inline]
    fn read(&self, record: &FieldRecord<'_>) -> Option<Execution> {
        let low = |number: Number| record.get(number).map(|value| value as u32);
        let (device, context, stream) = (low(self.device)?, low(self.context)?, low(self.stream)?);
        Some(Execution {
            start: GpuNs(record.get(self.start)?),
            end: GpuNs(record.get(self.end)?),
            queue: Queue { id: 0, device, context, stream },
            correlation: low(self.correlation)?,
            graph_node: match self.graph_node {
                Some(node) => record.get(node)?,
                None => 0,
            },
        })
    }
}

fn has_overlaps(places: &[Place]) -> bool {
    let end = |place: &Place| u32::from(place.offset) + u32::from(place.bytes);
    let share = |one: &Place, other: &Place| {
        u32::from(one.offset) < end(other) && u32::from(other.offset) < end(one)
    };
    let with_rest = |(at, place)| places.iter().skip(at + 1).any(|other| share(place, other));
    places.iter().enumerate().any(with_rest)
}

/// Calls `each` with every record in the bytes of a buffer. Gives about how many records are behind one
/// that cannot be read on from, which ends the walk; it is one of them.
fn for_each_chosen(bytes: &[u8], layouts: &Layouts, mut each: impl FnMut(&Activity)) -> u64 {
    // As many as CUPTI told layouts, of which most buffers hold one or two.
    let mut plans: Vec<(u32, Option<Plan>)> = Vec::new();
    let (mut read, mut last_at, mut at) = (0, 0, 0);
    for record in layouts.records(bytes) {
        let record = match record {
            Ok(record) => record,
            Err(error) => {
                diag::debug(format_args!("a buffer ends early: {error}"));
                let kernel = layouts.of(sys::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
                let typical = kernel.map_or(CHOSEN_RECORD_BYTES, Layout::record_bytes);
                return records_behind(read, last_at, bytes.len(), typical);
            }
        };
        let kind = record.layout.kind();
        if !plans.iter().any(|&(known, _)| known == kind) {
            plans.push((kind, Plan::of(record.layout)));
        }
        let plan = plans.iter().find(|&&(known, _)| known == kind);
        let activity = plan.and_then(|(_, plan)| plan.as_ref()?.read(&record));
        each(&activity.unwrap_or(Activity::Unreadable));
        (read, last_at) = (read + 1, at);
        at += record.bytes.len();
    }
    0
}

#[cfg(test)]
mod tests {
    use cupti_sys::fields::Completion;

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

    /// A field as CUPTI tells it: id, offset and bytes.
    type Told = (i32, usize, usize);

    /// The table for one kind of records, as CUPTI would tell it.
    fn told(kind: u32, record_bytes: usize, fields: &[Told]) -> Layouts {
        let mut entries: Vec<[u64; 5]> = fields
            .iter()
            .map(|&(id, offset, bytes)| [40, id as u64, offset as u64, bytes as u64, 1])
            .collect();
        let mut layout = sys::CUpti_ActivityRecordLayout {
            structSize: 32,
            pEntries: entries.as_mut_ptr().cast(),
            numFields: entries.len(),
            recordSize: record_bytes,
        };
        let mut by_kind = [ptr::null_mut(); 60];
        by_kind[kind as usize] = &raw mut layout;
        let mut info = sys::CUpti_BufferCallbackCompleteInfo {
            structSize: 32,
            threadId: 1,
            ppRecordLayouts: by_kind.as_mut_ptr(),
            numRecordLayouts: by_kind.len(),
        };
        let mut layouts = Layouts::new();
        // SAFETY: as CUPTI lays it out, until the end of this function.
        let completion = unsafe { Completion::new(&raw mut info) }.unwrap();
        completion.layouts(&mut layouts).unwrap();
        layouts
    }

    const KERNEL: u32 = sys::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;

    /// The fields of kernels that are asked for, in that order and without padding; and their bytes.
    fn kernel_fields() -> (Vec<Told>, usize) {
        let mut at = 0;
        let place = |field: &Field| {
            let bytes = match field.id() as u32 {
                sys::KERNEL_FIELD_START
                | sys::KERNEL_FIELD_END
                | sys::KERNEL_FIELD_NAME
                | sys::KERNEL_FIELD_GRAPH_NODE_ID
                | sys::KERNEL_FIELD_CORRELATION_ID => 8,
                sys::KERNEL_FIELD_REGISTERS_PER_THREAD => 2,
                _ => 4,
            };
            let place = (field.id(), at, bytes);
            at += bytes;
            place
        };
        let places = fields::of(KERNEL).iter().map(place).collect();
        (places, at)
    }

    /// What comes of a buffer: kernels, unreadable records, and those behind.
    fn read(layouts: &Layouts, bytes: &[u8]) -> (Vec<Execution>, usize, u64) {
        let (mut kernels, mut unreadable) = (Vec::new(), 0);
        let behind = for_each_chosen(bytes, layouts, |activity| match activity {
            Activity::Kernel { ran, shape, .. } => {
                assert_eq!(shape.registers_per_thread, 77);
                kernels.push(*ran);
            }
            Activity::Unreadable => unreadable += 1,
            other => panic!("{other:?}"),
        });
        (kernels, unreadable, behind)
    }

    /// A kernel with a start, 77 registers and a call number of more than 32 bits.
    fn kernel(fields: &[Told], record_bytes: usize, start: u64) -> Vec<u8> {
        let mut record = vec![0; record_bytes];
        for &(id, at, bytes) in fields {
            let value = match id as u32 {
                sys::KERNEL_FIELD_KIND => u64::from(KERNEL),
                sys::KERNEL_FIELD_START => start,
                sys::KERNEL_FIELD_END => start + 5,
                sys::KERNEL_FIELD_CORRELATION_ID => (1 << 32) + 3,
                sys::KERNEL_FIELD_REGISTERS_PER_THREAD => 77,
                sys::KERNEL_FIELD_STREAM_ID => u64::from(u32::MAX),
                _ => 0,
            };
            record[at..at + bytes].copy_from_slice(&value.to_ne_bytes()[..bytes]);
        }
        record
    }

    #[test]
    fn fields_are_read_where_they_lie_and_numbers_are_those_of_the_first_api() {
        let (mut fields, bytes) = kernel_fields();
        for _ in 0..2 {
            let layouts = told(KERNEL, bytes, &fields);
            let buffer = [kernel(&fields, bytes, 10), kernel(&fields, bytes, 20)].concat();
            let (ran, unreadable, behind) = read(&layouts, &buffer);
            assert_eq!((ran.len(), unreadable, behind), (2, 0, 0));
            let one = &ran[1];
            assert_eq!((one.start, one.end, one.correlation), (GpuNs(20), GpuNs(25), 3));
            assert_eq!(one.queue.stream, u32::MAX, "none");
            // The same the other way round, behind the kind.
            let mut at = 4;
            for field in fields[1..].iter_mut().rev() {
                field.1 = at;
                at += field.2;
            }
        }
    }

    #[test]
    fn a_record_without_a_field_that_was_asked_for_is_unreadable_and_no_zero() {
        let (fields, bytes) = kernel_fields();
        for missing in 1..fields.len() {
            let mut fewer = fields.clone();
            fewer.remove(missing);
            let layouts = told(KERNEL, bytes, &fewer);
            let buffer = [kernel(&fields, bytes, 10), kernel(&fields, bytes, 20)].concat();
            assert_eq!(read(&layouts, &buffer), (Vec::new(), 2, 0), "{:?}", fields[missing]);
        }
    }

    #[test]
    fn layouts_that_cannot_be_right_are_refused() {
        let (fields, bytes) = kernel_fields();
        let buffer = kernel(&fields, bytes, 10);
        let refused = |change: &dyn Fn(&mut Vec<Told>)| {
            let mut changed = fields.clone();
            change(&mut changed);
            read(&told(KERNEL, bytes, &changed), &buffer)
        };
        assert_eq!(refused(&|_| ()).0.len(), 1);
        // Over another one, by a byte; an address or a time of four bytes; a field of three.
        for change in [
            &(|fields: &mut Vec<Told>| fields[2].1 -= 1) as &dyn Fn(&mut Vec<Told>),
            &|fields| fields[4].2 = 4,
            &|fields| fields[1].2 = 4,
            &|fields| fields[9].2 = 3,
        ] {
            assert_eq!(refused(change), (Vec::new(), 1, 0));
        }
    }

    #[test]
    fn what_is_behind_an_incomplete_record_is_counted() {
        let (fields, bytes) = kernel_fields();
        let layouts = told(KERNEL, bytes, &fields);
        let mut buffer = kernel(&fields, bytes, 10).repeat(10);
        buffer.extend(vec![0; 5 * bytes]);
        assert_eq!((read(&layouts, &buffer).0.len(), read(&layouts, &buffer).2), (10, 5));
        assert_eq!(read(&layouts, &buffer[10 * bytes..]), (Vec::new(), 0, 5));
    }

    #[test]
    fn any_bytes_are_survived() {
        let (fields, bytes) = kernel_fields();
        let layouts = told(KERNEL, bytes, &fields);
        for kind in 0..64u32 {
            let mut buffer = vec![0xFF; 3 * bytes];
            buffer[..4].copy_from_slice(&kind.to_ne_bytes());
            for length in 0..buffer.len() {
                for_each_chosen(&buffer[..length], &layouts, |_| ());
            }
        }
    }
}
