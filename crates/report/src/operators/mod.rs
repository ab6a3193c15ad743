//! Range paths of a run, or the files of a Stage 1 run -> one row for each PyTorch operator.
//!
//! [`operators()`] adds up what a workload marked, and [`stage1`] reads what an earlier Stage 1 run
//! measured instead.

mod name;
mod rows;
mod settings;
pub mod stage1;
mod stage1_values;

pub use name::is_operator;
pub use rows::operators;
pub use settings::{Annotation, OperatorSettings, Pattern, Stage1Settings};
