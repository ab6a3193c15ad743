//! What a trace file states, as plain types: one variant of [`Record`] for each kind of record.
//!
//! Identifiers are dense numbers that the writer gives out, per file. A record that defines an
//! identifier stands before every record that uses it.

use crate::trace::host::{HostCall, HostFrame, HostSample, HostSampling, HostStack, HostThread};
use crate::trace::varint::Cursor;
use crate::trace::wire::Wire;

/// The `range` of GPU work that was launched while no range was open on its thread.
pub const RANGE_OUTSIDE: u64 = 0;
/// The `range` of GPU work whose launch could not be placed: counted, never guessed.
pub const RANGE_UNKNOWN: u64 = u64::MAX;
/// What the fact `gpu.off` says of a process that was told to record ranges alone.
pub const GPU_OFF: &str = "STAGE2_GPU=off";
/// The `parent` of a path at the top, and the `domain` of the default NVTX domain.
pub const NONE: u32 = 0;

/// One record of a trace file.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// Who was traced. The first record of every file.
    Process(Process),
    /// A fact about the capture, for instance `cupti.version` or `gpu.off` (why no GPU record is
    /// there), `sample` (`1/N`: of every N instances of a range one is recorded) or `ranges`
    /// (comma-separated globs `name[@domain]`: GPU work is recorded in ranges that match one, and
    /// nowhere else), `nvml.off` (why no [`DeviceState`] is there, or no further one; `nvml.off.N`: of
    /// the device N), `ranges.open_at_end` (user ranges still open at a normal
    /// end), `ranges.fields_left_out` (how many NVTX payload fields were not kept), `fork.of` (the
    /// process that forked this one), `fork.unrecorded` (what is not recorded in such a process, and
    /// why), `forks.after_cuda` (processes that this one forked after it had initialised CUDA) or
    /// `env.NAME` (a variable of a job launcher, for instance `env.RANK`). A later value of a key
    /// replaces the earlier one.
    Meta {
        /// What the fact is about; parts are set off by dots.
        key: String,
        /// The fact.
        value: String,
    },
    /// Readings of all clocks, taken together.
    Anchor(Anchor),
    /// A string (kernel name as CUPTI gave it, i.e. mangled; range or domain name). Not
    /// necessarily UTF-8. Identifiers start at 1.
    Name {
        /// Identifier.
        id: u32,
        /// The string.
        bytes: Vec<u8>,
    },
    /// A thread that opened ranges, launched GPU work or was sampled. Identifiers start at 1. One that was sampled
    /// before it opened a range or launched has two, with the same `os_tid`; a number of the operating system's may
    /// also be that of a later thread.
    Thread {
        /// Identifier.
        id: u32,
        /// The operating system's thread id.
        os_tid: u32,
        /// Name that the thread gave itself; empty when not known.
        name: Vec<u8>,
    },
    /// A GPU.
    Device(Device),
    /// Where GPU work was queued. Identifiers start at 1.
    Queue(Queue),
    /// What was launched: a kernel with its launch configuration. Identifiers start at 1.
    Shape(Shape),
    /// A path of range names from the outside in, as a node of a tree. Identifiers start at 1.
    Path(Path),
    /// A range opened.
    RangeOpen(RangeOpen),
    /// A range closed.
    RangeClose {
        /// [`RangeOpen::range`].
        range: u64,
        /// When.
        end: MonoNs,
    },
    /// Where only some ranges, or instances of them, are recorded (`ranges` or `sample` in the
    /// facts): whether GPU work of this instance is. Follows the opening of every instance that
    /// was asked for; what is opened inside it shares its fate, and what is in none was not
    /// recorded.
    RangeSample {
        /// [`RangeOpen::range`].
        range: u64,
        /// It is recorded.
        recorded: bool,
    },
    /// Typed values that the guest gave to a range instance (NVTX payload schemas), for instance the
    /// message size of a collective of NCCL. Stands between the opening and the closing of the
    /// instance, and a second time where values came with the closing: of two values of a name the
    /// later one holds.
    RangeFields {
        /// [`RangeOpen::range`].
        range: u64,
        /// The values, in the order of the schema.
        fields: Vec<Field>,
    },
    /// An instantaneous NVTX mark.
    Mark(Mark),
    /// A kernel, a copy, a fill or a whole CUDA graph ran.
    Work(GpuWork),
    /// Under which ranges a node of a CUDA graph was captured.
    GraphNode {
        /// As in [`GpuWork::graph_node`].
        node: u64,
        /// The ranges open at its capture.
        path: u32,
        /// The innermost range instance open at its capture, as in [`GpuWork::range`];
        /// [`RANGE_OUTSIDE`] when it is not known. Added later: 0 in older files.
        range: u64,
    },
    /// Which hardware counters are sampled on a GPU, and how often.
    CounterSet(CounterSet),
    /// Samples of hardware counters.
    CounterSamples(CounterSamples),
    /// Energy, clocks and temperature of a GPU at one moment.
    DeviceState(DeviceState),
    /// A line of a function of the guest.
    HostFrame(HostFrame),
    /// A stack of such lines.
    HostStack(HostStack),
    /// Threads of the guest at some moments, in the order of time;
    /// [`MAX_HOST_SAMPLES`](crate::trace::host::MAX_HOST_SAMPLES) at most.
    HostSamples(Vec<HostSample>),
    /// How the sampling of threads went so far.
    HostSampling(HostSampling),
    /// Times of a sampled thread, as the kernel counts them.
    HostThread(HostThread),
    /// Calls that may wait, at most [`MAX_HOST_CALLS`](crate::trace::host::MAX_HOST_CALLS): those of a thread in the
    /// order of time.
    HostCalls(Vec<HostCall>),
    /// What was lost so far. Counters only grow; the last record holds the totals.
    Losses(Losses),
    /// The capture ended in order. Without it the process was killed, or still runs.
    End {
        /// What ended it, for instance `exit`.
        reason: String,
    },
}

/// The process that was traced.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Process {
    /// Process id, in the namespace of the traced process.
    pub pid: u32,
    /// Its parent's.
    pub ppid: u32,
    /// Host name.
    pub host: String,
    /// Path of the executable.
    pub exe: String,
    /// Its arguments.
    pub argv: Vec<String>,
    /// Version of the collector.
    pub collector: String,
}

/// Readings of the clocks at one moment (taken within about a microsecond of each other).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Anchor {
    /// CUPTI's clock; 0 while CUPTI is not there.
    pub gpu: GpuNs,
    /// The monotonic clock, which ranges are timed with.
    pub mono: MonoNs,
    /// Wall time.
    pub wall: WallNs,
}

/// A GPU, as CUPTI's device record describes it. Zero or empty: not known.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Device {
    /// Index as CUPTI numbers devices in the traced process.
    pub id: u32,
    /// Marketing name.
    pub name: Vec<u8>,
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Compute capability, major and minor.
    pub compute_capability: (u32, u32),
    /// Global memory, bytes.
    pub memory_bytes: u64,
    /// Peak memory bandwidth as CUPTI reports it, kB/s.
    pub bandwidth_kb_per_s: u64,
    /// Core clock, kHz.
    pub core_clock_khz: u32,
    /// L2 cache, bytes.
    pub l2_bytes: u32,
    /// UUID of the GPU.
    pub uuid: [u8; 16],
}

/// A stream of a context of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Queue {
    /// Identifier.
    pub id: u32,
    /// [`Device::id`].
    pub device: u32,
    /// CUPTI's context id.
    pub context: u32,
    /// CUPTI's stream id.
    pub stream: u32,
}

/// A kernel and how it was launched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Identifier.
    pub id: u32,
    /// Name of the kernel.
    pub name: u32,
    /// Blocks in x, y and z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y and z.
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

/// A range name under its parents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Path {
    /// Identifier.
    pub id: u32,
    /// The path that it extends; [`NONE`] at the top.
    pub parent: u32,
    /// Its own range name.
    pub name: u32,
    /// Name of its NVTX domain; [`NONE`] for the default domain.
    pub domain: u32,
}

/// The opening of a range. Identifiers start at 1 and grow.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct RangeOpen {
    /// Identifier of this instance.
    pub range: u64,
    /// Names of the ranges open on this thread, this one the last. Start/end ranges of one name that are
    /// open at the same time have one path.
    pub path: u32,
    /// Thread that opened it.
    pub thread: u32,
    /// The instance that it was opened in; [`RANGE_OUTSIDE`] at the top.
    pub parent: u64,
    /// When.
    pub start: MonoNs,
    /// A start/end range, as against push/pop.
    pub start_end: bool,
    /// NVTX category; 0 is none.
    pub category: u32,
    /// NVTX payload.
    pub payload: Option<Payload>,
    /// Not a new range: the instance named here goes on under another path, because a range
    /// around it closed first (possible with start/end ranges). 0 for a separate range. The range
    /// itself: it was opened in an earlier [piece](crate::trace::pieces), and `start` is when this one began.
    pub continues: u64,
}

/// An NVTX mark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mark {
    /// When.
    pub at: MonoNs,
    /// Thread that set it.
    pub thread: u32,
    /// Its text.
    pub name: u32,
    /// Name of its NVTX domain; [`NONE`] for the default domain.
    pub domain: u32,
    /// NVTX category; 0 is none.
    pub category: u32,
    /// NVTX payload.
    pub payload: Option<Payload>,
}

/// A piece of GPU work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuWork {
    /// What ran.
    pub what: What,
    /// Start on the GPU (of a graph, of its first node); 0 with `end` 0 when CUPTI could not take
    /// the times.
    pub start: GpuNs,
    /// End on the GPU.
    pub end: GpuNs,
    /// Where it was queued.
    pub queue: u32,
    /// The innermost range instance open on the launching thread at launch, or
    /// [`RANGE_OUTSIDE`], or [`RANGE_UNKNOWN`].
    pub range: u64,
    /// CUPTI's correlation id, extended to 64 bits; all kernels of one graph launch share it.
    pub correlation: u64,
    /// Node of the executable CUDA graph that launched it; 0 for a plain launch, and for a whole
    /// graph.
    pub graph_node: u64,
}

/// What a piece of GPU work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A kernel.
    Kernel {
        /// [`Shape::id`].
        shape: u32,
    },
    /// A copy between memories.
    Copy {
        /// Bytes copied.
        bytes: u64,
        /// Direction: `CUpti_ActivityMemcpyKind` (1 host to device, 2 device to host, 8 device to
        /// device, 10 peer to peer, ...).
        kind: u8,
    },
    /// A fill of memory.
    Fill {
        /// Bytes filled.
        bytes: u64,
    },
    /// A whole CUDA graph (graph-level collection: its kernels have no records).
    Graph {
        /// CUPTI's id of the executable graph.
        graph: u32,
    },
}

impl GpuWork {
    /// Work without times, outside of all ranges.
    pub const fn new(what: What) -> Self {
        let (start, end) = (GpuNs(0), GpuNs(0));
        Self { what, start, end, queue: 0, range: RANGE_OUTSIDE, correlation: 0, graph_node: 0 }
    }

    /// Whether it is a kernel.
    pub const fn is_kernel(&self) -> bool {
        matches!(self.what, What::Kernel { .. })
    }
}

/// Hardware counters that are sampled together on one GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CounterSet {
    /// Identifier. Identifiers start at 1.
    pub id: u32,
    /// [`Device::id`].
    pub device: u32,
    /// Length of a sample that was asked for, ns.
    pub interval_ns: u64,
    /// Their metrics as CUPTI names them, for instance `dram__bytes_read.sum`.
    pub metrics: Vec<String>,
}

/// Consecutive samples of a [`CounterSet`], each over its own span. They count what the whole
/// GPU did, whoever had it do that.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CounterSamples {
    /// [`CounterSet::id`].
    pub set: u32,
    /// Start and end of each sample, in the order of time; at most [`MAX_SAMPLES`]. What lies
    /// between two spans was not sampled.
    pub spans: Vec<(GpuNs, GpuNs)>,
    /// Values, sample by sample, in the order of [`CounterSet::metrics`]: so many for each sample.
    /// None is negative. NaN: not known.
    ///
    /// A file keeps each value within 0.14 %, and the sum of a metric over the samples of a record
    /// within half of such a step of its last value: what rounding adds to a value it takes from the
    /// next. A value below 1/50,000 of the largest of its metric in the record counts for the next.
    pub values: Vec<f64>,
}

/// Samples that one record holds at most.
pub const MAX_SAMPLES: usize = 4096;

/// Bits of [`DeviceState::clock_reasons`] and what they mean. Idleness, 1, holds nothing down.
pub const CLOCK_LIMITS: [(u64, &str); 8] = [
    (2, "clocks set by the user"),
    (4, "power limit"),
    (8, "hardware slowdown"),
    (16, "sync boost with other GPUs"),
    (32, "temperature (software)"),
    (64, "temperature (hardware)"),
    (128, "power brake (hardware)"),
    (256, "display clocks"),
];

/// What the driver says of a GPU at one moment. `None`: it does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceState {
    /// [`Device::id`].
    pub device: u32,
    /// When it was read.
    pub at: MonoNs,
    /// Energy since the driver was loaded, mJ.
    pub energy_mj: Option<u64>,
    /// Power, mW.
    pub power_mw: Option<u32>,
    /// Clock of the multiprocessors, MHz.
    pub sm_clock_mhz: Option<u32>,
    /// Clock of the memory, MHz.
    pub memory_clock_mhz: Option<u32>,
    /// Temperature, degrees Celsius.
    pub temperature_c: Option<u32>,
    /// Why the clocks are lower than they could be: the bits of `nvmlClocksEventReasons`.
    pub clock_reasons: Option<u64>,
    /// Other processes that have a context on the GPU.
    pub other_processes: Option<u32>,
    /// Memory in use, of all processes, bytes; 0: not known.
    pub memory_used_bytes: u64,
}

/// A value that the guest attached to an NVTX range or mark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Payload {
    /// An unsigned integer.
    U64(u64),
    /// A signed integer.
    I64(i64),
    /// A floating-point number.
    F64(f64),
}

/// A named value of a range.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Field {
    /// Its name, as the guest's schema has it: the identifier of a [`Record::Name`].
    pub name: u32,
    /// The value.
    pub value: FieldValue,
}

/// What a [`Field`] holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FieldValue {
    /// An unsigned integer.
    U64(u64),
    /// A signed integer.
    I64(i64),
    /// A floating-point number.
    F64(f64),
    /// A text, or the name of an entry of an enumeration: the identifier of a [`Record::Name`].
    Name(u32),
}

/// The kinds of losses, once: the struct, its arithmetic, and its fields in the order of the file. `later`: a
/// field that older files lack.
macro_rules! losses {
    ($($(#[$doc:meta])* $name:ident $($later:ident)?,)*) => {
        /// Everything that was not kept, by kind. All are counts since the file was begun.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Losses {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Losses {
            fn with(&self, other: &Self, of: fn(u64, u64) -> u64) -> Self {
                Self { $($name: of(self.$name, other.$name)),* }
            }
        }

        impl Wire for Losses {
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$name.put(out);)*
            }

            fn get(c: &mut Cursor<'_>) -> Option<Self> {
                Some(Self { $($name: losses!(@get c $($later)?)),* })
            }
        }
    };
    (@get $c:ident) => { $c.u64()? };
    (@get $c:ident later) => { $c.later()? };
}

losses! {
    /// Activity records that CUPTI dropped (its own counter).
    cupti_dropped,
    /// Times that no activity buffer was free when CUPTI asked for one.
    buffers_refused,
    /// NVTX events that found the event queue full.
    range_events,
    /// Kernel, copy and fill records whose launch could not be placed in or out of a range.
    unattributed,
    /// Records without valid timestamps.
    invalid_timestamps,
    /// Records that CUPTI handed over incomplete, because their work still ran, or that are of a kind or
    /// length that the collector does not read. Estimated where only their bytes are known.
    unreadable_records,
    /// Pops and ends that matched no open range.
    unbalanced,
    /// Ranges still open when the process ended.
    unclosed,
    /// Range names that were cut at the length limit.
    names_cut,
    /// Bytes that could not be written to the trace file (disk full, for instance).
    spool_bytes_unwritten,
    /// Aggregates left out of the summary at exit because it keeps a bounded number of rows.
    aggregates_folded,
    /// Ranges that were to be collected, and opened before collection was on: GPU work at their
    /// beginning has no record. Added later: 0 where a file does not tell.
    late_switches later,
    /// What came after the bounded tables of the collector were full, by the piece: domains,
    /// registered strings and nodes of CUDA graphs without their names, ranges nested too deep to
    /// be kept, start/end ranges whose end does not end collection. Added later, as above.
    beyond_limits later,
    /// NVTX calls that were not taken in because they came from inside another one on the same
    /// thread, or after the guest had jumped out of one. Added later, as above.
    calls_turned_away later,
}

impl Losses {
    /// The sum of two, kind by kind.
    #[must_use]
    pub fn plus(&self, more: &Self) -> Self {
        self.with(more, u64::saturating_add)
    }

    /// What came since it was `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        self.with(before, u64::saturating_sub)
    }
}

// Clock readings: nanoseconds that say which clock they were read from. Only readings of one clock can be
// subtracted. Converting between clocks needs an [`Anchor`], a set of readings that were taken together.
macro_rules! nanos {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl $name {
            /// Nanoseconds from `earlier` to `self`; 0 where `earlier` is the later one.
            pub fn since(self, earlier: Self) -> u64 {
                self.0.saturating_sub(earlier.0)
            }
        }
    };
}

nanos!(
    /// CUPTI's normalised GPU clock (`cuptiGetTimestamp`), ns. Zero in a record of GPU work
    /// means that CUPTI could not collect the timestamp.
    GpuNs
);
nanos!(
    /// `CLOCK_MONOTONIC` of the machine that was traced, ns.
    MonoNs
);
nanos!(
    /// `CLOCK_REALTIME`, ns since the Unix epoch.
    WallNs
);

impl Record {
    /// Bytes of memory that the record takes with its strings and lists, without what an allocator adds.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let apart = match self {
            Self::Meta { key, value } => key.len() + value.len(),
            Self::Name { bytes, .. } => bytes.len(),
            Self::Thread { name, .. } => name.len(),
            Self::Device(device) => device.name.len(),
            Self::End { reason } => reason.len(),
            Self::RangeFields { fields, .. } => fields.len() * size_of::<Field>(),
            Self::CounterSamples(samples) => {
                samples.spans.len() * size_of::<(GpuNs, GpuNs)>()
                    + samples.values.len() * size_of::<f64>()
            }
            Self::HostSamples(samples) => samples.len() * size_of::<HostSample>(),
            Self::HostCalls(calls) => calls.len() * size_of::<HostCall>(),
            Self::CounterSet(set) => strings(&set.metrics),
            Self::Process(Process { host, exe, argv, collector, .. }) => {
                host.len() + exe.len() + collector.len() + strings(argv)
            }
            Self::Anchor(_)
            | Self::Queue(_)
            | Self::Shape(_)
            | Self::Path(_)
            | Self::RangeOpen(_)
            | Self::RangeClose { .. }
            | Self::RangeSample { .. }
            | Self::Mark(_)
            | Self::Work(_)
            | Self::GraphNode { .. }
            | Self::DeviceState(_)
            | Self::HostFrame(_)
            | Self::HostStack(_)
            | Self::HostSampling(_)
            | Self::HostThread(_)
            | Self::Losses(_) => 0,
        };
        size_of::<Self>() + apart
    }
}

fn strings(strings: &[String]) -> usize {
    strings.iter().map(|string| size_of::<String>() + string.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_takes_what_it_holds() {
        let samples = CounterSamples {
            set: 1,
            spans: vec![(GpuNs(1), GpuNs(2)); 100],
            values: vec![0.0; 900],
        };
        let bytes = Record::CounterSamples(samples).held_bytes();
        assert_eq!(bytes, size_of::<Record>() + 100 * 16 + 900 * 8);
        let bytes = Record::Name { id: 1, bytes: vec![b'k'; 5_000] }.held_bytes();
        assert_eq!(bytes, size_of::<Record>() + 5_000);
    }
}
