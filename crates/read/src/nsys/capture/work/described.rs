//! Items of GPU work -> the records, and the rows of kernels, that describe them.

use stage2_contract::trace::{GpuNs, GpuWork, Record, Shape, What};

use super::{NO_NAME, Piece, Work};
use crate::nsys::capture::item::{Ran, grid_and_block};
use crate::nsys::capture::limits::OTHER_KERNELS;
use crate::nsys::{Kernel, Naming};

impl Work {
    /// Where work of an item was queued, and its device.
    pub(in crate::nsys::capture) fn queue(&self, item: u32) -> Option<(u32, u32)> {
        let device = self.items.get(item as usize)?.device?;
        Some((device.checked_add(1)?, device))
    }

    pub(in crate::nsys::capture) fn device_name(&self, device: u32) -> &[u8] {
        self.devices.get(&device).map_or(&[], |name| name.as_bytes())
    }

    /// The shape of an item that is a kernel, and the number and the name of that kernel. Blocks
    /// and threads that are not known are zero.
    pub(in crate::nsys::capture) fn shape(&self, item: u32) -> Option<(u32, &[u8], Shape)> {
        let (name, blocks_and_threads, details) = match self.items.get(item as usize)?.what {
            Ran::Kernel(name, blocks_and_threads, details) => (name, blocks_and_threads, details),
            Ran::OtherKernels => {
                let shape = Shape { id: item + 1, ..Shape::default() };
                return Some((self.names.len() as u32, OTHER_KERNELS.as_bytes(), shape));
            }
            Ran::Copy(_) | Ran::Fill | Ran::Graph(_) => return None,
        };
        let (number, name) = self.names.get(&name)?;
        let (grid, block) = grid_and_block(blocks_and_threads);
        let (grid, block) = grid.zip(block).unwrap_or_default();
        let [registers, fixed, dynamic, local] = details.map(Option::unwrap_or_default);
        let shape = Shape {
            id: item + 1,
            name: 0,
            grid,
            block,
            static_shared_bytes: fixed,
            dynamic_shared_bytes: dynamic,
            registers_per_thread: registers,
            local_bytes_per_thread: local,
        };
        Some((*number, name.as_deref().unwrap_or(NO_NAME).as_bytes(), shape))
    }

    /// The kernel of a shape, without its sums.
    pub(in crate::nsys) fn kernel(&self, shape: &Shape) -> Option<Kernel> {
        let item = self.items.get(shape.id.checked_sub(1)? as usize)?;
        if item.what == Ran::OtherKernels {
            let name = OTHER_KERNELS.into();
            return Some(Kernel { name, naming: Naming::Short, ..Kernel::default() });
        }
        let Ran::Kernel(name, blocks_and_threads, _) = item.what else { return None };
        let text = self.names.get(&name)?.1.as_ref();
        let (grid, block) = grid_and_block(blocks_and_threads);
        Some(Kernel {
            naming: text.map_or(Naming::Short, |_| name.0),
            name: text.cloned().unwrap_or_else(|| NO_NAME.into()),
            grid,
            block,
            device: item.device,
            ..Kernel::default()
        })
    }

    /// The record of a piece that was launched in `range` and ran from `start` to `end`.
    pub(in crate::nsys::capture) fn record(
        &self,
        piece: &Piece,
        (start, end): (GpuNs, GpuNs),
        range: u64,
    ) -> Option<Record> {
        let item = self.items.get(piece.item as usize)?;
        let bytes = piece.bytes;
        let what = match item.what {
            Ran::Kernel(..) | Ran::OtherKernels => What::Kernel { shape: piece.item + 1 },
            Ran::Copy(kind) => What::Copy { bytes, kind },
            Ran::Fill => What::Fill { bytes },
            Ran::Graph(graph) => What::Graph { graph },
        };
        let queue = self.queue(piece.item).map_or(0, |(queue, _)| queue);
        let (correlation, graph_node) = (0, u64::from(item.in_graph));
        let work = GpuWork { what, start, end, queue, range, correlation, graph_node };
        Some(Record::Work(work))
    }
}
