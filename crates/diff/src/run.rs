//! A run that takes part in a comparison.

use stage2_model::Report;

/// A run that is compared.
#[derive(Clone, Copy, Debug)]
pub struct Run<'r> {
    /// What the user called it.
    pub label: &'r str,
    /// Its report.
    pub report: &'r Report,
    /// Parts of the report that could not be read.
    pub left_out: &'r [String],
}
