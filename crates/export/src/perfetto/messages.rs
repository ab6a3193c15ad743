//! The messages of Perfetto's protobuf, with the fields that are written.
//!
//! The numbers are those of Perfetto's own descriptors (`perfetto` 0.59.1 on PyPI).

use prost::Message;

/// A file is a sequence of these: field 1 of `perfetto.protos.Trace`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Trace {
    #[prost(message, repeated, tag = "1")]
    pub(super) packet: Vec<Packet>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Packet {
    #[prost(message, optional, tag = "6")]
    pub(super) clock_snapshot: Option<ClockSnapshot>,
    #[prost(uint64, optional, tag = "8")]
    pub(super) timestamp: Option<u64>,
    #[prost(uint32, tag = "10")]
    pub(super) sequence: u32,
    #[prost(message, optional, tag = "11")]
    pub(super) track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "12")]
    pub(super) interned_data: Option<InternedData>,
    #[prost(uint32, tag = "13")]
    pub(super) sequence_flags: u32,
    #[prost(message, optional, tag = "53")]
    pub(super) render_stage: Option<RenderStage>,
    #[prost(message, optional, tag = "59")]
    pub(super) defaults: Option<PacketDefaults>,
    #[prost(message, optional, tag = "60")]
    pub(super) track_descriptor: Option<TrackDescriptor>,
    #[prost(message, optional, tag = "128")]
    pub(super) gpu_info: Option<GpuInfo>,
}

/// `BuiltinClock`: the wall clock, ns since the Unix epoch.
pub(super) const REALTIME: u32 = 1;

#[derive(Clone, PartialEq, Message)]
pub(super) struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    pub(super) clocks: Vec<Clock>,
    #[prost(uint32, tag = "2")]
    pub(super) primary_trace_clock: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Clock {
    #[prost(uint32, tag = "1")]
    pub(super) clock_id: u32,
    #[prost(uint64, tag = "2")]
    pub(super) timestamp: u64,
}

/// `TracePacketDefaults`: what holds for the packets of a sequence that do not say otherwise.
#[derive(Clone, PartialEq, Message)]
pub(super) struct PacketDefaults {
    #[prost(uint32, tag = "58")]
    pub(super) timestamp_clock_id: u32,
}

/// `sequence_flags`: what was interned before counts no more; and this packet uses interned data.
pub(super) const CLEARED: u32 = 1;
pub(super) const USES_INTERNED: u32 = 2;

#[derive(Clone, PartialEq, Message)]
pub(super) struct RenderStage {
    #[prost(uint64, tag = "1")]
    pub(super) event_id: u64,
    #[prost(uint64, tag = "2")]
    pub(super) duration: u64,
    #[prost(uint64, tag = "5")]
    pub(super) context: u64,
    #[prost(message, repeated, tag = "6")]
    pub(super) extra_data: Vec<ExtraData>,
    #[prost(uint32, tag = "10")]
    pub(super) submission_id: u32,
    #[prost(int32, optional, tag = "11")]
    pub(super) gpu_id: Option<i32>,
    #[prost(uint64, tag = "13")]
    pub(super) hw_queue_iid: u64,
    #[prost(uint64, tag = "14")]
    pub(super) stage_iid: u64,
    #[prost(string, tag = "17")]
    pub(super) name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ExtraData {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) value: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    pub(super) debug_annotations: Vec<Annotation>,
    #[prost(int32, tag = "9")]
    pub(super) kind: i32,
    #[prost(uint64, tag = "11")]
    pub(super) track_uuid: u64,
    #[prost(string, repeated, tag = "22")]
    pub(super) categories: Vec<String>,
    #[prost(string, optional, tag = "23")]
    pub(super) name: Option<String>,
}

pub(super) const BEGIN: i32 = 1;
pub(super) const END: i32 = 2;
pub(super) const INSTANT: i32 = 3;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Annotation {
    #[prost(string, tag = "10")]
    pub(super) name: String,
    #[prost(uint64, optional, tag = "3")]
    pub(super) uint: Option<u64>,
    #[prost(int64, optional, tag = "4")]
    pub(super) int: Option<i64>,
    #[prost(double, optional, tag = "5")]
    pub(super) double: Option<f64>,
    #[prost(string, optional, tag = "6")]
    pub(super) text: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct InternedData {
    #[prost(message, repeated, tag = "23")]
    pub(super) contexts: Vec<GraphicsContext>,
    #[prost(message, repeated, tag = "24")]
    pub(super) specifications: Vec<Specification>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct GraphicsContext {
    #[prost(uint64, tag = "1")]
    pub(super) iid: u64,
    #[prost(int32, tag = "2")]
    pub(super) pid: i32,
    #[prost(int32, tag = "3")]
    pub(super) api: i32,
}

/// `InternedGraphicsContext.api`.
pub(super) const CUDA: i32 = 4;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Specification {
    #[prost(uint64, tag = "1")]
    pub(super) iid: u64,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(string, tag = "3")]
    pub(super) description: String,
    #[prost(int32, tag = "4")]
    pub(super) category: i32,
}

/// `InternedGpuRenderStageSpecification.category`.
pub(super) const COMPUTE: i32 = 2;

#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackDescriptor {
    #[prost(uint64, tag = "1")]
    pub(super) uuid: u64,
    #[prost(string, optional, tag = "2")]
    pub(super) name: Option<String>,
    #[prost(message, optional, tag = "3")]
    pub(super) process: Option<ProcessDescriptor>,
    #[prost(message, optional, tag = "4")]
    pub(super) thread: Option<ThreadDescriptor>,
    #[prost(uint64, optional, tag = "5")]
    pub(super) parent_uuid: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProcessDescriptor {
    #[prost(int32, tag = "1")]
    pub(super) pid: i32,
    #[prost(string, repeated, tag = "2")]
    pub(super) cmdline: Vec<String>,
    #[prost(string, tag = "6")]
    pub(super) process_name: String,
    #[prost(string, repeated, tag = "8")]
    pub(super) process_labels: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ThreadDescriptor {
    #[prost(int32, tag = "1")]
    pub(super) pid: i32,
    #[prost(int64, tag = "2")]
    pub(super) tid: i64,
    #[prost(string, tag = "5")]
    pub(super) thread_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct GpuInfo {
    #[prost(message, repeated, tag = "1")]
    pub(super) gpus: Vec<GpuDescription>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct GpuDescription {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) vendor: String,
    #[prost(bytes = "vec", tag = "5")]
    pub(super) uuid: Vec<u8>,
}
