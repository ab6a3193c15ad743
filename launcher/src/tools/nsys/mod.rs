//! Settings -> the command lines of Nsight Systems -> a verdict on what they left behind.
//!
//! Everything here is a function of its arguments; `run` executes the commands. In a pass, [`config`]
//! is checked, [`command`] spells the commands out in the forms that the installed tool takes, and
//! [`outcome`] judges the result. [`scrub`] makes a copy that is safe to share, because a report holds
//! the environment of every process of the machine. [`stage2_read::nsys`] reads the export and compares
//! it with what the collector counted.

pub mod command;
pub mod config;
pub mod outcome;
pub mod scrub;
