//! Rows of a report -> those of each stage. Of stages there may be as many as rows, so that nothing
//! should look through all rows for each of them.

use std::collections::HashMap;

pub(crate) type ByStage<'r, T> = HashMap<&'r str, Vec<&'r T>>;

/// The rows by the stage that they name, in their order.
pub(crate) fn by_stage<'r, T>(
    rows: impl IntoIterator<Item = &'r T>,
    stage: impl Fn(&'r T) -> &'r str,
) -> ByStage<'r, T> {
    let mut found = ByStage::new();
    for row in rows {
        found.entry(stage(row)).or_default().push(row);
    }
    found
}

/// Those of one stage.
pub(crate) fn of_stage<'a, 'r, T>(rows: &'a ByStage<'r, T>, stage: &str) -> &'a [&'r T] {
    rows.get(stage).map_or(&[], Vec::as_slice)
}
