//! Names of ranges -> what reports and exports call a path of them.

use stage2_contract::text;

/// Ranges of a path that are shown; of a deeper one, the middle gives way.
const PATH_DEPTH_LIMIT: u64 = 64;
/// Characters of one range name within a path; the names themselves are kept in full.
pub const ELEMENT_LIMIT: usize = 200;

/// Own name of a range, with its domain unless that is the default one.
pub fn element(name: &str, domain: Option<&str>) -> String {
    let name = text::shorten(name, ELEMENT_LIMIT);
    match domain {
        Some(domain) => format!("{name}@{}", text::shorten(domain, ELEMENT_LIMIT)),
        None => name,
    }
}

/// The elements of a path from the outside in, of those from the inside out. `depth` is the number of
/// ranges around the innermost one.
pub fn shown(
    around: impl Iterator<Item = String>,
    depth: u64,
    outermost: Option<String>,
) -> Vec<String> {
    let mut elements: Vec<String> = if depth < PATH_DEPTH_LIMIT {
        around.collect()
    } else {
        let inner = around.take(PATH_DEPTH_LIMIT as usize - 2);
        let left_out = depth + 2 - PATH_DEPTH_LIMIT;
        inner.chain([format!("… {left_out} more …")]).chain(outermost).collect()
    };
    elements.reverse();
    elements
}

/// A name as people read it; nothing: no record defines it.
pub fn visible_name(name: Option<&[u8]>) -> String {
    match name {
        None => "(undefined name)".to_owned(),
        Some([]) => "(empty name)".to_owned(),
        Some(name) => text::visible(name),
    }
}

/// What the outermost nodes stand for that are not ranges.
pub const OUTSIDE_RANGES: &str = "(outside ranges)";
/// Work whose range is not known.
pub const UNATTRIBUTED_WORK: &str = "(unattributed)";
/// Work of a range that the file does not define.
pub const UNDEFINED_RANGE: &str = "(undefined range)";
/// In place of the range in which the node of a graph was captured: no record has the node.
pub const UNKNOWN_CAPTURE: &str = "(range of the capture not known)";
/// All work of a process, where it has no ranges.
pub const WHOLE_PROCESS: &str = "(whole process)";
/// A kernel whose name no record defines.
pub const UNDEFINED_KERNEL: &str = "(undefined kernel)";
