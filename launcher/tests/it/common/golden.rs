//! Compares what was written with a file of `tests/golden`, and shows every difference.

use std::path::Path;

use snapbox::data::{Data, DataFormat};

/// Fails unless the text is that of the golden file, to the byte.
///
/// With `SNAPSHOTS=overwrite` in the environment the file is written again; look at the difference
/// before you commit it.
#[track_caller]
pub(crate) fn compare(name: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    // As text, whatever the file's ending, and without wildcards.
    let expected = Data::read_from(&path, Some(DataFormat::Text)).raw();
    snapbox::assert_data_eq!(actual, expected);
    // That comparison takes line ends of all systems for the same.
    assert!(
        std::fs::read(&path).is_ok_and(|bytes| bytes == actual.as_bytes()),
        "{name}: line ends"
    );
}
