//! Captures in, [`Report`](stage2_model::Report) out.
//!
//! [`join`] brings the rows of the captures together, [`ranks`] matches processes, [`llm`], [`roofline`] and
//! [`operators`] compute what follows, [`conclusions`] draws the conclusions, and `answer` sums them up.
//! [`analyse()`] is the one way through all of it; a report is complete when it returns.
#![deny(unsafe_code)]

mod analyse;
mod answer;
pub mod conclusions;
mod host;
pub mod in_part;
mod inputs;
pub mod join;
pub mod llm;
pub mod operators;
mod ranks;
pub mod roofline;
mod sampled;
mod step_timeline;
pub mod workload_config;
mod workload_end;

pub use analyse::{Analysis, WorkloadFacts, analyse};
pub use inputs::{
    GPU_HOUR_PRICE, RedactSettings, Settings, Sources, is_gpu_hour_price, redact_json,
};
pub use workload_end::out_of_memory;
