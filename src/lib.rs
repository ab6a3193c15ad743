//! The collector turns the CUPTI kernel records and NVTX ranges of its process into a trace file and a
//! table of top kernels.
//!
//! It runs inside the profiled process, the guest, and never breaks, blocks or visibly slows it: no panic
//! leaves the collector ([`base::barrier`]), every wait has a limit, and guest threads neither allocate nor
//! write after the start. The collector has one thread ([`drain`]), and up to three more: one waits for
//! readings of the GPU driver (`drain::device_state`), one for clients of the control socket ([`control`]),
//! and one samples the guest's threads ([`host`]).
//!
//! Each folder contains the code of certain threads: [`entry`], [`control`], [`drain`], [`host`], [`guest`],
//! [`base`]. A folder imports only from those that follow it in this list.
//!
//! The path of a kernel record:
//!
//! | stage | module | input | output |
//! |---|---|---|---|
//! | start | [`entry::inject`], [`entry::lifecycle`] | a call by the loader, the driver or NVTX | a running collector |
//! | end | [`entry::ends`], [`entry::forks`] | the end of the process; a forked child | a complete trace file; a new start |
//! | produce | [`guest::cupti`] | CUPTI's callbacks | full buffers in the [`guest::pool`], events |
//! | produce | [`guest::nvtx`] | the guest's NVTX calls | [`guest::event`]s with a fence each, [`guest::registry`] |
//! | decode | [`guest::activity`] | a full buffer | decoded records and their names |
//! | attribute | `drain::ranges`, `drain::timeline` | events, correlation ids | range instances and paths |
//! | attribute | `drain::fields` | payloads, the guest's schemas | fields of range instances |
//! | aggregate | `drain::aggregate`, `drain::intern` | attributed work | bounded tables, numbers |
//! | alongside | `drain::device_state` | NVML's readings | energy and clocks of the GPUs in use |
//! | alongside | [`host`], `drain::host_samples` | states and stacks of threads | samples |
//! | write | [`drain::run`], `drain::summary` | records, tables | the trace file, the table at exit |
//!
//! Records flow in one direction: the drain thread receives them decoded, and does not know the callbacks of
//! CUPTI and NVTX. Control flows in the other direction through one interface, [`guest::gpu::Tracer`]: a
//! flush, the clock, a count of losses, the switch and the end.
//!
//! [`guest::state`] holds the phase and everything that one process records. All other statics are private
//! to their module: data that outlives a recording (the table of registrations, the numbers of threads and
//! ranges, the process's place in a tree of forks), and process-wide switches (the level of messages, the
//! key of [`base::barrier`]). `tests/it/layers.rs` lists them.
#![deny(clippy::unwrap_used, clippy::expect_used)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
compile_error!("the collector reads CUPTI's and NVTX's ABI of 64-bit Linux only (x86-64, aarch64)");

pub mod base;
pub mod control;
pub mod drain;
pub mod entry;
pub mod guest;
pub mod host;
