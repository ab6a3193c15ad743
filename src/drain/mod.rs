//! What runs on our one thread: full buffers and events into the trace file and the summary.
//!
//! [`run`] is the body of that thread, and nothing here is called from any other, except for the reads of
//! NVML: they may wait for the driver, on their own thread (`device_state`). It may allocate, read
//! files and write. It waits for nobody in the guest. A panic ends the thread and leaves the
//! guest alone ([`crate::base::barrier::own_thread`]).

mod aggregate;
mod device_state;
mod fields;
mod flush_request;
mod host_samples;
mod intern;
mod output;
mod own_file;
mod pace;
mod ranges;
mod rotation;
mod standing;
mod summary;
mod summary_file;
mod timeline;
mod trusted_times;
mod worker;

/// What NVML says of the GPUs now. It may wait for the loader and the driver: not on the drain thread.
///
/// # Errors
/// NVML is switched off, is not there, or refuses.
pub fn gpus_now(
    options: &crate::base::options::Options,
) -> Result<Vec<crate::guest::gpu::GpuNow>, String> {
    match options.device_state {
        true => device_state::now(options.nvml.as_ref()),
        false => Err("STAGE2_DEVICE_STATE=off".to_owned()),
    }
}

pub use worker::{EndReason, Hooks, run};

/// The reader of payloads without a recording around it, for programs that try it with bytes of any
/// content (`crates/fuzz`).
#[doc(hidden)]
pub mod probe {
    use super::fields::{self, Definitions};
    use crate::guest::registry::Registry;

    /// What the payloads of one call say.
    #[derive(Debug, PartialEq)]
    pub struct Fields {
        /// Names, and values as texts.
        pub fields: Vec<(Vec<u8>, String)>,
        /// Entries and payloads that were left out or cut.
        pub skipped: u64,
    }

    /// Reads the payloads of a call in `domain`, as they travel, by the schemas of a table.
    pub fn fields(blob: &[u8], domain: u32, registry: &Registry) -> Fields {
        let values = fields::read(blob, domain, &mut Definitions::of(registry));
        let fields = values.fields.into_iter().map(|(name, value)| (name, format!("{value:?}")));
        Fields { fields: fields.collect(), skipped: values.skipped }
    }
}
