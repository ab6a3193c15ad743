//! From a workload's command line to a folder of reports: passes, captures, merge, views.
#![forbid(unsafe_code)]

pub mod finding;
pub mod load;
pub mod merge;
pub mod report;
