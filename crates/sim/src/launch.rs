//! A launch into times on the GPU and activity records, or into a node of a graph.

use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::abi::{GraphData, Handle, cuda, kind, resource};
use crate::clock;
use crate::objects::{exec_handle, graph_handle, id_of_graph, node_handle, node_id, node_type};
use crate::record::{Record, Span};
use crate::recorded::{Op, Work};
use crate::state::State;

/// What a launch costs the calling thread, ns.
const LAUNCH_COST_NS: u64 = 3_000;
/// What a graph launch costs the calling thread, ns.
const GRAPH_LAUNCH_COST_NS: u64 = 8_000;

impl State {
    /// Launches an operation on a stream, or adds it to the graph that the stream is captured
    /// into; a `CUresult`.
    pub(crate) fn launch(&self, correlation_id: u32, stream: Handle, op: Op) -> u32 {
        let begin = Instant::now();
        let result = match self.timeline.capture(stream) {
            Ok(Some(graph)) => self.capture(graph, stream, op),
            Ok(None) => self.launch_now(correlation_id, stream, op),
            Err(error) => error,
        };
        if !self.config.fast {
            clock::spin_since(begin, LAUNCH_COST_NS);
        }
        result
    }

    fn launch_now(&self, correlation_id: u32, stream: Handle, op: Op) -> u32 {
        let duration_ns = self.jittered(&op, correlation_id, 0);
        let ops = [(duration_ns, op.gap_ns)].into_iter();
        match self.timeline.enqueue(stream, ops) {
            Ok((spans, stream_id)) => {
                for (start_ns, end_ns) in spans {
                    let span = Span { start_ns, end_ns, stream_id, correlation_id };
                    self.record_work(op.work, span, (0, 0));
                }
                cuda::SUCCESS
            }
            Err(error) => error,
        }
    }

    fn capture(&self, graph: Handle, stream: Handle, op: Op) -> u32 {
        let Some(graph_id) = id_of_graph(graph) else { return cuda::INVALID_HANDLE };
        match self.objects.add_node(graph_id, op) {
            Ok(place) => {
                let data = GraphData {
                    graph,
                    node: node_handle(graph_id, place),
                    node_type: node_type(&op),
                    ..GraphData::default()
                };
                self.callbacks.resource(resource::GRAPHNODE_CREATED, stream, Some(&data));
                cuda::SUCCESS
            }
            Err(error) => error,
        }
    }

    /// Makes an executable clone of a graph and reports each cloned node.
    ///
    /// # Errors
    /// `INVALID_HANDLE` for a graph that is not there.
    pub(crate) fn instantiate(&self, graph: Handle) -> Result<Handle, u32> {
        let graph_id = id_of_graph(graph).ok_or(cuda::INVALID_HANDLE)?;
        let exec = self.objects.instantiate(graph_id, self.is_enabled(kind::GRAPH_TRACE))?;
        let graph_exec = exec_handle(exec.id);
        let clone = graph_handle(exec.id);
        for (place, op) in exec.ops.iter().enumerate() {
            let data = GraphData {
                graph: clone,
                original_graph: graph,
                node: node_handle(exec.id, place),
                original_node: node_handle(graph_id, place),
                node_type: node_type(op),
                dependency: 0,
                graph_exec,
            };
            self.callbacks.resource(resource::GRAPHNODE_CLONED, 0, Some(&data));
        }
        let data = GraphData { graph: clone, graph_exec, ..GraphData::default() };
        self.callbacks.resource(resource::GRAPHEXEC_CREATED, 0, Some(&data));
        Ok(graph_exec)
    }

    /// Launches an executable graph on a stream; a `CUresult`.
    pub(crate) fn launch_graph(&self, correlation_id: u32, exec: Handle, stream: Handle) -> u32 {
        let begin = Instant::now();
        let Some(exec) = self.objects.exec(exec) else { return cuda::INVALID_HANDLE };
        match self.timeline.capture(stream) {
            Ok(None) => {}
            // Graphs as child nodes are not simulated.
            Ok(Some(_)) => return cuda::CAPTURE_UNSUPPORTED,
            Err(error) => return error,
        }
        let ops = exec.ops.iter().enumerate().map(|(place, op)| {
            (self.jittered(op, correlation_id, place), if place == 0 { 0 } else { op.gap_ns })
        });
        let (spans, stream_id) = match self.timeline.enqueue(stream, ops) {
            Ok(queued) => queued,
            Err(error) => return error,
        };
        if self.is_enabled(kind::GRAPH_TRACE) {
            if !exec.traced {
                // CUPTI 13.0 update 1 ends the process in a segmentation fault.
                eprintln!(
                    "stage2-sim: a graph that was made while GRAPH_TRACE was off is launched while \
                     it is on, which crashes CUPTI"
                );
                std::process::abort();
            }
            if let (Some((start_ns, _)), Some((_, end_ns))) = (spans.first(), spans.last()) {
                let (start_ns, end_ns) = (*start_ns, *end_ns);
                let span = Span { start_ns, end_ns, stream_id, correlation_id };
                self.buffers.stage(Record::GraphTrace { span, graph_id: exec.id }, end_ns);
            }
        } else if !self.is_enabled(kind::CONCURRENT_KERNEL) {
            self.buffers.overwrite(exec.id, &spans);
        } else {
            for (place, (op, (start_ns, end_ns))) in exec.ops.iter().zip(spans).enumerate() {
                let span = Span { start_ns, end_ns, stream_id, correlation_id };
                self.record_work(op.work, span, (exec.id, node_id(exec.id, place)));
            }
        }
        if !self.config.fast {
            clock::spin_since(begin, GRAPH_LAUNCH_COST_NS);
        }
        cuda::SUCCESS
    }

    /// Whether records of a kind are collected.
    pub(crate) fn is_enabled(&self, kind: u32) -> bool {
        kind < 64 && (self.kinds.load(Ordering::Relaxed) >> kind) & 1 == 1
    }

    fn record_work(&self, work: Work, span: Span, node: (u32, u64)) {
        let kind = match work {
            Work::Kernel(_) => kind::CONCURRENT_KERNEL,
            Work::Memcpy { .. } => kind::MEMCPY,
            Work::Memset { .. } => kind::MEMSET,
        };
        let end_ns = span.end_ns;
        let mut span = span;
        let mut grid_id = 0;
        if kind == kind::CONCURRENT_KERNEL {
            grid_id = self.grids.fetch_add(1, Ordering::Relaxed) + 1;
            let every = self.config.faults.zero_timestamps_every;
            if every > 0 && grid_id.is_multiple_of(every) {
                (span.start_ns, span.end_ns) = (0, 0);
            }
        }
        if self.is_enabled(kind) {
            self.buffers.stage(Record::Work { work, span, node, grid_id }, end_ns);
        }
    }

    fn jittered(&self, op: &Op, correlation_id: u32, place: usize) -> u64 {
        let occasion = (u64::from(correlation_id) << 32) | place as u64;
        clock::jitter(op.duration_ns, self.config.seed, occasion)
    }
}
