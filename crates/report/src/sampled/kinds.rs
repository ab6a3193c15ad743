//! GPU work -> its kind: what the fit has a column for.

use rustc_hash::FxHashMap;
use stage2_contract::trace::{GpuWork, What};

use stage2_contract::text::kernel_name;
use stage2_read::kernel_class::class_of;
use stage2_read::trace::ProcessCapture;
use stage2_read::trace::placed::Placing;

/// What work is told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// A kernel: the index of its name, its blocks and the threads of a block.
    Kernel(u32, [u32; 3], [u32; 3]),
    /// A kernel that the file does not define.
    Undefined,
    Copy(u8),
    Fill,
    Graph(u32),
}

/// Kinds by number. Every pass over a file gives out the same numbers.
#[derive(Debug, Default)]
pub(super) struct KindTable {
    numbers: FxHashMap<Kind, u32>,
    /// Number, and class that short kinds are fitted together by.
    pub(super) kinds: Vec<(Kind, u32)>,
}

impl KindTable {
    pub(super) fn number(
        &mut self,
        work: &GpuWork,
        placing: &Placing,
        process: &ProcessCapture,
    ) -> (u32, u32) {
        let kind = match work.what {
            What::Kernel { shape } => match placing.shape(shape) {
                Some((shape, Some(name))) => Kind::Kernel(name, shape.grid, shape.block),
                _ => Kind::Undefined,
            },
            What::Copy { kind, .. } => Kind::Copy(kind),
            What::Fill { .. } => Kind::Fill,
            What::Graph { graph } => Kind::Graph(graph),
        };
        let fresh = self.kinds.len() as u32;
        let number = *self.numbers.entry(kind).or_insert(fresh);
        if number == fresh {
            self.kinds.push((kind, class(kind, process)));
        }
        (number, self.kinds.get(number as usize).map_or(0, |(_, class)| *class))
    }
}

/// Kernels by what they do; other work apart from them.
fn class(kind: Kind, process: &ProcessCapture) -> u32 {
    match kind {
        Kind::Kernel(name, ..) => {
            let name = process.names.get(name as usize);
            name.map_or(0, |bytes| class_of(&kernel_name(bytes)) as u32)
        }
        Kind::Undefined => 100,
        Kind::Copy(_) => 101,
        Kind::Fill => 102,
        Kind::Graph(_) => 103,
    }
}
