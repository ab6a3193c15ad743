//! Carries launches out: as work on the GPU with its activity records, or as nodes of a graph.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::abi::{GraphData, Handle, Outcome, cuda, kind, resource};
use crate::clock;
use crate::objects::{exec_handle, graph_handle, id_of_graph, node_handle, node_id, node_type};
use crate::record::{Damage, Record, Span};
use crate::recorded::{Op, Work};
use crate::state::State;

/// What a launch costs the calling thread, ns.
const LAUNCH_COST_NS: u64 = 3_000;
/// What a graph launch costs the calling thread, ns.
const GRAPH_LAUNCH_COST_NS: u64 = 8_000;

/// In the year 2262, the last that 64-bit nanoseconds with a sign reach.
const FAR_FUTURE_NS: u64 = i64::MAX as u64;

thread_local! {
    static HAS_LAUNCHED: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread has launched something on the GPU.
pub(crate) fn has_launched() -> bool {
    HAS_LAUNCHED.get()
}

impl State {
    /// Launches an operation on a stream, or adds it to the graph that the stream is captured
    /// into.
    pub(crate) fn launch(&self, correlation_id: u32, stream: Handle, op: Op) -> Outcome {
        let begin = Instant::now();
        HAS_LAUNCHED.set(true);
        match self.timeline.capture(stream)? {
            Some(graph) => self.capture(graph, stream, op)?,
            None => {
                let ops = [(self.jittered(&op, correlation_id, 0), op.gap_ns)];
                for span in self.timeline.enqueue(stream, correlation_id, ops.into_iter())? {
                    self.record_work(op.work, span, (0, 0));
                }
            }
        }
        self.spend(begin, LAUNCH_COST_NS);
        Ok(())
    }

    fn capture(&self, graph: Handle, stream: Handle, op: Op) -> Outcome {
        let graph_id = id_of_graph(graph).ok_or(cuda::INVALID_HANDLE)?;
        let place = self.objects.lock().add_node(graph_id, op)?;
        let node = node_handle(graph_id, place);
        let data = GraphData { graph, node, node_type: node_type(&op), ..GraphData::default() };
        self.callbacks.resource(resource::GRAPHNODE_CREATED, stream, Some(&data));
        Ok(())
    }

    /// Makes an executable clone of a graph and reports each cloned node.
    pub(crate) fn instantiate(&self, graph: Handle) -> Outcome<Handle> {
        let graph_id = id_of_graph(graph).ok_or(cuda::INVALID_HANDLE)?;
        let exec = self.objects.lock().instantiate(graph_id, self.has_kind(kind::GRAPH_TRACE))?;
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

    /// Launches an executable graph on a stream.
    pub(crate) fn launch_graph(
        &self,
        correlation_id: u32,
        exec: Handle,
        stream: Handle,
    ) -> Outcome {
        let begin = Instant::now();
        HAS_LAUNCHED.set(true);
        let exec = self.objects.lock().exec(exec)?;
        if self.timeline.capture(stream)?.is_some() {
            // Graphs as child nodes are not simulated.
            return Err(cuda::CAPTURE_UNSUPPORTED);
        }
        let ops = exec.ops.iter().enumerate().map(|(place, op)| {
            (self.jittered(op, correlation_id, place), if place == 0 { 0 } else { op.gap_ns })
        });
        let spans = self.timeline.enqueue(stream, correlation_id, ops)?;
        if self.has_kind(kind::GRAPH_TRACE) {
            if !exec.traced {
                // CUPTI 13.0 update 1 ends the process in a segmentation fault.
                eprintln!(
                    "stage2-sim: a graph that was made while GRAPH_TRACE was off is launched while \
                     it is on, which crashes CUPTI"
                );
                std::process::abort();
            }
            if let (Some(first), Some(&Span { end_ns, .. })) = (spans.first(), spans.last()) {
                exec.ops.iter().zip(&spans).for_each(|(op, span)| self.pm.note(&op.work, span));
                let span = Span { end_ns, ..*first };
                self.offer(Record::GraphTrace { span, graph_id: exec.id }, end_ns);
            }
        } else if !self.has_kind(kind::CONCURRENT_KERNEL) {
            exec.ops.iter().zip(&spans).for_each(|(op, span)| self.pm.note(&op.work, span));
            self.overwrite(exec.id, &spans);
        } else {
            for (place, (op, span)) in exec.ops.iter().zip(spans).enumerate() {
                self.record_work(op.work, span, (exec.id, node_id(exec.id, place)));
            }
        }
        self.spend(begin, GRAPH_LAUNCH_COST_NS);
        Ok(())
    }

    /// Keeps the calling thread until the cost of a launch has passed since `begin`.
    fn spend(&self, begin: Instant, cost_ns: u64) {
        if !self.config.fast {
            clock::spin_since(begin, cost_ns);
        }
    }

    fn record_work(&self, work: Work, mut span: Span, node: (u32, u64)) {
        self.pm.note(&work, &span);
        let end_ns = span.end_ns;
        let (mut grid_id, mut damage) = (0, Damage::None);
        if let Work::Kernel(_) = work {
            grid_id = self.grids.fetch_add(1, Ordering::Relaxed) + 1;
            damage = self.damage(&mut span, grid_id);
        }
        self.offer(Record::Work { work, span, node, grid_id, damage }, end_ns);
    }

    /// What is to be wrong with the record of a kernel; times and calls are wrong at once.
    fn damage(&self, span: &mut Span, grid_id: u64) -> Damage {
        let faults = &self.config.faults;
        let is_due = |every: u64| every > 0 && grid_id.is_multiple_of(every);
        if is_due(faults.zero_timestamps_every) {
            (span.start_ns, span.end_ns) = (0, 0);
        }
        if is_due(faults.reversed_timestamps_every) {
            (span.start_ns, span.end_ns) = (span.end_ns, span.start_ns);
        }
        if is_due(faults.future_timestamps_every) {
            span.end_ns = FAR_FUTURE_NS;
        }
        let before = self.last_correlation.swap(span.correlation_id, Ordering::Relaxed);
        if is_due(faults.no_correlations_every) {
            span.correlation_id = 0;
        }
        if is_due(faults.repeated_correlations_every) {
            span.correlation_id = before;
        }
        if is_due(faults.unknown_kinds_every) {
            Damage::UnknownKind
        } else if is_due(faults.no_names_every) {
            Damage::NoName
        } else {
            Damage::None
        }
    }

    fn jittered(&self, op: &Op, correlation_id: u32, place: usize) -> u64 {
        let occasion = (u64::from(correlation_id) << 32) | place as u64;
        clock::jitter(op.duration_ns, self.config.seed, occasion)
    }
}
