//! Folded stacks, as flame graph tools read them: `prefill;layer.0;gemm 12345`, in nanoseconds.

use std::io::Write;
use std::path::Path;

use crate::selection::Selected;
use crate::tree::Node;
use crate::{Counts, ExportError, Exported, output};

pub(crate) fn write(selected: &Selected<'_>, out: &Path) -> Result<Exported, ExportError> {
    let mut counts = Counts::default();
    let root = Node::build(selected, &mut counts)?;
    output::file(out, |file| {
        root.walk(&mut Vec::new(), &mut |ranges, name, total| {
            let mut line: String = ranges.iter().map(|range| frame(range) + ";").collect();
            line.push_str(&frame(name));
            writeln!(file, "{line} {}", total.ns).map_err(ExportError::write(out))
        })
    })?;
    Ok(Exported { files: vec![out.to_owned()], counts, ..Exported::default() })
}

/// A frame ends at `;`, and the last one at the space before the number.
fn frame(name: &str) -> String {
    name.replace(';', ":").replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_cannot_end_early() {
        assert_eq!(frame("a;b\nc d"), "a:b c d");
    }
}
