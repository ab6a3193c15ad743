//! The doors into the collector, and its life cycle: everything that happens once in a process.
//!
//! The loader, the driver, NVTX, `fork` and the end of the process call this folder, on threads of
//! the guest. These calls start the collector, wire its parts and end it, so they may allocate and
//! wait, each within a stated bound. A fork handler, `_exit` and `_Exit` may do neither.
//! A forked child finds its way back to the start through a function pointer ([`crate::guest::state`]).

pub mod ends;
pub mod forks;
pub mod inject;
pub mod lifecycle;
pub mod options;
pub mod stack;
