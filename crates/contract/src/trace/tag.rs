//! The tag bytes that say which record comes next, and the flag bits that some carry.

pub(crate) const RANGE_CLOSE: u8 = 0x01;
/// A range opened; two flag bits in the tag.
pub(crate) const RANGE_OPEN: u8 = 0x04;
pub(crate) const NESTED: u8 = 0x01;
/// Flag of [`RANGE_OPEN`]: an options byte follows.
pub(crate) const OPTIONS: u8 = 0x02;

// GPU work, with four flag bits in the tag.
pub(crate) const KERNEL: u8 = 0x10;
pub(crate) const COPY: u8 = 0x20;
pub(crate) const FILL: u8 = 0x30;
/// Flag of GPU work: a graph node follows.
pub(crate) const GRAPH_NODE: u8 = 0x01;
/// Field of GPU work, 2 bits: how its range is told.
pub(crate) const RANGE_MASK: u8 = 0x06;
pub(crate) const RANGE_SAME: u8 = 0x00;
pub(crate) const RANGE_STEP: u8 = 0x02;
pub(crate) const RANGE_OUTSIDE: u8 = 0x04;
pub(crate) const RANGE_UNKNOWN: u8 = 0x06;
/// Flag of GPU work: a queue follows, not that of the GPU work before.
pub(crate) const QUEUE: u8 = 0x08;

/// Options byte of a range opening: start/end instead of push/pop.
pub(crate) const START_END: u8 = 0x01;
pub(crate) const CATEGORY: u8 = 0x02;
/// Options byte, 2 bits: the type of the payload that follows.
pub(crate) const PAYLOAD_MASK: u8 = 0x0c;
pub(crate) const PAYLOAD_NONE: u8 = 0x00;
pub(crate) const PAYLOAD_U64: u8 = 0x04;
pub(crate) const PAYLOAD_I64: u8 = 0x08;
pub(crate) const PAYLOAD_F64: u8 = 0x0c;
/// Options byte: the instance that goes on follows.
pub(crate) const CONTINUES: u8 = 0x10;

// From 0x40 on a length follows the tag, so that unknown records can be skipped.
pub(crate) const PROCESS: u8 = 0x40;
pub(crate) const META: u8 = 0x41;
pub(crate) const ANCHOR: u8 = 0x42;
pub(crate) const NAME: u8 = 0x43;
pub(crate) const THREAD: u8 = 0x44;
pub(crate) const DEVICE: u8 = 0x45;
pub(crate) const QUEUE_RECORD: u8 = 0x46;
pub(crate) const SHAPE: u8 = 0x47;
pub(crate) const PATH: u8 = 0x48;
pub(crate) const MARK: u8 = 0x49;
pub(crate) const GRAPH_LAUNCH: u8 = 0x4a;
pub(crate) const GRAPH_NODE_RECORD: u8 = 0x4b;
pub(crate) const LOSSES: u8 = 0x4c;
pub(crate) const END: u8 = 0x4d;
pub(crate) const RANGE_SAMPLE: u8 = 0x4e;
pub(crate) const RANGE_FIELDS: u8 = 0x4f;
pub(crate) const COUNTER_SET: u8 = 0x50;
/// With a byte for each value: written until 2026-11-23.
pub(crate) const COARSE_COUNTER_SAMPLES: u8 = 0x51;
pub(crate) const DEVICE_STATE: u8 = 0x52;
pub(crate) const COUNTER_SAMPLES: u8 = 0x53;

/// Type of a field of a range: a name, as a varint. The other types are those of payloads.
pub(crate) const FIELD_NAME: u8 = 0x10;
