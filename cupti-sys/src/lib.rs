//! Turns a `libcupti` of CUDA 11.8 to 13.x, wherever it is, into calls that return `Result`s.
//!
//! Nothing of NVIDIA's is needed to build this crate or linked into it. The way of a call:
//!
//! | step | module | gives |
//! |---|---|---|
//! | where a CUPTI may lie, best first; opens nothing | [`places`] | [`places::Candidate`]s |
//! | where a CUPTI is, and which one fits the driver | [`find`] | [`find::Found`]: an opened library |
//! | what the dynamic linker has loaded | [`process`] | paths and library handles |
//! | its functions, required and optional, and the calls | [`table`] | [`Api`], or which symbol is missing; `Result<_, `[`CuptiError`]`>` |
//! | who may call them | [`subscriber`] | a [`Subscriber`], or who is in the way |
//! | the second activity API, of 13.3 and later | [`activity_v2`] | activity of one subscriber, with chosen fields |
//! | where those fields lie | [`fields`] | layouts as CUPTI tells them, checked |
//! | the records that hold them | [`chosen_records`] | the walk over a buffer, values |
//! | hardware counters sampled at an interval | [`pm_sampling`] | choice of metrics, sessions, samples |
//! | what its records hold | [`record`] | plain copies of record structs, sizes by version |
//! | the C types themselves | [`bindings`], [`nvtx`] | generated; [`layout`] pins offsets |
//!
//! One rule is the caller's: **no function of CUPTI before the driver `libcuda.so.1` is in the
//! process** ([`find::driver`] tells). CUPTI 13.2 without a driver overflows the stack on any call.

/// Turns a wrong struct layout into a build that fails: the size, the alignment and the offsets of fields.
macro_rules! layout {
    ($type:path: $size:literal $(align $align:literal)? {
        $($field:ident $(. $inner:ident)? @ $offset:literal,)*
    }) => {
        const _: () = {
            assert!(size_of::<$type>() == $size);
            $(assert!(align_of::<$type>() == $align);)?
            $(assert!(std::mem::offset_of!($type, $field $(. $inner)?) == $offset);)*
        };
    };
}

pub mod activity_v2;
pub mod chosen_records;
pub mod error;
pub mod fields;
pub mod find;
pub mod layout;
pub mod places;
pub mod pm_sampling;
pub mod process;
pub mod record;
pub mod subscriber;
pub mod table;

#[allow(missing_docs, non_camel_case_types, non_snake_case, non_upper_case_globals)]
pub mod bindings;
#[allow(missing_docs, non_camel_case_types, non_snake_case, non_upper_case_globals)]
pub mod nvtx_bindings;
pub use nvtx_bindings as nvtx;

pub use error::CuptiError;
pub use subscriber::Subscriber;
pub use table::{Api, LoadError, Walker};
