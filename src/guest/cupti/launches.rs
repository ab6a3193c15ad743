//! The driver calls that put work on a GPU, as CUPTI numbers them (the numbers never change).
//!
//! Runtime calls end in driver calls, so these see everything.

use cupti_sys::bindings as sys;
use cupti_sys::{Api, Subscriber};

/// `cuDriverGetVersion`: cheap, always allowed, and made by us at range boundaries.
pub(super) const FENCE: u32 = sys::CUPTI_DRIVER_TRACE_CBID_cuDriverGetVersion;
/// `cuLaunchKernel`: without it attribution by callback is impossible.
pub(super) const KERNEL: u32 = sys::CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel;

/// The calls that launch one kernel. Each makes a record, unless it fails or its stream is captured.
pub(super) const KERNELS: [u32; 6] = [
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

/// Switches the callbacks at launches. Newer calls are unknown to older CUPTIs.
pub(super) fn report(api: &Api, subscriber: &mut Subscriber, on: bool) {
    for id in std::iter::once(KERNEL).chain(others()) {
        let _ = api.enable_callback(subscriber, sys::CUPTI_CB_DOMAIN_DRIVER_API, id, on);
    }
}

/// Switches the callbacks at [`KERNELS`]. Whether one of them goes: newer calls are unknown to older CUPTIs.
pub(super) fn watch(api: &Api, subscriber: &mut Subscriber, on: bool) -> bool {
    let switched = KERNELS
        .map(|id| api.enable_callback(subscriber, sys::CUPTI_CB_DOMAIN_DRIVER_API, id, on).is_ok());
    switched.contains(&true)
}

/// All others.
fn others() -> impl Iterator<Item = u32> {
    OTHERS.iter().flat_map(|&(first, last)| first..=last)
}

/// First and last of each run.
const OTHERS: &[(u32, u32)] = &[
    // cuLaunch, cuLaunchGrid, cuLaunchGridAsync
    (115, 117),
    // Memsets: asynchronous D8 to D2D32 (every second), synchronous _v2
    (216, 216),
    (218, 218),
    (220, 220),
    (222, 222),
    (224, 224),
    (226, 226),
    (249, 254),
    // Memcpys _v2; cuMemcpy and cuMemcpyAsync; peer
    (276, 293),
    (305, 306),
    (318, 321),
    // Per-thread default stream: memcpys, memsets; kernels
    (397, 416),
    (418, 433),
    (442, 442),
    // Cooperative kernels
    (477, 478),
    (480, 480),
    // cuGraphLaunch; cuLaunchHostFunc
    (514, 515),
    (527, 528),
    // cuLaunchKernelEx
    (652, 653),
    // Batched and attributed copies of CUDA 12.8 to 13.1
    (776, 779),
    (796, 799),
    (837, 840),
    // Prefetches, which move memory too
    (467, 468),
    (716, 717),
    (784, 785),
    // cuStreamBatchMemOp
    (462, 463),
    (667, 668),
    (831, 832),
];
