//! Trace files of every kind, whole and damaged, written and read.

mod common;
mod damage;
mod evolve;
mod failing_sink;
mod golden;
mod round_trip;
