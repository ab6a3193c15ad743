//! Constants and structs of the CUDA driver and CUPTI, as this library shows them to a caller.
//!
//! Layouts and numbers are those of the CUDA 13.0 headers; they are the same from 11.8 to 13.5.

use std::ffi::{c_char, c_void};
use std::mem::{MaybeUninit, offset_of};

/// A driver or CUPTI handle. All of ours are plain numbers: a caller must not look inside.
pub(crate) type Handle = usize;

/// Where a caller wants a result: null, or valid for a write by the contract of the C functions.
pub(crate) type Out<'a, T> = Option<&'a mut MaybeUninit<T>>;

/// What a function of the driver or of CUPTI does: `Err` is its `CUresult` or `CUptiResult`.
pub(crate) type Outcome<T = ()> = Result<T, u32>;

/// Stores a result where the caller wants it. Both APIs answer null with 1.
pub(crate) fn put<T>(out: Out<T>, value: T) -> Outcome {
    out.ok_or(cuda::INVALID_VALUE)?.write(value);
    Ok(())
}

/// An error that was asked for.
pub(crate) fn refuse(fault: Option<u32>) -> Outcome {
    fault.map_or(Ok(()), Err)
}

pub(crate) fn refuse_if(is_wrong: bool, error: u32) -> Outcome {
    if is_wrong { Err(error) } else { Ok(()) }
}

pub(crate) fn code(outcome: Outcome) -> u32 {
    outcome.err().unwrap_or(cuda::SUCCESS)
}

/// `CUresult`.
pub(crate) mod cuda {
    pub(crate) const SUCCESS: u32 = 0;
    pub(crate) const INVALID_VALUE: u32 = 1;
    pub(crate) const OUT_OF_MEMORY: u32 = 2;
    pub(crate) const NOT_INITIALIZED: u32 = 3;
    pub(crate) const NO_DEVICE: u32 = 100;
    pub(crate) const INVALID_DEVICE: u32 = 101;
    pub(crate) const INVALID_CONTEXT: u32 = 201;
    pub(crate) const INVALID_HANDLE: u32 = 400;
    pub(crate) const ILLEGAL_STATE: u32 = 401;
    pub(crate) const CAPTURE_UNSUPPORTED: u32 = 900;
}

/// `CUptiResult`.
pub(crate) mod cupti {
    pub(crate) const SUCCESS: u32 = 0;
    pub(crate) const INVALID_PARAMETER: u32 = 1;
    pub(crate) const INVALID_CONTEXT: u32 = 3;
    pub(crate) const INVALID_OPERATION: u32 = 7;
    pub(crate) const OUT_OF_MEMORY: u32 = 8;
    pub(crate) const PARAMETER_SIZE: u32 = 10;
    /// In a walk over records, the end of the buffer.
    pub(crate) const MAX_LIMIT_REACHED: u32 = 12;
    /// In a walk over records, a record that is not complete.
    pub(crate) const INVALID_KIND: u32 = 21;
    pub(crate) const NOT_SUPPORTED: u32 = 27;
    pub(crate) const MULTIPLE_SUBSCRIBERS: u32 = 39;
}

/// `CUpti_ActivityKind`.
pub(crate) mod kind {
    pub(crate) const MEMCPY: u32 = 1;
    pub(crate) const MEMSET: u32 = 2;
    pub(crate) const DRIVER: u32 = 4;
    pub(crate) const RUNTIME: u32 = 5;
    pub(crate) const DEVICE: u32 = 8;
    pub(crate) const CONTEXT: u32 = 9;
    pub(crate) const CONCURRENT_KERNEL: u32 = 10;
    pub(crate) const MEMCPY2: u32 = 22;
    pub(crate) const GRAPH_TRACE: u32 = 51;
    /// Of no header: as long as a kernel's record.
    pub(crate) const UNKNOWN: u32 = 9999;
}

/// `CUpti_CallbackDomain`.
pub(crate) mod domain {
    pub(crate) const DRIVER_API: u32 = 1;
    pub(crate) const RUNTIME_API: u32 = 2;
    pub(crate) const RESOURCE: u32 = 3;
    pub(crate) const SYNCHRONIZE: u32 = 4;
    pub(crate) const NVTX: u32 = 5;
    pub(crate) const STATE: u32 = 6;
}

/// `CUpti_CallbackIdResource`.
pub(crate) mod resource {
    pub(crate) const CONTEXT_CREATED: u32 = 1;
    pub(crate) const STREAM_CREATED: u32 = 3;
    pub(crate) const STREAM_DESTROY_STARTING: u32 = 4;
    pub(crate) const CU_INIT_FINISHED: u32 = 5;
    pub(crate) const GRAPH_CREATED: u32 = 9;
    pub(crate) const GRAPH_DESTROY_STARTING: u32 = 10;
    pub(crate) const GRAPHNODE_CREATED: u32 = 13;
    pub(crate) const GRAPHEXEC_CREATED: u32 = 18;
    pub(crate) const GRAPHEXEC_DESTROY_STARTING: u32 = 19;
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
pub(crate) struct ResourceData {
    pub(crate) context: Handle,
    pub(crate) stream: Handle,
    pub(crate) descriptor: *const c_void,
}

/// `CUpti_GraphData`: the descriptor of a resource callback about a graph.
#[repr(C)]
#[derive(Default)]
pub(crate) struct GraphData {
    pub(crate) graph: Handle,
    pub(crate) original_graph: Handle,
    pub(crate) node: Handle,
    pub(crate) original_node: Handle,
    pub(crate) node_type: u32,
    pub(crate) dependency: Handle,
    pub(crate) graph_exec: Handle,
}

/// `CUpti_BuffersCallbackRequestFunc_v2`.
pub(crate) type RequestFuncV2 =
    unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize, *mut RequestInfo);
/// `CUpti_BuffersCallbackCompleteFunc_v2`.
pub(crate) type CompleteFuncV2 = unsafe extern "C" fn(*mut u8, usize, usize, *mut CompleteInfo);

/// `CUpti_BufferCallbackRequestInfo`.
#[repr(C)]
pub(crate) struct RequestInfo {
    pub(crate) struct_size: usize,
}

/// `CUpti_BufferCallbackCompleteInfo`.
#[repr(C)]
pub(crate) struct CompleteInfo {
    pub(crate) struct_size: usize,
    pub(crate) thread_id: u64,
    /// By kind; null for kinds without one.
    pub(crate) layouts: *mut *const RecordLayout,
    pub(crate) layouts_len: usize,
}

/// `CUpti_ActivityRecordLayout`.
#[repr(C)]
pub(crate) struct RecordLayout {
    pub(crate) struct_size: usize,
    pub(crate) entries: *const FieldEntry,
    pub(crate) fields: usize,
    pub(crate) record_bytes: usize,
}

/// `CUpti_ActivityFieldLayoutEntry`.
#[repr(C)]
pub(crate) struct FieldEntry {
    pub(crate) struct_size: usize,
    pub(crate) field: i32,
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
    pub(crate) alignment: usize,
}

/// `CUpti_ActivityConfig` of 13.2; 13.4 added options of the kind behind it.
#[repr(C)]
pub(crate) struct ActivityConfig {
    pub(crate) struct_size: usize,
    pub(crate) selection_size: usize,
    pub(crate) fields: usize,
    pub(crate) ids: *const i32,
}

/// `CUpti_SubscriberParams` of 13.0; 13.2 added [`SharedSubscriberParams`].
#[repr(C)]
pub(crate) struct SubscriberParams {
    pub(crate) struct_size: usize,
    pub(crate) subscriber_name: *const c_char,
    pub(crate) old_subscriber_name: *mut c_char,
    pub(crate) old_subscriber_size: usize,
}

/// `CUpti_SubscriberParams` of 13.2.
#[repr(C)]
pub(crate) struct SharedSubscriberParams {
    pub(crate) of_13_0: SubscriberParams,
    pub(crate) company: u8,
}

/// `cuLaunchKernel_params`: `functionParams` of a callback on cuLaunchKernel.
#[repr(C)]
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
    assert!(size_of::<SharedSubscriberParams>() == 40);
    assert!(size_of::<CompleteInfo>() == 32);
    assert!(size_of::<RecordLayout>() == 32);
    assert!(size_of::<FieldEntry>() == 40);
    assert!(offset_of!(FieldEntry, offset) == 16);
    assert!(size_of::<ActivityConfig>() == 32);
    assert!(size_of::<LaunchKernelParams>() == 64);
    assert!(offset_of!(LaunchKernelParams, stream) == 40);
    assert!(size_of::<GraphLaunchParams>() == 16);
};
