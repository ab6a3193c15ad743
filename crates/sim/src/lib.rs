//! A simulated GPU: a shared library with the symbols of the CUDA driver and of CUPTI that replays
//! kernels recorded on an H200.
//!
//! `libstage2_sim.so` is loaded in the place of libcuda and libcupti. What it does and does not
//! simulate, and the environment variables that steer it, are in README.md of this package.
//!
//! The way of a launch through the modules:
//! - `driver_api`, `graph_api`: the exported `cu*` functions, with `calls` their ids;
//!   `inject` loads the tool in cuInit;
//! - `callbacks`: the correlation id and the callbacks at enter and exit;
//! - `launch`: what happens, by `timeline` when, out of `recorded` and `objects` what;
//! - `record`, `version`: the bytes of the activity record;
//! - `collection`: whether a client wants it, `chosen`: with which fields;
//! - `buffer`, `buffers`: into the client's buffer and back to the client;
//! - `activity_api`, `activity_v2_api`, `attributes`, `callback_api`: the exported `cupti*` functions;
//! - `call_faults`: what those do instead, where a test asks for it;
//! - `pm`: what the work counts, in samples; `pm_api`: the functions that sample, up to `pm_exit`;
//! - `state`: the one static, with `config` its settings; `abi` and `clock` are used by all.
//!
//! As a Rust library it offers only [`without_symbol`], for tests of tools that must survive a
//! CUPTI without some function.

mod abi;
mod activity_api;
mod activity_v2_api;
mod attributes;
mod buffer;
mod buffers;
mod call_faults;
mod callback_api;
mod callbacks;
mod calls;
mod chosen;
mod clock;
mod collection;
mod config;
mod driver_api;
mod graph_api;
mod id_set;
mod inject;
mod launch;
mod objects;
mod pm;
mod pm_api;
mod pm_exit;
mod record;
mod recorded;
mod state;
mod symbols;
mod timeline;
mod version;

pub use symbols::without_symbol;
