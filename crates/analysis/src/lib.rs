//! Captures in, [`Report`](stage2_model::Report) out.
//!
//! Readers ([`load`] for trace files, [`nsys`], [`ncu`]) know nothing of each other. [`join`] brings
//! their rows together, [`ranks`] matches processes, [`llm`], [`roofline`] and [`operators`] compute
//! what follows, [`insight`] draws the conclusions, and `answer` sums them up. [`analyse()`] is the one way through all of it;
//! a report is complete when it returns.
#![deny(unsafe_code)]

mod analyse;
mod answer;
mod by_stage;
pub mod claims;
mod decoded;
pub mod files;
pub mod foreign;
pub mod in_part;
mod inputs;
pub mod insight;
pub mod join;
pub mod layout;
pub mod llm;
pub mod load;
pub mod named_range;
pub mod ncu;
pub mod nsys;
pub mod numbers;
pub mod operators;
mod path_label;
pub mod private;
pub mod progress;
mod ranks;
mod record_bounds;
mod redact_settings;
pub mod roles;
pub mod roofline;
mod sampled;
mod settings;
mod step_timeline;
mod workload_end;

pub use analyse::{Analysis, WorkloadFacts, analyse};
pub use inputs::{Settings, Sources};
pub use redact_settings::{RedactSettings, redact_json};
pub use workload_end::out_of_memory;
