//! The previous records of a block, as the values that the next compact record is told against.
//!
//! Writer and reader step the same [`Delta`] through a block; both start it anew at each frame,
//! so that no frame needs another one.

/// What the compact records of a block have said so far. All zero at the start of a block.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delta {
    /// End of the last GPU work, GPU ns.
    pub(crate) end: u64,
    pub(crate) correlation: u64,
    pub(crate) queue: u32,
    /// Its range, `RANGE_OUTSIDE` and `RANGE_UNKNOWN` included.
    pub(crate) range: u64,
    /// The last range of GPU work that was told as a step.
    pub(crate) instance: u64,
    /// The last graph node that was told.
    pub(crate) graph_node: u64,
    /// The last range that opened or closed.
    pub(crate) opened: u64,
    /// The last time of a range opening or closing, monotonic ns.
    pub(crate) mono: u64,
}
