//! The traced driver calls: their callback ids and names.
//!
//! Source: the enumeration of driver callback ids in the headers of CUPTI 13.0. The numbers never
//! changed between versions.

use std::ffi::CStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Api {
    /// `CUpti_driver_api_trace_cbid`.
    pub(crate) cbid: u32,
    pub(crate) name: &'static CStr,
}

macro_rules! apis {
    ($($constant:ident = $cbid:literal $name:literal;)*) => {
        $(
            #[doc = concat!("Callback id ", stringify!($cbid), ".")]
            pub(crate) const $constant: Api = Api { cbid: $cbid, name: $name };
        )*
        #[cfg(test)]
        const ALL: &[Api] = &[$($constant),*];
    };
}

apis! {
    INIT = 1 c"cuInit";
    DRIVER_GET_VERSION = 2 c"cuDriverGetVersion";
    DEVICE_GET = 3 c"cuDeviceGet";
    DEVICE_GET_COUNT = 4 c"cuDeviceGetCount";
    DEVICE_GET_NAME = 5 c"cuDeviceGetName";
    DEVICE_GET_ATTRIBUTE = 9 c"cuDeviceGetAttribute";
    CTX_SYNCHRONIZE = 17 c"cuCtxSynchronize";
    MODULE_LOAD_DATA = 19 c"cuModuleLoadData";
    MODULE_UNLOAD = 22 c"cuModuleUnload";
    MODULE_GET_FUNCTION = 23 c"cuModuleGetFunction";
    STREAM_CREATE = 124 c"cuStreamCreate";
    STREAM_SYNCHRONIZE = 126 c"cuStreamSynchronize";
    MEMSET_D8_ASYNC = 216 c"cuMemsetD8Async";
    MEM_ALLOC = 243 c"cuMemAlloc_v2";
    MEM_FREE = 245 c"cuMemFree_v2";
    MEMCPY_HTOD_ASYNC = 277 c"cuMemcpyHtoDAsync_v2";
    MEMCPY_DTOH = 278 c"cuMemcpyDtoH_v2";
    MEMCPY_DTOH_ASYNC = 279 c"cuMemcpyDtoHAsync_v2";
    MEMCPY_DTOD_ASYNC = 281 c"cuMemcpyDtoDAsync_v2";
    CTX_SET_CURRENT = 303 c"cuCtxSetCurrent";
    CTX_GET_CURRENT = 304 c"cuCtxGetCurrent";
    LAUNCH_KERNEL = 307 c"cuLaunchKernel";
    STREAM_DESTROY = 326 c"cuStreamDestroy_v2";
    PRIMARY_CTX_RETAIN = 386 c"cuDevicePrimaryCtxRetain";
    STREAM_END_CAPTURE = 497 c"cuStreamEndCapture";
    GRAPH_LAUNCH = 514 c"cuGraphLaunch";
    GRAPH_EXEC_DESTROY = 516 c"cuGraphExecDestroy";
    GRAPH_DESTROY = 517 c"cuGraphDestroy";
    STREAM_BEGIN_CAPTURE = 539 c"cuStreamBeginCapture_v2";
    PRIMARY_CTX_RELEASE = 544 c"cuDevicePrimaryCtxRelease_v2";
    GRAPH_INSTANTIATE = 643 c"cuGraphInstantiateWithFlags";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_the_published_ones_and_different() {
        let name = |cbid| ALL.iter().find(|api| api.cbid == cbid).map(|api| api.name);
        assert_eq!(name(2), Some(c"cuDriverGetVersion"));
        assert_eq!(name(307), Some(c"cuLaunchKernel"));
        assert_eq!(name(514), Some(c"cuGraphLaunch"));
        assert_eq!(name(0), None);
        let ids: std::collections::HashSet<u32> = ALL.iter().map(|api| api.cbid).collect();
        assert_eq!(ids.len(), ALL.len());
    }
}
