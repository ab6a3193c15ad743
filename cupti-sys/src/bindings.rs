//! CUPTI's C ABI, from the headers of CUPTI 13.5: types, constants and the types of the
//! functions (`Option` of a function pointer), without a single `extern` declaration.
//!
//! Written by `cupti-sys/regenerate`: do not edit.

#[repr(C)]
#[derive(Debug)]
pub struct CUctx_st {
    _unused: [u8; 0],
}
pub type CUcontext = *mut CUctx_st;
#[repr(C)]
#[derive(Debug)]
pub struct CUstream_st {
    _unused: [u8; 0],
}
pub type CUstream = *mut CUstream_st;
#[repr(C)]
#[derive(Debug)]
pub struct CUgraph_st {
    _unused: [u8; 0],
}
pub type CUgraph = *mut CUgraph_st;
#[repr(C)]
#[derive(Debug)]
pub struct CUgraphNode_st {
    _unused: [u8; 0],
}
pub type CUgraphNode = *mut CUgraphNode_st;
#[repr(C)]
#[derive(Debug)]
pub struct CUgraphExec_st {
    _unused: [u8; 0],
}
pub type CUgraphExec = *mut CUgraphExec_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUuuid_st {
    pub bytes: [::std::os::raw::c_char; 16usize],
}
layout! { CUuuid_st: 16 align 1 {
    bytes @ 0,
} }
pub type CUuuid = CUuuid_st;
pub type CUaccessProperty_enum = ::std::os::raw::c_uint;
pub use self::CUaccessProperty_enum as CUaccessProperty;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUaccessPolicyWindow_st {
    pub base_ptr: *mut ::std::os::raw::c_void,
    pub num_bytes: usize,
    pub hitRatio: f32,
    pub hitProp: CUaccessProperty,
    pub missProp: CUaccessProperty,
}
layout! { CUaccessPolicyWindow_st: 32 align 8 {
    base_ptr @ 0, num_bytes @ 8, hitRatio @ 16, hitProp @ 20, missProp @ 24,
} }
pub type CUaccessPolicyWindow_v1 = CUaccessPolicyWindow_st;
pub type CUaccessPolicyWindow = CUaccessPolicyWindow_v1;
pub type CUgraphNodeType_enum = ::std::os::raw::c_uint;
pub use self::CUgraphNodeType_enum as CUgraphNodeType;
pub const CUPTI_SUCCESS: CUptiResult = 0;
pub const CUPTI_ERROR_INVALID_PARAMETER: CUptiResult = 1;
pub const CUPTI_ERROR_INVALID_DEVICE: CUptiResult = 2;
pub const CUPTI_ERROR_INVALID_CONTEXT: CUptiResult = 3;
pub const CUPTI_ERROR_INVALID_EVENT_DOMAIN_ID: CUptiResult = 4;
pub const CUPTI_ERROR_INVALID_EVENT_ID: CUptiResult = 5;
pub const CUPTI_ERROR_INVALID_EVENT_NAME: CUptiResult = 6;
pub const CUPTI_ERROR_INVALID_OPERATION: CUptiResult = 7;
pub const CUPTI_ERROR_OUT_OF_MEMORY: CUptiResult = 8;
pub const CUPTI_ERROR_HARDWARE: CUptiResult = 9;
pub const CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT: CUptiResult = 10;
pub const CUPTI_ERROR_API_NOT_IMPLEMENTED: CUptiResult = 11;
pub const CUPTI_ERROR_MAX_LIMIT_REACHED: CUptiResult = 12;
pub const CUPTI_ERROR_NOT_READY: CUptiResult = 13;
pub const CUPTI_ERROR_NOT_COMPATIBLE: CUptiResult = 14;
pub const CUPTI_ERROR_NOT_INITIALIZED: CUptiResult = 15;
pub const CUPTI_ERROR_INVALID_METRIC_ID: CUptiResult = 16;
pub const CUPTI_ERROR_INVALID_METRIC_NAME: CUptiResult = 17;
pub const CUPTI_ERROR_QUEUE_EMPTY: CUptiResult = 18;
pub const CUPTI_ERROR_INVALID_HANDLE: CUptiResult = 19;
pub const CUPTI_ERROR_INVALID_STREAM: CUptiResult = 20;
pub const CUPTI_ERROR_INVALID_KIND: CUptiResult = 21;
pub const CUPTI_ERROR_INVALID_EVENT_VALUE: CUptiResult = 22;
pub const CUPTI_ERROR_DISABLED: CUptiResult = 23;
pub const CUPTI_ERROR_INVALID_MODULE: CUptiResult = 24;
pub const CUPTI_ERROR_INVALID_METRIC_VALUE: CUptiResult = 25;
pub const CUPTI_ERROR_HARDWARE_BUSY: CUptiResult = 26;
pub const CUPTI_ERROR_NOT_SUPPORTED: CUptiResult = 27;
pub const CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED: CUptiResult = 28;
pub const CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_ON_DEVICE: CUptiResult = 29;
pub const CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_ON_NON_P2P_DEVICES: CUptiResult = 30;
pub const CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_WITH_MPS: CUptiResult = 31;
pub const CUPTI_ERROR_CDP_TRACING_NOT_SUPPORTED: CUptiResult = 32;
pub const CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED: CUptiResult = 33;
pub const CUPTI_ERROR_CUDA_COMPILER_NOT_COMPATIBLE: CUptiResult = 34;
pub const CUPTI_ERROR_INSUFFICIENT_PRIVILEGES: CUptiResult = 35;
pub const CUPTI_ERROR_OLD_PROFILER_API_INITIALIZED: CUptiResult = 36;
pub const CUPTI_ERROR_OPENACC_UNDEFINED_ROUTINE: CUptiResult = 37;
pub const CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED: CUptiResult = 38;
pub const CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED: CUptiResult = 39;
pub const CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES: CUptiResult = 40;
pub const CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED: CUptiResult = 41;
pub const CUPTI_ERROR_CMP_DEVICE_NOT_SUPPORTED: CUptiResult = 42;
pub const CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED: CUptiResult = 43;
pub const CUPTI_ERROR_SLI_DEVICE_NOT_SUPPORTED: CUptiResult = 44;
pub const CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED: CUptiResult = 45;
pub const CUPTI_ERROR_INVALID_CHIP_NAME: CUptiResult = 46;
pub const CUPTI_ERROR_HES_TRACE_NOT_SUPPORTED_ON_MPS: CUptiResult = 47;
pub const CUPTI_ERROR_UNKNOWN: CUptiResult = 999;
pub type CUptiResult = ::std::os::raw::c_uint;
pub const CUPTI_API_ENTER: CUpti_ApiCallbackSite = 0;
pub type CUpti_ApiCallbackSite = ::std::os::raw::c_uint;
pub const CUPTI_CB_DOMAIN_DRIVER_API: CUpti_CallbackDomain = 1;
pub const CUPTI_CB_DOMAIN_RESOURCE: CUpti_CallbackDomain = 3;
pub type CUpti_CallbackDomain = ::std::os::raw::c_uint;
pub const CUPTI_CBID_RESOURCE_CONTEXT_CREATED: CUpti_CallbackIdResource = 1;
pub const CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED: CUpti_CallbackIdResource = 13;
pub const CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED: CUpti_CallbackIdResource = 20;
pub type CUpti_CallbackIdResource = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_CallbackData {
    pub callbackSite: CUpti_ApiCallbackSite,
    pub functionName: *const ::std::os::raw::c_char,
    pub functionParams: *const ::std::os::raw::c_void,
    pub functionReturnValue: *mut ::std::os::raw::c_void,
    pub symbolName: *const ::std::os::raw::c_char,
    pub context: CUcontext,
    pub contextUid: u32,
    pub correlationData: *mut u64,
    pub correlationId: u32,
}
layout! { CUpti_CallbackData: 72 align 8 {
    callbackSite @ 0, functionName @ 8, functionParams @ 16, functionReturnValue @ 24,
    symbolName @ 32, context @ 40, contextUid @ 48, correlationData @ 56, correlationId @ 64,
} }
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_ResourceData {
    pub context: CUcontext,
    pub resourceHandle: CUpti_ResourceData__bindgen_ty_1,
    pub resourceDescriptor: *mut ::std::os::raw::c_void,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union CUpti_ResourceData__bindgen_ty_1 {
    pub stream: CUstream,
}
layout! { CUpti_ResourceData__bindgen_ty_1: 8 align 8 {
    stream @ 0,
} }
layout! { CUpti_ResourceData: 24 align 8 {
    context @ 0, resourceHandle @ 8, resourceDescriptor @ 16,
} }
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_GraphData {
    pub graph: CUgraph,
    pub originalGraph: CUgraph,
    pub node: CUgraphNode,
    pub originalNode: CUgraphNode,
    pub nodeType: CUgraphNodeType,
    pub dependency: CUgraphNode,
    pub graphExec: CUgraphExec,
}
layout! { CUpti_GraphData: 56 align 8 {
    graph @ 0, originalGraph @ 8, node @ 16, originalNode @ 24, nodeType @ 32, dependency @ 40,
    graphExec @ 48,
} }
pub type CUpti_CallbackId = u32;
pub type CUpti_CallbackFunc = ::std::option::Option<
    unsafe extern "C" fn(
        userdata: *mut ::std::os::raw::c_void,
        domain: CUpti_CallbackDomain,
        cbid: CUpti_CallbackId,
        cbdata: *const ::std::os::raw::c_void,
    ),
>;
#[repr(C)]
#[derive(Debug)]
pub struct CUpti_Subscriber_st {
    _unused: [u8; 0],
}
pub type CUpti_SubscriberHandle = *mut CUpti_Subscriber_st;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_SubscriberParams {
    pub structSize: usize,
    pub subscriberName: *const ::std::os::raw::c_char,
    pub oldSubscriberName: *mut ::std::os::raw::c_char,
    pub oldSubscriberSize: usize,
    pub allowMultipleSubscribers: u8,
    pub padding: [u8; 7usize],
}
layout! { CUpti_SubscriberParams: 40 align 8 {
    structSize @ 0, subscriberName @ 8, oldSubscriberName @ 16, oldSubscriberSize @ 24,
    allowMultipleSubscribers @ 32, padding @ 33,
} }
pub const CUPTI_ACTIVITY_KIND_INVALID: CUpti_ActivityKind = 0;
pub const CUPTI_ACTIVITY_KIND_MEMCPY: CUpti_ActivityKind = 1;
pub const CUPTI_ACTIVITY_KIND_MEMSET: CUpti_ActivityKind = 2;
pub const CUPTI_ACTIVITY_KIND_KERNEL: CUpti_ActivityKind = 3;
pub const CUPTI_ACTIVITY_KIND_RUNTIME: CUpti_ActivityKind = 5;
pub const CUPTI_ACTIVITY_KIND_DEVICE: CUpti_ActivityKind = 8;
pub const CUPTI_ACTIVITY_KIND_CONTEXT: CUpti_ActivityKind = 9;
pub const CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: CUpti_ActivityKind = 10;
pub const CUPTI_ACTIVITY_KIND_MEMCPY2: CUpti_ActivityKind = 22;
pub const CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: CUpti_ActivityKind = 38;
pub const CUPTI_ACTIVITY_KIND_GRAPH_TRACE: CUpti_ActivityKind = 51;
pub type CUpti_ActivityKind = ::std::os::raw::c_uint;
pub type CUpti_ActivityFlag = ::std::os::raw::c_uint;
pub type CUpti_ActivityMemcpyKind = ::std::os::raw::c_uint;
pub type CUpti_ActivityMemoryKind = ::std::os::raw::c_uint;
pub type CUpti_ActivityPartitionedGlobalCacheConfig = ::std::os::raw::c_uint;
pub type CUpti_ChannelType = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_ActivityFieldLayoutEntry {
    pub structSize: usize,
    pub fieldId: ::std::os::raw::c_int,
    pub offset: usize,
    pub size: usize,
    pub alignment: usize,
}
layout! { CUpti_ActivityFieldLayoutEntry: 40 align 8 {
    structSize @ 0, fieldId @ 8, offset @ 16, size @ 24, alignment @ 32,
} }
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_ActivityRecordLayout {
    pub structSize: usize,
    pub pEntries: *mut CUpti_ActivityFieldLayoutEntry,
    pub numFields: usize,
    pub recordSize: usize,
}
layout! { CUpti_ActivityRecordLayout: 32 align 8 {
    structSize @ 0, pEntries @ 8, numFields @ 16, recordSize @ 24,
} }
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_ActivityFieldSelection {
    pub structSize: usize,
    pub numFields: usize,
    pub pFieldIds: *mut ::std::os::raw::c_int,
}
layout! { CUpti_ActivityFieldSelection: 24 align 8 {
    structSize @ 0, numFields @ 8, pFieldIds @ 16,
} }
#[repr(C)]
#[repr(align(8))]
#[derive(Copy, Clone)]
pub struct CUpti_Activity {
    pub kind: CUpti_ActivityKind,
}
layout! { CUpti_Activity: 8 align 8 {
    kind @ 0,
} }
pub const MEMCPY_FIELD_KIND: CUpti_ActivityMemcpyFieldIds = 0;
pub const MEMCPY_FIELD_COPY_KIND: CUpti_ActivityMemcpyFieldIds = 1;
pub const MEMCPY_FIELD_BYTES: CUpti_ActivityMemcpyFieldIds = 5;
pub const MEMCPY_FIELD_START: CUpti_ActivityMemcpyFieldIds = 6;
pub const MEMCPY_FIELD_END: CUpti_ActivityMemcpyFieldIds = 7;
pub const MEMCPY_FIELD_DEVICE_ID: CUpti_ActivityMemcpyFieldIds = 8;
pub const MEMCPY_FIELD_CONTEXT_ID: CUpti_ActivityMemcpyFieldIds = 9;
pub const MEMCPY_FIELD_STREAM_ID: CUpti_ActivityMemcpyFieldIds = 10;
pub const MEMCPY_FIELD_CORRELATION_ID: CUpti_ActivityMemcpyFieldIds = 11;
pub const MEMCPY_FIELD_GRAPH_NODE_ID: CUpti_ActivityMemcpyFieldIds = 12;
pub type CUpti_ActivityMemcpyFieldIds = ::std::os::raw::c_uint;
#[repr(C, packed(8))]
#[derive(Copy, Clone)]
pub struct CUpti_ActivityMemcpyPtoP4 {
    pub kind: CUpti_ActivityKind,
    pub copyKind: u8,
    pub srcKind: u8,
    pub dstKind: u8,
    pub flags: u8,
    pub bytes: u64,
    pub start: u64,
    pub end: u64,
    pub deviceId: u32,
    pub contextId: u32,
    pub streamId: u32,
    pub srcDeviceId: u32,
    pub srcContextId: u32,
    pub dstDeviceId: u32,
    pub dstContextId: u32,
    pub correlationId: u32,
    pub reserved0: *mut ::std::os::raw::c_void,
    pub graphNodeId: u64,
    pub graphId: u32,
    pub channelID: u32,
    pub channelType: CUpti_ChannelType,
}
layout! { CUpti_ActivityMemcpyPtoP4: 96 align 8 {
    kind @ 0, copyKind @ 4, srcKind @ 5, dstKind @ 6, flags @ 7, bytes @ 8, start @ 16, end @ 24,
    deviceId @ 32, contextId @ 36, streamId @ 40, srcDeviceId @ 44, srcContextId @ 48,
    dstDeviceId @ 52, dstContextId @ 56, correlationId @ 60, reserved0 @ 64, graphNodeId @ 72,
    graphId @ 80, channelID @ 84, channelType @ 88,
} }
pub const MEMCPY2_FIELD_KIND: CUpti_ActivityMemcpy2FieldIds = 0;
pub const MEMCPY2_FIELD_COPY_KIND: CUpti_ActivityMemcpy2FieldIds = 1;
pub const MEMCPY2_FIELD_BYTES: CUpti_ActivityMemcpy2FieldIds = 5;
pub const MEMCPY2_FIELD_START: CUpti_ActivityMemcpy2FieldIds = 6;
pub const MEMCPY2_FIELD_END: CUpti_ActivityMemcpy2FieldIds = 7;
pub const MEMCPY2_FIELD_DEVICE_ID: CUpti_ActivityMemcpy2FieldIds = 8;
pub const MEMCPY2_FIELD_CONTEXT_ID: CUpti_ActivityMemcpy2FieldIds = 9;
pub const MEMCPY2_FIELD_STREAM_ID: CUpti_ActivityMemcpy2FieldIds = 10;
pub const MEMCPY2_FIELD_CORRELATION_ID: CUpti_ActivityMemcpy2FieldIds = 15;
pub const MEMCPY2_FIELD_GRAPH_NODE_ID: CUpti_ActivityMemcpy2FieldIds = 16;
pub type CUpti_ActivityMemcpy2FieldIds = ::std::os::raw::c_uint;
pub const MEMSET_FIELD_KIND: CUpti_ActivityMemsetFieldIds = 0;
pub const MEMSET_FIELD_BYTES: CUpti_ActivityMemsetFieldIds = 2;
pub const MEMSET_FIELD_START: CUpti_ActivityMemsetFieldIds = 3;
pub const MEMSET_FIELD_END: CUpti_ActivityMemsetFieldIds = 4;
pub const MEMSET_FIELD_DEVICE_ID: CUpti_ActivityMemsetFieldIds = 5;
pub const MEMSET_FIELD_CONTEXT_ID: CUpti_ActivityMemsetFieldIds = 6;
pub const MEMSET_FIELD_STREAM_ID: CUpti_ActivityMemsetFieldIds = 7;
pub const MEMSET_FIELD_CORRELATION_ID: CUpti_ActivityMemsetFieldIds = 8;
pub const MEMSET_FIELD_GRAPH_NODE_ID: CUpti_ActivityMemsetFieldIds = 11;
pub type CUpti_ActivityMemsetFieldIds = ::std::os::raw::c_uint;
pub type CUpti_FuncShmemLimitConfig = ::std::os::raw::c_uint;
#[repr(C, packed(8))]
#[derive(Copy, Clone)]
pub struct CUpti_ActivityKernel13 {
    pub kind: CUpti_ActivityKind,
    pub cacheConfig: CUpti_ActivityKernel13__bindgen_ty_1,
    pub sharedMemoryConfig: u8,
    pub registersPerThread: u16,
    pub partitionedGlobalCacheRequested: CUpti_ActivityPartitionedGlobalCacheConfig,
    pub partitionedGlobalCacheExecuted: CUpti_ActivityPartitionedGlobalCacheConfig,
    pub start: u64,
    pub end: u64,
    pub completed: u64,
    pub deviceId: u32,
    pub contextId: u32,
    pub streamId: u32,
    pub gridX: i32,
    pub gridY: i32,
    pub gridZ: i32,
    pub blockX: i32,
    pub blockY: i32,
    pub blockZ: i32,
    pub staticSharedMemory: i32,
    pub dynamicSharedMemory: i32,
    pub localMemoryPerThread: u32,
    pub localMemoryTotal: u32,
    pub correlationId: u32,
    pub gridId: i64,
    pub name: *const ::std::os::raw::c_char,
    pub reserved0: *mut ::std::os::raw::c_void,
    pub queued: u64,
    pub submitted: u64,
    pub launchType: u8,
    pub isSharedMemoryCarveoutRequested: u8,
    pub sharedMemoryCarveoutRequested: u8,
    pub padding: u8,
    pub sharedMemoryExecuted: u32,
    pub graphNodeId: u64,
    pub shmemLimitConfig: CUpti_FuncShmemLimitConfig,
    pub graphId: u32,
    pub pAccessPolicyWindow: *mut CUaccessPolicyWindow,
    pub channelID: u32,
    pub channelType: CUpti_ChannelType,
    pub clusterX: u32,
    pub clusterY: u32,
    pub clusterZ: u32,
    pub clusterSchedulingPolicy: u32,
    pub localMemoryTotal_v2: u64,
    pub maxPotentialClusterSize: u32,
    pub maxActiveClusters: u32,
    pub isDeviceLaunched: u8,
    pub padding3: [u8; 7usize],
    pub priority: i32,
    pub padding4: u32,
    pub executionModel: u32,
    pub padding5: u32,
    pub sourceGraphId: u32,
    pub padding6: u32,
    pub sourceGraphNodeId: u64,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union CUpti_ActivityKernel13__bindgen_ty_1 {
    pub both: u8,
    pub config: CUpti_ActivityKernel13__bindgen_ty_1__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_ActivityKernel13__bindgen_ty_1__bindgen_ty_1 {
    pub _bindgen_align: [u8; 0],
    pub _bindgen_opaque_blob: u8,
}
layout! { CUpti_ActivityKernel13__bindgen_ty_1__bindgen_ty_1: 1 align 1 {
} }
layout! { CUpti_ActivityKernel13__bindgen_ty_1: 1 align 1 {
    both @ 0, config @ 0,
} }
layout! { CUpti_ActivityKernel13: 248 align 8 {
    kind @ 0, cacheConfig @ 4, sharedMemoryConfig @ 5, registersPerThread @ 6,
    partitionedGlobalCacheRequested @ 8, partitionedGlobalCacheExecuted @ 12, start @ 16, end @ 24,
    completed @ 32, deviceId @ 40, contextId @ 44, streamId @ 48, gridX @ 52, gridY @ 56,
    gridZ @ 60, blockX @ 64, blockY @ 68, blockZ @ 72, staticSharedMemory @ 76,
    dynamicSharedMemory @ 80, localMemoryPerThread @ 84, localMemoryTotal @ 88, correlationId @ 92,
    gridId @ 96, name @ 104, reserved0 @ 112, queued @ 120, submitted @ 128, launchType @ 136,
    isSharedMemoryCarveoutRequested @ 137, sharedMemoryCarveoutRequested @ 138, padding @ 139,
    sharedMemoryExecuted @ 140, graphNodeId @ 144, shmemLimitConfig @ 152, graphId @ 156,
    pAccessPolicyWindow @ 160, channelID @ 168, channelType @ 172, clusterX @ 176, clusterY @ 180,
    clusterZ @ 184, clusterSchedulingPolicy @ 188, localMemoryTotal_v2 @ 192,
    maxPotentialClusterSize @ 200, maxActiveClusters @ 204, isDeviceLaunched @ 208, padding3 @ 209,
    priority @ 216, padding4 @ 220, executionModel @ 224, padding5 @ 228, sourceGraphId @ 232,
    padding6 @ 236, sourceGraphNodeId @ 240,
} }
pub const KERNEL_FIELD_KIND: CUpti_ActivityKernelFieldIds = 0;
pub const KERNEL_FIELD_REGISTERS_PER_THREAD: CUpti_ActivityKernelFieldIds = 4;
pub const KERNEL_FIELD_START: CUpti_ActivityKernelFieldIds = 7;
pub const KERNEL_FIELD_END: CUpti_ActivityKernelFieldIds = 8;
pub const KERNEL_FIELD_DEVICE_ID: CUpti_ActivityKernelFieldIds = 10;
pub const KERNEL_FIELD_CONTEXT_ID: CUpti_ActivityKernelFieldIds = 11;
pub const KERNEL_FIELD_STREAM_ID: CUpti_ActivityKernelFieldIds = 12;
pub const KERNEL_FIELD_GRID_X: CUpti_ActivityKernelFieldIds = 13;
pub const KERNEL_FIELD_GRID_Y: CUpti_ActivityKernelFieldIds = 14;
pub const KERNEL_FIELD_GRID_Z: CUpti_ActivityKernelFieldIds = 15;
pub const KERNEL_FIELD_BLOCK_X: CUpti_ActivityKernelFieldIds = 16;
pub const KERNEL_FIELD_BLOCK_Y: CUpti_ActivityKernelFieldIds = 17;
pub const KERNEL_FIELD_BLOCK_Z: CUpti_ActivityKernelFieldIds = 18;
pub const KERNEL_FIELD_STATIC_SHARED_MEMORY: CUpti_ActivityKernelFieldIds = 19;
pub const KERNEL_FIELD_DYNAMIC_SHARED_MEMORY: CUpti_ActivityKernelFieldIds = 20;
pub const KERNEL_FIELD_LOCAL_MEMORY_PER_THREAD: CUpti_ActivityKernelFieldIds = 21;
pub const KERNEL_FIELD_CORRELATION_ID: CUpti_ActivityKernelFieldIds = 22;
pub const KERNEL_FIELD_NAME: CUpti_ActivityKernelFieldIds = 24;
pub const KERNEL_FIELD_GRAPH_NODE_ID: CUpti_ActivityKernelFieldIds = 31;
pub type CUpti_ActivityKernelFieldIds = ::std::os::raw::c_uint;
pub const DEVICE_FIELD_KIND: CUpti_ActivityDeviceFieldIds = 0;
pub const DEVICE_FIELD_GLOBAL_MEMORY_BANDWIDTH: CUpti_ActivityDeviceFieldIds = 2;
pub const DEVICE_FIELD_GLOBAL_MEMORY_SIZE: CUpti_ActivityDeviceFieldIds = 3;
pub const DEVICE_FIELD_L2_CACHE_SIZE: CUpti_ActivityDeviceFieldIds = 5;
pub const DEVICE_FIELD_CORE_CLOCK_RATE: CUpti_ActivityDeviceFieldIds = 7;
pub const DEVICE_FIELD_NUM_MULTIPROCESSORS: CUpti_ActivityDeviceFieldIds = 9;
pub const DEVICE_FIELD_COMPUTE_CAPABILITY_MAJOR: CUpti_ActivityDeviceFieldIds = 24;
pub const DEVICE_FIELD_COMPUTE_CAPABILITY_MINOR: CUpti_ActivityDeviceFieldIds = 25;
pub const DEVICE_FIELD_ID: CUpti_ActivityDeviceFieldIds = 26;
pub const DEVICE_FIELD_UUID: CUpti_ActivityDeviceFieldIds = 28;
pub const DEVICE_FIELD_NAME: CUpti_ActivityDeviceFieldIds = 29;
pub type CUpti_ActivityDeviceFieldIds = ::std::os::raw::c_uint;
pub const GRAPH_TRACE_FIELD_KIND: CUpti_ActivityGraphTraceFieldIds = 0;
pub const GRAPH_TRACE_FIELD_CORRELATION_ID: CUpti_ActivityGraphTraceFieldIds = 1;
pub const GRAPH_TRACE_FIELD_START: CUpti_ActivityGraphTraceFieldIds = 2;
pub const GRAPH_TRACE_FIELD_END: CUpti_ActivityGraphTraceFieldIds = 3;
pub const GRAPH_TRACE_FIELD_DEVICE_ID: CUpti_ActivityGraphTraceFieldIds = 4;
pub const GRAPH_TRACE_FIELD_GRAPH_ID: CUpti_ActivityGraphTraceFieldIds = 5;
pub const GRAPH_TRACE_FIELD_CONTEXT_ID: CUpti_ActivityGraphTraceFieldIds = 6;
pub const GRAPH_TRACE_FIELD_STREAM_ID: CUpti_ActivityGraphTraceFieldIds = 7;
pub type CUpti_ActivityGraphTraceFieldIds = ::std::os::raw::c_uint;
pub const CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE: CUpti_ActivityAttribute = 0;
pub const CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER: CUpti_ActivityAttribute = 5;
pub const CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER: CUpti_ActivityAttribute = 9;
pub const CUPTI_ACTIVITY_ATTR_USER_DEFINED_RECORDS: CUpti_ActivityAttribute = 11;
pub const CUPTI_ACTIVITY_ATTR_MULTIPLE_SUBSCRIBER_STATE: CUpti_ActivityAttribute = 12;
pub const CUPTI_ACTIVITY_ATTR_ENABLE_HES: CUpti_ActivityAttribute = 13;
pub const CUPTI_ACTIVITY_ATTR_ENABLE_MULTI_SUBSCRIBER_GRAPH_TRACE: CUpti_ActivityAttribute = 20;
pub const CUPTI_ACTIVITY_ATTR_THREAD_ID_TYPE: CUpti_ActivityAttribute = 21;
pub type CUpti_ActivityAttribute = ::std::os::raw::c_uint;
pub const CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM: CUpti_ActivityThreadIdType = 1;
pub type CUpti_ActivityThreadIdType = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_ActivityConfig {
    pub structSize: usize,
    pub fieldSelection: CUpti_ActivityFieldSelection,
    pub pKindOptions: *mut ::std::os::raw::c_void,
}
layout! { CUpti_ActivityConfig: 40 align 8 {
    structSize @ 0, fieldSelection @ 8, pKindOptions @ 32,
} }
pub type CUpti_BuffersCallbackRequestFunc = ::std::option::Option<
    unsafe extern "C" fn(buffer: *mut *mut u8, size: *mut usize, maxNumRecords: *mut usize),
>;
pub type CUpti_BuffersCallbackCompleteFunc = ::std::option::Option<
    unsafe extern "C" fn(
        context: CUcontext,
        streamId: u32,
        buffer: *mut u8,
        size: usize,
        validSize: usize,
    ),
>;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_BufferCallbackRequestInfo {
    pub structSize: usize,
}
layout! { CUpti_BufferCallbackRequestInfo: 8 align 8 {
    structSize @ 0,
} }
pub type CUpti_BuffersCallbackRequestFunc_v2 = ::std::option::Option<
    unsafe extern "C" fn(
        buffer: *mut *mut u8,
        size: *mut usize,
        maxNumRecords: *mut usize,
        pBufferRequestInfo: *mut CUpti_BufferCallbackRequestInfo,
    ),
>;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_BufferCallbackCompleteInfo {
    pub structSize: usize,
    pub threadId: u64,
    pub ppRecordLayouts: *mut *mut CUpti_ActivityRecordLayout,
    pub numRecordLayouts: usize,
}
layout! { CUpti_BufferCallbackCompleteInfo: 32 align 8 {
    structSize @ 0, threadId @ 8, ppRecordLayouts @ 16, numRecordLayouts @ 24,
} }
pub type CUpti_BuffersCallbackCompleteFunc_v2 = ::std::option::Option<
    unsafe extern "C" fn(
        buffer: *mut u8,
        size: usize,
        validSize: usize,
        pBufferCompleteInfo: *mut CUpti_BufferCallbackCompleteInfo,
    ),
>;
#[repr(C, packed(8))]
#[derive(Copy, Clone)]
pub struct CUpti_ActivityDevice4 {
    pub kind: CUpti_ActivityKind,
    pub flags: CUpti_ActivityFlag,
    pub globalMemoryBandwidth: u64,
    pub globalMemorySize: u64,
    pub constantMemorySize: u32,
    pub l2CacheSize: u32,
    pub numThreadsPerWarp: u32,
    pub coreClockRate: u32,
    pub numMemcpyEngines: u32,
    pub numMultiprocessors: u32,
    pub maxIPC: u32,
    pub maxWarpsPerMultiprocessor: u32,
    pub maxBlocksPerMultiprocessor: u32,
    pub maxSharedMemoryPerMultiprocessor: u32,
    pub maxRegistersPerMultiprocessor: u32,
    pub maxRegistersPerBlock: u32,
    pub maxSharedMemoryPerBlock: u32,
    pub maxThreadsPerBlock: u32,
    pub maxBlockDimX: u32,
    pub maxBlockDimY: u32,
    pub maxBlockDimZ: u32,
    pub maxGridDimX: u32,
    pub maxGridDimY: u32,
    pub maxGridDimZ: u32,
    pub computeCapabilityMajor: u32,
    pub computeCapabilityMinor: u32,
    pub id: u32,
    pub eccEnabled: u32,
    pub uuid: CUuuid,
    pub name: *const ::std::os::raw::c_char,
    pub isCudaVisible: u8,
    pub isMigEnabled: u8,
    pub reserved: [u8; 6usize],
    pub gpuInstanceId: u32,
    pub computeInstanceId: u32,
    pub migUuid: CUuuid,
}
layout! { CUpti_ActivityDevice4: 176 align 8 {
    kind @ 0, flags @ 4, globalMemoryBandwidth @ 8, globalMemorySize @ 16, constantMemorySize @ 24,
    l2CacheSize @ 28, numThreadsPerWarp @ 32, coreClockRate @ 36, numMemcpyEngines @ 40,
    numMultiprocessors @ 44, maxIPC @ 48, maxWarpsPerMultiprocessor @ 52,
    maxBlocksPerMultiprocessor @ 56, maxSharedMemoryPerMultiprocessor @ 60,
    maxRegistersPerMultiprocessor @ 64, maxRegistersPerBlock @ 68, maxSharedMemoryPerBlock @ 72,
    maxThreadsPerBlock @ 76, maxBlockDimX @ 80, maxBlockDimY @ 84, maxBlockDimZ @ 88,
    maxGridDimX @ 92, maxGridDimY @ 96, maxGridDimZ @ 100, computeCapabilityMajor @ 104,
    computeCapabilityMinor @ 108, id @ 112, eccEnabled @ 116, uuid @ 120, name @ 136,
    isCudaVisible @ 144, isMigEnabled @ 145, reserved @ 146, gpuInstanceId @ 152,
    computeInstanceId @ 156, migUuid @ 160,
} }
#[repr(C, packed(8))]
#[derive(Copy, Clone)]
pub struct CUpti_ActivityKernel8 {
    pub kind: CUpti_ActivityKind,
    pub cacheConfig: CUpti_ActivityKernel8__bindgen_ty_1,
    pub sharedMemoryConfig: u8,
    pub registersPerThread: u16,
    pub partitionedGlobalCacheRequested: CUpti_ActivityPartitionedGlobalCacheConfig,
    pub partitionedGlobalCacheExecuted: CUpti_ActivityPartitionedGlobalCacheConfig,
    pub start: u64,
    pub end: u64,
    pub completed: u64,
    pub deviceId: u32,
    pub contextId: u32,
    pub streamId: u32,
    pub gridX: i32,
    pub gridY: i32,
    pub gridZ: i32,
    pub blockX: i32,
    pub blockY: i32,
    pub blockZ: i32,
    pub staticSharedMemory: i32,
    pub dynamicSharedMemory: i32,
    pub localMemoryPerThread: u32,
    pub localMemoryTotal: u32,
    pub correlationId: u32,
    pub gridId: i64,
    pub name: *const ::std::os::raw::c_char,
    pub reserved0: *mut ::std::os::raw::c_void,
    pub queued: u64,
    pub submitted: u64,
    pub launchType: u8,
    pub isSharedMemoryCarveoutRequested: u8,
    pub sharedMemoryCarveoutRequested: u8,
    pub padding: u8,
    pub sharedMemoryExecuted: u32,
    pub graphNodeId: u64,
    pub shmemLimitConfig: CUpti_FuncShmemLimitConfig,
    pub graphId: u32,
    pub pAccessPolicyWindow: *mut CUaccessPolicyWindow,
    pub channelID: u32,
    pub channelType: CUpti_ChannelType,
    pub clusterX: u32,
    pub clusterY: u32,
    pub clusterZ: u32,
    pub clusterSchedulingPolicy: u32,
    pub localMemoryTotal_v2: u64,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union CUpti_ActivityKernel8__bindgen_ty_1 {
    pub both: u8,
    pub config: CUpti_ActivityKernel8__bindgen_ty_1__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_ActivityKernel8__bindgen_ty_1__bindgen_ty_1 {
    pub _bindgen_align: [u8; 0],
    pub _bindgen_opaque_blob: u8,
}
layout! { CUpti_ActivityKernel8__bindgen_ty_1__bindgen_ty_1: 1 align 1 {
} }
layout! { CUpti_ActivityKernel8__bindgen_ty_1: 1 align 1 {
    both @ 0, config @ 0,
} }
layout! { CUpti_ActivityKernel8: 200 align 8 {
    kind @ 0, cacheConfig @ 4, sharedMemoryConfig @ 5, registersPerThread @ 6,
    partitionedGlobalCacheRequested @ 8, partitionedGlobalCacheExecuted @ 12, start @ 16, end @ 24,
    completed @ 32, deviceId @ 40, contextId @ 44, streamId @ 48, gridX @ 52, gridY @ 56,
    gridZ @ 60, blockX @ 64, blockY @ 68, blockZ @ 72, staticSharedMemory @ 76,
    dynamicSharedMemory @ 80, localMemoryPerThread @ 84, localMemoryTotal @ 88, correlationId @ 92,
    gridId @ 96, name @ 104, reserved0 @ 112, queued @ 120, submitted @ 128, launchType @ 136,
    isSharedMemoryCarveoutRequested @ 137, sharedMemoryCarveoutRequested @ 138, padding @ 139,
    sharedMemoryExecuted @ 140, graphNodeId @ 144, shmemLimitConfig @ 152, graphId @ 156,
    pAccessPolicyWindow @ 160, channelID @ 168, channelType @ 172, clusterX @ 176, clusterY @ 180,
    clusterZ @ 184, clusterSchedulingPolicy @ 188, localMemoryTotal_v2 @ 192,
} }
#[repr(C, packed(8))]
#[derive(Copy, Clone)]
pub struct CUpti_ActivityMemset4 {
    pub kind: CUpti_ActivityKind,
    pub value: u32,
    pub bytes: u64,
    pub start: u64,
    pub end: u64,
    pub deviceId: u32,
    pub contextId: u32,
    pub streamId: u32,
    pub correlationId: u32,
    pub flags: u16,
    pub memoryKind: u16,
    pub pad: u32,
    pub reserved0: *mut ::std::os::raw::c_void,
    pub graphNodeId: u64,
    pub graphId: u32,
    pub channelID: u32,
    pub channelType: CUpti_ChannelType,
    pub isDeviceLaunched: u8,
    pub pad2: [u8; 3usize],
}
layout! { CUpti_ActivityMemset4: 88 align 8 {
    kind @ 0, value @ 4, bytes @ 8, start @ 16, end @ 24, deviceId @ 32, contextId @ 36,
    streamId @ 40, correlationId @ 44, flags @ 48, memoryKind @ 50, pad @ 52, reserved0 @ 56,
    graphNodeId @ 64, graphId @ 72, channelID @ 76, channelType @ 80, isDeviceLaunched @ 84,
    pad2 @ 85,
} }
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_ActivityGraphTrace {
    pub kind: CUpti_ActivityKind,
    pub correlationId: u32,
    pub start: u64,
    pub end: u64,
    pub deviceId: u32,
    pub graphId: u32,
    pub contextId: u32,
    pub streamId: u32,
    pub reserved: *mut ::std::os::raw::c_void,
}
layout! { CUpti_ActivityGraphTrace: 48 align 8 {
    kind @ 0, correlationId @ 4, start @ 8, end @ 16, deviceId @ 24, graphId @ 28, contextId @ 32,
    streamId @ 36, reserved @ 40,
} }
#[repr(C, packed(8))]
#[derive(Copy, Clone)]
pub struct CUpti_ActivityMemcpy5 {
    pub kind: CUpti_ActivityKind,
    pub copyKind: u8,
    pub srcKind: u8,
    pub dstKind: u8,
    pub flags: u8,
    pub bytes: u64,
    pub start: u64,
    pub end: u64,
    pub deviceId: u32,
    pub contextId: u32,
    pub streamId: u32,
    pub correlationId: u32,
    pub runtimeCorrelationId: u32,
    pub pad: u32,
    pub reserved0: *mut ::std::os::raw::c_void,
    pub graphNodeId: u64,
    pub graphId: u32,
    pub channelID: u32,
    pub channelType: CUpti_ChannelType,
    pub pad2: u32,
}
layout! { CUpti_ActivityMemcpy5: 88 align 8 {
    kind @ 0, copyKind @ 4, srcKind @ 5, dstKind @ 6, flags @ 7, bytes @ 8, start @ 16, end @ 24,
    deviceId @ 32, contextId @ 36, streamId @ 40, correlationId @ 44, runtimeCorrelationId @ 48,
    pad @ 52, reserved0 @ 56, graphNodeId @ 64, graphId @ 72, channelID @ 76, channelType @ 80,
    pad2 @ 84,
} }
pub const CUPTI_DRIVER_TRACE_CBID_cuDriverGetVersion: CUpti_driver_api_trace_cbid_enum = 2;
pub const CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel: CUpti_driver_api_trace_cbid_enum = 307;
pub const CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz: CUpti_driver_api_trace_cbid_enum = 442;
pub const CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel: CUpti_driver_api_trace_cbid_enum = 477;
pub const CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz: CUpti_driver_api_trace_cbid_enum =
    478;
pub const CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch: CUpti_driver_api_trace_cbid_enum = 514;
pub const CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz: CUpti_driver_api_trace_cbid_enum = 515;
pub const CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx: CUpti_driver_api_trace_cbid_enum = 652;
pub const CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz: CUpti_driver_api_trace_cbid_enum = 653;
pub type CUpti_driver_api_trace_cbid_enum = ::std::os::raw::c_uint;
pub use self::CUpti_driver_api_trace_cbid_enum as CUpti_driver_api_trace_cbid;
#[repr(C)]
#[derive(Debug)]
pub struct CUpti_PmSampling_Object {
    _unused: [u8; 0],
}
pub const CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_SYSCLK_INTERVAL: CUpti_PmSampling_TriggerMode = 0;
pub const CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL: CUpti_PmSampling_TriggerMode = 1;
pub type CUpti_PmSampling_TriggerMode = ::std::os::raw::c_uint;
pub const CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL:
    CUpti_PmSampling_DecodeStopReason = 1;
pub type CUpti_PmSampling_DecodeStopReason = ::std::os::raw::c_uint;
pub const CUPTI_PM_SAMPLING_HARDWARE_BUFFER_APPEND_MODE_KEEP_OLDEST:
    CUpti_PmSampling_HardwareBuffer_AppendMode = 0;
pub type CUpti_PmSampling_HardwareBuffer_AppendMode = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_PmSampling_SetConfig_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pPmSamplingObject: *mut CUpti_PmSampling_Object,
    pub configSize: usize,
    pub pConfig: *const u8,
    pub hardwareBufferSize: usize,
    pub samplingInterval: u64,
    pub triggerMode: CUpti_PmSampling_TriggerMode,
    pub hwBufferAppendMode: CUpti_PmSampling_HardwareBuffer_AppendMode,
}
layout! { CUpti_PmSampling_SetConfig_Params: 64 align 8 {
    structSize @ 0, pPriv @ 8, pPmSamplingObject @ 16, configSize @ 24, pConfig @ 32,
    hardwareBufferSize @ 40, samplingInterval @ 48, triggerMode @ 56, hwBufferAppendMode @ 60,
} }
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_PmSampling_Enable_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub deviceIndex: usize,
    pub pPmSamplingObject: *mut CUpti_PmSampling_Object,
}
layout! { CUpti_PmSampling_Enable_Params: 32 align 8 {
    structSize @ 0, pPriv @ 8, deviceIndex @ 16, pPmSamplingObject @ 24,
} }
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_PmSampling_Disable_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pPmSamplingObject: *mut CUpti_PmSampling_Object,
}
layout! { CUpti_PmSampling_Disable_Params: 24 align 8 {
    structSize @ 0, pPriv @ 8, pPmSamplingObject @ 16,
} }
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_PmSampling_Start_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pPmSamplingObject: *mut CUpti_PmSampling_Object,
}
layout! { CUpti_PmSampling_Start_Params: 24 align 8 {
    structSize @ 0, pPriv @ 8, pPmSamplingObject @ 16,
} }
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_PmSampling_Stop_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pPmSamplingObject: *mut CUpti_PmSampling_Object,
}
layout! { CUpti_PmSampling_Stop_Params: 24 align 8 {
    structSize @ 0, pPriv @ 8, pPmSamplingObject @ 16,
} }
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_PmSampling_DecodeData_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pPmSamplingObject: *mut CUpti_PmSampling_Object,
    pub pCounterDataImage: *mut u8,
    pub counterDataImageSize: usize,
    pub decodeStopReason: CUpti_PmSampling_DecodeStopReason,
    pub overflow: u8,
}
layout! { CUpti_PmSampling_DecodeData_Params: 48 align 8 {
    structSize @ 0, pPriv @ 8, pPmSamplingObject @ 16, pCounterDataImage @ 24,
    counterDataImageSize @ 32, decodeStopReason @ 40, overflow @ 44,
} }
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_PmSampling_GetCounterAvailability_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub deviceIndex: usize,
    pub counterAvailabilityImageSize: usize,
    pub pCounterAvailabilityImage: *mut u8,
}
layout! { CUpti_PmSampling_GetCounterAvailability_Params: 40 align 8 {
    structSize @ 0, pPriv @ 8, deviceIndex @ 16, counterAvailabilityImageSize @ 24,
    pCounterAvailabilityImage @ 32,
} }
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_PmSampling_GetCounterDataSize_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pPmSamplingObject: *mut CUpti_PmSampling_Object,
    pub pMetricNames: *mut *const ::std::os::raw::c_char,
    pub numMetrics: usize,
    pub maxSamples: u32,
    pub counterDataSize: usize,
}
layout! { CUpti_PmSampling_GetCounterDataSize_Params: 56 align 8 {
    structSize @ 0, pPriv @ 8, pPmSamplingObject @ 16, pMetricNames @ 24, numMetrics @ 32,
    maxSamples @ 40, counterDataSize @ 48,
} }
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_PmSampling_CounterDataImage_Initialize_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pPmSamplingObject: *mut CUpti_PmSampling_Object,
    pub counterDataSize: usize,
    pub pCounterData: *mut u8,
}
layout! { CUpti_PmSampling_CounterDataImage_Initialize_Params: 40 align 8 {
    structSize @ 0, pPriv @ 8, pPmSamplingObject @ 16, counterDataSize @ 24, pCounterData @ 32,
} }
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_PmSampling_GetCounterDataInfo_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pCounterDataImage: *const u8,
    pub counterDataImageSize: usize,
    pub numTotalSamples: usize,
    pub numPopulatedSamples: usize,
    pub numCompletedSamples: usize,
}
layout! { CUpti_PmSampling_GetCounterDataInfo_Params: 56 align 8 {
    structSize @ 0, pPriv @ 8, pCounterDataImage @ 16, counterDataImageSize @ 24,
    numTotalSamples @ 32, numPopulatedSamples @ 40, numCompletedSamples @ 48,
} }
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_PmSampling_CounterData_GetSampleInfo_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pPmSamplingObject: *mut CUpti_PmSampling_Object,
    pub pCounterDataImage: *const u8,
    pub counterDataImageSize: usize,
    pub sampleIndex: usize,
    pub startTimestamp: u64,
    pub endTimestamp: u64,
}
layout! { CUpti_PmSampling_CounterData_GetSampleInfo_Params: 64 align 8 {
    structSize @ 0, pPriv @ 8, pPmSamplingObject @ 16, pCounterDataImage @ 24,
    counterDataImageSize @ 32, sampleIndex @ 40, startTimestamp @ 48, endTimestamp @ 56,
} }
pub const CUPTI_PROFILER_TYPE_PM_SAMPLING: CUpti_ProfilerType = 1;
pub type CUpti_ProfilerType = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Debug)]
pub struct CUpti_Profiler_Host_Object {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_Profiler_Host_Initialize_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub profilerType: CUpti_ProfilerType,
    pub pChipName: *const ::std::os::raw::c_char,
    pub pCounterAvailabilityImage: *const u8,
    pub pHostObject: *mut CUpti_Profiler_Host_Object,
    pub pSinglePassMetricSetName: *const ::std::os::raw::c_char,
}
layout! { CUpti_Profiler_Host_Initialize_Params: 56 align 8 {
    structSize @ 0, pPriv @ 8, profilerType @ 16, pChipName @ 24, pCounterAvailabilityImage @ 32,
    pHostObject @ 40, pSinglePassMetricSetName @ 48,
} }
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_Profiler_Host_Deinitialize_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pHostObject: *mut CUpti_Profiler_Host_Object,
}
layout! { CUpti_Profiler_Host_Deinitialize_Params: 24 align 8 {
    structSize @ 0, pPriv @ 8, pHostObject @ 16,
} }
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_Profiler_Host_EvaluateToGpuValues_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pHostObject: *mut CUpti_Profiler_Host_Object,
    pub pCounterDataImage: *const u8,
    pub counterDataImageSize: usize,
    pub rangeIndex: usize,
    pub ppMetricNames: *mut *const ::std::os::raw::c_char,
    pub numMetrics: usize,
    pub pMetricValues: *mut f64,
}
layout! { CUpti_Profiler_Host_EvaluateToGpuValues_Params: 72 align 8 {
    structSize @ 0, pPriv @ 8, pHostObject @ 16, pCounterDataImage @ 24, counterDataImageSize @ 32,
    rangeIndex @ 40, ppMetricNames @ 48, numMetrics @ 56, pMetricValues @ 64,
} }
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_Profiler_Host_ConfigAddMetrics_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pHostObject: *mut CUpti_Profiler_Host_Object,
    pub ppMetricNames: *mut *const ::std::os::raw::c_char,
    pub numMetrics: usize,
}
layout! { CUpti_Profiler_Host_ConfigAddMetrics_Params: 40 align 8 {
    structSize @ 0, pPriv @ 8, pHostObject @ 16, ppMetricNames @ 24, numMetrics @ 32,
} }
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_Profiler_Host_GetConfigImageSize_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pHostObject: *mut CUpti_Profiler_Host_Object,
    pub configImageSize: usize,
}
layout! { CUpti_Profiler_Host_GetConfigImageSize_Params: 32 align 8 {
    structSize @ 0, pPriv @ 8, pHostObject @ 16, configImageSize @ 24,
} }
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_Profiler_Host_GetConfigImage_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pHostObject: *mut CUpti_Profiler_Host_Object,
    pub configImageSize: usize,
    pub pConfigImage: *mut u8,
}
layout! { CUpti_Profiler_Host_GetConfigImage_Params: 40 align 8 {
    structSize @ 0, pPriv @ 8, pHostObject @ 16, configImageSize @ 24, pConfigImage @ 32,
} }
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_Profiler_Host_GetNumOfPasses_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub configImageSize: usize,
    pub pConfigImage: *mut u8,
    pub numOfPasses: usize,
}
layout! { CUpti_Profiler_Host_GetNumOfPasses_Params: 40 align 8 {
    structSize @ 0, pPriv @ 8, configImageSize @ 16, pConfigImage @ 24, numOfPasses @ 32,
} }
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_Profiler_Initialize_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
}
layout! { CUpti_Profiler_Initialize_Params: 16 align 8 {
    structSize @ 0, pPriv @ 8,
} }
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_Device_GetChipName_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub deviceIndex: usize,
    pub pChipName: *const ::std::os::raw::c_char,
}
layout! { CUpti_Device_GetChipName_Params: 32 align 8 {
    structSize @ 0, pPriv @ 8, deviceIndex @ 16, pChipName @ 24,
} }
pub type cuptiActivityDisable =
    ::std::option::Option<unsafe extern "C" fn(arg1: CUpti_ActivityKind) -> CUptiResult>;
pub type cuptiActivityDisable_v2 = ::std::option::Option<
    unsafe extern "C" fn(
        arg1: CUpti_SubscriberHandle,
        arg2: CUpti_ActivityKind,
        arg3: *mut CUpti_ActivityConfig,
    ) -> CUptiResult,
>;
pub type cuptiActivityEnable =
    ::std::option::Option<unsafe extern "C" fn(arg1: CUpti_ActivityKind) -> CUptiResult>;
pub type cuptiActivityEnableAndDump =
    ::std::option::Option<unsafe extern "C" fn(arg1: CUpti_ActivityKind) -> CUptiResult>;
pub type cuptiActivityEnableDriverApi =
    ::std::option::Option<unsafe extern "C" fn(arg1: CUpti_CallbackId, arg2: u8) -> CUptiResult>;
pub type cuptiActivityEnableHWTrace =
    ::std::option::Option<unsafe extern "C" fn(arg1: u8) -> CUptiResult>;
pub type cuptiActivityEnable_v2 = ::std::option::Option<
    unsafe extern "C" fn(
        arg1: CUpti_SubscriberHandle,
        arg2: CUpti_ActivityKind,
        arg3: *mut CUpti_ActivityConfig,
    ) -> CUptiResult,
>;
pub type cuptiActivityFlushAll =
    ::std::option::Option<unsafe extern "C" fn(arg1: u32) -> CUptiResult>;
pub type cuptiActivityGetAttribute = ::std::option::Option<
    unsafe extern "C" fn(
        arg1: CUpti_ActivityAttribute,
        arg2: *mut usize,
        arg3: *mut ::std::os::raw::c_void,
    ) -> CUptiResult,
>;
pub type cuptiActivityGetAttribute_v2 = ::std::option::Option<
    unsafe extern "C" fn(
        arg1: CUpti_SubscriberHandle,
        arg2: CUpti_ActivityAttribute,
        arg3: *mut usize,
        arg4: *mut ::std::os::raw::c_void,
    ) -> CUptiResult,
>;
pub type cuptiActivityGetNextRecord = ::std::option::Option<
    unsafe extern "C" fn(arg1: *mut u8, arg2: usize, arg3: *mut *mut CUpti_Activity) -> CUptiResult,
>;
pub type cuptiActivityGetNextRecord_v2 = ::std::option::Option<
    unsafe extern "C" fn(
        arg1: CUpti_SubscriberHandle,
        arg2: *mut u8,
        arg3: usize,
        arg4: *mut *mut CUpti_Activity,
    ) -> CUptiResult,
>;
pub type cuptiActivityGetNumDroppedRecords = ::std::option::Option<
    unsafe extern "C" fn(arg1: CUcontext, arg2: u32, arg3: *mut usize) -> CUptiResult,
>;
pub type cuptiActivityGetNumDroppedRecords_v2 = ::std::option::Option<
    unsafe extern "C" fn(
        arg1: CUpti_SubscriberHandle,
        arg2: CUcontext,
        arg3: u32,
        arg4: *mut usize,
    ) -> CUptiResult,
>;
pub type cuptiActivityRegisterCallbacks = ::std::option::Option<
    unsafe extern "C" fn(
        arg1: CUpti_BuffersCallbackRequestFunc,
        arg2: CUpti_BuffersCallbackCompleteFunc,
    ) -> CUptiResult,
>;
pub type cuptiActivityRegisterCallbacks_v2 = ::std::option::Option<
    unsafe extern "C" fn(
        arg1: CUpti_SubscriberHandle,
        arg2: CUpti_BuffersCallbackRequestFunc_v2,
        arg3: CUpti_BuffersCallbackCompleteFunc_v2,
    ) -> CUptiResult,
>;
pub type cuptiActivitySetAttribute = ::std::option::Option<
    unsafe extern "C" fn(
        arg1: CUpti_ActivityAttribute,
        arg2: *mut usize,
        arg3: *mut ::std::os::raw::c_void,
    ) -> CUptiResult,
>;
pub type cuptiActivitySetAttribute_v2 = ::std::option::Option<
    unsafe extern "C" fn(
        arg1: CUpti_SubscriberHandle,
        arg2: CUpti_ActivityAttribute,
        arg3: *mut usize,
        arg4: *mut ::std::os::raw::c_void,
    ) -> CUptiResult,
>;
pub type cuptiDeviceGetChipName = ::std::option::Option<
    unsafe extern "C" fn(arg1: *mut CUpti_Device_GetChipName_Params) -> CUptiResult,
>;
pub type cuptiEnableCallback = ::std::option::Option<
    unsafe extern "C" fn(
        arg1: u32,
        arg2: CUpti_SubscriberHandle,
        arg3: CUpti_CallbackDomain,
        arg4: CUpti_CallbackId,
    ) -> CUptiResult,
>;
pub type cuptiFinalize = ::std::option::Option<unsafe extern "C" fn() -> CUptiResult>;
pub type cuptiGetDeviceId =
    ::std::option::Option<unsafe extern "C" fn(arg1: CUcontext, arg2: *mut u32) -> CUptiResult>;
pub type cuptiGetGraphId =
    ::std::option::Option<unsafe extern "C" fn(arg1: CUgraph, arg2: *mut u32) -> CUptiResult>;
pub type cuptiGetGraphNodeId =
    ::std::option::Option<unsafe extern "C" fn(arg1: CUgraphNode, arg2: *mut u64) -> CUptiResult>;
pub type cuptiGetResultString = ::std::option::Option<
    unsafe extern "C" fn(
        arg1: CUptiResult,
        arg2: *mut *const ::std::os::raw::c_char,
    ) -> CUptiResult,
>;
pub type cuptiGetTimestamp =
    ::std::option::Option<unsafe extern "C" fn(arg1: *mut u64) -> CUptiResult>;
pub type cuptiGetTimestamp_v2 = ::std::option::Option<
    unsafe extern "C" fn(arg1: CUpti_SubscriberHandle, arg2: *mut u64) -> CUptiResult,
>;
pub type cuptiGetVersion =
    ::std::option::Option<unsafe extern "C" fn(arg1: *mut u32) -> CUptiResult>;
pub type cuptiPmSamplingCounterDataGetSampleInfo = ::std::option::Option<
    unsafe extern "C" fn(
        arg1: *mut CUpti_PmSampling_CounterData_GetSampleInfo_Params,
    ) -> CUptiResult,
>;
pub type cuptiPmSamplingCounterDataImageInitialize = ::std::option::Option<
    unsafe extern "C" fn(
        arg1: *mut CUpti_PmSampling_CounterDataImage_Initialize_Params,
    ) -> CUptiResult,
>;
pub type cuptiPmSamplingDecodeData = ::std::option::Option<
    unsafe extern "C" fn(arg1: *mut CUpti_PmSampling_DecodeData_Params) -> CUptiResult,
>;
pub type cuptiPmSamplingDisable = ::std::option::Option<
    unsafe extern "C" fn(arg1: *mut CUpti_PmSampling_Disable_Params) -> CUptiResult,
>;
pub type cuptiPmSamplingEnable = ::std::option::Option<
    unsafe extern "C" fn(arg1: *mut CUpti_PmSampling_Enable_Params) -> CUptiResult,
>;
pub type cuptiPmSamplingGetCounterAvailability = ::std::option::Option<
    unsafe extern "C" fn(arg1: *mut CUpti_PmSampling_GetCounterAvailability_Params) -> CUptiResult,
>;
pub type cuptiPmSamplingGetCounterDataInfo = ::std::option::Option<
    unsafe extern "C" fn(arg1: *mut CUpti_PmSampling_GetCounterDataInfo_Params) -> CUptiResult,
>;
pub type cuptiPmSamplingGetCounterDataSize = ::std::option::Option<
    unsafe extern "C" fn(arg1: *mut CUpti_PmSampling_GetCounterDataSize_Params) -> CUptiResult,
>;
pub type cuptiPmSamplingSetConfig = ::std::option::Option<
    unsafe extern "C" fn(arg1: *mut CUpti_PmSampling_SetConfig_Params) -> CUptiResult,
>;
pub type cuptiPmSamplingStart = ::std::option::Option<
    unsafe extern "C" fn(arg1: *mut CUpti_PmSampling_Start_Params) -> CUptiResult,
>;
pub type cuptiPmSamplingStop = ::std::option::Option<
    unsafe extern "C" fn(arg1: *mut CUpti_PmSampling_Stop_Params) -> CUptiResult,
>;
pub type cuptiProfilerHostConfigAddMetrics = ::std::option::Option<
    unsafe extern "C" fn(arg1: *mut CUpti_Profiler_Host_ConfigAddMetrics_Params) -> CUptiResult,
>;
pub type cuptiProfilerHostDeinitialize = ::std::option::Option<
    unsafe extern "C" fn(arg1: *mut CUpti_Profiler_Host_Deinitialize_Params) -> CUptiResult,
>;
pub type cuptiProfilerHostEvaluateToGpuValues = ::std::option::Option<
    unsafe extern "C" fn(arg1: *mut CUpti_Profiler_Host_EvaluateToGpuValues_Params) -> CUptiResult,
>;
pub type cuptiProfilerHostGetConfigImage = ::std::option::Option<
    unsafe extern "C" fn(arg1: *mut CUpti_Profiler_Host_GetConfigImage_Params) -> CUptiResult,
>;
pub type cuptiProfilerHostGetConfigImageSize = ::std::option::Option<
    unsafe extern "C" fn(arg1: *mut CUpti_Profiler_Host_GetConfigImageSize_Params) -> CUptiResult,
>;
pub type cuptiProfilerHostGetNumOfPasses = ::std::option::Option<
    unsafe extern "C" fn(arg1: *mut CUpti_Profiler_Host_GetNumOfPasses_Params) -> CUptiResult,
>;
pub type cuptiProfilerHostInitialize = ::std::option::Option<
    unsafe extern "C" fn(arg1: *mut CUpti_Profiler_Host_Initialize_Params) -> CUptiResult,
>;
pub type cuptiProfilerInitialize = ::std::option::Option<
    unsafe extern "C" fn(arg1: *mut CUpti_Profiler_Initialize_Params) -> CUptiResult,
>;
pub type cuptiSubscribe = ::std::option::Option<
    unsafe extern "C" fn(
        arg1: *mut CUpti_SubscriberHandle,
        arg2: CUpti_CallbackFunc,
        arg3: *mut ::std::os::raw::c_void,
    ) -> CUptiResult,
>;
pub type cuptiSubscribe_v2 = ::std::option::Option<
    unsafe extern "C" fn(
        arg1: *mut CUpti_SubscriberHandle,
        arg2: CUpti_CallbackFunc,
        arg3: *mut ::std::os::raw::c_void,
        arg4: *mut CUpti_SubscriberParams,
    ) -> CUptiResult,
>;
pub type cuptiUnsubscribe =
    ::std::option::Option<unsafe extern "C" fn(arg1: CUpti_SubscriberHandle) -> CUptiResult>;
