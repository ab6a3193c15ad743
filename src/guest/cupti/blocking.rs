//! Calls of the driver that may block a thread of the guest: which they are, and how long each took.
//!
//! Both callbacks read the clock. The begin waits in the thread's own state for the end, which sends one event. A
//! call that turns out to be short is only counted.

use cupti_sys::{Api, Subscriber, bindings as sys};

use crate::base::options::Options;
use crate::base::{call_stacks, clock};
use crate::guest::event::{Event, EventKind};
use crate::guest::state::{self, Call};
use crate::guest::thread;

/// The shortest call that is recorded, ns. Shorter ones are only counted.
const LEAST_NS: u64 = 5_000;
/// The shortest asynchronous copy that is recorded, ns. Such a copy blocks only on pageable memory; any other one
/// takes several microseconds to launch.
const LEAST_COPY_NS: u64 = 20_000;

/// Whether anybody asked for these calls: they are a part of what is known of the host.
pub(super) fn is_wanted(options: &Options) -> bool {
    options.host_hz.is_some() && options.out.is_some()
}

/// Whether this is one of the calls.
pub(super) fn is_one(id: sys::CUpti_CallbackId) -> bool {
    name(id).is_some()
}

/// Asks for the callbacks. Those that CUPTI does not know are of later drivers.
pub(super) fn enable(api: &Api, subscriber: &mut Subscriber) {
    for &(id, _) in CALLS {
        let _ = api.enable_callback(subscriber, sys::CUPTI_CB_DOMAIN_DRIVER_API, id, true);
    }
}

/// A call with this correlation id begins on this thread.
pub(super) fn begins(id: sys::CUpti_CallbackId, correlation: u32) {
    let Some(call) = state::active() else { return };
    let is_sampled = call.shared.windows.host_hz_asked() != Some(0);
    if is_one(id) && is_sampled && is_wanted(&call.shared.options) {
        let at = clock::mono();
        thread::begin_call(thread::CallBegin { correlation, epoch: call.epoch, at });
        call.shared.open_calls.begin(thread::number(), id, at);
    }
}

/// The call ends. Nothing is told of one that began before its callback was asked for, or in an earlier window.
pub(super) fn ends(id: sys::CUpti_CallbackId, correlation: u32) {
    let Some(name) = name(id) else { return };
    let Some(begin) = thread::take_call(correlation) else { return };
    if let Some(shared) = state::shared() {
        shared.open_calls.end(thread::number());
    }
    let Some(Call { shared, .. }) = state::active() else { return };
    let end = clock::mono();
    let least_ns = if name.ends_with("Async") { LEAST_COPY_NS } else { LEAST_NS };
    let ns = end.since(begin.at);
    if ns < least_ns {
        shared.counters.short_calls.increment();
        return;
    }
    // Without a word about the thread: one that only waits does not count among those that launch.
    let mut event = Event::new(EventKind::Call, thread::number()).in_epoch(begin.epoch);
    (event.at, event.id) = (begin.at, end.0);
    // The stack comes another way, because its lines have to be looked up.
    let has_stack =
        ns >= call_stacks::LEAST_NS && shared.call_stacks.read(event.thread, begin.at, end);
    event.category = has_stack.into();
    if shared.events.send_with_text(event, name.as_bytes(), &shared.counters).half_full {
        shared.wake_drain();
    }
}

/// The name of a call.
pub fn name(id: sys::CUpti_CallbackId) -> Option<&'static str> {
    let at = CALLS.binary_search_by_key(&id, |&(id, _)| id).ok()?;
    CALLS.get(at).map(|&(_, name)| name)
}

/// The calls, as CUPTI numbers them (the numbers never change), in their order; names without suffixes. Calls that
/// only queue work are none of them: `cuMemAllocAsync`, `cuMemFreeAsync`.
const CALLS: &[(sys::CUpti_CallbackId, &str)] = &[
    (17, "cuCtxSynchronize"),
    (18, "cuModuleLoad"),
    (19, "cuModuleLoadData"),
    (20, "cuModuleLoadDataEx"),
    (21, "cuModuleLoadFatBinary"),
    (22, "cuModuleUnload"),
    (38, "cuMemFreeHost"),
    (39, "cuMemHostAlloc"),
    (121, "cuEventSynchronize"),
    (126, "cuStreamSynchronize"),
    (243, "cuMemAlloc"),
    (244, "cuMemAllocPitch"),
    (245, "cuMemFree"),
    (276, "cuMemcpyHtoD"),
    (277, "cuMemcpyHtoDAsync"),
    (278, "cuMemcpyDtoH"),
    (279, "cuMemcpyDtoHAsync"),
    (280, "cuMemcpyDtoD"),
    (287, "cuMemcpy2D"),
    (288, "cuMemcpy2DUnaligned"),
    (290, "cuMemcpy3D"),
    (294, "cuMemAllocHost"),
    (301, "cuMemHostRegister"),
    (302, "cuMemHostUnregister"),
    (305, "cuMemcpy"),
    (306, "cuMemcpyAsync"),
    (318, "cuMemcpyPeer"),
    (371, "cuMemAllocManaged"),
    (379, "cuMemHostRegister"),
    (397, "cuMemcpyHtoD"),
    (398, "cuMemcpyDtoH"),
    (399, "cuMemcpyDtoD"),
    (405, "cuMemcpy2D"),
    (406, "cuMemcpy2DUnaligned"),
    (407, "cuMemcpy3D"),
    (408, "cuMemcpy"),
    (409, "cuMemcpyPeer"),
    (418, "cuMemcpyAsync"),
    (421, "cuMemcpyHtoDAsync"),
    (422, "cuMemcpyDtoHAsync"),
    (440, "cuStreamSynchronize"),
    (513, "cuGraphInstantiate"),
    (549, "cuMemCreate"),
    (550, "cuMemRelease"),
    (551, "cuMemMap"),
    (552, "cuMemUnmap"),
    (553, "cuMemSetAccess"),
    (578, "cuGraphInstantiate"),
    (602, "cuMemPoolTrimTo"),
    (643, "cuGraphInstantiateWithFlags"),
    (656, "cuGraphInstantiateWithParams"),
    (657, "cuGraphInstantiateWithParams"),
    (678, "cuLibraryLoadData"),
    (679, "cuLibraryLoadFromFile"),
    (680, "cuLibraryUnload"),
    (800, "cuCtxSynchronize"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_found_by_their_number() {
        assert!(CALLS.is_sorted_by(|a, b| a.0 < b.0));
        assert!(CALLS.iter().all(|&(id, text)| name(id) == Some(text)));
        assert_eq!(name(126), Some("cuStreamSynchronize"));
        // cuLaunchKernel, cuMemcpyDtoDAsync_v2 and cuMemAllocAsync wait for nothing.
        assert!([307, 281, 598, 0, u32::MAX].iter().all(|&id| !is_one(id)));
    }
}
