//! Constants and structs of the CUDA driver and CUPTI, as this library shows them to a caller.
//!
//! Layouts and numbers are those of the CUDA 13.0 headers; they are the same from 11.8 to 13.5.

use std::ffi::{c_char, c_void};
use std::mem::{offset_of, size_of};

/// A driver or CUPTI handle. All of ours are plain numbers: a caller must not look inside.
pub(crate) type Handle = usize;

/// `CUresult`.
pub(crate) mod cuda {
    /// `CUDA_SUCCESS`.
    pub(crate) const SUCCESS: u32 = 0;
    /// `CUDA_ERROR_INVALID_VALUE`.
    pub(crate) const INVALID_VALUE: u32 = 1;
    /// `CUDA_ERROR_OUT_OF_MEMORY`.
    pub(crate) const OUT_OF_MEMORY: u32 = 2;
    /// `CUDA_ERROR_NOT_INITIALIZED`.
    pub(crate) const NOT_INITIALIZED: u32 = 3;
    /// `CUDA_ERROR_NO_DEVICE`.
    pub(crate) const NO_DEVICE: u32 = 100;
    /// `CUDA_ERROR_INVALID_DEVICE`.
    pub(crate) const INVALID_DEVICE: u32 = 101;
    /// `CUDA_ERROR_INVALID_CONTEXT`.
    pub(crate) const INVALID_CONTEXT: u32 = 201;
    /// `CUDA_ERROR_INVALID_HANDLE`.
    pub(crate) const INVALID_HANDLE: u32 = 400;
    /// `CUDA_ERROR_ILLEGAL_STATE`.
    pub(crate) const ILLEGAL_STATE: u32 = 401;
    /// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED`.
    pub(crate) const CAPTURE_UNSUPPORTED: u32 = 900;
}

/// `CUptiResult`.
pub(crate) mod cupti {
    /// `CUPTI_SUCCESS`.
    pub(crate) const SUCCESS: u32 = 0;
    /// `CUPTI_ERROR_INVALID_PARAMETER`.
    pub(crate) const INVALID_PARAMETER: u32 = 1;
    /// `CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT`.
    pub(crate) const PARAMETER_SIZE: u32 = 10;
    /// `CUPTI_ERROR_MAX_LIMIT_REACHED`: in a walk over records, the end of the buffer.
    pub(crate) const MAX_LIMIT_REACHED: u32 = 12;
    /// `CUPTI_ERROR_INVALID_KIND`: in a walk over records, a record that is not complete.
    pub(crate) const INVALID_KIND: u32 = 21;
    /// `CUPTI_ERROR_NOT_SUPPORTED`.
    pub(crate) const NOT_SUPPORTED: u32 = 27;
    /// `CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED`.
    pub(crate) const MULTIPLE_SUBSCRIBERS: u32 = 39;
}

/// `CUpti_ActivityKind`.
pub(crate) mod kind {
    /// `MEMCPY`.
    pub(crate) const MEMCPY: u32 = 1;
    /// `MEMSET`.
    pub(crate) const MEMSET: u32 = 2;
    /// `DRIVER`.
    pub(crate) const DRIVER: u32 = 4;
    /// `RUNTIME`.
    pub(crate) const RUNTIME: u32 = 5;
    /// `DEVICE`.
    pub(crate) const DEVICE: u32 = 8;
    /// `CONTEXT`.
    pub(crate) const CONTEXT: u32 = 9;
    /// `CONCURRENT_KERNEL`.
    pub(crate) const CONCURRENT_KERNEL: u32 = 10;
    /// `GRAPH_TRACE`.
    pub(crate) const GRAPH_TRACE: u32 = 51;
}

/// `CUpti_CallbackDomain`.
pub(crate) mod domain {
    /// `DRIVER_API`.
    pub(crate) const DRIVER_API: u32 = 1;
    /// `RUNTIME_API`.
    pub(crate) const RUNTIME_API: u32 = 2;
    /// `RESOURCE`.
    pub(crate) const RESOURCE: u32 = 3;
    /// `SYNCHRONIZE`.
    pub(crate) const SYNCHRONIZE: u32 = 4;
    /// `NVTX`.
    pub(crate) const NVTX: u32 = 5;
    /// `STATE`.
    pub(crate) const STATE: u32 = 6;
}

/// `CUpti_CallbackIdResource`.
pub(crate) mod resource {
    /// `CONTEXT_CREATED`.
    pub(crate) const CONTEXT_CREATED: u32 = 1;
    /// `STREAM_CREATED`.
    pub(crate) const STREAM_CREATED: u32 = 3;
    /// `STREAM_DESTROY_STARTING`.
    pub(crate) const STREAM_DESTROY_STARTING: u32 = 4;
    /// `CU_INIT_FINISHED`.
    pub(crate) const CU_INIT_FINISHED: u32 = 5;
    /// `GRAPH_CREATED`.
    pub(crate) const GRAPH_CREATED: u32 = 9;
    /// `GRAPH_DESTROY_STARTING`.
    pub(crate) const GRAPH_DESTROY_STARTING: u32 = 10;
    /// `GRAPHNODE_CREATED`.
    pub(crate) const GRAPHNODE_CREATED: u32 = 13;
    /// `GRAPHEXEC_CREATED`.
    pub(crate) const GRAPHEXEC_CREATED: u32 = 18;
    /// `GRAPHEXEC_DESTROY_STARTING`.
    pub(crate) const GRAPHEXEC_DESTROY_STARTING: u32 = 19;
    /// `GRAPHNODE_CLONED`.
    pub(crate) const GRAPHNODE_CLONED: u32 = 20;
}

/// `CUpti_CallbackFunc`.
pub(crate) type CallbackFunc = unsafe extern "C" fn(*mut c_void, u32, u32, *const c_void);
/// `CUpti_BuffersCallbackRequestFunc`.
pub(crate) type RequestFunc = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
/// `CUpti_BuffersCallbackCompleteFunc`.
pub(crate) type CompleteFunc = unsafe extern "C" fn(Handle, u32, *mut u8, usize, usize);

/// `CUpti_CallbackData`: what a callback of the driver domain gets.
#[repr(C)]
#[allow(missing_docs)]
pub(crate) struct CallbackData {
    pub(crate) callback_site: u32,
    pub(crate) function_name: *const c_char,
    pub(crate) function_params: *const c_void,
    pub(crate) function_return_value: *mut u32,
    pub(crate) symbol_name: *const c_char,
    pub(crate) context: Handle,
    pub(crate) context_uid: u32,
    pub(crate) correlation_data: *mut u64,
    pub(crate) correlation_id: u32,
}

/// `CUpti_ResourceData`: what a callback of the resource domain gets.
#[repr(C)]
#[allow(missing_docs)]
pub(crate) struct ResourceData {
    pub(crate) context: Handle,
    pub(crate) stream: Handle,
    pub(crate) descriptor: *const c_void,
}

/// `CUpti_GraphData`: the descriptor of a resource callback about a graph.
#[repr(C)]
#[derive(Default)]
#[allow(missing_docs)]
pub(crate) struct GraphData {
    pub(crate) graph: Handle,
    pub(crate) original_graph: Handle,
    pub(crate) node: Handle,
    pub(crate) original_node: Handle,
    pub(crate) node_type: u32,
    pub(crate) dependency: Handle,
    pub(crate) graph_exec: Handle,
}

/// `CUpti_SubscriberParams` of 13.0; 13.2 added one byte (and seven of padding) behind it.
#[repr(C)]
#[allow(missing_docs)]
pub(crate) struct SubscriberParams {
    pub(crate) struct_size: usize,
    pub(crate) subscriber_name: *const c_char,
    pub(crate) old_subscriber_name: *mut c_char,
    pub(crate) old_subscriber_size: usize,
}

/// `cuLaunchKernel_params`: `functionParams` of a callback on cuLaunchKernel.
#[repr(C)]
#[allow(missing_docs)]
pub(crate) struct LaunchKernelParams {
    pub(crate) function: Handle,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    pub(crate) stream: Handle,
    pub(crate) kernel_params: *const c_void,
    pub(crate) extra: *const c_void,
}

/// `cuGraphLaunch_params`: `functionParams` of a callback on cuGraphLaunch.
#[repr(C)]
#[allow(missing_docs)]
pub(crate) struct GraphLaunchParams {
    pub(crate) graph_exec: Handle,
    pub(crate) stream: Handle,
}

const _: () = {
    assert!(size_of::<CallbackData>() == 72);
    assert!(offset_of!(CallbackData, function_name) == 8);
    assert!(offset_of!(CallbackData, symbol_name) == 32);
    assert!(offset_of!(CallbackData, context_uid) == 48);
    assert!(offset_of!(CallbackData, correlation_data) == 56);
    assert!(offset_of!(CallbackData, correlation_id) == 64);
    assert!(size_of::<ResourceData>() == 24);
    assert!(size_of::<GraphData>() == 56);
    assert!(offset_of!(GraphData, node_type) == 32);
    assert!(offset_of!(GraphData, graph_exec) == 48);
    assert!(size_of::<SubscriberParams>() == 32);
    assert!(size_of::<LaunchKernelParams>() == 64);
    assert!(offset_of!(LaunchKernelParams, stream) == 40);
    assert!(size_of::<GraphLaunchParams>() == 16);
};
