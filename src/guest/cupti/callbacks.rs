//! CUPTI's calls into us: buffers handed out and taken back, fences, launches and graph nodes.
//!
//! Each reads, copies, sends and returns. The CUPTI functions that are called from in here are
//! `cuptiGetGraphNodeId`, while a graph is being built, as CUPTI's own samples do, and
//! `cuptiGetDeviceId`, when a context was made.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::Ordering;

use cupti_sys::fields::Completion;
use cupti_sys::{Api, Subscriber, bindings as sys};
use stage2_contract::trace::Payload;

use crate::base::barrier;
use crate::base::counters::Counters;
use crate::guest::event::{Event, EventKind};
use crate::guest::pool::Pool;
use crate::guest::state::{self, Call};
use crate::guest::{launch_watch, thread};

use super::blocking;

/// On a guest thread, inside a launch.
pub(super) extern "C" fn request_buffer(
    buffer: *mut *mut u8,
    size: *mut usize,
    max_records: *mut usize,
) {
    let given = barrier::callback(None, || {
        let shared = state::shared()?;
        // CUPTI may keep the buffer for several windows, and so does the thread its number.
        let owner = state::active().map_or_else(thread::number, thread::number_in);
        let pool = shared.pool.get()?;
        let given = pool.request(owner, &shared.counters);
        if pool.runs_low() {
            shared.wake_drain();
        }
        given
    });
    let (start, bytes) = given.unwrap_or((ptr::null_mut(), 0));
    if buffer.is_null() || size.is_null() || max_records.is_null() {
        return;
    }
    // SAFETY: CUPTI passes three places to write to; null was ruled out above.
    unsafe {
        *buffer = start;
        *size = bytes;
        *max_records = 0;
    }
}

/// On a thread of CUPTI's, or inside our flush.
pub(super) extern "C" fn complete_buffer(
    _context: sys::CUcontext,
    _stream: u32,
    buffer: *mut u8,
    _size: usize,
    valid: usize,
) {
    take_back(buffer, |pool, counters| pool.complete(buffer, valid, counters));
}

/// [`request_buffer`] as the second activity API calls it.
pub(super) extern "C" fn request_buffer_v2(
    buffer: *mut *mut u8,
    size: *mut usize,
    max_records: *mut usize,
    _info: *mut sys::CUpti_BufferCallbackRequestInfo,
) {
    request_buffer(buffer, size, max_records);
}

/// On a thread of CUPTI's or on one that flushes: a buffer comes back with the layouts of its records,
/// which exist during the call only.
pub(super) extern "C" fn complete_buffer_v2(
    buffer: *mut u8,
    _size: usize,
    valid: usize,
    info: *mut sys::CUpti_BufferCallbackCompleteInfo,
) {
    take_back(buffer, |pool, counters| {
        // SAFETY: null or what CUPTI calls us with, and this call has not returned.
        let completion = unsafe { Completion::new(info) };
        pool.complete_told(buffer, valid, completion, counters);
    });
}

fn take_back(buffer: *mut u8, complete: impl FnOnce(&Pool, &Counters)) {
    barrier::callback((), || {
        let Some(shared) = state::shared() else { return };
        if let Some(pool) = shared.pool.get().filter(|_| !buffer.is_null()) {
            complete(pool, &shared.counters);
            shared.wake_drain();
        }
    });
}

/// On the thread that made a call which we asked to see. `user`: the [`Api`].
pub(super) extern "C" fn on_callback(
    user: *mut c_void,
    domain: sys::CUpti_CallbackDomain,
    id: sys::CUpti_CallbackId,
    data: *const c_void,
) {
    if data.is_null() {
        return;
    }
    barrier::callback((), || match domain {
        sys::CUPTI_CB_DOMAIN_DRIVER_API => {
            // SAFETY: CUPTI passes this struct in this domain, valid during the call.
            let call = unsafe { data.cast::<sys::CUpti_CallbackData>().read_unaligned() };
            if call.callbackSite == sys::CUPTI_API_ENTER {
                blocking::begins(id, call.correlationId);
                on_driver_call(id, call.correlationId);
                return;
            }
            blocking::ends(id, call.correlationId);
            if KERNELS.contains(&id) {
                let result = call.functionReturnValue.cast::<u32>();
                // SAFETY: null, or at the exit of a driver call the place of its result.
                let went_well = !result.is_null() && unsafe { result.read_unaligned() } == 0;
                on_kernel_launched(went_well);
            }
        }
        sys::CUPTI_CB_DOMAIN_RESOURCE => {
            // SAFETY: CUPTI passes this struct in this domain, and the user data that `subscribe`
            // was given, which lives for ever.
            let (api, resource) = unsafe {
                let resource = data.cast::<sys::CUpti_ResourceData>().read_unaligned();
                (user.cast::<Api>().as_ref(), resource)
            };
            if id == sys::CUPTI_CBID_RESOURCE_CONTEXT_CREATED {
                on_context(api, resource.context);
            } else if let Some(api) = api {
                on_graph_node(api, id, resource.resourceDescriptor.cast());
            }
        }
        _ => {}
    });
}

fn on_driver_call(id: sys::CUpti_CallbackId, correlation: u32) {
    if id == FENCE {
        thread::set_fence(correlation);
        return;
    }
    let Some(call) = state::active().or_else(state::ending) else { return };
    let shared = call.shared;
    let is_replay = REPLAYS.contains(&id);
    if is_replay {
        shared.replayed.fetch_or(shared.collection.is_open(), Ordering::Relaxed);
    } else if shared.launch_watch.is_on() && KERNELS.contains(&id) {
        shared.launch_watch.begins(shared.collected_since());
    }
    let is_unasked = shared.gpu().map_or(is_replay, |gpu| !gpu.reports_launches);
    if is_unasked || !is_launch(id) {
        return;
    }
    let mut event = Event::new(EventKind::Launch, thread::number_in(call)).in_epoch(call.epoch);
    event.fence = correlation;
    if shared.events.send(event, &shared.counters).half_full {
        shared.wake_drain();
    }
}

fn on_kernel_launched(went_well: bool) {
    let Some(Call { shared, .. }) = state::active() else { return };
    if shared.launch_watch.is_on() {
        shared.launch_watch.ends(shared.collected_since(), went_well);
    }
}

/// Of a new context: its GPU is used from now on.
fn on_context(api: Option<&Api>, context: sys::CUcontext) {
    let counters = state::active().and_then(|call| call.shared.gpu()?.counters.as_ref());
    let (Some(api), Some(counters)) = (api, counters) else { return };
    // SAFETY: CUPTI hands over a context that it has just seen made.
    if let Ok(device) = unsafe { api.device_of(context) } {
        counters.use_device(device);
    }
}

fn on_graph_node(api: &Api, id: sys::CUpti_CallbackId, data: *const sys::CUpti_GraphData) {
    let call = state::active().or_else(state::ending);
    let Some(call) = call.filter(|_| !data.is_null()) else { return };
    let kind = match id {
        sys::CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED => EventKind::GraphNodeCreated,
        sys::CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED => EventKind::GraphNodeCloned,
        _ => return,
    };
    // A launch that becomes a node makes no record.
    launch_watch::forget();
    // SAFETY: CUPTI passes this struct with the two graph-node callbacks; the nodes that it names exist during the call.
    let (node, original) = unsafe {
        let graph = data.read_unaligned();
        let original = match kind {
            EventKind::GraphNodeCloned => api.graph_node_id(graph.originalNode).ok(),
            _ => None,
        };
        (api.graph_node_id(graph.node), original)
    };
    let Ok(node) = node else { return };
    let mut event = Event::new(kind, thread::number_in(call)).in_epoch(call.epoch);
    event.id = node;
    event.payload = original.map(Payload::U64);
    call.shared.events.send(event, &call.shared.counters);
}

// The driver calls that put work on a GPU, as CUPTI numbers them (the numbers never change). Runtime calls
// end in driver calls, so these see everything.

/// `cuDriverGetVersion`: cheap, always allowed, and made by us at range boundaries.
pub(super) const FENCE: u32 = sys::CUPTI_DRIVER_TRACE_CBID_cuDriverGetVersion;
/// `cuLaunchKernel`: without it attribution by callback is impossible.
pub(super) const KERNEL: u32 = sys::CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel;

/// The calls that launch one kernel. Each makes a record, unless it fails or its stream is captured.
const KERNELS: [u32; 6] = [
    KERNEL,
    sys::CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
    sys::CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel,
    sys::CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz,
    sys::CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
    sys::CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz,
];

/// `cuGraphLaunch`, and the same on the per-thread default stream.
pub(super) const REPLAYS: [u32; 2] =
    [sys::CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch, sys::CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz];

/// Switches the callbacks at launches. Newer calls are unknown to older CUPTIs. `keeps_blocking`: those of calls that
/// may block stay on.
pub(super) fn enable_launches(
    api: &Api,
    subscriber: &mut Subscriber,
    on: bool,
    keeps_blocking: bool,
) {
    for id in std::iter::once(KERNEL).chain(others()) {
        let on = on || (keeps_blocking && blocking::is_one(id));
        let _ = api.enable_callback(subscriber, sys::CUPTI_CB_DOMAIN_DRIVER_API, id, on);
    }
}

/// Switches the callbacks at [`KERNELS`]. Whether one of them goes: newer calls are unknown to older CUPTIs.
pub(super) fn watch_kernels(api: &Api, subscriber: &mut Subscriber, on: bool) -> bool {
    let switched = KERNELS
        .map(|id| api.enable_callback(subscriber, sys::CUPTI_CB_DOMAIN_DRIVER_API, id, on).is_ok());
    switched.contains(&true)
}

/// Whether a call puts work on a GPU, of those whose callbacks are asked for.
fn is_launch(id: u32) -> bool {
    KERNEL == id
        || OTHERS.iter().copied().flatten().any(|&(first, last)| (first..=last).contains(&id))
}

fn others() -> impl Iterator<Item = u32> {
    OTHERS.iter().copied().flatten().flat_map(|&(first, last)| first..=last)
}

/// First and last of each run.
const OTHERS: &[&[(u32, u32)]] = &[
    // cuLaunch, cuLaunchGrid, cuLaunchGridAsync
    &[(115, 117)],
    // Memsets: asynchronous D8 to D2D32 (every second), synchronous _v2
    &[(216, 216), (218, 218), (220, 220), (222, 222), (224, 224), (226, 226), (249, 254)],
    // Memcpys _v2; cuMemcpy and cuMemcpyAsync; peer
    &[(276, 293), (305, 306), (318, 321)],
    // Per-thread default stream: memcpys, memsets; kernels
    &[(397, 416), (418, 433), (442, 442)],
    // Cooperative kernels
    &[(477, 478), (480, 480)],
    // cuGraphLaunch; cuLaunchHostFunc
    &[(514, 515), (527, 528)],
    // cuLaunchKernelEx
    &[(652, 653)],
    // Batched and attributed copies of CUDA 12.8 to 13.1
    &[(776, 779), (796, 799), (837, 840)],
    // Prefetches, which move memory too
    &[(467, 468), (716, 717), (784, 785)],
    // cuStreamBatchMemOp
    &[(462, 463), (667, 668), (831, 832)],
];
