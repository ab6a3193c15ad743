//! The functions, graphs and memory that handles of the driver API stand for.
//!
//! A handle is a tag and a number. Nothing behind a handle is ever dereferenced, so any value that
//! a caller makes up is answered with an error.

use std::collections::{BTreeMap, HashMap};
use std::ffi::CStr;
use std::sync::Arc;

use crate::abi::{Handle, Outcome, cuda, refuse_if};
use crate::clock;
use crate::recorded::{Function, Kernel, Op, Work, recorded};

const MODULE: usize = 0x2000_0000_0000_0000;
const FUNCTION: usize = 0x3000_0000_0000_0000;
const NODE: usize = 0x4000_0000_0000_0000;
const GRAPH: usize = 0x5000_0000_0000_0000;
const EXEC: usize = 0x6000_0000_0000_0000;
const TAG: usize = 0xf000_0000_0000_0000;

const UNRECORDED_KERNEL_NS: u64 = 2_000;
/// Kernels whose names begin so run until `stage2_sim_release`.
const HELD_KERNEL: &[u8] = b"spin_until_released";
/// Function names, live graphs, nodes of a graph: more are refused, so that memory is bounded.
const LIMIT: usize = 65_536;
const FIRST_ADDRESS: u64 = 0x7f00_0000_0000;
/// Granularity of device memory, bytes.
const ALIGNMENT: u64 = 512;

#[derive(Debug)]
pub(crate) struct Exec {
    /// CUPTI's id of the graph that it holds, a clone of the one it was made from.
    pub(crate) id: u32,
    /// Its operations; the node id of each is its place, see [`node_id`].
    pub(crate) ops: Vec<Op>,
    /// It was made while graphs were recorded as wholes.
    pub(crate) traced: bool,
}

/// Unknown handles give `INVALID_HANDLE`, and more than [`LIMIT`] of a thing `OUT_OF_MEMORY`.
#[derive(Default)]
pub(crate) struct Objects {
    functions: Vec<Function>,
    function_by_name: HashMap<&'static CStr, usize>,
    /// Ids given to graphs, templates and executables alike.
    graph_ids: u32,
    graphs: HashMap<u32, Vec<Op>>,
    execs: HashMap<u32, Arc<Exec>>,
    next_address: u64,
    memory: BTreeMap<u64, u64>,
    modules: u32,
}

/// CUPTI's id of a node: the graph's id over its place, as CUPTI 13.0 numbers them.
pub(crate) fn node_id(graph_id: u32, place: usize) -> u64 {
    (u64::from(graph_id) << 32) | place as u64
}

pub(crate) fn node_handle(graph_id: u32, place: usize) -> Handle {
    NODE | ((graph_id as usize) << 32) | place
}

pub(crate) fn id_of_node(handle: Handle) -> Option<u64> {
    let id = (handle & !TAG) as u64;
    (handle & TAG == NODE && id >> 32 != 0).then_some(id)
}

pub(crate) fn graph_handle(graph_id: u32) -> Handle {
    GRAPH | graph_id as usize
}

pub(crate) fn exec_handle(graph_id: u32) -> Handle {
    EXEC | graph_id as usize
}

pub(crate) fn id_of_graph(handle: Handle) -> Option<u32> {
    untag(handle, GRAPH)
}

fn id_of_exec(handle: Handle) -> Option<u32> {
    untag(handle, EXEC)
}

fn untag(handle: Handle, tag: usize) -> Option<u32> {
    let id = u32::try_from(handle & !TAG).ok().filter(|id| *id != 0);
    id.filter(|_| handle & TAG == tag)
}

impl Objects {
    pub(crate) fn load_module(&mut self) -> Handle {
        self.modules = self.modules.saturating_add(1);
        MODULE | self.modules as usize
    }

    pub(crate) fn check_module(&self, handle: Handle) -> Outcome {
        let is_known = untag(handle, MODULE).is_some_and(|id| id <= self.modules);
        if is_known { Ok(()) } else { Err(cuda::INVALID_HANDLE) }
    }

    /// The function of a name: the recorded kernel, or one of 2 us for any other name.
    /// A name that is not recorded gives a kernel of 2 us, or one that runs until `stage2_sim_release`.
    pub(crate) fn function(&mut self, name: &CStr) -> Outcome<Handle> {
        if let Some(index) = self.function_by_name.get(name) {
            return Ok(FUNCTION | (index + 1));
        }
        let index = self.functions.len();
        refuse_if(index >= LIMIT, cuda::OUT_OF_MEMORY)?;
        let function = recorded().by_name.get(name).copied().unwrap_or_else(|| Function {
            kernel: Kernel {
                // Leaked once per name: records point to it for as long as the process runs.
                name: Box::leak(name.to_owned().into_boxed_c_str()),
                grid: [1; 3],
                block: [1; 3],
                static_shared_bytes: 0,
                dynamic_shared_bytes: 0,
                registers_per_thread: 32,
                local_bytes_per_thread: 0,
            },
            duration_ns: match name.to_bytes().starts_with(HELD_KERNEL) {
                true => clock::FOREVER_NS,
                false => UNRECORDED_KERNEL_NS,
            },
        });
        self.functions.push(function);
        self.function_by_name.insert(function.kernel.name, index);
        Ok(FUNCTION | (index + 1))
    }

    pub(crate) fn get_function(&self, handle: Handle) -> Option<Function> {
        let index = untag(handle, FUNCTION)? as usize - 1;
        self.functions.get(index).copied()
    }

    pub(crate) fn create_graph(&mut self) -> Outcome<u32> {
        refuse_if(self.graphs.len() >= LIMIT, cuda::OUT_OF_MEMORY)?;
        self.graph_ids += 1;
        let id = self.graph_ids;
        self.graphs.insert(id, Vec::new());
        Ok(id)
    }

    /// Appends an operation to a graph; gives its place.
    pub(crate) fn add_node(&mut self, graph_id: u32, op: Op) -> Outcome<usize> {
        let ops = self.graphs.get_mut(&graph_id).ok_or(cuda::INVALID_HANDLE)?;
        refuse_if(ops.len() >= LIMIT, cuda::OUT_OF_MEMORY)?;
        ops.push(op);
        Ok(ops.len() - 1)
    }

    pub(crate) fn instantiate(&mut self, graph_id: u32, traced: bool) -> Outcome<Arc<Exec>> {
        let ops = self.graphs.get(&graph_id).ok_or(cuda::INVALID_HANDLE)?.clone();
        refuse_if(self.execs.len() >= LIMIT, cuda::OUT_OF_MEMORY)?;
        self.graph_ids += 1;
        let exec = Arc::new(Exec { id: self.graph_ids, ops, traced });
        self.execs.insert(exec.id, Arc::clone(&exec));
        Ok(exec)
    }

    pub(crate) fn exec(&self, handle: Handle) -> Outcome<Arc<Exec>> {
        let id = id_of_exec(handle).ok_or(cuda::INVALID_HANDLE)?;
        self.execs.get(&id).cloned().ok_or(cuda::INVALID_HANDLE)
    }

    pub(crate) fn destroy_graph(&mut self, handle: Handle) -> Outcome {
        let id = id_of_graph(handle).ok_or(cuda::INVALID_HANDLE)?;
        self.graphs.remove(&id).map(drop).ok_or(cuda::INVALID_HANDLE)
    }

    pub(crate) fn destroy_exec(&mut self, handle: Handle) -> Outcome {
        let id = id_of_exec(handle).ok_or(cuda::INVALID_HANDLE)?;
        self.execs.remove(&id).map(drop).ok_or(cuda::INVALID_HANDLE)
    }

    /// A made-up device address with `bytes` behind it; `OUT_OF_MEMORY` for more than the recorded device has.
    pub(crate) fn allocate(&mut self, bytes: u64) -> Outcome<u64> {
        refuse_if(bytes == 0, cuda::INVALID_VALUE)?;
        let used: u64 = self.memory.values().sum();
        let free = recorded().device_fact("global_memory_bytes").saturating_sub(used);
        refuse_if(self.memory.len() >= LIMIT || bytes > free, cuda::OUT_OF_MEMORY)?;
        let address = FIRST_ADDRESS + self.next_address;
        self.next_address += bytes.next_multiple_of(ALIGNMENT);
        self.memory.insert(address, bytes);
        Ok(address)
    }

    /// Takes an address back; 0 is nobody's, and allowed.
    pub(crate) fn free(&mut self, address: u64) -> Outcome {
        let is_known = address == 0 || self.memory.remove(&address).is_some();
        if is_known { Ok(()) } else { Err(cuda::INVALID_VALUE) }
    }
}

/// `CUgraphNodeType` of an operation.
pub(crate) fn node_type(op: &Op) -> u32 {
    match op.work {
        Work::Kernel(_) => 0,
        Work::Memcpy { .. } => 1,
        Work::Memset { .. } => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_up_handles_are_nobody() {
        let mut objects = Objects::default();
        for handle in [0, 1, usize::MAX, FUNCTION, EXEC, EXEC | 9, GRAPH | 9, NODE] {
            assert!(objects.get_function(handle).is_none());
            assert!(objects.exec(handle).is_err());
            assert!(
                objects.check_module(handle).is_err() && objects.destroy_graph(handle).is_err()
            );
            assert_eq!(id_of_node(handle), None);
        }
    }

    #[test]
    fn a_name_gives_the_recorded_kernel_or_a_short_one() {
        let mut objects = Objects::default();
        let recorded_name = recorded().sequences[0].iter().find_map(|op| {
            let Work::Kernel(kernel) = op.work else { return None };
            (kernel.registers_per_thread > 100).then_some(kernel.name)
        });
        let handle = objects.function(recorded_name.expect("a big kernel")).expect("function");
        assert!(objects.get_function(handle).expect("known").kernel.registers_per_thread > 100);
        let other = objects.function(c"a|b\n<i>").expect("any name");
        assert_eq!(objects.get_function(other).expect("known").duration_ns, UNRECORDED_KERNEL_NS);
        assert_eq!(objects.function(c"a|b\n<i>"), Ok(other));
    }

    #[test]
    fn memory_is_bounded_by_the_device() {
        let mut objects = Objects::default();
        let first = objects.allocate(1).expect("a byte");
        assert!(objects.allocate(100).expect("more") >= first + ALIGNMENT);
        assert_eq!(objects.allocate(0), Err(cuda::INVALID_VALUE));
        assert_eq!(objects.allocate(1 << 40), Err(cuda::OUT_OF_MEMORY));
        assert!(objects.free(first).is_ok() && objects.free(first).is_err());
    }

    #[test]
    fn an_executable_graph_is_a_clone() {
        let mut objects = Objects::default();
        let op = recorded().sequences[2][0];
        let graph = objects.create_graph().expect("graph");
        assert_eq!(objects.add_node(graph, op), Ok(0));
        let exec = objects.instantiate(graph, false).expect("exec");
        assert_eq!(objects.add_node(graph, op), Ok(1));
        assert_eq!((exec.id, exec.ops.len()), (graph + 1, 1));
        assert_eq!(id_of_node(node_handle(exec.id, 0)), Some(node_id(exec.id, 0)));
        assert_eq!(objects.destroy_exec(exec_handle(exec.id)), Ok(()));
        assert!(objects.exec(exec_handle(exec.id)).is_err());
    }
}
