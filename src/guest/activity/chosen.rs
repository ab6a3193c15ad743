//! A full buffer of CUPTI's second activity API into the decoded records that the first one gives.
//!
//! CUPTI tells with each buffer where the fields lie ([`cupti_sys::fields`]). Out of that comes a
//! [`Plan`] for each kind, once a buffer. A record without one of the fields that were asked for counts
//! as unreadable: nothing takes the place of what is not known.

use cupti_sys::bindings as sys;
use cupti_sys::chosen_records::FieldRecord;
use cupti_sys::fields::{Field, Layout, Layouts, Number, Place};
use stage2_contract::trace::{Device, GpuNs, Queue, Shape};

use super::{Activity, Execution, Text, records_behind};
use crate::base::diag;
use crate::guest::pool::CHOSEN_RECORD_BYTES;

/// Bytes that the numbers of a record may have: addresses and times all of them, others fewer.
const WHOLE: &[u16] = &[8];
const ANY: &[u16] = &[1, 2, 4, 8];
const UP_TO_4: &[u16] = &[1, 2, 4];
/// Bytes of a GPU's UUID.
const UUID_BYTES: usize = 16;

/// Where the fields of a kind lie.
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
    Copy {
        ran: Ran,
        bytes: Number,
        kind: Number,
    },
    Fill {
        ran: Ran,
        bytes: Number,
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

/// Where an [`Execution`] lies.
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
        let Place { bytes, .. } = self.0.place(field)?;
        if widths.contains(&bytes) { self.0.number(field) } else { None }
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
        Some(match layout.kind() {
            sys::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL => {
                let ran = ran!(
                    numbers,
                    KERNEL_FIELD_START,
                    KERNEL_FIELD_END,
                    KERNEL_FIELD_DEVICE_ID,
                    KERNEL_FIELD_CONTEXT_ID,
                    KERNEL_FIELD_STREAM_ID,
                    KERNEL_FIELD_CORRELATION_ID,
                    Some(sys::KERNEL_FIELD_GRAPH_NODE_ID)
                );
                let small = |field| numbers.of(field, UP_TO_4);
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
            sys::CUPTI_ACTIVITY_KIND_MEMCPY => Plan::Copy {
                ran: ran!(
                    numbers,
                    MEMCPY_FIELD_START,
                    MEMCPY_FIELD_END,
                    MEMCPY_FIELD_DEVICE_ID,
                    MEMCPY_FIELD_CONTEXT_ID,
                    MEMCPY_FIELD_STREAM_ID,
                    MEMCPY_FIELD_CORRELATION_ID,
                    Some(sys::MEMCPY_FIELD_GRAPH_NODE_ID)
                ),
                bytes: numbers.of(sys::MEMCPY_FIELD_BYTES, WHOLE)?,
                kind: numbers.of(sys::MEMCPY_FIELD_COPY_KIND, UP_TO_4)?,
            },
            sys::CUPTI_ACTIVITY_KIND_MEMCPY2 => Plan::Copy {
                ran: ran!(
                    numbers,
                    MEMCPY2_FIELD_START,
                    MEMCPY2_FIELD_END,
                    MEMCPY2_FIELD_DEVICE_ID,
                    MEMCPY2_FIELD_CONTEXT_ID,
                    MEMCPY2_FIELD_STREAM_ID,
                    MEMCPY2_FIELD_CORRELATION_ID,
                    Some(sys::MEMCPY2_FIELD_GRAPH_NODE_ID)
                ),
                bytes: numbers.of(sys::MEMCPY2_FIELD_BYTES, WHOLE)?,
                kind: numbers.of(sys::MEMCPY2_FIELD_COPY_KIND, UP_TO_4)?,
            },
            sys::CUPTI_ACTIVITY_KIND_MEMSET => Plan::Fill {
                ran: ran!(
                    numbers,
                    MEMSET_FIELD_START,
                    MEMSET_FIELD_END,
                    MEMSET_FIELD_DEVICE_ID,
                    MEMSET_FIELD_CONTEXT_ID,
                    MEMSET_FIELD_STREAM_ID,
                    MEMSET_FIELD_CORRELATION_ID,
                    Some(sys::MEMSET_FIELD_GRAPH_NODE_ID)
                ),
                bytes: numbers.of(sys::MEMSET_FIELD_BYTES, WHOLE)?,
            },
            sys::CUPTI_ACTIVITY_KIND_GRAPH_TRACE => Plan::Graph {
                ran: ran!(
                    numbers,
                    GRAPH_TRACE_FIELD_START,
                    GRAPH_TRACE_FIELD_END,
                    GRAPH_TRACE_FIELD_DEVICE_ID,
                    GRAPH_TRACE_FIELD_CONTEXT_ID,
                    GRAPH_TRACE_FIELD_STREAM_ID,
                    GRAPH_TRACE_FIELD_CORRELATION_ID,
                    None::<u32>
                ),
                graph: numbers.of(sys::GRAPH_TRACE_FIELD_GRAPH_ID, UP_TO_4)?,
            },
            sys::CUPTI_ACTIVITY_KIND_DEVICE => {
                let small = |field| numbers.of(field, UP_TO_4);
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
            Plan::Kernel { ran, name, .. } => Activity::Kernel {
                ran: ran.read(record)?,
                shape: self.shape(low, three)?,
                name: text(*name)?,
            },
            Plan::Copy { ran, bytes, kind } => Activity::Transfer {
                ran: ran.read(record)?,
                bytes: record.get(*bytes)?,
                copy_kind: Some(u8::try_from(record.get(*kind)?).unwrap_or(u8::MAX)),
            },
            Plan::Fill { ran, bytes } => Activity::Transfer {
                ran: ran.read(record)?,
                bytes: record.get(*bytes)?,
                copy_kind: None,
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

    /// The launch configuration of a kernel.
    #[inline]
    fn shape(
        &self,
        low: impl Fn(Number) -> Option<u32>,
        three: impl Fn([Number; 3]) -> Option<[u32; 3]>,
    ) -> Option<Shape> {
        let &Plan::Kernel { grid, block, static_shared, dynamic_shared, registers, local, .. } =
            self
        else {
            return None;
        };
        Some(Shape {
            id: 0,
            name: 0,
            grid: three(grid)?,
            block: three(block)?,
            static_shared_bytes: low(static_shared)?,
            dynamic_shared_bytes: low(dynamic_shared)?,
            registers_per_thread: low(registers)?,
            local_bytes_per_thread: low(local)?,
        })
    }
}

impl Ran {
    #[inline]
    fn read(&self, record: &FieldRecord<'_>) -> Option<Execution> {
        let low = |number: Number| record.get(number).map(|value| value as u32);
        Some(Execution {
            start: GpuNs(record.get(self.start)?),
            end: GpuNs(record.get(self.end)?),
            queue: Queue {
                id: 0,
                device: low(self.device)?,
                context: low(self.context)?,
                stream: low(self.stream)?,
            },
            correlation: low(self.correlation)?,
            graph_node: match self.graph_node {
                Some(node) => record.get(node)?,
                None => 0,
            },
        })
    }
}

/// Whether two fields share a byte.
fn has_overlaps(places: &[Place]) -> bool {
    let span = |place: &Place| (u32::from(place.offset), u32::from(place.bytes));
    let share = |one: &Place, other: &Place| {
        let ((one, one_bytes), (other, other_bytes)) = (span(one), span(other));
        one < other + other_bytes && other < one + one_bytes
    };
    let with_rest = |(at, place)| places.iter().skip(at + 1).any(|other| share(place, other));
    places.iter().enumerate().any(with_rest)
}

/// Calls `each` with every record in the bytes of a buffer. Gives about how many records are behind one
/// that cannot be read on from, which ends the walk; it is one of them.
pub(crate) fn for_each(bytes: &[u8], layouts: &Layouts, mut each: impl FnMut(&Activity)) -> u64 {
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
        let known = plans.iter().position(|&(known, _)| known == kind);
        let place = known.unwrap_or_else(|| {
            plans.push((kind, Plan::of(record.layout)));
            plans.len() - 1
        });
        let plan = plans.get(place).and_then(|(_, plan)| plan.as_ref());
        let activity = plan.and_then(|plan| plan.read(&record));
        each(&activity.unwrap_or(Activity::Unreadable));
        (read, last_at) = (read + 1, at);
        at += record.bytes.len();
    }
    0
}

#[cfg(test)]
mod tests;
