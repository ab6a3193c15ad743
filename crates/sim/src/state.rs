//! The one static state of the library: the simulated GPU, its driver and its CUPTI.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use crate::abi::{GraphData, Handle, Outcome, cuda, cupti, kind, resource};
use crate::buffers::Collection;
use crate::callbacks::Callbacks;
use crate::clock;
use crate::config::{Config, ConfigError, VARIABLES};
use crate::objects::{
    Objects, exec_handle, graph_handle, id_of_graph, node_handle, node_id, node_type,
};
use crate::pm::{Hosts, Sampling};
use crate::record::{Damage, IS_BLACKWELL, Record, Span};
use crate::recorded::{Op, Work};
use crate::timeline::Timeline;

pub(crate) struct State {
    pub(crate) config: Config,
    /// Why the settings are the defaults, where they could not be read.
    pub(crate) config_error: Option<ConfigError>,
    /// Calls of the functions that are to fail.
    pub(crate) call_counts: Vec<AtomicU64>,
    pub(crate) callbacks: Callbacks,
    /// What is collected through the first activity API.
    pub(crate) first: Collection,
    /// The activity API that the process uses, of which there can be one.
    activity_api: AtomicU8,
    pub(crate) hardware_trace: AtomicBool,
    pub(crate) timeline: Timeline,
    /// Sampled counters, and the profiler hosts that evaluate them.
    pub(crate) pm: Sampling,
    pub(crate) pm_hosts: Hosts,
    pub(crate) objects: Mutex<Objects>,
    /// The process in which cuInit went well, or 0: a forked child has no driver.
    pub(crate) initialized_in: AtomicU32,
    pub(crate) context: AtomicBool,
    /// Kernels launched so far.
    pub(crate) grids: AtomicU64,
    pub(crate) last_correlation: AtomicU32,
}

#[derive(Clone, Copy)]
#[repr(u8)]
pub(crate) enum ActivityApi {
    First = 1,
    Second = 2,
}

impl State {
    /// Takes the process for an activity API; `MULTIPLE_SUBSCRIBERS` if it uses the other one.
    pub(crate) fn claim(&self, api: ActivityApi) -> Outcome {
        let (api, order) = (api as u8, Ordering::AcqRel);
        match self.activity_api.compare_exchange(0, api, order, Ordering::Acquire) {
            Err(other) if other != api => Err(cupti::MULTIPLE_SUBSCRIBERS),
            _ => Ok(()),
        }
    }

    /// The last subscriber is gone, so that the process may use either activity API.
    pub(crate) fn release_second(&self) {
        let (second, order) = (ActivityApi::Second as u8, Ordering::AcqRel);
        // Another one means that there was nothing to release.
        let _ = self.activity_api.compare_exchange(second, 0, order, Ordering::Acquire);
    }

    /// Everything that is collected, for whomever.
    fn for_each_collection(&self, mut body: impl FnMut(&Collection)) {
        body(&self.first);
        self.callbacks.subscribers().iter().for_each(|subscriber| body(&subscriber.activity));
    }

    fn any_collection(&self, is_it: impl Fn(&Collection) -> bool) -> bool {
        let mut is_any = false;
        self.for_each_collection(|collection| is_any |= is_it(collection));
        is_any
    }

    pub(crate) fn has_kind(&self, kind: u32) -> bool {
        self.any_collection(|collection| collection.kinds.has(kind))
    }

    /// Whether driver calls with an id get API records from anybody.
    pub(crate) fn has_call(&self, cbid: u32) -> bool {
        self.any_collection(|collection| collection.has_call(cbid))
    }

    pub(crate) fn offer(&self, record: Record, end_ns: u64) {
        self.for_each_collection(|collection| collection.offer(record, end_ns));
    }

    pub(crate) fn overwrite(&self, exec_id: u32, spans: &[Span]) {
        self.for_each_collection(|collection| collection.buffers.overwrite(exec_id, spans));
    }

    pub(crate) fn wake(&self) {
        self.for_each_collection(|collection| collection.buffers.wake());
    }

    pub(crate) fn flush(&self, forced: bool) {
        self.for_each_collection(|collection| collection.buffers.flush(forced));
    }
}

static OVERRIDES: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());
static STATE: OnceLock<State> = OnceLock::new();

/// The state; the first call reads the settings.
pub(crate) fn state() -> &'static State {
    STATE.get_or_init(|| {
        let (config, config_error) = match Config::read(&OVERRIDES.lock()) {
            Ok(config) => (config, None),
            Err(error) => (Config::default(), Some(error)),
        };
        IS_BLACKWELL.store(config.faults.hardware_trace, Ordering::Relaxed);
        State {
            call_counts: config.faults.calls.iter().map(|_| AtomicU64::new(0)).collect(),
            callbacks: Callbacks::new(config.first_correlation),
            first: Collection::new(&config),
            activity_api: AtomicU8::new(0),
            hardware_trace: AtomicBool::new(false),
            config,
            config_error,
            timeline: Timeline::default(),
            pm: Sampling::default(),
            pm_hosts: Hosts::default(),
            objects: Mutex::default(),
            initialized_in: AtomicU32::new(0),
            context: AtomicBool::new(false),
            grids: AtomicU64::new(0),
            last_correlation: AtomicU32::new(0),
        }
    })
}

/// Sets a variable for this library alone; false once the settings were read, or for one of others.
pub(crate) fn configure(name: &str, value: &str) -> bool {
    if STATE.get().is_some() || !VARIABLES.contains(&name) {
        return false;
    }
    OVERRIDES.lock().insert(name.to_owned(), value.to_owned());
    true
}

/// The first line of an exported function that a profiler may call: its faults.
macro_rules! gate {
    ($function:ident) => {
        const _: () = assert!(crate::config::is_listed(stringify!($function)));
        let state = $crate::state::state();
        let (faults, counts) = (&state.config.faults.calls, &state.call_counts);
        if let Some(code) = crate::config::meet(faults, counts, stringify!($function)) {
            return code;
        }
    };
}
pub(crate) use gate;

/// What a launch costs the calling thread, ns.
const LAUNCH_COST_NS: u64 = 3_000;
const GRAPH_LAUNCH_COST_NS: u64 = 8_000;

/// In the year 2262, the last that 64-bit nanoseconds with a sign reach.
const FAR_FUTURE_NS: u64 = i64::MAX as u64;

thread_local! {
    static HAS_LAUNCHED: Cell<bool> = const { Cell::new(false) };
}

pub(crate) fn has_launched() -> bool {
    HAS_LAUNCHED.get()
}

impl State {
    /// Launches an operation on a stream, or adds it to the graph into which the stream is captured.
    pub(crate) fn launch(&self, correlation_id: u32, stream: Handle, op: Op) -> Outcome {
        let begin = Instant::now();
        HAS_LAUNCHED.set(true);
        crate::activity_api::await_start();
        match self.timeline.capture(stream)? {
            Some(graph) => self.capture(graph, stream, op)?,
            None => {
                let ops = [(self.duration_of(&op, correlation_id, 0), op.gap_ns)];
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

    pub(crate) fn launch_graph(&self, call_id: u32, exec: Handle, stream: Handle) -> Outcome {
        let begin = Instant::now();
        HAS_LAUNCHED.set(true);
        crate::activity_api::await_start();
        let exec = self.objects.lock().exec(exec)?;
        if self.timeline.capture(stream)?.is_some() {
            // Graphs as child nodes are not simulated.
            return Err(cuda::CAPTURE_UNSUPPORTED);
        }
        let ops = exec.ops.iter().enumerate().map(|(place, op)| {
            (self.duration_of(op, call_id, place), if place == 0 { 0 } else { op.gap_ns })
        });
        let spans = self.timeline.enqueue(stream, call_id, ops)?;
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

    fn duration_of(&self, op: &Op, correlation_id: u32, place: usize) -> u64 {
        if op.duration_ns == clock::FOREVER_NS {
            return op.duration_ns;
        }
        let occasion = (u64::from(correlation_id) << 32) | place as u64;
        clock::jitter(op.duration_ns, self.config.seed, occasion)
    }
}
