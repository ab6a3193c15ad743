//! The state in which a trace file was found.

use serde::{Deserialize, Serialize};

/// Key under which a collector says which share of the range instances it records.
pub const META_SAMPLE: &str = "sample";

/// Key under which a collector says which ranges it records GPU work in, and nowhere else.
pub const META_RANGES: &str = "ranges";

/// How a file ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileEnding {
    /// With the collector's last record.
    Complete,
    /// After a whole frame, but without the last record: killed, or still running.
    #[default]
    Open,
    /// Within a frame: killed while writing, disk full, or damaged.
    Torn,
    /// Reading failed on the way.
    Unreadable,
}

/// How a file ends, and what of it could not be used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileState {
    /// How it ends.
    pub ending: FileEnding,
    /// Bytes behind the last whole frame.
    pub torn_bytes: u64,
    /// Frames that were damaged.
    pub corrupt_frames: u64,
    /// Bytes of those.
    pub corrupt_bytes: u64,
    /// Frames and records of a kind that this version does not know.
    pub unknown_records: u64,
}

/// Uses of identifiers that nothing in the file defines. Records that define them were lost, or
/// the file is damaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undefined {
    /// Names of kernels, ranges and domains.
    pub names: u64,
    /// Shapes of kernels.
    pub shapes: u64,
    /// Queues of GPU work.
    pub queues: u64,
    /// Paths of ranges.
    pub paths: u64,
    /// Ranges that GPU work names and that are not defined, or closed millions of ranges before;
    /// that work is counted as unattributed.
    pub ranges: u64,
}

impl Undefined {
    /// All uses.
    pub fn total(&self) -> u64 {
        let Self { names, shapes, queues, paths, ranges } = *self;
        [names, shapes, queues, paths, ranges].into_iter().fold(0, u64::saturating_add)
    }
}
