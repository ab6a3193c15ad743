//! Nsight Systems: settings -> its command lines -> a verdict on what it did -> its tables -> how far
//! they can be believed.
//!
//! Everything here is a function of its arguments: running the commands is the launcher's business.
//! The order of a pass: [`config`] is checked, [`version`] says which forms the installed tool
//! takes, [`command`] spells the commands out, [`outcome`] judges what came of them, [`load`] reads
//! the export, and [`reconcile`] compares it with what the collector counted. [`scrub`] makes a copy
//! that can be given away: a report holds the environment of every process of the machine.

pub mod command;
pub mod config;
pub mod expression;
mod messages;
pub mod outcome;
pub mod scrub;
pub mod unopened;
pub mod version;
pub mod words;
