//! From files of profilers, whole and damaged, to what a report says.

mod coverage;
mod engines;
mod host;
mod inferred;
mod nsys_capture;
mod nsys_tables;
mod progress;
