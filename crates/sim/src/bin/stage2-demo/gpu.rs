//! What the workload needs of a GPU, real or simulated.

use std::fmt;

use anyhow::Result;

/// A part of the workload whose operations a device knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The whole prompt at once.
    Prefill,
    /// One token.
    Step,
    /// One token, as it is captured into a graph.
    Captured,
}

/// A device that can run the workload.
pub(crate) trait Gpu: Sync {
    /// Its name; a simulated one says that it is.
    fn name(&self) -> &str;
    /// Whether it is simulated.
    fn is_simulated(&self) -> bool;
    /// Kernels of one pass through a stage.
    fn kernels(&self, stage: Stage) -> usize;
    /// A stream for the calling thread, with what it needs to launch.
    fn lane(&self) -> Result<Box<dyn Lane + '_>>;
}

/// A stream and its thread. A stage is a list of parts, which are launched one by one.
pub(crate) trait Lane {
    /// The parts of a stage in order: the layer of the network, or none before and behind them.
    fn parts(&self, stage: Stage) -> Vec<Option<u32>>;
    /// Launches the operations of a part.
    fn launch(&mut self, stage: Stage, part: usize) -> Result<()>;
    /// Copies the prompt to the device.
    fn upload(&mut self) -> Result<()>;
    /// Copies the tokens to the host.
    fn download(&mut self) -> Result<()>;
    /// Waits until everything launched is done.
    fn synchronize(&mut self) -> Result<()>;
    /// From here on, launches go into a graph.
    fn begin_capture(&mut self) -> Result<()>;
    /// Ends the capture and makes the graph executable.
    fn end_capture(&mut self) -> Result<()>;
    /// Launches the captured graph.
    fn replay(&mut self) -> Result<()>;
}

/// The asked-for device cannot be used: why, and what to do.
#[derive(Debug)]
pub(crate) struct Unavailable(pub(crate) String);

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unavailable {}
