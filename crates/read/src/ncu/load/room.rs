//! How much is kept of all pages of ncu together: a table of a hundred thousand columns, or texts of
//! megabytes in every row, take no more memory than this.

use stage2_model::{Finding, Severity};

/// Values that are kept, at some 110 bytes each. A report of `--set full` has some hundred for a launch.
const MAX_VALUES: usize = 1_000_000;
/// Bytes of names, ranges and rules that are kept.
const MAX_TEXT_BYTES: usize = 64 << 20;

/// What may still be kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    values: usize,
    text_bytes: usize,
    /// Rows of this report that found none.
    refused: usize,
}

impl Default for Room {
    fn default() -> Self {
        Room { values: MAX_VALUES, text_bytes: MAX_TEXT_BYTES, refused: 0 }
    }
}

impl Room {
    /// Takes room for a row; says whether there was enough.
    pub(super) fn take(&mut self, values: usize, text_bytes: usize) -> bool {
        let left = self.values.checked_sub(values).zip(self.text_bytes.checked_sub(text_bytes));
        match left {
            Some((values, text_bytes)) => (self.values, self.text_bytes) = (values, text_bytes),
            None => self.refused += 1,
        }
        left.is_some()
    }

    /// What is left for the reports behind this one.
    pub(super) fn next_report(self) -> Self {
        Room { refused: 0, ..self }
    }

    /// What was left out of this report.
    pub(super) fn finding(self) -> Option<Finding> {
        (self.refused > 0).then(|| {
            Finding::new(
                Severity::Warning,
                format!("ncu: {} rows of a report were left out", self.refused),
                format!(
                    "with them it has more than {MAX_VALUES} values, or {} MiB of names, ranges and \
                     rules",
                    MAX_TEXT_BYTES >> 20
                ),
                "profile fewer launches or fewer metrics, or merge the reports one by one",
            )
        })
    }
}
