//! Words that several formats share.

use std::borrow::Cow;

use stage2_read::trace::events::{What, Work};

/// What a piece of work is called: the demangled name of a kernel, or what else was done.
pub fn work<'a>(work: &Work<'a>) -> Cow<'a, str> {
    match work.what {
        What::Kernel(_, name) => Cow::Borrowed(&name.demangled),
        other => short(other),
    }
}

/// What a piece of work is called: the short name of a kernel, or what else was done.
pub fn short(what: What<'_>) -> Cow<'_, str> {
    match what {
        What::Kernel(_, name) => Cow::Borrowed(&name.short),
        What::Copy { kind, .. } => Cow::Owned(format!("Memcpy {}", copy(kind))),
        What::Fill { .. } => Cow::Borrowed("Memset"),
        What::Graph { graph } => Cow::Owned(format!("CUDA graph {graph}")),
    }
}

/// The direction of a copy, as PyTorch's profiler names it.
fn copy(kind: u8) -> &'static str {
    match kind {
        1 => "HtoD",
        2 => "DtoH",
        3 => "HtoA",
        4 => "AtoH",
        5 => "AtoA",
        6 => "AtoD",
        7 => "DtoA",
        8 => "DtoD",
        9 => "HtoH",
        10 => "PtoP",
        _ => "Unknown",
    }
}
