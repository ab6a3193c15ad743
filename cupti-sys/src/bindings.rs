//! CUPTI's C ABI, from the headers of CUPTI 13.5: types, constants and the types of the
//! functions (`Option` of a function pointer), without a single `extern` declaration.
//!
//! Written by `cupti-sys/regenerate`: do not edit.

pub const CUPTI_API_VERSION: u32 = 130500;
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUuuid_st"][::std::mem::size_of::<CUuuid_st>() - 16usize];
    ["Alignment of CUuuid_st"][::std::mem::align_of::<CUuuid_st>() - 1usize];
    ["Offset of field: CUuuid_st::bytes"][::std::mem::offset_of!(CUuuid_st, bytes) - 0usize];
};
pub type CUuuid = CUuuid_st;
pub const CU_ACCESS_PROPERTY_NORMAL: CUaccessProperty_enum = 0;
pub const CU_ACCESS_PROPERTY_STREAMING: CUaccessProperty_enum = 1;
pub const CU_ACCESS_PROPERTY_PERSISTING: CUaccessProperty_enum = 2;
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUaccessPolicyWindow_st"][::std::mem::size_of::<CUaccessPolicyWindow_st>() - 32usize];
    ["Alignment of CUaccessPolicyWindow_st"]
        [::std::mem::align_of::<CUaccessPolicyWindow_st>() - 8usize];
    ["Offset of field: CUaccessPolicyWindow_st::base_ptr"]
        [::std::mem::offset_of!(CUaccessPolicyWindow_st, base_ptr) - 0usize];
    ["Offset of field: CUaccessPolicyWindow_st::num_bytes"]
        [::std::mem::offset_of!(CUaccessPolicyWindow_st, num_bytes) - 8usize];
    ["Offset of field: CUaccessPolicyWindow_st::hitRatio"]
        [::std::mem::offset_of!(CUaccessPolicyWindow_st, hitRatio) - 16usize];
    ["Offset of field: CUaccessPolicyWindow_st::hitProp"]
        [::std::mem::offset_of!(CUaccessPolicyWindow_st, hitProp) - 20usize];
    ["Offset of field: CUaccessPolicyWindow_st::missProp"]
        [::std::mem::offset_of!(CUaccessPolicyWindow_st, missProp) - 24usize];
};
pub type CUaccessPolicyWindow_v1 = CUaccessPolicyWindow_st;
pub type CUaccessPolicyWindow = CUaccessPolicyWindow_v1;
pub const CU_GRAPH_NODE_TYPE_KERNEL: CUgraphNodeType_enum = 0;
pub const CU_GRAPH_NODE_TYPE_MEMCPY: CUgraphNodeType_enum = 1;
pub const CU_GRAPH_NODE_TYPE_MEMSET: CUgraphNodeType_enum = 2;
pub const CU_GRAPH_NODE_TYPE_HOST: CUgraphNodeType_enum = 3;
pub const CU_GRAPH_NODE_TYPE_GRAPH: CUgraphNodeType_enum = 4;
pub const CU_GRAPH_NODE_TYPE_EMPTY: CUgraphNodeType_enum = 5;
pub const CU_GRAPH_NODE_TYPE_WAIT_EVENT: CUgraphNodeType_enum = 6;
pub const CU_GRAPH_NODE_TYPE_EVENT_RECORD: CUgraphNodeType_enum = 7;
pub const CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL: CUgraphNodeType_enum = 8;
pub const CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT: CUgraphNodeType_enum = 9;
pub const CU_GRAPH_NODE_TYPE_MEM_ALLOC: CUgraphNodeType_enum = 10;
pub const CU_GRAPH_NODE_TYPE_MEM_FREE: CUgraphNodeType_enum = 11;
pub const CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: CUgraphNodeType_enum = 12;
pub const CU_GRAPH_NODE_TYPE_CONDITIONAL: CUgraphNodeType_enum = 13;
pub const CU_GRAPH_NODE_TYPE_MEMCPY_BATCH: CUgraphNodeType_enum = 14;
pub const CU_GRAPH_NODE_TYPE_RESERVED_16: CUgraphNodeType_enum = 16;
pub const CU_GRAPH_NODE_TYPE_EXTERNAL_ENGINE: CUgraphNodeType_enum = 17;
pub const CU_GRAPH_NODE_TYPE_FABRIC_CPY_BATCH: CUgraphNodeType_enum = 18;
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
pub const CUPTI_API_EXIT: CUpti_ApiCallbackSite = 1;
pub type CUpti_ApiCallbackSite = ::std::os::raw::c_uint;
pub const CUPTI_CB_DOMAIN_INVALID: CUpti_CallbackDomain = 0;
pub const CUPTI_CB_DOMAIN_DRIVER_API: CUpti_CallbackDomain = 1;
pub const CUPTI_CB_DOMAIN_RUNTIME_API: CUpti_CallbackDomain = 2;
pub const CUPTI_CB_DOMAIN_RESOURCE: CUpti_CallbackDomain = 3;
pub const CUPTI_CB_DOMAIN_SYNCHRONIZE: CUpti_CallbackDomain = 4;
pub const CUPTI_CB_DOMAIN_NVTX: CUpti_CallbackDomain = 5;
pub const CUPTI_CB_DOMAIN_STATE: CUpti_CallbackDomain = 6;
pub const CUPTI_CB_DOMAIN_SIZE: CUpti_CallbackDomain = 7;
pub type CUpti_CallbackDomain = ::std::os::raw::c_uint;
pub const CUPTI_CBID_RESOURCE_INVALID: CUpti_CallbackIdResource = 0;
pub const CUPTI_CBID_RESOURCE_CONTEXT_CREATED: CUpti_CallbackIdResource = 1;
pub const CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING: CUpti_CallbackIdResource = 2;
pub const CUPTI_CBID_RESOURCE_STREAM_CREATED: CUpti_CallbackIdResource = 3;
pub const CUPTI_CBID_RESOURCE_STREAM_DESTROY_STARTING: CUpti_CallbackIdResource = 4;
pub const CUPTI_CBID_RESOURCE_CU_INIT_FINISHED: CUpti_CallbackIdResource = 5;
pub const CUPTI_CBID_RESOURCE_MODULE_LOADED: CUpti_CallbackIdResource = 6;
pub const CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING: CUpti_CallbackIdResource = 7;
pub const CUPTI_CBID_RESOURCE_MODULE_PROFILED: CUpti_CallbackIdResource = 8;
pub const CUPTI_CBID_RESOURCE_GRAPH_CREATED: CUpti_CallbackIdResource = 9;
pub const CUPTI_CBID_RESOURCE_GRAPH_DESTROY_STARTING: CUpti_CallbackIdResource = 10;
pub const CUPTI_CBID_RESOURCE_GRAPH_CLONED: CUpti_CallbackIdResource = 11;
pub const CUPTI_CBID_RESOURCE_GRAPHNODE_CREATE_STARTING: CUpti_CallbackIdResource = 12;
pub const CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED: CUpti_CallbackIdResource = 13;
pub const CUPTI_CBID_RESOURCE_GRAPHNODE_DESTROY_STARTING: CUpti_CallbackIdResource = 14;
pub const CUPTI_CBID_RESOURCE_GRAPHNODE_DEPENDENCY_CREATED: CUpti_CallbackIdResource = 15;
pub const CUPTI_CBID_RESOURCE_GRAPHNODE_DEPENDENCY_DESTROY_STARTING: CUpti_CallbackIdResource = 16;
pub const CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATE_STARTING: CUpti_CallbackIdResource = 17;
pub const CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATED: CUpti_CallbackIdResource = 18;
pub const CUPTI_CBID_RESOURCE_GRAPHEXEC_DESTROY_STARTING: CUpti_CallbackIdResource = 19;
pub const CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED: CUpti_CallbackIdResource = 20;
pub const CUPTI_CBID_RESOURCE_STREAM_ATTRIBUTE_CHANGED: CUpti_CallbackIdResource = 21;
pub const CUPTI_CBID_RESOURCE_GRAPH_NODE_UPDATED: CUpti_CallbackIdResource = 22;
pub const CUPTI_CBID_RESOURCE_GRAPH_NODE_SET_PARAMS: CUpti_CallbackIdResource = 23;
pub const CUPTI_CBID_RESOURCE_LOGICAL_ENDPOINT_CREATED: CUpti_CallbackIdResource = 24;
pub const CUPTI_CBID_RESOURCE_LOGICAL_ENDPOINT_DESTROYED: CUpti_CallbackIdResource = 25;
pub const CUPTI_CBID_RESOURCE_SIZE: CUpti_CallbackIdResource = 26;
pub type CUpti_CallbackIdResource = ::std::os::raw::c_uint;
pub const CUPTI_CBID_STATE_INVALID: CUpti_CallbackIdState = 0;
pub const CUPTI_CBID_STATE_FATAL_ERROR: CUpti_CallbackIdState = 1;
pub const CUPTI_CBID_STATE_ERROR: CUpti_CallbackIdState = 2;
pub const CUPTI_CBID_STATE_WARNING: CUpti_CallbackIdState = 3;
pub const CUPTI_CBID_STATE_SIZE: CUpti_CallbackIdState = 4;
pub type CUpti_CallbackIdState = ::std::os::raw::c_uint;
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_CallbackData"][::std::mem::size_of::<CUpti_CallbackData>() - 72usize];
    ["Alignment of CUpti_CallbackData"][::std::mem::align_of::<CUpti_CallbackData>() - 8usize];
    ["Offset of field: CUpti_CallbackData::callbackSite"]
        [::std::mem::offset_of!(CUpti_CallbackData, callbackSite) - 0usize];
    ["Offset of field: CUpti_CallbackData::functionName"]
        [::std::mem::offset_of!(CUpti_CallbackData, functionName) - 8usize];
    ["Offset of field: CUpti_CallbackData::functionParams"]
        [::std::mem::offset_of!(CUpti_CallbackData, functionParams) - 16usize];
    ["Offset of field: CUpti_CallbackData::functionReturnValue"]
        [::std::mem::offset_of!(CUpti_CallbackData, functionReturnValue) - 24usize];
    ["Offset of field: CUpti_CallbackData::symbolName"]
        [::std::mem::offset_of!(CUpti_CallbackData, symbolName) - 32usize];
    ["Offset of field: CUpti_CallbackData::context"]
        [::std::mem::offset_of!(CUpti_CallbackData, context) - 40usize];
    ["Offset of field: CUpti_CallbackData::contextUid"]
        [::std::mem::offset_of!(CUpti_CallbackData, contextUid) - 48usize];
    ["Offset of field: CUpti_CallbackData::correlationData"]
        [::std::mem::offset_of!(CUpti_CallbackData, correlationData) - 56usize];
    ["Offset of field: CUpti_CallbackData::correlationId"]
        [::std::mem::offset_of!(CUpti_CallbackData, correlationId) - 64usize];
};
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ResourceData__bindgen_ty_1"]
        [::std::mem::size_of::<CUpti_ResourceData__bindgen_ty_1>() - 8usize];
    ["Alignment of CUpti_ResourceData__bindgen_ty_1"]
        [::std::mem::align_of::<CUpti_ResourceData__bindgen_ty_1>() - 8usize];
    ["Offset of field: CUpti_ResourceData__bindgen_ty_1::stream"]
        [::std::mem::offset_of!(CUpti_ResourceData__bindgen_ty_1, stream) - 0usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ResourceData"][::std::mem::size_of::<CUpti_ResourceData>() - 24usize];
    ["Alignment of CUpti_ResourceData"][::std::mem::align_of::<CUpti_ResourceData>() - 8usize];
    ["Offset of field: CUpti_ResourceData::context"]
        [::std::mem::offset_of!(CUpti_ResourceData, context) - 0usize];
    ["Offset of field: CUpti_ResourceData::resourceHandle"]
        [::std::mem::offset_of!(CUpti_ResourceData, resourceHandle) - 8usize];
    ["Offset of field: CUpti_ResourceData::resourceDescriptor"]
        [::std::mem::offset_of!(CUpti_ResourceData, resourceDescriptor) - 16usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_ModuleResourceData {
    pub moduleId: u32,
    pub cubinSize: usize,
    pub pCubin: *const ::std::os::raw::c_char,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ModuleResourceData"]
        [::std::mem::size_of::<CUpti_ModuleResourceData>() - 24usize];
    ["Alignment of CUpti_ModuleResourceData"]
        [::std::mem::align_of::<CUpti_ModuleResourceData>() - 8usize];
    ["Offset of field: CUpti_ModuleResourceData::moduleId"]
        [::std::mem::offset_of!(CUpti_ModuleResourceData, moduleId) - 0usize];
    ["Offset of field: CUpti_ModuleResourceData::cubinSize"]
        [::std::mem::offset_of!(CUpti_ModuleResourceData, cubinSize) - 8usize];
    ["Offset of field: CUpti_ModuleResourceData::pCubin"]
        [::std::mem::offset_of!(CUpti_ModuleResourceData, pCubin) - 16usize];
};
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_GraphData"][::std::mem::size_of::<CUpti_GraphData>() - 56usize];
    ["Alignment of CUpti_GraphData"][::std::mem::align_of::<CUpti_GraphData>() - 8usize];
    ["Offset of field: CUpti_GraphData::graph"]
        [::std::mem::offset_of!(CUpti_GraphData, graph) - 0usize];
    ["Offset of field: CUpti_GraphData::originalGraph"]
        [::std::mem::offset_of!(CUpti_GraphData, originalGraph) - 8usize];
    ["Offset of field: CUpti_GraphData::node"]
        [::std::mem::offset_of!(CUpti_GraphData, node) - 16usize];
    ["Offset of field: CUpti_GraphData::originalNode"]
        [::std::mem::offset_of!(CUpti_GraphData, originalNode) - 24usize];
    ["Offset of field: CUpti_GraphData::nodeType"]
        [::std::mem::offset_of!(CUpti_GraphData, nodeType) - 32usize];
    ["Offset of field: CUpti_GraphData::dependency"]
        [::std::mem::offset_of!(CUpti_GraphData, dependency) - 40usize];
    ["Offset of field: CUpti_GraphData::graphExec"]
        [::std::mem::offset_of!(CUpti_GraphData, graphExec) - 48usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_StateData {
    pub __bindgen_anon_1: CUpti_StateData__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union CUpti_StateData__bindgen_ty_1 {
    pub notification: CUpti_StateData__bindgen_ty_1__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_StateData__bindgen_ty_1__bindgen_ty_1 {
    pub result: CUptiResult,
    pub message: *const ::std::os::raw::c_char,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_StateData__bindgen_ty_1__bindgen_ty_1"]
        [::std::mem::size_of::<CUpti_StateData__bindgen_ty_1__bindgen_ty_1>() - 16usize];
    ["Alignment of CUpti_StateData__bindgen_ty_1__bindgen_ty_1"]
        [::std::mem::align_of::<CUpti_StateData__bindgen_ty_1__bindgen_ty_1>() - 8usize];
    ["Offset of field: CUpti_StateData__bindgen_ty_1__bindgen_ty_1::result"]
        [::std::mem::offset_of!(CUpti_StateData__bindgen_ty_1__bindgen_ty_1, result) - 0usize];
    ["Offset of field: CUpti_StateData__bindgen_ty_1__bindgen_ty_1::message"]
        [::std::mem::offset_of!(CUpti_StateData__bindgen_ty_1__bindgen_ty_1, message) - 8usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_StateData__bindgen_ty_1"]
        [::std::mem::size_of::<CUpti_StateData__bindgen_ty_1>() - 16usize];
    ["Alignment of CUpti_StateData__bindgen_ty_1"]
        [::std::mem::align_of::<CUpti_StateData__bindgen_ty_1>() - 8usize];
    ["Offset of field: CUpti_StateData__bindgen_ty_1::notification"]
        [::std::mem::offset_of!(CUpti_StateData__bindgen_ty_1, notification) - 0usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_StateData"][::std::mem::size_of::<CUpti_StateData>() - 16usize];
    ["Alignment of CUpti_StateData"][::std::mem::align_of::<CUpti_StateData>() - 8usize];
};
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_SubscriberParams"][::std::mem::size_of::<CUpti_SubscriberParams>() - 40usize];
    ["Alignment of CUpti_SubscriberParams"]
        [::std::mem::align_of::<CUpti_SubscriberParams>() - 8usize];
    ["Offset of field: CUpti_SubscriberParams::structSize"]
        [::std::mem::offset_of!(CUpti_SubscriberParams, structSize) - 0usize];
    ["Offset of field: CUpti_SubscriberParams::subscriberName"]
        [::std::mem::offset_of!(CUpti_SubscriberParams, subscriberName) - 8usize];
    ["Offset of field: CUpti_SubscriberParams::oldSubscriberName"]
        [::std::mem::offset_of!(CUpti_SubscriberParams, oldSubscriberName) - 16usize];
    ["Offset of field: CUpti_SubscriberParams::oldSubscriberSize"]
        [::std::mem::offset_of!(CUpti_SubscriberParams, oldSubscriberSize) - 24usize];
    ["Offset of field: CUpti_SubscriberParams::allowMultipleSubscribers"]
        [::std::mem::offset_of!(CUpti_SubscriberParams, allowMultipleSubscribers) - 32usize];
    ["Offset of field: CUpti_SubscriberParams::padding"]
        [::std::mem::offset_of!(CUpti_SubscriberParams, padding) - 33usize];
};
pub const CUPTI_ACTIVITY_KIND_INVALID: CUpti_ActivityKind = 0;
pub const CUPTI_ACTIVITY_KIND_MEMCPY: CUpti_ActivityKind = 1;
pub const CUPTI_ACTIVITY_KIND_MEMSET: CUpti_ActivityKind = 2;
pub const CUPTI_ACTIVITY_KIND_KERNEL: CUpti_ActivityKind = 3;
pub const CUPTI_ACTIVITY_KIND_DRIVER: CUpti_ActivityKind = 4;
pub const CUPTI_ACTIVITY_KIND_RUNTIME: CUpti_ActivityKind = 5;
pub const CUPTI_ACTIVITY_KIND_EVENT: CUpti_ActivityKind = 6;
pub const CUPTI_ACTIVITY_KIND_METRIC: CUpti_ActivityKind = 7;
pub const CUPTI_ACTIVITY_KIND_DEVICE: CUpti_ActivityKind = 8;
pub const CUPTI_ACTIVITY_KIND_CONTEXT: CUpti_ActivityKind = 9;
pub const CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: CUpti_ActivityKind = 10;
pub const CUPTI_ACTIVITY_KIND_NAME: CUpti_ActivityKind = 11;
pub const CUPTI_ACTIVITY_KIND_MARKER: CUpti_ActivityKind = 12;
pub const CUPTI_ACTIVITY_KIND_MARKER_DATA: CUpti_ActivityKind = 13;
pub const CUPTI_ACTIVITY_KIND_SOURCE_LOCATOR: CUpti_ActivityKind = 14;
pub const CUPTI_ACTIVITY_KIND_GLOBAL_ACCESS: CUpti_ActivityKind = 15;
pub const CUPTI_ACTIVITY_KIND_BRANCH: CUpti_ActivityKind = 16;
pub const CUPTI_ACTIVITY_KIND_OVERHEAD: CUpti_ActivityKind = 17;
pub const CUPTI_ACTIVITY_KIND_CDP_KERNEL: CUpti_ActivityKind = 18;
pub const CUPTI_ACTIVITY_KIND_PREEMPTION: CUpti_ActivityKind = 19;
pub const CUPTI_ACTIVITY_KIND_ENVIRONMENT: CUpti_ActivityKind = 20;
pub const CUPTI_ACTIVITY_KIND_EVENT_INSTANCE: CUpti_ActivityKind = 21;
pub const CUPTI_ACTIVITY_KIND_MEMCPY2: CUpti_ActivityKind = 22;
pub const CUPTI_ACTIVITY_KIND_METRIC_INSTANCE: CUpti_ActivityKind = 23;
pub const CUPTI_ACTIVITY_KIND_INSTRUCTION_EXECUTION: CUpti_ActivityKind = 24;
pub const CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER: CUpti_ActivityKind = 25;
pub const CUPTI_ACTIVITY_KIND_FUNCTION: CUpti_ActivityKind = 26;
pub const CUPTI_ACTIVITY_KIND_MODULE: CUpti_ActivityKind = 27;
pub const CUPTI_ACTIVITY_KIND_DEVICE_ATTRIBUTE: CUpti_ActivityKind = 28;
pub const CUPTI_ACTIVITY_KIND_SHARED_ACCESS: CUpti_ActivityKind = 29;
pub const CUPTI_ACTIVITY_KIND_PC_SAMPLING: CUpti_ActivityKind = 30;
pub const CUPTI_ACTIVITY_KIND_PC_SAMPLING_RECORD_INFO: CUpti_ActivityKind = 31;
pub const CUPTI_ACTIVITY_KIND_INSTRUCTION_CORRELATION: CUpti_ActivityKind = 32;
pub const CUPTI_ACTIVITY_KIND_OPENACC_DATA: CUpti_ActivityKind = 33;
pub const CUPTI_ACTIVITY_KIND_OPENACC_LAUNCH: CUpti_ActivityKind = 34;
pub const CUPTI_ACTIVITY_KIND_OPENACC_OTHER: CUpti_ActivityKind = 35;
pub const CUPTI_ACTIVITY_KIND_CUDA_EVENT: CUpti_ActivityKind = 36;
pub const CUPTI_ACTIVITY_KIND_STREAM: CUpti_ActivityKind = 37;
pub const CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: CUpti_ActivityKind = 38;
pub const CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: CUpti_ActivityKind = 39;
pub const CUPTI_ACTIVITY_KIND_NVLINK: CUpti_ActivityKind = 40;
pub const CUPTI_ACTIVITY_KIND_INSTANTANEOUS_EVENT: CUpti_ActivityKind = 41;
pub const CUPTI_ACTIVITY_KIND_INSTANTANEOUS_EVENT_INSTANCE: CUpti_ActivityKind = 42;
pub const CUPTI_ACTIVITY_KIND_INSTANTANEOUS_METRIC: CUpti_ActivityKind = 43;
pub const CUPTI_ACTIVITY_KIND_INSTANTANEOUS_METRIC_INSTANCE: CUpti_ActivityKind = 44;
pub const CUPTI_ACTIVITY_KIND_MEMORY: CUpti_ActivityKind = 45;
pub const CUPTI_ACTIVITY_KIND_PCIE: CUpti_ActivityKind = 46;
pub const CUPTI_ACTIVITY_KIND_OPENMP: CUpti_ActivityKind = 47;
pub const CUPTI_ACTIVITY_KIND_INTERNAL_LAUNCH_API: CUpti_ActivityKind = 48;
pub const CUPTI_ACTIVITY_KIND_MEMORY2: CUpti_ActivityKind = 49;
pub const CUPTI_ACTIVITY_KIND_MEMORY_POOL: CUpti_ActivityKind = 50;
pub const CUPTI_ACTIVITY_KIND_GRAPH_TRACE: CUpti_ActivityKind = 51;
pub const CUPTI_ACTIVITY_KIND_JIT: CUpti_ActivityKind = 52;
pub const CUPTI_ACTIVITY_KIND_DEVICE_GRAPH_TRACE: CUpti_ActivityKind = 53;
pub const CUPTI_ACTIVITY_KIND_MEM_DECOMPRESS: CUpti_ActivityKind = 54;
pub const CUPTI_ACTIVITY_KIND_CONFIDENTIAL_COMPUTE_ROTATION: CUpti_ActivityKind = 55;
pub const CUPTI_ACTIVITY_KIND_GRAPH_HOST_NODE: CUpti_ActivityKind = 56;
pub const CUPTI_ACTIVITY_KIND_COMPUTE_ENGINE_CTX_SWITCH: CUpti_ActivityKind = 57;
pub const CUPTI_ACTIVITY_KIND_HOST_LAUNCH: CUpti_ActivityKind = 58;
pub const CUPTI_ACTIVITY_KIND_GREEN_CONTEXT: CUpti_ActivityKind = 59;
pub const CUPTI_ACTIVITY_KIND_COUNT: CUpti_ActivityKind = 60;
pub type CUpti_ActivityKind = ::std::os::raw::c_uint;
pub const CUPTI_ACTIVITY_OBJECT_UNKNOWN: CUpti_ActivityObjectKind = 0;
pub const CUPTI_ACTIVITY_OBJECT_PROCESS: CUpti_ActivityObjectKind = 1;
pub const CUPTI_ACTIVITY_OBJECT_THREAD: CUpti_ActivityObjectKind = 2;
pub const CUPTI_ACTIVITY_OBJECT_DEVICE: CUpti_ActivityObjectKind = 3;
pub const CUPTI_ACTIVITY_OBJECT_CONTEXT: CUpti_ActivityObjectKind = 4;
pub const CUPTI_ACTIVITY_OBJECT_STREAM: CUpti_ActivityObjectKind = 5;
pub type CUpti_ActivityObjectKind = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Copy, Clone)]
pub union CUpti_ActivityObjectKindId {
    pub pt: CUpti_ActivityObjectKindId__bindgen_ty_1,
    pub dcs: CUpti_ActivityObjectKindId__bindgen_ty_2,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_ActivityObjectKindId__bindgen_ty_1 {
    pub processId: u32,
    pub threadId: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ActivityObjectKindId__bindgen_ty_1"]
        [::std::mem::size_of::<CUpti_ActivityObjectKindId__bindgen_ty_1>() - 8usize];
    ["Alignment of CUpti_ActivityObjectKindId__bindgen_ty_1"]
        [::std::mem::align_of::<CUpti_ActivityObjectKindId__bindgen_ty_1>() - 4usize];
    ["Offset of field: CUpti_ActivityObjectKindId__bindgen_ty_1::processId"]
        [::std::mem::offset_of!(CUpti_ActivityObjectKindId__bindgen_ty_1, processId) - 0usize];
    ["Offset of field: CUpti_ActivityObjectKindId__bindgen_ty_1::threadId"]
        [::std::mem::offset_of!(CUpti_ActivityObjectKindId__bindgen_ty_1, threadId) - 4usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_ActivityObjectKindId__bindgen_ty_2 {
    pub deviceId: u32,
    pub contextId: u32,
    pub streamId: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ActivityObjectKindId__bindgen_ty_2"]
        [::std::mem::size_of::<CUpti_ActivityObjectKindId__bindgen_ty_2>() - 12usize];
    ["Alignment of CUpti_ActivityObjectKindId__bindgen_ty_2"]
        [::std::mem::align_of::<CUpti_ActivityObjectKindId__bindgen_ty_2>() - 4usize];
    ["Offset of field: CUpti_ActivityObjectKindId__bindgen_ty_2::deviceId"]
        [::std::mem::offset_of!(CUpti_ActivityObjectKindId__bindgen_ty_2, deviceId) - 0usize];
    ["Offset of field: CUpti_ActivityObjectKindId__bindgen_ty_2::contextId"]
        [::std::mem::offset_of!(CUpti_ActivityObjectKindId__bindgen_ty_2, contextId) - 4usize];
    ["Offset of field: CUpti_ActivityObjectKindId__bindgen_ty_2::streamId"]
        [::std::mem::offset_of!(CUpti_ActivityObjectKindId__bindgen_ty_2, streamId) - 8usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ActivityObjectKindId"]
        [::std::mem::size_of::<CUpti_ActivityObjectKindId>() - 12usize];
    ["Alignment of CUpti_ActivityObjectKindId"]
        [::std::mem::align_of::<CUpti_ActivityObjectKindId>() - 4usize];
    ["Offset of field: CUpti_ActivityObjectKindId::pt"]
        [::std::mem::offset_of!(CUpti_ActivityObjectKindId, pt) - 0usize];
    ["Offset of field: CUpti_ActivityObjectKindId::dcs"]
        [::std::mem::offset_of!(CUpti_ActivityObjectKindId, dcs) - 0usize];
};
pub const CUPTI_ACTIVITY_OVERHEAD_UNKNOWN: CUpti_ActivityOverheadKind = 0;
pub const CUPTI_ACTIVITY_OVERHEAD_DRIVER_COMPILER: CUpti_ActivityOverheadKind = 1;
pub const CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH: CUpti_ActivityOverheadKind = 65536;
pub const CUPTI_ACTIVITY_OVERHEAD_CUPTI_INSTRUMENTATION: CUpti_ActivityOverheadKind = 131072;
pub const CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE: CUpti_ActivityOverheadKind = 196608;
pub const CUPTI_ACTIVITY_OVERHEAD_RUNTIME_TRIGGERED_MODULE_LOADING: CUpti_ActivityOverheadKind =
    262144;
pub const CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING: CUpti_ActivityOverheadKind = 327680;
pub const CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL: CUpti_ActivityOverheadKind = 393216;
pub const CUPTI_ACTIVITY_OVERHEAD_ACTIVITY_BUFFER_REQUEST: CUpti_ActivityOverheadKind = 458752;
pub const CUPTI_ACTIVITY_OVERHEAD_UVM_ACTIVITY_INIT: CUpti_ActivityOverheadKind = 524288;
pub type CUpti_ActivityOverheadKind = ::std::os::raw::c_uint;
pub const CUPTI_ACTIVITY_FLAG_NONE: CUpti_ActivityFlag = 0;
pub const CUPTI_ACTIVITY_FLAG_DEVICE_CONCURRENT_KERNELS: CUpti_ActivityFlag = 1;
pub const CUPTI_ACTIVITY_FLAG_DEVICE_ATTRIBUTE_CUDEVICE: CUpti_ActivityFlag = 1;
pub const CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC: CUpti_ActivityFlag = 1;
pub const CUPTI_ACTIVITY_FLAG_MARKER_INSTANTANEOUS: CUpti_ActivityFlag = 1;
pub const CUPTI_ACTIVITY_FLAG_MARKER_START: CUpti_ActivityFlag = 2;
pub const CUPTI_ACTIVITY_FLAG_MARKER_END: CUpti_ActivityFlag = 4;
pub const CUPTI_ACTIVITY_FLAG_MARKER_SYNC_ACQUIRE: CUpti_ActivityFlag = 8;
pub const CUPTI_ACTIVITY_FLAG_MARKER_SYNC_ACQUIRE_SUCCESS: CUpti_ActivityFlag = 16;
pub const CUPTI_ACTIVITY_FLAG_MARKER_SYNC_ACQUIRE_FAILED: CUpti_ActivityFlag = 32;
pub const CUPTI_ACTIVITY_FLAG_MARKER_SYNC_RELEASE: CUpti_ActivityFlag = 64;
pub const CUPTI_ACTIVITY_FLAG_MARKER_COLOR_NONE: CUpti_ActivityFlag = 1;
pub const CUPTI_ACTIVITY_FLAG_MARKER_COLOR_ARGB: CUpti_ActivityFlag = 2;
pub const CUPTI_ACTIVITY_FLAG_GLOBAL_ACCESS_KIND_SIZE_MASK: CUpti_ActivityFlag = 255;
pub const CUPTI_ACTIVITY_FLAG_GLOBAL_ACCESS_KIND_LOAD: CUpti_ActivityFlag = 256;
pub const CUPTI_ACTIVITY_FLAG_GLOBAL_ACCESS_KIND_CACHED: CUpti_ActivityFlag = 512;
pub const CUPTI_ACTIVITY_FLAG_METRIC_OVERFLOWED: CUpti_ActivityFlag = 1;
pub const CUPTI_ACTIVITY_FLAG_METRIC_VALUE_INVALID: CUpti_ActivityFlag = 2;
pub const CUPTI_ACTIVITY_FLAG_INSTRUCTION_VALUE_INVALID: CUpti_ActivityFlag = 1;
pub const CUPTI_ACTIVITY_FLAG_INSTRUCTION_CLASS_MASK: CUpti_ActivityFlag = 510;
pub const CUPTI_ACTIVITY_FLAG_FLUSH_FORCED: CUpti_ActivityFlag = 1;
pub const CUPTI_ACTIVITY_FLAG_SHARED_ACCESS_KIND_SIZE_MASK: CUpti_ActivityFlag = 255;
pub const CUPTI_ACTIVITY_FLAG_SHARED_ACCESS_KIND_LOAD: CUpti_ActivityFlag = 256;
pub const CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC: CUpti_ActivityFlag = 1;
pub const CUPTI_ACTIVITY_FLAG_THRASHING_IN_CPU: CUpti_ActivityFlag = 1;
pub const CUPTI_ACTIVITY_FLAG_THROTTLING_IN_CPU: CUpti_ActivityFlag = 1;
pub type CUpti_ActivityFlag = ::std::os::raw::c_uint;
pub const CUPTI_ACTIVITY_MEMCPY_KIND_UNKNOWN: CUpti_ActivityMemcpyKind = 0;
pub const CUPTI_ACTIVITY_MEMCPY_KIND_HTOD: CUpti_ActivityMemcpyKind = 1;
pub const CUPTI_ACTIVITY_MEMCPY_KIND_DTOH: CUpti_ActivityMemcpyKind = 2;
pub const CUPTI_ACTIVITY_MEMCPY_KIND_HTOA: CUpti_ActivityMemcpyKind = 3;
pub const CUPTI_ACTIVITY_MEMCPY_KIND_ATOH: CUpti_ActivityMemcpyKind = 4;
pub const CUPTI_ACTIVITY_MEMCPY_KIND_ATOA: CUpti_ActivityMemcpyKind = 5;
pub const CUPTI_ACTIVITY_MEMCPY_KIND_ATOD: CUpti_ActivityMemcpyKind = 6;
pub const CUPTI_ACTIVITY_MEMCPY_KIND_DTOA: CUpti_ActivityMemcpyKind = 7;
pub const CUPTI_ACTIVITY_MEMCPY_KIND_DTOD: CUpti_ActivityMemcpyKind = 8;
pub const CUPTI_ACTIVITY_MEMCPY_KIND_HTOH: CUpti_ActivityMemcpyKind = 9;
pub const CUPTI_ACTIVITY_MEMCPY_KIND_PTOP: CUpti_ActivityMemcpyKind = 10;
pub type CUpti_ActivityMemcpyKind = ::std::os::raw::c_uint;
pub const CUPTI_ACTIVITY_MEMORY_KIND_UNKNOWN: CUpti_ActivityMemoryKind = 0;
pub const CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE: CUpti_ActivityMemoryKind = 1;
pub const CUPTI_ACTIVITY_MEMORY_KIND_PINNED: CUpti_ActivityMemoryKind = 2;
pub const CUPTI_ACTIVITY_MEMORY_KIND_DEVICE: CUpti_ActivityMemoryKind = 3;
pub const CUPTI_ACTIVITY_MEMORY_KIND_ARRAY: CUpti_ActivityMemoryKind = 4;
pub const CUPTI_ACTIVITY_MEMORY_KIND_MANAGED: CUpti_ActivityMemoryKind = 5;
pub const CUPTI_ACTIVITY_MEMORY_KIND_DEVICE_STATIC: CUpti_ActivityMemoryKind = 6;
pub const CUPTI_ACTIVITY_MEMORY_KIND_MANAGED_STATIC: CUpti_ActivityMemoryKind = 7;
pub type CUpti_ActivityMemoryKind = ::std::os::raw::c_uint;
pub const CUPTI_ACTIVITY_PARTITIONED_GLOBAL_CACHE_CONFIG_UNKNOWN:
    CUpti_ActivityPartitionedGlobalCacheConfig = 0;
pub const CUPTI_ACTIVITY_PARTITIONED_GLOBAL_CACHE_CONFIG_NOT_SUPPORTED:
    CUpti_ActivityPartitionedGlobalCacheConfig = 1;
pub const CUPTI_ACTIVITY_PARTITIONED_GLOBAL_CACHE_CONFIG_OFF:
    CUpti_ActivityPartitionedGlobalCacheConfig = 2;
pub const CUPTI_ACTIVITY_PARTITIONED_GLOBAL_CACHE_CONFIG_ON:
    CUpti_ActivityPartitionedGlobalCacheConfig = 3;
pub type CUpti_ActivityPartitionedGlobalCacheConfig = ::std::os::raw::c_uint;
pub const CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_UNKNOWN: CUpti_ActivitySynchronizationType = 0;
pub const CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE: CUpti_ActivitySynchronizationType =
    1;
pub const CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT: CUpti_ActivitySynchronizationType =
    2;
pub const CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE:
    CUpti_ActivitySynchronizationType = 3;
pub const CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE:
    CUpti_ActivitySynchronizationType = 4;
pub type CUpti_ActivitySynchronizationType = ::std::os::raw::c_uint;
pub const CUPTI_ACTIVITY_STREAM_CREATE_FLAG_UNKNOWN: CUpti_ActivityStreamFlag = 0;
pub const CUPTI_ACTIVITY_STREAM_CREATE_FLAG_DEFAULT: CUpti_ActivityStreamFlag = 1;
pub const CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NON_BLOCKING: CUpti_ActivityStreamFlag = 2;
pub const CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NULL: CUpti_ActivityStreamFlag = 3;
pub const CUPTI_ACTIVITY_STREAM_CREATE_MASK: CUpti_ActivityStreamFlag = 65535;
pub type CUpti_ActivityStreamFlag = ::std::os::raw::c_uint;
pub const CUPTI_CHANNEL_TYPE_INVALID: CUpti_ChannelType = 0;
pub const CUPTI_CHANNEL_TYPE_COMPUTE: CUpti_ChannelType = 1;
pub const CUPTI_CHANNEL_TYPE_ASYNC_MEMCPY: CUpti_ChannelType = 2;
pub const CUPTI_CHANNEL_TYPE_DECOMP: CUpti_ChannelType = 3;
pub type CUpti_ChannelType = ::std::os::raw::c_uint;
pub const CUPTI_CONTEXT_CIG_MODE_NONE: CUpti_ContextCigMode = 0;
pub const CUPTI_CONTEXT_CIG_MODE_CIG: CUpti_ContextCigMode = 1;
pub const CUPTI_CONTEXT_CIG_MODE_CIG_FALLBACK: CUpti_ContextCigMode = 2;
pub type CUpti_ContextCigMode = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_ActivityFieldLayoutEntry {
    pub structSize: usize,
    pub fieldId: ::std::os::raw::c_int,
    pub offset: usize,
    pub size: usize,
    pub alignment: usize,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ActivityFieldLayoutEntry"]
        [::std::mem::size_of::<CUpti_ActivityFieldLayoutEntry>() - 40usize];
    ["Alignment of CUpti_ActivityFieldLayoutEntry"]
        [::std::mem::align_of::<CUpti_ActivityFieldLayoutEntry>() - 8usize];
    ["Offset of field: CUpti_ActivityFieldLayoutEntry::structSize"]
        [::std::mem::offset_of!(CUpti_ActivityFieldLayoutEntry, structSize) - 0usize];
    ["Offset of field: CUpti_ActivityFieldLayoutEntry::fieldId"]
        [::std::mem::offset_of!(CUpti_ActivityFieldLayoutEntry, fieldId) - 8usize];
    ["Offset of field: CUpti_ActivityFieldLayoutEntry::offset"]
        [::std::mem::offset_of!(CUpti_ActivityFieldLayoutEntry, offset) - 16usize];
    ["Offset of field: CUpti_ActivityFieldLayoutEntry::size"]
        [::std::mem::offset_of!(CUpti_ActivityFieldLayoutEntry, size) - 24usize];
    ["Offset of field: CUpti_ActivityFieldLayoutEntry::alignment"]
        [::std::mem::offset_of!(CUpti_ActivityFieldLayoutEntry, alignment) - 32usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_ActivityRecordLayout {
    pub structSize: usize,
    pub pEntries: *mut CUpti_ActivityFieldLayoutEntry,
    pub numFields: usize,
    pub recordSize: usize,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ActivityRecordLayout"]
        [::std::mem::size_of::<CUpti_ActivityRecordLayout>() - 32usize];
    ["Alignment of CUpti_ActivityRecordLayout"]
        [::std::mem::align_of::<CUpti_ActivityRecordLayout>() - 8usize];
    ["Offset of field: CUpti_ActivityRecordLayout::structSize"]
        [::std::mem::offset_of!(CUpti_ActivityRecordLayout, structSize) - 0usize];
    ["Offset of field: CUpti_ActivityRecordLayout::pEntries"]
        [::std::mem::offset_of!(CUpti_ActivityRecordLayout, pEntries) - 8usize];
    ["Offset of field: CUpti_ActivityRecordLayout::numFields"]
        [::std::mem::offset_of!(CUpti_ActivityRecordLayout, numFields) - 16usize];
    ["Offset of field: CUpti_ActivityRecordLayout::recordSize"]
        [::std::mem::offset_of!(CUpti_ActivityRecordLayout, recordSize) - 24usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_ActivityFieldSelection {
    pub structSize: usize,
    pub numFields: usize,
    pub pFieldIds: *mut ::std::os::raw::c_int,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ActivityFieldSelection"]
        [::std::mem::size_of::<CUpti_ActivityFieldSelection>() - 24usize];
    ["Alignment of CUpti_ActivityFieldSelection"]
        [::std::mem::align_of::<CUpti_ActivityFieldSelection>() - 8usize];
    ["Offset of field: CUpti_ActivityFieldSelection::structSize"]
        [::std::mem::offset_of!(CUpti_ActivityFieldSelection, structSize) - 0usize];
    ["Offset of field: CUpti_ActivityFieldSelection::numFields"]
        [::std::mem::offset_of!(CUpti_ActivityFieldSelection, numFields) - 8usize];
    ["Offset of field: CUpti_ActivityFieldSelection::pFieldIds"]
        [::std::mem::offset_of!(CUpti_ActivityFieldSelection, pFieldIds) - 16usize];
};
#[repr(C)]
#[repr(align(8))]
#[derive(Copy, Clone)]
pub struct CUpti_Activity {
    pub kind: CUpti_ActivityKind,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_Activity"][::std::mem::size_of::<CUpti_Activity>() - 8usize];
    ["Alignment of CUpti_Activity"][::std::mem::align_of::<CUpti_Activity>() - 8usize];
    ["Offset of field: CUpti_Activity::kind"]
        [::std::mem::offset_of!(CUpti_Activity, kind) - 0usize];
};
#[repr(C, packed(8))]
#[derive(Copy, Clone)]
pub struct CUpti_ActivityMemcpy7 {
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
    pub isDeviceLaunched: u8,
    pub pad2: [u8; 3usize],
    pub copyCount: u64,
    pub sourceGraphId: u32,
    pub pad3: u32,
    pub sourceGraphNodeId: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ActivityMemcpy7"][::std::mem::size_of::<CUpti_ActivityMemcpy7>() - 112usize];
    ["Alignment of CUpti_ActivityMemcpy7"]
        [::std::mem::align_of::<CUpti_ActivityMemcpy7>() - 8usize];
    ["Offset of field: CUpti_ActivityMemcpy7::kind"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy7, kind) - 0usize];
    ["Offset of field: CUpti_ActivityMemcpy7::copyKind"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy7, copyKind) - 4usize];
    ["Offset of field: CUpti_ActivityMemcpy7::srcKind"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy7, srcKind) - 5usize];
    ["Offset of field: CUpti_ActivityMemcpy7::dstKind"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy7, dstKind) - 6usize];
    ["Offset of field: CUpti_ActivityMemcpy7::flags"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy7, flags) - 7usize];
    ["Offset of field: CUpti_ActivityMemcpy7::bytes"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy7, bytes) - 8usize];
    ["Offset of field: CUpti_ActivityMemcpy7::start"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy7, start) - 16usize];
    ["Offset of field: CUpti_ActivityMemcpy7::end"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy7, end) - 24usize];
    ["Offset of field: CUpti_ActivityMemcpy7::deviceId"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy7, deviceId) - 32usize];
    ["Offset of field: CUpti_ActivityMemcpy7::contextId"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy7, contextId) - 36usize];
    ["Offset of field: CUpti_ActivityMemcpy7::streamId"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy7, streamId) - 40usize];
    ["Offset of field: CUpti_ActivityMemcpy7::correlationId"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy7, correlationId) - 44usize];
    ["Offset of field: CUpti_ActivityMemcpy7::runtimeCorrelationId"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy7, runtimeCorrelationId) - 48usize];
    ["Offset of field: CUpti_ActivityMemcpy7::pad"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy7, pad) - 52usize];
    ["Offset of field: CUpti_ActivityMemcpy7::reserved0"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy7, reserved0) - 56usize];
    ["Offset of field: CUpti_ActivityMemcpy7::graphNodeId"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy7, graphNodeId) - 64usize];
    ["Offset of field: CUpti_ActivityMemcpy7::graphId"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy7, graphId) - 72usize];
    ["Offset of field: CUpti_ActivityMemcpy7::channelID"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy7, channelID) - 76usize];
    ["Offset of field: CUpti_ActivityMemcpy7::channelType"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy7, channelType) - 80usize];
    ["Offset of field: CUpti_ActivityMemcpy7::isDeviceLaunched"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy7, isDeviceLaunched) - 84usize];
    ["Offset of field: CUpti_ActivityMemcpy7::pad2"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy7, pad2) - 85usize];
    ["Offset of field: CUpti_ActivityMemcpy7::copyCount"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy7, copyCount) - 88usize];
    ["Offset of field: CUpti_ActivityMemcpy7::sourceGraphId"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy7, sourceGraphId) - 96usize];
    ["Offset of field: CUpti_ActivityMemcpy7::pad3"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy7, pad3) - 100usize];
    ["Offset of field: CUpti_ActivityMemcpy7::sourceGraphNodeId"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy7, sourceGraphNodeId) - 104usize];
};
pub const MEMCPY_FIELD_KIND: CUpti_ActivityMemcpyFieldIds = 0;
pub const MEMCPY_FIELD_COPY_KIND: CUpti_ActivityMemcpyFieldIds = 1;
pub const MEMCPY_FIELD_SRC_KIND: CUpti_ActivityMemcpyFieldIds = 2;
pub const MEMCPY_FIELD_DST_KIND: CUpti_ActivityMemcpyFieldIds = 3;
pub const MEMCPY_FIELD_FLAGS: CUpti_ActivityMemcpyFieldIds = 4;
pub const MEMCPY_FIELD_BYTES: CUpti_ActivityMemcpyFieldIds = 5;
pub const MEMCPY_FIELD_START: CUpti_ActivityMemcpyFieldIds = 6;
pub const MEMCPY_FIELD_END: CUpti_ActivityMemcpyFieldIds = 7;
pub const MEMCPY_FIELD_DEVICE_ID: CUpti_ActivityMemcpyFieldIds = 8;
pub const MEMCPY_FIELD_CONTEXT_ID: CUpti_ActivityMemcpyFieldIds = 9;
pub const MEMCPY_FIELD_STREAM_ID: CUpti_ActivityMemcpyFieldIds = 10;
pub const MEMCPY_FIELD_CORRELATION_ID: CUpti_ActivityMemcpyFieldIds = 11;
pub const MEMCPY_FIELD_GRAPH_NODE_ID: CUpti_ActivityMemcpyFieldIds = 12;
pub const MEMCPY_FIELD_GRAPH_ID: CUpti_ActivityMemcpyFieldIds = 13;
pub const MEMCPY_FIELD_CHANNEL_ID: CUpti_ActivityMemcpyFieldIds = 14;
pub const MEMCPY_FIELD_CHANNEL_TYPE: CUpti_ActivityMemcpyFieldIds = 15;
pub const MEMCPY_FIELD_IS_DEVICE_LAUNCHED: CUpti_ActivityMemcpyFieldIds = 16;
pub const MEMCPY_FIELD_COPY_COUNT: CUpti_ActivityMemcpyFieldIds = 17;
pub const MEMCPY_FIELD_SOURCE_GRAPH_ID: CUpti_ActivityMemcpyFieldIds = 18;
pub const MEMCPY_FIELD_SOURCE_GRAPH_NODE_ID: CUpti_ActivityMemcpyFieldIds = 19;
pub const MEMCPY_FIELD_MAX: CUpti_ActivityMemcpyFieldIds = 20;
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ActivityMemcpyPtoP4"]
        [::std::mem::size_of::<CUpti_ActivityMemcpyPtoP4>() - 96usize];
    ["Alignment of CUpti_ActivityMemcpyPtoP4"]
        [::std::mem::align_of::<CUpti_ActivityMemcpyPtoP4>() - 8usize];
    ["Offset of field: CUpti_ActivityMemcpyPtoP4::kind"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpyPtoP4, kind) - 0usize];
    ["Offset of field: CUpti_ActivityMemcpyPtoP4::copyKind"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpyPtoP4, copyKind) - 4usize];
    ["Offset of field: CUpti_ActivityMemcpyPtoP4::srcKind"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpyPtoP4, srcKind) - 5usize];
    ["Offset of field: CUpti_ActivityMemcpyPtoP4::dstKind"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpyPtoP4, dstKind) - 6usize];
    ["Offset of field: CUpti_ActivityMemcpyPtoP4::flags"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpyPtoP4, flags) - 7usize];
    ["Offset of field: CUpti_ActivityMemcpyPtoP4::bytes"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpyPtoP4, bytes) - 8usize];
    ["Offset of field: CUpti_ActivityMemcpyPtoP4::start"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpyPtoP4, start) - 16usize];
    ["Offset of field: CUpti_ActivityMemcpyPtoP4::end"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpyPtoP4, end) - 24usize];
    ["Offset of field: CUpti_ActivityMemcpyPtoP4::deviceId"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpyPtoP4, deviceId) - 32usize];
    ["Offset of field: CUpti_ActivityMemcpyPtoP4::contextId"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpyPtoP4, contextId) - 36usize];
    ["Offset of field: CUpti_ActivityMemcpyPtoP4::streamId"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpyPtoP4, streamId) - 40usize];
    ["Offset of field: CUpti_ActivityMemcpyPtoP4::srcDeviceId"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpyPtoP4, srcDeviceId) - 44usize];
    ["Offset of field: CUpti_ActivityMemcpyPtoP4::srcContextId"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpyPtoP4, srcContextId) - 48usize];
    ["Offset of field: CUpti_ActivityMemcpyPtoP4::dstDeviceId"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpyPtoP4, dstDeviceId) - 52usize];
    ["Offset of field: CUpti_ActivityMemcpyPtoP4::dstContextId"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpyPtoP4, dstContextId) - 56usize];
    ["Offset of field: CUpti_ActivityMemcpyPtoP4::correlationId"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpyPtoP4, correlationId) - 60usize];
    ["Offset of field: CUpti_ActivityMemcpyPtoP4::reserved0"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpyPtoP4, reserved0) - 64usize];
    ["Offset of field: CUpti_ActivityMemcpyPtoP4::graphNodeId"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpyPtoP4, graphNodeId) - 72usize];
    ["Offset of field: CUpti_ActivityMemcpyPtoP4::graphId"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpyPtoP4, graphId) - 80usize];
    ["Offset of field: CUpti_ActivityMemcpyPtoP4::channelID"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpyPtoP4, channelID) - 84usize];
    ["Offset of field: CUpti_ActivityMemcpyPtoP4::channelType"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpyPtoP4, channelType) - 88usize];
};
pub const MEMCPY2_FIELD_KIND: CUpti_ActivityMemcpy2FieldIds = 0;
pub const MEMCPY2_FIELD_COPY_KIND: CUpti_ActivityMemcpy2FieldIds = 1;
pub const MEMCPY2_FIELD_SRC_KIND: CUpti_ActivityMemcpy2FieldIds = 2;
pub const MEMCPY2_FIELD_DST_KIND: CUpti_ActivityMemcpy2FieldIds = 3;
pub const MEMCPY2_FIELD_FLAGS: CUpti_ActivityMemcpy2FieldIds = 4;
pub const MEMCPY2_FIELD_BYTES: CUpti_ActivityMemcpy2FieldIds = 5;
pub const MEMCPY2_FIELD_START: CUpti_ActivityMemcpy2FieldIds = 6;
pub const MEMCPY2_FIELD_END: CUpti_ActivityMemcpy2FieldIds = 7;
pub const MEMCPY2_FIELD_DEVICE_ID: CUpti_ActivityMemcpy2FieldIds = 8;
pub const MEMCPY2_FIELD_CONTEXT_ID: CUpti_ActivityMemcpy2FieldIds = 9;
pub const MEMCPY2_FIELD_STREAM_ID: CUpti_ActivityMemcpy2FieldIds = 10;
pub const MEMCPY2_FIELD_SRC_DEVICE_ID: CUpti_ActivityMemcpy2FieldIds = 11;
pub const MEMCPY2_FIELD_SRC_CONTEXT_ID: CUpti_ActivityMemcpy2FieldIds = 12;
pub const MEMCPY2_FIELD_DST_DEVICE_ID: CUpti_ActivityMemcpy2FieldIds = 13;
pub const MEMCPY2_FIELD_DST_CONTEXT_ID: CUpti_ActivityMemcpy2FieldIds = 14;
pub const MEMCPY2_FIELD_CORRELATION_ID: CUpti_ActivityMemcpy2FieldIds = 15;
pub const MEMCPY2_FIELD_GRAPH_NODE_ID: CUpti_ActivityMemcpy2FieldIds = 16;
pub const MEMCPY2_FIELD_GRAPH_ID: CUpti_ActivityMemcpy2FieldIds = 17;
pub const MEMCPY2_FIELD_CHANNEL_ID: CUpti_ActivityMemcpy2FieldIds = 18;
pub const MEMCPY2_FIELD_CHANNEL_TYPE: CUpti_ActivityMemcpy2FieldIds = 19;
pub const MEMCPY2_FIELD_MAX: CUpti_ActivityMemcpy2FieldIds = 20;
pub type CUpti_ActivityMemcpy2FieldIds = ::std::os::raw::c_uint;
#[repr(C, packed(8))]
#[derive(Copy, Clone)]
pub struct CUpti_ActivityMemset5 {
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
    pub sourceGraphId: u32,
    pub pad3: u32,
    pub sourceGraphNodeId: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ActivityMemset5"][::std::mem::size_of::<CUpti_ActivityMemset5>() - 104usize];
    ["Alignment of CUpti_ActivityMemset5"]
        [::std::mem::align_of::<CUpti_ActivityMemset5>() - 8usize];
    ["Offset of field: CUpti_ActivityMemset5::kind"]
        [::std::mem::offset_of!(CUpti_ActivityMemset5, kind) - 0usize];
    ["Offset of field: CUpti_ActivityMemset5::value"]
        [::std::mem::offset_of!(CUpti_ActivityMemset5, value) - 4usize];
    ["Offset of field: CUpti_ActivityMemset5::bytes"]
        [::std::mem::offset_of!(CUpti_ActivityMemset5, bytes) - 8usize];
    ["Offset of field: CUpti_ActivityMemset5::start"]
        [::std::mem::offset_of!(CUpti_ActivityMemset5, start) - 16usize];
    ["Offset of field: CUpti_ActivityMemset5::end"]
        [::std::mem::offset_of!(CUpti_ActivityMemset5, end) - 24usize];
    ["Offset of field: CUpti_ActivityMemset5::deviceId"]
        [::std::mem::offset_of!(CUpti_ActivityMemset5, deviceId) - 32usize];
    ["Offset of field: CUpti_ActivityMemset5::contextId"]
        [::std::mem::offset_of!(CUpti_ActivityMemset5, contextId) - 36usize];
    ["Offset of field: CUpti_ActivityMemset5::streamId"]
        [::std::mem::offset_of!(CUpti_ActivityMemset5, streamId) - 40usize];
    ["Offset of field: CUpti_ActivityMemset5::correlationId"]
        [::std::mem::offset_of!(CUpti_ActivityMemset5, correlationId) - 44usize];
    ["Offset of field: CUpti_ActivityMemset5::flags"]
        [::std::mem::offset_of!(CUpti_ActivityMemset5, flags) - 48usize];
    ["Offset of field: CUpti_ActivityMemset5::memoryKind"]
        [::std::mem::offset_of!(CUpti_ActivityMemset5, memoryKind) - 50usize];
    ["Offset of field: CUpti_ActivityMemset5::pad"]
        [::std::mem::offset_of!(CUpti_ActivityMemset5, pad) - 52usize];
    ["Offset of field: CUpti_ActivityMemset5::reserved0"]
        [::std::mem::offset_of!(CUpti_ActivityMemset5, reserved0) - 56usize];
    ["Offset of field: CUpti_ActivityMemset5::graphNodeId"]
        [::std::mem::offset_of!(CUpti_ActivityMemset5, graphNodeId) - 64usize];
    ["Offset of field: CUpti_ActivityMemset5::graphId"]
        [::std::mem::offset_of!(CUpti_ActivityMemset5, graphId) - 72usize];
    ["Offset of field: CUpti_ActivityMemset5::channelID"]
        [::std::mem::offset_of!(CUpti_ActivityMemset5, channelID) - 76usize];
    ["Offset of field: CUpti_ActivityMemset5::channelType"]
        [::std::mem::offset_of!(CUpti_ActivityMemset5, channelType) - 80usize];
    ["Offset of field: CUpti_ActivityMemset5::isDeviceLaunched"]
        [::std::mem::offset_of!(CUpti_ActivityMemset5, isDeviceLaunched) - 84usize];
    ["Offset of field: CUpti_ActivityMemset5::pad2"]
        [::std::mem::offset_of!(CUpti_ActivityMemset5, pad2) - 85usize];
    ["Offset of field: CUpti_ActivityMemset5::sourceGraphId"]
        [::std::mem::offset_of!(CUpti_ActivityMemset5, sourceGraphId) - 88usize];
    ["Offset of field: CUpti_ActivityMemset5::pad3"]
        [::std::mem::offset_of!(CUpti_ActivityMemset5, pad3) - 92usize];
    ["Offset of field: CUpti_ActivityMemset5::sourceGraphNodeId"]
        [::std::mem::offset_of!(CUpti_ActivityMemset5, sourceGraphNodeId) - 96usize];
};
pub const MEMSET_FIELD_KIND: CUpti_ActivityMemsetFieldIds = 0;
pub const MEMSET_FIELD_VALUE: CUpti_ActivityMemsetFieldIds = 1;
pub const MEMSET_FIELD_BYTES: CUpti_ActivityMemsetFieldIds = 2;
pub const MEMSET_FIELD_START: CUpti_ActivityMemsetFieldIds = 3;
pub const MEMSET_FIELD_END: CUpti_ActivityMemsetFieldIds = 4;
pub const MEMSET_FIELD_DEVICE_ID: CUpti_ActivityMemsetFieldIds = 5;
pub const MEMSET_FIELD_CONTEXT_ID: CUpti_ActivityMemsetFieldIds = 6;
pub const MEMSET_FIELD_STREAM_ID: CUpti_ActivityMemsetFieldIds = 7;
pub const MEMSET_FIELD_CORRELATION_ID: CUpti_ActivityMemsetFieldIds = 8;
pub const MEMSET_FIELD_FLAGS: CUpti_ActivityMemsetFieldIds = 9;
pub const MEMSET_FIELD_MEMORY_KIND: CUpti_ActivityMemsetFieldIds = 10;
pub const MEMSET_FIELD_GRAPH_NODE_ID: CUpti_ActivityMemsetFieldIds = 11;
pub const MEMSET_FIELD_GRAPH_ID: CUpti_ActivityMemsetFieldIds = 12;
pub const MEMSET_FIELD_CHANNEL_ID: CUpti_ActivityMemsetFieldIds = 13;
pub const MEMSET_FIELD_CHANNEL_TYPE: CUpti_ActivityMemsetFieldIds = 14;
pub const MEMSET_FIELD_IS_DEVICE_LAUNCHED: CUpti_ActivityMemsetFieldIds = 15;
pub const MEMSET_FIELD_SOURCE_GRAPH_ID: CUpti_ActivityMemsetFieldIds = 16;
pub const MEMSET_FIELD_SOURCE_GRAPH_NODE_ID: CUpti_ActivityMemsetFieldIds = 17;
pub const MEMSET_FIELD_MAX: CUpti_ActivityMemsetFieldIds = 18;
pub type CUpti_ActivityMemsetFieldIds = ::std::os::raw::c_uint;
pub const CUPTI_ACTIVITY_LAUNCH_TYPE_REGULAR: CUpti_ActivityLaunchType = 0;
pub const CUPTI_ACTIVITY_LAUNCH_TYPE_COOPERATIVE_SINGLE_DEVICE: CUpti_ActivityLaunchType = 1;
pub const CUPTI_ACTIVITY_LAUNCH_TYPE_COOPERATIVE_MULTI_DEVICE: CUpti_ActivityLaunchType = 2;
pub const CUPTI_ACTIVITY_LAUNCH_TYPE_CBL_COMMANDLIST: CUpti_ActivityLaunchType = 3;
pub type CUpti_ActivityLaunchType = ::std::os::raw::c_uint;
pub const CUPTI_FUNC_SHMEM_LIMIT_DEFAULT: CUpti_FuncShmemLimitConfig = 0;
pub const CUPTI_FUNC_SHMEM_LIMIT_OPTIN: CUpti_FuncShmemLimitConfig = 1;
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ActivityKernel13__bindgen_ty_1__bindgen_ty_1"]
        [::std::mem::size_of::<CUpti_ActivityKernel13__bindgen_ty_1__bindgen_ty_1>() - 1usize];
    ["Alignment of CUpti_ActivityKernel13__bindgen_ty_1__bindgen_ty_1"]
        [::std::mem::align_of::<CUpti_ActivityKernel13__bindgen_ty_1__bindgen_ty_1>() - 1usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ActivityKernel13__bindgen_ty_1"]
        [::std::mem::size_of::<CUpti_ActivityKernel13__bindgen_ty_1>() - 1usize];
    ["Alignment of CUpti_ActivityKernel13__bindgen_ty_1"]
        [::std::mem::align_of::<CUpti_ActivityKernel13__bindgen_ty_1>() - 1usize];
    ["Offset of field: CUpti_ActivityKernel13__bindgen_ty_1::both"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13__bindgen_ty_1, both) - 0usize];
    ["Offset of field: CUpti_ActivityKernel13__bindgen_ty_1::config"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13__bindgen_ty_1, config) - 0usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ActivityKernel13"][::std::mem::size_of::<CUpti_ActivityKernel13>() - 248usize];
    ["Alignment of CUpti_ActivityKernel13"]
        [::std::mem::align_of::<CUpti_ActivityKernel13>() - 8usize];
    ["Offset of field: CUpti_ActivityKernel13::kind"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, kind) - 0usize];
    ["Offset of field: CUpti_ActivityKernel13::cacheConfig"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, cacheConfig) - 4usize];
    ["Offset of field: CUpti_ActivityKernel13::sharedMemoryConfig"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, sharedMemoryConfig) - 5usize];
    ["Offset of field: CUpti_ActivityKernel13::registersPerThread"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, registersPerThread) - 6usize];
    ["Offset of field: CUpti_ActivityKernel13::partitionedGlobalCacheRequested"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, partitionedGlobalCacheRequested) - 8usize];
    ["Offset of field: CUpti_ActivityKernel13::partitionedGlobalCacheExecuted"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, partitionedGlobalCacheExecuted) - 12usize];
    ["Offset of field: CUpti_ActivityKernel13::start"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, start) - 16usize];
    ["Offset of field: CUpti_ActivityKernel13::end"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, end) - 24usize];
    ["Offset of field: CUpti_ActivityKernel13::completed"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, completed) - 32usize];
    ["Offset of field: CUpti_ActivityKernel13::deviceId"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, deviceId) - 40usize];
    ["Offset of field: CUpti_ActivityKernel13::contextId"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, contextId) - 44usize];
    ["Offset of field: CUpti_ActivityKernel13::streamId"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, streamId) - 48usize];
    ["Offset of field: CUpti_ActivityKernel13::gridX"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, gridX) - 52usize];
    ["Offset of field: CUpti_ActivityKernel13::gridY"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, gridY) - 56usize];
    ["Offset of field: CUpti_ActivityKernel13::gridZ"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, gridZ) - 60usize];
    ["Offset of field: CUpti_ActivityKernel13::blockX"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, blockX) - 64usize];
    ["Offset of field: CUpti_ActivityKernel13::blockY"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, blockY) - 68usize];
    ["Offset of field: CUpti_ActivityKernel13::blockZ"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, blockZ) - 72usize];
    ["Offset of field: CUpti_ActivityKernel13::staticSharedMemory"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, staticSharedMemory) - 76usize];
    ["Offset of field: CUpti_ActivityKernel13::dynamicSharedMemory"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, dynamicSharedMemory) - 80usize];
    ["Offset of field: CUpti_ActivityKernel13::localMemoryPerThread"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, localMemoryPerThread) - 84usize];
    ["Offset of field: CUpti_ActivityKernel13::localMemoryTotal"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, localMemoryTotal) - 88usize];
    ["Offset of field: CUpti_ActivityKernel13::correlationId"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, correlationId) - 92usize];
    ["Offset of field: CUpti_ActivityKernel13::gridId"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, gridId) - 96usize];
    ["Offset of field: CUpti_ActivityKernel13::name"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, name) - 104usize];
    ["Offset of field: CUpti_ActivityKernel13::reserved0"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, reserved0) - 112usize];
    ["Offset of field: CUpti_ActivityKernel13::queued"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, queued) - 120usize];
    ["Offset of field: CUpti_ActivityKernel13::submitted"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, submitted) - 128usize];
    ["Offset of field: CUpti_ActivityKernel13::launchType"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, launchType) - 136usize];
    ["Offset of field: CUpti_ActivityKernel13::isSharedMemoryCarveoutRequested"][::std::mem::offset_of!(
        CUpti_ActivityKernel13,
        isSharedMemoryCarveoutRequested
    ) - 137usize];
    ["Offset of field: CUpti_ActivityKernel13::sharedMemoryCarveoutRequested"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, sharedMemoryCarveoutRequested) - 138usize];
    ["Offset of field: CUpti_ActivityKernel13::padding"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, padding) - 139usize];
    ["Offset of field: CUpti_ActivityKernel13::sharedMemoryExecuted"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, sharedMemoryExecuted) - 140usize];
    ["Offset of field: CUpti_ActivityKernel13::graphNodeId"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, graphNodeId) - 144usize];
    ["Offset of field: CUpti_ActivityKernel13::shmemLimitConfig"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, shmemLimitConfig) - 152usize];
    ["Offset of field: CUpti_ActivityKernel13::graphId"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, graphId) - 156usize];
    ["Offset of field: CUpti_ActivityKernel13::pAccessPolicyWindow"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, pAccessPolicyWindow) - 160usize];
    ["Offset of field: CUpti_ActivityKernel13::channelID"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, channelID) - 168usize];
    ["Offset of field: CUpti_ActivityKernel13::channelType"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, channelType) - 172usize];
    ["Offset of field: CUpti_ActivityKernel13::clusterX"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, clusterX) - 176usize];
    ["Offset of field: CUpti_ActivityKernel13::clusterY"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, clusterY) - 180usize];
    ["Offset of field: CUpti_ActivityKernel13::clusterZ"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, clusterZ) - 184usize];
    ["Offset of field: CUpti_ActivityKernel13::clusterSchedulingPolicy"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, clusterSchedulingPolicy) - 188usize];
    ["Offset of field: CUpti_ActivityKernel13::localMemoryTotal_v2"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, localMemoryTotal_v2) - 192usize];
    ["Offset of field: CUpti_ActivityKernel13::maxPotentialClusterSize"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, maxPotentialClusterSize) - 200usize];
    ["Offset of field: CUpti_ActivityKernel13::maxActiveClusters"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, maxActiveClusters) - 204usize];
    ["Offset of field: CUpti_ActivityKernel13::isDeviceLaunched"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, isDeviceLaunched) - 208usize];
    ["Offset of field: CUpti_ActivityKernel13::padding3"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, padding3) - 209usize];
    ["Offset of field: CUpti_ActivityKernel13::priority"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, priority) - 216usize];
    ["Offset of field: CUpti_ActivityKernel13::padding4"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, padding4) - 220usize];
    ["Offset of field: CUpti_ActivityKernel13::executionModel"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, executionModel) - 224usize];
    ["Offset of field: CUpti_ActivityKernel13::padding5"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, padding5) - 228usize];
    ["Offset of field: CUpti_ActivityKernel13::sourceGraphId"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, sourceGraphId) - 232usize];
    ["Offset of field: CUpti_ActivityKernel13::padding6"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, padding6) - 236usize];
    ["Offset of field: CUpti_ActivityKernel13::sourceGraphNodeId"]
        [::std::mem::offset_of!(CUpti_ActivityKernel13, sourceGraphNodeId) - 240usize];
};
pub const KERNEL_FIELD_KIND: CUpti_ActivityKernelFieldIds = 0;
pub const KERNEL_FIELD_CACHE_CONFIG_REQUESTED: CUpti_ActivityKernelFieldIds = 1;
pub const KERNEL_FIELD_CACHE_CONFIG_EXECUTED: CUpti_ActivityKernelFieldIds = 2;
pub const KERNEL_FIELD_SHARED_MEMORY_CONFIG: CUpti_ActivityKernelFieldIds = 3;
pub const KERNEL_FIELD_REGISTERS_PER_THREAD: CUpti_ActivityKernelFieldIds = 4;
pub const KERNEL_FIELD_PARTITIONED_GLOBAL_CACHE_REQUESTED: CUpti_ActivityKernelFieldIds = 5;
pub const KERNEL_FIELD_PARTITIONED_GLOBAL_CACHE_EXECUTED: CUpti_ActivityKernelFieldIds = 6;
pub const KERNEL_FIELD_START: CUpti_ActivityKernelFieldIds = 7;
pub const KERNEL_FIELD_END: CUpti_ActivityKernelFieldIds = 8;
pub const KERNEL_FIELD_COMPLETED: CUpti_ActivityKernelFieldIds = 9;
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
pub const KERNEL_FIELD_GRID_ID: CUpti_ActivityKernelFieldIds = 23;
pub const KERNEL_FIELD_NAME: CUpti_ActivityKernelFieldIds = 24;
pub const KERNEL_FIELD_QUEUED: CUpti_ActivityKernelFieldIds = 25;
pub const KERNEL_FIELD_SUBMITTED: CUpti_ActivityKernelFieldIds = 26;
pub const KERNEL_FIELD_LAUNCH_TYPE: CUpti_ActivityKernelFieldIds = 27;
pub const KERNEL_FIELD_IS_SHARED_MEMORY_CARVEOUT_REQUESTED: CUpti_ActivityKernelFieldIds = 28;
pub const KERNEL_FIELD_SHARED_MEMORY_CARVEOUT_REQUESTED: CUpti_ActivityKernelFieldIds = 29;
pub const KERNEL_FIELD_SHARED_MEMORY_EXECUTED: CUpti_ActivityKernelFieldIds = 30;
pub const KERNEL_FIELD_GRAPH_NODE_ID: CUpti_ActivityKernelFieldIds = 31;
pub const KERNEL_FIELD_SHMEM_LIMIT_CONFIG: CUpti_ActivityKernelFieldIds = 32;
pub const KERNEL_FIELD_GRAPH_ID: CUpti_ActivityKernelFieldIds = 33;
pub const KERNEL_FIELD_ACCESS_POLICY_WINDOW: CUpti_ActivityKernelFieldIds = 34;
pub const KERNEL_FIELD_CHANNEL_ID: CUpti_ActivityKernelFieldIds = 35;
pub const KERNEL_FIELD_CHANNEL_TYPE: CUpti_ActivityKernelFieldIds = 36;
pub const KERNEL_FIELD_CLUSTER_X: CUpti_ActivityKernelFieldIds = 37;
pub const KERNEL_FIELD_CLUSTER_Y: CUpti_ActivityKernelFieldIds = 38;
pub const KERNEL_FIELD_CLUSTER_Z: CUpti_ActivityKernelFieldIds = 39;
pub const KERNEL_FIELD_CLUSTER_SCHEDULING_POLICY: CUpti_ActivityKernelFieldIds = 40;
pub const KERNEL_FIELD_LOCAL_MEMORY_TOTAL: CUpti_ActivityKernelFieldIds = 41;
pub const KERNEL_FIELD_MAX_POTENTIAL_CLUSTER_SIZE: CUpti_ActivityKernelFieldIds = 42;
pub const KERNEL_FIELD_MAX_ACTIVE_CLUSTERS: CUpti_ActivityKernelFieldIds = 43;
pub const KERNEL_FIELD_IS_DEVICE_LAUNCHED: CUpti_ActivityKernelFieldIds = 44;
pub const KERNEL_FIELD_LAUNCH_PRIORITY: CUpti_ActivityKernelFieldIds = 45;
pub const KERNEL_FIELD_EXECUTION_MODEL: CUpti_ActivityKernelFieldIds = 46;
pub const KERNEL_FIELD_SOURCE_GRAPH_ID: CUpti_ActivityKernelFieldIds = 47;
pub const KERNEL_FIELD_SOURCE_GRAPH_NODE_ID: CUpti_ActivityKernelFieldIds = 48;
pub const KERNEL_FIELD_MAX: CUpti_ActivityKernelFieldIds = 49;
pub type CUpti_ActivityKernelFieldIds = ::std::os::raw::c_uint;
#[repr(C, packed(8))]
#[derive(Copy, Clone)]
pub struct CUpti_ActivityAPI {
    pub kind: CUpti_ActivityKind,
    pub cbid: CUpti_CallbackId,
    pub start: u64,
    pub end: u64,
    pub processId: u32,
    pub threadId: u32,
    pub correlationId: u32,
    pub returnValue: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ActivityAPI"][::std::mem::size_of::<CUpti_ActivityAPI>() - 40usize];
    ["Alignment of CUpti_ActivityAPI"][::std::mem::align_of::<CUpti_ActivityAPI>() - 8usize];
    ["Offset of field: CUpti_ActivityAPI::kind"]
        [::std::mem::offset_of!(CUpti_ActivityAPI, kind) - 0usize];
    ["Offset of field: CUpti_ActivityAPI::cbid"]
        [::std::mem::offset_of!(CUpti_ActivityAPI, cbid) - 4usize];
    ["Offset of field: CUpti_ActivityAPI::start"]
        [::std::mem::offset_of!(CUpti_ActivityAPI, start) - 8usize];
    ["Offset of field: CUpti_ActivityAPI::end"]
        [::std::mem::offset_of!(CUpti_ActivityAPI, end) - 16usize];
    ["Offset of field: CUpti_ActivityAPI::processId"]
        [::std::mem::offset_of!(CUpti_ActivityAPI, processId) - 24usize];
    ["Offset of field: CUpti_ActivityAPI::threadId"]
        [::std::mem::offset_of!(CUpti_ActivityAPI, threadId) - 28usize];
    ["Offset of field: CUpti_ActivityAPI::correlationId"]
        [::std::mem::offset_of!(CUpti_ActivityAPI, correlationId) - 32usize];
    ["Offset of field: CUpti_ActivityAPI::returnValue"]
        [::std::mem::offset_of!(CUpti_ActivityAPI, returnValue) - 36usize];
};
pub const API_FIELD_KIND: CUpti_ActivityApiFieldIds = 0;
pub const API_FIELD_CBID: CUpti_ActivityApiFieldIds = 1;
pub const API_FIELD_START: CUpti_ActivityApiFieldIds = 2;
pub const API_FIELD_END: CUpti_ActivityApiFieldIds = 3;
pub const API_FIELD_PROCESS_ID: CUpti_ActivityApiFieldIds = 4;
pub const API_FIELD_THREAD_ID: CUpti_ActivityApiFieldIds = 5;
pub const API_FIELD_CORRELATION_ID: CUpti_ActivityApiFieldIds = 6;
pub const API_FIELD_RETURN_VALUE: CUpti_ActivityApiFieldIds = 7;
pub const API_FIELD_MAX: CUpti_ActivityApiFieldIds = 8;
pub type CUpti_ActivityApiFieldIds = ::std::os::raw::c_uint;
#[repr(C, packed(8))]
#[derive(Copy, Clone)]
pub struct CUpti_ActivityDevice6 {
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
    pub isNumaNode: u32,
    pub numaId: u32,
    pub numTpcs: u32,
    pub reserved0: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ActivityDevice6"][::std::mem::size_of::<CUpti_ActivityDevice6>() - 192usize];
    ["Alignment of CUpti_ActivityDevice6"]
        [::std::mem::align_of::<CUpti_ActivityDevice6>() - 8usize];
    ["Offset of field: CUpti_ActivityDevice6::kind"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, kind) - 0usize];
    ["Offset of field: CUpti_ActivityDevice6::flags"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, flags) - 4usize];
    ["Offset of field: CUpti_ActivityDevice6::globalMemoryBandwidth"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, globalMemoryBandwidth) - 8usize];
    ["Offset of field: CUpti_ActivityDevice6::globalMemorySize"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, globalMemorySize) - 16usize];
    ["Offset of field: CUpti_ActivityDevice6::constantMemorySize"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, constantMemorySize) - 24usize];
    ["Offset of field: CUpti_ActivityDevice6::l2CacheSize"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, l2CacheSize) - 28usize];
    ["Offset of field: CUpti_ActivityDevice6::numThreadsPerWarp"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, numThreadsPerWarp) - 32usize];
    ["Offset of field: CUpti_ActivityDevice6::coreClockRate"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, coreClockRate) - 36usize];
    ["Offset of field: CUpti_ActivityDevice6::numMemcpyEngines"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, numMemcpyEngines) - 40usize];
    ["Offset of field: CUpti_ActivityDevice6::numMultiprocessors"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, numMultiprocessors) - 44usize];
    ["Offset of field: CUpti_ActivityDevice6::maxIPC"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, maxIPC) - 48usize];
    ["Offset of field: CUpti_ActivityDevice6::maxWarpsPerMultiprocessor"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, maxWarpsPerMultiprocessor) - 52usize];
    ["Offset of field: CUpti_ActivityDevice6::maxBlocksPerMultiprocessor"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, maxBlocksPerMultiprocessor) - 56usize];
    ["Offset of field: CUpti_ActivityDevice6::maxSharedMemoryPerMultiprocessor"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, maxSharedMemoryPerMultiprocessor) - 60usize];
    ["Offset of field: CUpti_ActivityDevice6::maxRegistersPerMultiprocessor"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, maxRegistersPerMultiprocessor) - 64usize];
    ["Offset of field: CUpti_ActivityDevice6::maxRegistersPerBlock"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, maxRegistersPerBlock) - 68usize];
    ["Offset of field: CUpti_ActivityDevice6::maxSharedMemoryPerBlock"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, maxSharedMemoryPerBlock) - 72usize];
    ["Offset of field: CUpti_ActivityDevice6::maxThreadsPerBlock"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, maxThreadsPerBlock) - 76usize];
    ["Offset of field: CUpti_ActivityDevice6::maxBlockDimX"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, maxBlockDimX) - 80usize];
    ["Offset of field: CUpti_ActivityDevice6::maxBlockDimY"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, maxBlockDimY) - 84usize];
    ["Offset of field: CUpti_ActivityDevice6::maxBlockDimZ"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, maxBlockDimZ) - 88usize];
    ["Offset of field: CUpti_ActivityDevice6::maxGridDimX"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, maxGridDimX) - 92usize];
    ["Offset of field: CUpti_ActivityDevice6::maxGridDimY"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, maxGridDimY) - 96usize];
    ["Offset of field: CUpti_ActivityDevice6::maxGridDimZ"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, maxGridDimZ) - 100usize];
    ["Offset of field: CUpti_ActivityDevice6::computeCapabilityMajor"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, computeCapabilityMajor) - 104usize];
    ["Offset of field: CUpti_ActivityDevice6::computeCapabilityMinor"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, computeCapabilityMinor) - 108usize];
    ["Offset of field: CUpti_ActivityDevice6::id"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, id) - 112usize];
    ["Offset of field: CUpti_ActivityDevice6::eccEnabled"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, eccEnabled) - 116usize];
    ["Offset of field: CUpti_ActivityDevice6::uuid"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, uuid) - 120usize];
    ["Offset of field: CUpti_ActivityDevice6::name"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, name) - 136usize];
    ["Offset of field: CUpti_ActivityDevice6::isCudaVisible"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, isCudaVisible) - 144usize];
    ["Offset of field: CUpti_ActivityDevice6::isMigEnabled"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, isMigEnabled) - 145usize];
    ["Offset of field: CUpti_ActivityDevice6::reserved"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, reserved) - 146usize];
    ["Offset of field: CUpti_ActivityDevice6::gpuInstanceId"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, gpuInstanceId) - 152usize];
    ["Offset of field: CUpti_ActivityDevice6::computeInstanceId"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, computeInstanceId) - 156usize];
    ["Offset of field: CUpti_ActivityDevice6::migUuid"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, migUuid) - 160usize];
    ["Offset of field: CUpti_ActivityDevice6::isNumaNode"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, isNumaNode) - 176usize];
    ["Offset of field: CUpti_ActivityDevice6::numaId"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, numaId) - 180usize];
    ["Offset of field: CUpti_ActivityDevice6::numTpcs"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, numTpcs) - 184usize];
    ["Offset of field: CUpti_ActivityDevice6::reserved0"]
        [::std::mem::offset_of!(CUpti_ActivityDevice6, reserved0) - 188usize];
};
pub const DEVICE_FIELD_KIND: CUpti_ActivityDeviceFieldIds = 0;
pub const DEVICE_FIELD_FLAGS: CUpti_ActivityDeviceFieldIds = 1;
pub const DEVICE_FIELD_GLOBAL_MEMORY_BANDWIDTH: CUpti_ActivityDeviceFieldIds = 2;
pub const DEVICE_FIELD_GLOBAL_MEMORY_SIZE: CUpti_ActivityDeviceFieldIds = 3;
pub const DEVICE_FIELD_CONSTANT_MEMORY_SIZE: CUpti_ActivityDeviceFieldIds = 4;
pub const DEVICE_FIELD_L2_CACHE_SIZE: CUpti_ActivityDeviceFieldIds = 5;
pub const DEVICE_FIELD_NUM_THREADS_PER_WARP: CUpti_ActivityDeviceFieldIds = 6;
pub const DEVICE_FIELD_CORE_CLOCK_RATE: CUpti_ActivityDeviceFieldIds = 7;
pub const DEVICE_FIELD_NUM_MEMCPY_ENGINES: CUpti_ActivityDeviceFieldIds = 8;
pub const DEVICE_FIELD_NUM_MULTIPROCESSORS: CUpti_ActivityDeviceFieldIds = 9;
pub const DEVICE_FIELD_MAX_IPC: CUpti_ActivityDeviceFieldIds = 10;
pub const DEVICE_FIELD_MAX_WARPS_PER_MULTIPROCESSOR: CUpti_ActivityDeviceFieldIds = 11;
pub const DEVICE_FIELD_MAX_BLOCKS_PER_MULTIPROCESSOR: CUpti_ActivityDeviceFieldIds = 12;
pub const DEVICE_FIELD_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: CUpti_ActivityDeviceFieldIds = 13;
pub const DEVICE_FIELD_MAX_REGISTERS_PER_MULTIPROCESSOR: CUpti_ActivityDeviceFieldIds = 14;
pub const DEVICE_FIELD_MAX_REGISTERS_PER_BLOCK: CUpti_ActivityDeviceFieldIds = 15;
pub const DEVICE_FIELD_MAX_SHARED_MEMORY_PER_BLOCK: CUpti_ActivityDeviceFieldIds = 16;
pub const DEVICE_FIELD_MAX_THREADS_PER_BLOCK: CUpti_ActivityDeviceFieldIds = 17;
pub const DEVICE_FIELD_MAX_BLOCK_DIM_X: CUpti_ActivityDeviceFieldIds = 18;
pub const DEVICE_FIELD_MAX_BLOCK_DIM_Y: CUpti_ActivityDeviceFieldIds = 19;
pub const DEVICE_FIELD_MAX_BLOCK_DIM_Z: CUpti_ActivityDeviceFieldIds = 20;
pub const DEVICE_FIELD_MAX_GRID_DIM_X: CUpti_ActivityDeviceFieldIds = 21;
pub const DEVICE_FIELD_MAX_GRID_DIM_Y: CUpti_ActivityDeviceFieldIds = 22;
pub const DEVICE_FIELD_MAX_GRID_DIM_Z: CUpti_ActivityDeviceFieldIds = 23;
pub const DEVICE_FIELD_COMPUTE_CAPABILITY_MAJOR: CUpti_ActivityDeviceFieldIds = 24;
pub const DEVICE_FIELD_COMPUTE_CAPABILITY_MINOR: CUpti_ActivityDeviceFieldIds = 25;
pub const DEVICE_FIELD_ID: CUpti_ActivityDeviceFieldIds = 26;
pub const DEVICE_FIELD_ECC_ENABLED: CUpti_ActivityDeviceFieldIds = 27;
pub const DEVICE_FIELD_UUID: CUpti_ActivityDeviceFieldIds = 28;
pub const DEVICE_FIELD_NAME: CUpti_ActivityDeviceFieldIds = 29;
pub const DEVICE_FIELD_IS_CUDA_VISIBLE: CUpti_ActivityDeviceFieldIds = 30;
pub const DEVICE_FIELD_IS_MIG_ENABLED: CUpti_ActivityDeviceFieldIds = 31;
pub const DEVICE_FIELD_GPU_INSTANCE_ID: CUpti_ActivityDeviceFieldIds = 32;
pub const DEVICE_FIELD_COMPUTE_INSTANCE_ID: CUpti_ActivityDeviceFieldIds = 33;
pub const DEVICE_FIELD_MIG_UUID: CUpti_ActivityDeviceFieldIds = 34;
pub const DEVICE_FIELD_IS_NUMA_NODE: CUpti_ActivityDeviceFieldIds = 35;
pub const DEVICE_FIELD_NUMA_ID: CUpti_ActivityDeviceFieldIds = 36;
pub const DEVICE_FIELD_NUM_TPCS: CUpti_ActivityDeviceFieldIds = 37;
pub const DEVICE_FIELD_MAX: CUpti_ActivityDeviceFieldIds = 38;
pub type CUpti_ActivityDeviceFieldIds = ::std::os::raw::c_uint;
#[repr(C, packed(8))]
#[derive(Copy, Clone)]
pub struct CUpti_ActivityContext4 {
    pub kind: CUpti_ActivityKind,
    pub contextId: u32,
    pub deviceId: u32,
    pub computeApiKind: u16,
    pub nullStreamId: u16,
    pub parentContextId: u32,
    pub isGreenContext: u8,
    pub padding: u8,
    pub numMultiprocessors: u16,
    pub cigMode: CUpti_ContextCigMode,
    pub padding2: u32,
    pub processId: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ActivityContext4"][::std::mem::size_of::<CUpti_ActivityContext4>() - 40usize];
    ["Alignment of CUpti_ActivityContext4"]
        [::std::mem::align_of::<CUpti_ActivityContext4>() - 8usize];
    ["Offset of field: CUpti_ActivityContext4::kind"]
        [::std::mem::offset_of!(CUpti_ActivityContext4, kind) - 0usize];
    ["Offset of field: CUpti_ActivityContext4::contextId"]
        [::std::mem::offset_of!(CUpti_ActivityContext4, contextId) - 4usize];
    ["Offset of field: CUpti_ActivityContext4::deviceId"]
        [::std::mem::offset_of!(CUpti_ActivityContext4, deviceId) - 8usize];
    ["Offset of field: CUpti_ActivityContext4::computeApiKind"]
        [::std::mem::offset_of!(CUpti_ActivityContext4, computeApiKind) - 12usize];
    ["Offset of field: CUpti_ActivityContext4::nullStreamId"]
        [::std::mem::offset_of!(CUpti_ActivityContext4, nullStreamId) - 14usize];
    ["Offset of field: CUpti_ActivityContext4::parentContextId"]
        [::std::mem::offset_of!(CUpti_ActivityContext4, parentContextId) - 16usize];
    ["Offset of field: CUpti_ActivityContext4::isGreenContext"]
        [::std::mem::offset_of!(CUpti_ActivityContext4, isGreenContext) - 20usize];
    ["Offset of field: CUpti_ActivityContext4::padding"]
        [::std::mem::offset_of!(CUpti_ActivityContext4, padding) - 21usize];
    ["Offset of field: CUpti_ActivityContext4::numMultiprocessors"]
        [::std::mem::offset_of!(CUpti_ActivityContext4, numMultiprocessors) - 22usize];
    ["Offset of field: CUpti_ActivityContext4::cigMode"]
        [::std::mem::offset_of!(CUpti_ActivityContext4, cigMode) - 24usize];
    ["Offset of field: CUpti_ActivityContext4::padding2"]
        [::std::mem::offset_of!(CUpti_ActivityContext4, padding2) - 28usize];
    ["Offset of field: CUpti_ActivityContext4::processId"]
        [::std::mem::offset_of!(CUpti_ActivityContext4, processId) - 32usize];
};
pub const CONTEXT_FIELD_KIND: CUpti_ActivityContextFieldIds = 0;
pub const CONTEXT_FIELD_CONTEXT_ID: CUpti_ActivityContextFieldIds = 1;
pub const CONTEXT_FIELD_DEVICE_ID: CUpti_ActivityContextFieldIds = 2;
pub const CONTEXT_FIELD_COMPUTE_API_KIND: CUpti_ActivityContextFieldIds = 3;
pub const CONTEXT_FIELD_NULL_STREAM_ID: CUpti_ActivityContextFieldIds = 4;
pub const CONTEXT_FIELD_PARENT_CONTEXT_ID: CUpti_ActivityContextFieldIds = 5;
pub const CONTEXT_FIELD_IS_GREEN_CONTEXT: CUpti_ActivityContextFieldIds = 6;
pub const CONTEXT_FIELD_NUM_MULTIPROCESSORS: CUpti_ActivityContextFieldIds = 7;
pub const CONTEXT_FIELD_CIG_MODE: CUpti_ActivityContextFieldIds = 8;
pub const CONTEXT_FIELD_PROCESS_ID: CUpti_ActivityContextFieldIds = 9;
pub const CONTEXT_FIELD_MAX: CUpti_ActivityContextFieldIds = 10;
pub type CUpti_ActivityContextFieldIds = ::std::os::raw::c_uint;
#[repr(C, packed(8))]
#[derive(Copy, Clone)]
pub struct CUpti_ActivityOverhead3 {
    pub kind: CUpti_ActivityKind,
    pub overheadKind: CUpti_ActivityOverheadKind,
    pub objectKind: CUpti_ActivityObjectKind,
    pub objectId: CUpti_ActivityObjectKindId,
    pub start: u64,
    pub end: u64,
    pub correlationId: u32,
    pub reserved0: u32,
    pub overheadData: *mut ::std::os::raw::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ActivityOverhead3"][::std::mem::size_of::<CUpti_ActivityOverhead3>() - 56usize];
    ["Alignment of CUpti_ActivityOverhead3"]
        [::std::mem::align_of::<CUpti_ActivityOverhead3>() - 8usize];
    ["Offset of field: CUpti_ActivityOverhead3::kind"]
        [::std::mem::offset_of!(CUpti_ActivityOverhead3, kind) - 0usize];
    ["Offset of field: CUpti_ActivityOverhead3::overheadKind"]
        [::std::mem::offset_of!(CUpti_ActivityOverhead3, overheadKind) - 4usize];
    ["Offset of field: CUpti_ActivityOverhead3::objectKind"]
        [::std::mem::offset_of!(CUpti_ActivityOverhead3, objectKind) - 8usize];
    ["Offset of field: CUpti_ActivityOverhead3::objectId"]
        [::std::mem::offset_of!(CUpti_ActivityOverhead3, objectId) - 12usize];
    ["Offset of field: CUpti_ActivityOverhead3::start"]
        [::std::mem::offset_of!(CUpti_ActivityOverhead3, start) - 24usize];
    ["Offset of field: CUpti_ActivityOverhead3::end"]
        [::std::mem::offset_of!(CUpti_ActivityOverhead3, end) - 32usize];
    ["Offset of field: CUpti_ActivityOverhead3::correlationId"]
        [::std::mem::offset_of!(CUpti_ActivityOverhead3, correlationId) - 40usize];
    ["Offset of field: CUpti_ActivityOverhead3::reserved0"]
        [::std::mem::offset_of!(CUpti_ActivityOverhead3, reserved0) - 44usize];
    ["Offset of field: CUpti_ActivityOverhead3::overheadData"]
        [::std::mem::offset_of!(CUpti_ActivityOverhead3, overheadData) - 48usize];
};
#[repr(C)]
#[repr(align(8))]
#[derive(Copy, Clone)]
pub struct CUpti_ActivityStream {
    pub kind: CUpti_ActivityKind,
    pub contextId: u32,
    pub streamId: u32,
    pub priority: u32,
    pub flag: CUpti_ActivityStreamFlag,
    pub correlationId: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ActivityStream"][::std::mem::size_of::<CUpti_ActivityStream>() - 24usize];
    ["Alignment of CUpti_ActivityStream"][::std::mem::align_of::<CUpti_ActivityStream>() - 8usize];
    ["Offset of field: CUpti_ActivityStream::kind"]
        [::std::mem::offset_of!(CUpti_ActivityStream, kind) - 0usize];
    ["Offset of field: CUpti_ActivityStream::contextId"]
        [::std::mem::offset_of!(CUpti_ActivityStream, contextId) - 4usize];
    ["Offset of field: CUpti_ActivityStream::streamId"]
        [::std::mem::offset_of!(CUpti_ActivityStream, streamId) - 8usize];
    ["Offset of field: CUpti_ActivityStream::priority"]
        [::std::mem::offset_of!(CUpti_ActivityStream, priority) - 12usize];
    ["Offset of field: CUpti_ActivityStream::flag"]
        [::std::mem::offset_of!(CUpti_ActivityStream, flag) - 16usize];
    ["Offset of field: CUpti_ActivityStream::correlationId"]
        [::std::mem::offset_of!(CUpti_ActivityStream, correlationId) - 20usize];
};
#[repr(C, packed(8))]
#[derive(Copy, Clone)]
pub struct CUpti_ActivitySynchronization2 {
    pub kind: CUpti_ActivityKind,
    pub type_: CUpti_ActivitySynchronizationType,
    pub start: u64,
    pub end: u64,
    pub correlationId: u32,
    pub contextId: u32,
    pub streamId: u32,
    pub cudaEventId: u32,
    pub cudaEventSyncId: u64,
    pub returnValue: u32,
    pub pad: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ActivitySynchronization2"]
        [::std::mem::size_of::<CUpti_ActivitySynchronization2>() - 56usize];
    ["Alignment of CUpti_ActivitySynchronization2"]
        [::std::mem::align_of::<CUpti_ActivitySynchronization2>() - 8usize];
    ["Offset of field: CUpti_ActivitySynchronization2::kind"]
        [::std::mem::offset_of!(CUpti_ActivitySynchronization2, kind) - 0usize];
    ["Offset of field: CUpti_ActivitySynchronization2::type_"]
        [::std::mem::offset_of!(CUpti_ActivitySynchronization2, type_) - 4usize];
    ["Offset of field: CUpti_ActivitySynchronization2::start"]
        [::std::mem::offset_of!(CUpti_ActivitySynchronization2, start) - 8usize];
    ["Offset of field: CUpti_ActivitySynchronization2::end"]
        [::std::mem::offset_of!(CUpti_ActivitySynchronization2, end) - 16usize];
    ["Offset of field: CUpti_ActivitySynchronization2::correlationId"]
        [::std::mem::offset_of!(CUpti_ActivitySynchronization2, correlationId) - 24usize];
    ["Offset of field: CUpti_ActivitySynchronization2::contextId"]
        [::std::mem::offset_of!(CUpti_ActivitySynchronization2, contextId) - 28usize];
    ["Offset of field: CUpti_ActivitySynchronization2::streamId"]
        [::std::mem::offset_of!(CUpti_ActivitySynchronization2, streamId) - 32usize];
    ["Offset of field: CUpti_ActivitySynchronization2::cudaEventId"]
        [::std::mem::offset_of!(CUpti_ActivitySynchronization2, cudaEventId) - 36usize];
    ["Offset of field: CUpti_ActivitySynchronization2::cudaEventSyncId"]
        [::std::mem::offset_of!(CUpti_ActivitySynchronization2, cudaEventSyncId) - 40usize];
    ["Offset of field: CUpti_ActivitySynchronization2::returnValue"]
        [::std::mem::offset_of!(CUpti_ActivitySynchronization2, returnValue) - 48usize];
    ["Offset of field: CUpti_ActivitySynchronization2::pad"]
        [::std::mem::offset_of!(CUpti_ActivitySynchronization2, pad) - 52usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_ActivityGraphTrace2 {
    pub kind: CUpti_ActivityKind,
    pub correlationId: u32,
    pub start: u64,
    pub end: u64,
    pub deviceId: u32,
    pub graphId: u32,
    pub contextId: u32,
    pub streamId: u32,
    pub reserved: *mut ::std::os::raw::c_void,
    pub endDeviceId: u32,
    pub endContextId: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ActivityGraphTrace2"]
        [::std::mem::size_of::<CUpti_ActivityGraphTrace2>() - 56usize];
    ["Alignment of CUpti_ActivityGraphTrace2"]
        [::std::mem::align_of::<CUpti_ActivityGraphTrace2>() - 8usize];
    ["Offset of field: CUpti_ActivityGraphTrace2::kind"]
        [::std::mem::offset_of!(CUpti_ActivityGraphTrace2, kind) - 0usize];
    ["Offset of field: CUpti_ActivityGraphTrace2::correlationId"]
        [::std::mem::offset_of!(CUpti_ActivityGraphTrace2, correlationId) - 4usize];
    ["Offset of field: CUpti_ActivityGraphTrace2::start"]
        [::std::mem::offset_of!(CUpti_ActivityGraphTrace2, start) - 8usize];
    ["Offset of field: CUpti_ActivityGraphTrace2::end"]
        [::std::mem::offset_of!(CUpti_ActivityGraphTrace2, end) - 16usize];
    ["Offset of field: CUpti_ActivityGraphTrace2::deviceId"]
        [::std::mem::offset_of!(CUpti_ActivityGraphTrace2, deviceId) - 24usize];
    ["Offset of field: CUpti_ActivityGraphTrace2::graphId"]
        [::std::mem::offset_of!(CUpti_ActivityGraphTrace2, graphId) - 28usize];
    ["Offset of field: CUpti_ActivityGraphTrace2::contextId"]
        [::std::mem::offset_of!(CUpti_ActivityGraphTrace2, contextId) - 32usize];
    ["Offset of field: CUpti_ActivityGraphTrace2::streamId"]
        [::std::mem::offset_of!(CUpti_ActivityGraphTrace2, streamId) - 36usize];
    ["Offset of field: CUpti_ActivityGraphTrace2::reserved"]
        [::std::mem::offset_of!(CUpti_ActivityGraphTrace2, reserved) - 40usize];
    ["Offset of field: CUpti_ActivityGraphTrace2::endDeviceId"]
        [::std::mem::offset_of!(CUpti_ActivityGraphTrace2, endDeviceId) - 48usize];
    ["Offset of field: CUpti_ActivityGraphTrace2::endContextId"]
        [::std::mem::offset_of!(CUpti_ActivityGraphTrace2, endContextId) - 52usize];
};
pub const GRAPH_TRACE_FIELD_KIND: CUpti_ActivityGraphTraceFieldIds = 0;
pub const GRAPH_TRACE_FIELD_CORRELATION_ID: CUpti_ActivityGraphTraceFieldIds = 1;
pub const GRAPH_TRACE_FIELD_START: CUpti_ActivityGraphTraceFieldIds = 2;
pub const GRAPH_TRACE_FIELD_END: CUpti_ActivityGraphTraceFieldIds = 3;
pub const GRAPH_TRACE_FIELD_DEVICE_ID: CUpti_ActivityGraphTraceFieldIds = 4;
pub const GRAPH_TRACE_FIELD_GRAPH_ID: CUpti_ActivityGraphTraceFieldIds = 5;
pub const GRAPH_TRACE_FIELD_CONTEXT_ID: CUpti_ActivityGraphTraceFieldIds = 6;
pub const GRAPH_TRACE_FIELD_STREAM_ID: CUpti_ActivityGraphTraceFieldIds = 7;
pub const GRAPH_TRACE_FIELD_END_DEVICE_ID: CUpti_ActivityGraphTraceFieldIds = 8;
pub const GRAPH_TRACE_FIELD_END_CONTEXT_ID: CUpti_ActivityGraphTraceFieldIds = 9;
pub const GRAPH_TRACE_FIELD_MAX: CUpti_ActivityGraphTraceFieldIds = 10;
pub type CUpti_ActivityGraphTraceFieldIds = ::std::os::raw::c_uint;
pub const CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE: CUpti_ActivityAttribute = 0;
pub const CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE_CDP: CUpti_ActivityAttribute = 1;
pub const CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT: CUpti_ActivityAttribute = 2;
pub const CUPTI_ACTIVITY_ATTR_PROFILING_SEMAPHORE_POOL_SIZE: CUpti_ActivityAttribute = 3;
pub const CUPTI_ACTIVITY_ATTR_PROFILING_SEMAPHORE_POOL_LIMIT: CUpti_ActivityAttribute = 4;
pub const CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER: CUpti_ActivityAttribute = 5;
pub const CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE: CUpti_ActivityAttribute = 6;
pub const CUPTI_ACTIVITY_ATTR_PROFILING_SEMAPHORE_PRE_ALLOCATE_VALUE: CUpti_ActivityAttribute = 7;
pub const CUPTI_ACTIVITY_ATTR_MEM_ALLOCATION_TYPE_HOST_PINNED: CUpti_ActivityAttribute = 8;
pub const CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER: CUpti_ActivityAttribute = 9;
pub const CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE_DEVICE_GRAPHS: CUpti_ActivityAttribute = 10;
pub const CUPTI_ACTIVITY_ATTR_USER_DEFINED_RECORDS: CUpti_ActivityAttribute = 11;
pub const CUPTI_ACTIVITY_ATTR_MULTIPLE_SUBSCRIBER_STATE: CUpti_ActivityAttribute = 12;
pub const CUPTI_ACTIVITY_ATTR_ENABLE_HES: CUpti_ActivityAttribute = 13;
pub const CUPTI_ACTIVITY_ATTR_ENABLE_ALLOCATION_SOURCE_TRACKING: CUpti_ActivityAttribute = 14;
pub const CUPTI_ACTIVITY_ATTR_ENABLE_KERNEL_LATENCY_TIMESTAMPS: CUpti_ActivityAttribute = 15;
pub const CUPTI_ACTIVITY_ATTR_ENABLE_ALL_SYNC_RECORDS: CUpti_ActivityAttribute = 16;
pub const CUPTI_ACTIVITY_ATTR_ENABLE_CUDA_EVENT_DEVICE_TIMESTAMPS: CUpti_ActivityAttribute = 17;
pub const CUPTI_ACTIVITY_ATTR_ENABLE_KERNEL_LAUNCH_ATTRIBUTES: CUpti_ActivityAttribute = 18;
pub const CUPTI_ACTIVITY_ATTR_ENABLE_DEVICE_GRAPH_TRACE: CUpti_ActivityAttribute = 19;
pub const CUPTI_ACTIVITY_ATTR_ENABLE_MULTI_SUBSCRIBER_GRAPH_TRACE: CUpti_ActivityAttribute = 20;
pub const CUPTI_ACTIVITY_ATTR_THREAD_ID_TYPE: CUpti_ActivityAttribute = 21;
pub const CUPTI_ACTIVITY_ATTR_TIMESTAMP_CALLBACK: CUpti_ActivityAttribute = 22;
pub const CUPTI_ACTIVITY_ATTR_ENABLE_CIG_MODE: CUpti_ActivityAttribute = 23;
pub const CUPTI_ACTIVITY_ATTR_HES_BUFFER_SIZE: CUpti_ActivityAttribute = 24;
pub const CUPTI_ACTIVITY_ATTR_COUNT: CUpti_ActivityAttribute = 25;
pub type CUpti_ActivityAttribute = ::std::os::raw::c_uint;
pub const CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT: CUpti_ActivityThreadIdType = 0;
pub const CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM: CUpti_ActivityThreadIdType = 1;
pub const CUPTI_ACTIVITY_THREAD_ID_TYPE_SIZE: CUpti_ActivityThreadIdType = 2;
pub type CUpti_ActivityThreadIdType = ::std::os::raw::c_uint;
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_ActivityConfig {
    pub structSize: usize,
    pub fieldSelection: CUpti_ActivityFieldSelection,
    pub pKindOptions: *mut ::std::os::raw::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ActivityConfig"][::std::mem::size_of::<CUpti_ActivityConfig>() - 40usize];
    ["Alignment of CUpti_ActivityConfig"][::std::mem::align_of::<CUpti_ActivityConfig>() - 8usize];
    ["Offset of field: CUpti_ActivityConfig::structSize"]
        [::std::mem::offset_of!(CUpti_ActivityConfig, structSize) - 0usize];
    ["Offset of field: CUpti_ActivityConfig::fieldSelection"]
        [::std::mem::offset_of!(CUpti_ActivityConfig, fieldSelection) - 8usize];
    ["Offset of field: CUpti_ActivityConfig::pKindOptions"]
        [::std::mem::offset_of!(CUpti_ActivityConfig, pKindOptions) - 32usize];
};
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_BufferCallbackRequestInfo"]
        [::std::mem::size_of::<CUpti_BufferCallbackRequestInfo>() - 8usize];
    ["Alignment of CUpti_BufferCallbackRequestInfo"]
        [::std::mem::align_of::<CUpti_BufferCallbackRequestInfo>() - 8usize];
    ["Offset of field: CUpti_BufferCallbackRequestInfo::structSize"]
        [::std::mem::offset_of!(CUpti_BufferCallbackRequestInfo, structSize) - 0usize];
};
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_BufferCallbackCompleteInfo"]
        [::std::mem::size_of::<CUpti_BufferCallbackCompleteInfo>() - 32usize];
    ["Alignment of CUpti_BufferCallbackCompleteInfo"]
        [::std::mem::align_of::<CUpti_BufferCallbackCompleteInfo>() - 8usize];
    ["Offset of field: CUpti_BufferCallbackCompleteInfo::structSize"]
        [::std::mem::offset_of!(CUpti_BufferCallbackCompleteInfo, structSize) - 0usize];
    ["Offset of field: CUpti_BufferCallbackCompleteInfo::threadId"]
        [::std::mem::offset_of!(CUpti_BufferCallbackCompleteInfo, threadId) - 8usize];
    ["Offset of field: CUpti_BufferCallbackCompleteInfo::ppRecordLayouts"]
        [::std::mem::offset_of!(CUpti_BufferCallbackCompleteInfo, ppRecordLayouts) - 16usize];
    ["Offset of field: CUpti_BufferCallbackCompleteInfo::numRecordLayouts"]
        [::std::mem::offset_of!(CUpti_BufferCallbackCompleteInfo, numRecordLayouts) - 24usize];
};
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
pub struct CUpti_ActivityOverhead {
    pub kind: CUpti_ActivityKind,
    pub overheadKind: CUpti_ActivityOverheadKind,
    pub objectKind: CUpti_ActivityObjectKind,
    pub objectId: CUpti_ActivityObjectKindId,
    pub start: u64,
    pub end: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ActivityOverhead"][::std::mem::size_of::<CUpti_ActivityOverhead>() - 40usize];
    ["Alignment of CUpti_ActivityOverhead"]
        [::std::mem::align_of::<CUpti_ActivityOverhead>() - 8usize];
    ["Offset of field: CUpti_ActivityOverhead::kind"]
        [::std::mem::offset_of!(CUpti_ActivityOverhead, kind) - 0usize];
    ["Offset of field: CUpti_ActivityOverhead::overheadKind"]
        [::std::mem::offset_of!(CUpti_ActivityOverhead, overheadKind) - 4usize];
    ["Offset of field: CUpti_ActivityOverhead::objectKind"]
        [::std::mem::offset_of!(CUpti_ActivityOverhead, objectKind) - 8usize];
    ["Offset of field: CUpti_ActivityOverhead::objectId"]
        [::std::mem::offset_of!(CUpti_ActivityOverhead, objectId) - 12usize];
    ["Offset of field: CUpti_ActivityOverhead::start"]
        [::std::mem::offset_of!(CUpti_ActivityOverhead, start) - 24usize];
    ["Offset of field: CUpti_ActivityOverhead::end"]
        [::std::mem::offset_of!(CUpti_ActivityOverhead, end) - 32usize];
};
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ActivityDevice4"][::std::mem::size_of::<CUpti_ActivityDevice4>() - 176usize];
    ["Alignment of CUpti_ActivityDevice4"]
        [::std::mem::align_of::<CUpti_ActivityDevice4>() - 8usize];
    ["Offset of field: CUpti_ActivityDevice4::kind"]
        [::std::mem::offset_of!(CUpti_ActivityDevice4, kind) - 0usize];
    ["Offset of field: CUpti_ActivityDevice4::flags"]
        [::std::mem::offset_of!(CUpti_ActivityDevice4, flags) - 4usize];
    ["Offset of field: CUpti_ActivityDevice4::globalMemoryBandwidth"]
        [::std::mem::offset_of!(CUpti_ActivityDevice4, globalMemoryBandwidth) - 8usize];
    ["Offset of field: CUpti_ActivityDevice4::globalMemorySize"]
        [::std::mem::offset_of!(CUpti_ActivityDevice4, globalMemorySize) - 16usize];
    ["Offset of field: CUpti_ActivityDevice4::constantMemorySize"]
        [::std::mem::offset_of!(CUpti_ActivityDevice4, constantMemorySize) - 24usize];
    ["Offset of field: CUpti_ActivityDevice4::l2CacheSize"]
        [::std::mem::offset_of!(CUpti_ActivityDevice4, l2CacheSize) - 28usize];
    ["Offset of field: CUpti_ActivityDevice4::numThreadsPerWarp"]
        [::std::mem::offset_of!(CUpti_ActivityDevice4, numThreadsPerWarp) - 32usize];
    ["Offset of field: CUpti_ActivityDevice4::coreClockRate"]
        [::std::mem::offset_of!(CUpti_ActivityDevice4, coreClockRate) - 36usize];
    ["Offset of field: CUpti_ActivityDevice4::numMemcpyEngines"]
        [::std::mem::offset_of!(CUpti_ActivityDevice4, numMemcpyEngines) - 40usize];
    ["Offset of field: CUpti_ActivityDevice4::numMultiprocessors"]
        [::std::mem::offset_of!(CUpti_ActivityDevice4, numMultiprocessors) - 44usize];
    ["Offset of field: CUpti_ActivityDevice4::maxIPC"]
        [::std::mem::offset_of!(CUpti_ActivityDevice4, maxIPC) - 48usize];
    ["Offset of field: CUpti_ActivityDevice4::maxWarpsPerMultiprocessor"]
        [::std::mem::offset_of!(CUpti_ActivityDevice4, maxWarpsPerMultiprocessor) - 52usize];
    ["Offset of field: CUpti_ActivityDevice4::maxBlocksPerMultiprocessor"]
        [::std::mem::offset_of!(CUpti_ActivityDevice4, maxBlocksPerMultiprocessor) - 56usize];
    ["Offset of field: CUpti_ActivityDevice4::maxSharedMemoryPerMultiprocessor"]
        [::std::mem::offset_of!(CUpti_ActivityDevice4, maxSharedMemoryPerMultiprocessor) - 60usize];
    ["Offset of field: CUpti_ActivityDevice4::maxRegistersPerMultiprocessor"]
        [::std::mem::offset_of!(CUpti_ActivityDevice4, maxRegistersPerMultiprocessor) - 64usize];
    ["Offset of field: CUpti_ActivityDevice4::maxRegistersPerBlock"]
        [::std::mem::offset_of!(CUpti_ActivityDevice4, maxRegistersPerBlock) - 68usize];
    ["Offset of field: CUpti_ActivityDevice4::maxSharedMemoryPerBlock"]
        [::std::mem::offset_of!(CUpti_ActivityDevice4, maxSharedMemoryPerBlock) - 72usize];
    ["Offset of field: CUpti_ActivityDevice4::maxThreadsPerBlock"]
        [::std::mem::offset_of!(CUpti_ActivityDevice4, maxThreadsPerBlock) - 76usize];
    ["Offset of field: CUpti_ActivityDevice4::maxBlockDimX"]
        [::std::mem::offset_of!(CUpti_ActivityDevice4, maxBlockDimX) - 80usize];
    ["Offset of field: CUpti_ActivityDevice4::maxBlockDimY"]
        [::std::mem::offset_of!(CUpti_ActivityDevice4, maxBlockDimY) - 84usize];
    ["Offset of field: CUpti_ActivityDevice4::maxBlockDimZ"]
        [::std::mem::offset_of!(CUpti_ActivityDevice4, maxBlockDimZ) - 88usize];
    ["Offset of field: CUpti_ActivityDevice4::maxGridDimX"]
        [::std::mem::offset_of!(CUpti_ActivityDevice4, maxGridDimX) - 92usize];
    ["Offset of field: CUpti_ActivityDevice4::maxGridDimY"]
        [::std::mem::offset_of!(CUpti_ActivityDevice4, maxGridDimY) - 96usize];
    ["Offset of field: CUpti_ActivityDevice4::maxGridDimZ"]
        [::std::mem::offset_of!(CUpti_ActivityDevice4, maxGridDimZ) - 100usize];
    ["Offset of field: CUpti_ActivityDevice4::computeCapabilityMajor"]
        [::std::mem::offset_of!(CUpti_ActivityDevice4, computeCapabilityMajor) - 104usize];
    ["Offset of field: CUpti_ActivityDevice4::computeCapabilityMinor"]
        [::std::mem::offset_of!(CUpti_ActivityDevice4, computeCapabilityMinor) - 108usize];
    ["Offset of field: CUpti_ActivityDevice4::id"]
        [::std::mem::offset_of!(CUpti_ActivityDevice4, id) - 112usize];
    ["Offset of field: CUpti_ActivityDevice4::eccEnabled"]
        [::std::mem::offset_of!(CUpti_ActivityDevice4, eccEnabled) - 116usize];
    ["Offset of field: CUpti_ActivityDevice4::uuid"]
        [::std::mem::offset_of!(CUpti_ActivityDevice4, uuid) - 120usize];
    ["Offset of field: CUpti_ActivityDevice4::name"]
        [::std::mem::offset_of!(CUpti_ActivityDevice4, name) - 136usize];
    ["Offset of field: CUpti_ActivityDevice4::isCudaVisible"]
        [::std::mem::offset_of!(CUpti_ActivityDevice4, isCudaVisible) - 144usize];
    ["Offset of field: CUpti_ActivityDevice4::isMigEnabled"]
        [::std::mem::offset_of!(CUpti_ActivityDevice4, isMigEnabled) - 145usize];
    ["Offset of field: CUpti_ActivityDevice4::reserved"]
        [::std::mem::offset_of!(CUpti_ActivityDevice4, reserved) - 146usize];
    ["Offset of field: CUpti_ActivityDevice4::gpuInstanceId"]
        [::std::mem::offset_of!(CUpti_ActivityDevice4, gpuInstanceId) - 152usize];
    ["Offset of field: CUpti_ActivityDevice4::computeInstanceId"]
        [::std::mem::offset_of!(CUpti_ActivityDevice4, computeInstanceId) - 156usize];
    ["Offset of field: CUpti_ActivityDevice4::migUuid"]
        [::std::mem::offset_of!(CUpti_ActivityDevice4, migUuid) - 160usize];
};
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ActivityKernel8__bindgen_ty_1__bindgen_ty_1"]
        [::std::mem::size_of::<CUpti_ActivityKernel8__bindgen_ty_1__bindgen_ty_1>() - 1usize];
    ["Alignment of CUpti_ActivityKernel8__bindgen_ty_1__bindgen_ty_1"]
        [::std::mem::align_of::<CUpti_ActivityKernel8__bindgen_ty_1__bindgen_ty_1>() - 1usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ActivityKernel8__bindgen_ty_1"]
        [::std::mem::size_of::<CUpti_ActivityKernel8__bindgen_ty_1>() - 1usize];
    ["Alignment of CUpti_ActivityKernel8__bindgen_ty_1"]
        [::std::mem::align_of::<CUpti_ActivityKernel8__bindgen_ty_1>() - 1usize];
    ["Offset of field: CUpti_ActivityKernel8__bindgen_ty_1::both"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8__bindgen_ty_1, both) - 0usize];
    ["Offset of field: CUpti_ActivityKernel8__bindgen_ty_1::config"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8__bindgen_ty_1, config) - 0usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ActivityKernel8"][::std::mem::size_of::<CUpti_ActivityKernel8>() - 200usize];
    ["Alignment of CUpti_ActivityKernel8"]
        [::std::mem::align_of::<CUpti_ActivityKernel8>() - 8usize];
    ["Offset of field: CUpti_ActivityKernel8::kind"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, kind) - 0usize];
    ["Offset of field: CUpti_ActivityKernel8::cacheConfig"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, cacheConfig) - 4usize];
    ["Offset of field: CUpti_ActivityKernel8::sharedMemoryConfig"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, sharedMemoryConfig) - 5usize];
    ["Offset of field: CUpti_ActivityKernel8::registersPerThread"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, registersPerThread) - 6usize];
    ["Offset of field: CUpti_ActivityKernel8::partitionedGlobalCacheRequested"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, partitionedGlobalCacheRequested) - 8usize];
    ["Offset of field: CUpti_ActivityKernel8::partitionedGlobalCacheExecuted"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, partitionedGlobalCacheExecuted) - 12usize];
    ["Offset of field: CUpti_ActivityKernel8::start"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, start) - 16usize];
    ["Offset of field: CUpti_ActivityKernel8::end"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, end) - 24usize];
    ["Offset of field: CUpti_ActivityKernel8::completed"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, completed) - 32usize];
    ["Offset of field: CUpti_ActivityKernel8::deviceId"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, deviceId) - 40usize];
    ["Offset of field: CUpti_ActivityKernel8::contextId"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, contextId) - 44usize];
    ["Offset of field: CUpti_ActivityKernel8::streamId"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, streamId) - 48usize];
    ["Offset of field: CUpti_ActivityKernel8::gridX"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, gridX) - 52usize];
    ["Offset of field: CUpti_ActivityKernel8::gridY"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, gridY) - 56usize];
    ["Offset of field: CUpti_ActivityKernel8::gridZ"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, gridZ) - 60usize];
    ["Offset of field: CUpti_ActivityKernel8::blockX"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, blockX) - 64usize];
    ["Offset of field: CUpti_ActivityKernel8::blockY"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, blockY) - 68usize];
    ["Offset of field: CUpti_ActivityKernel8::blockZ"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, blockZ) - 72usize];
    ["Offset of field: CUpti_ActivityKernel8::staticSharedMemory"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, staticSharedMemory) - 76usize];
    ["Offset of field: CUpti_ActivityKernel8::dynamicSharedMemory"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, dynamicSharedMemory) - 80usize];
    ["Offset of field: CUpti_ActivityKernel8::localMemoryPerThread"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, localMemoryPerThread) - 84usize];
    ["Offset of field: CUpti_ActivityKernel8::localMemoryTotal"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, localMemoryTotal) - 88usize];
    ["Offset of field: CUpti_ActivityKernel8::correlationId"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, correlationId) - 92usize];
    ["Offset of field: CUpti_ActivityKernel8::gridId"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, gridId) - 96usize];
    ["Offset of field: CUpti_ActivityKernel8::name"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, name) - 104usize];
    ["Offset of field: CUpti_ActivityKernel8::reserved0"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, reserved0) - 112usize];
    ["Offset of field: CUpti_ActivityKernel8::queued"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, queued) - 120usize];
    ["Offset of field: CUpti_ActivityKernel8::submitted"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, submitted) - 128usize];
    ["Offset of field: CUpti_ActivityKernel8::launchType"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, launchType) - 136usize];
    ["Offset of field: CUpti_ActivityKernel8::isSharedMemoryCarveoutRequested"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, isSharedMemoryCarveoutRequested) - 137usize];
    ["Offset of field: CUpti_ActivityKernel8::sharedMemoryCarveoutRequested"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, sharedMemoryCarveoutRequested) - 138usize];
    ["Offset of field: CUpti_ActivityKernel8::padding"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, padding) - 139usize];
    ["Offset of field: CUpti_ActivityKernel8::sharedMemoryExecuted"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, sharedMemoryExecuted) - 140usize];
    ["Offset of field: CUpti_ActivityKernel8::graphNodeId"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, graphNodeId) - 144usize];
    ["Offset of field: CUpti_ActivityKernel8::shmemLimitConfig"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, shmemLimitConfig) - 152usize];
    ["Offset of field: CUpti_ActivityKernel8::graphId"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, graphId) - 156usize];
    ["Offset of field: CUpti_ActivityKernel8::pAccessPolicyWindow"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, pAccessPolicyWindow) - 160usize];
    ["Offset of field: CUpti_ActivityKernel8::channelID"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, channelID) - 168usize];
    ["Offset of field: CUpti_ActivityKernel8::channelType"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, channelType) - 172usize];
    ["Offset of field: CUpti_ActivityKernel8::clusterX"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, clusterX) - 176usize];
    ["Offset of field: CUpti_ActivityKernel8::clusterY"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, clusterY) - 180usize];
    ["Offset of field: CUpti_ActivityKernel8::clusterZ"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, clusterZ) - 184usize];
    ["Offset of field: CUpti_ActivityKernel8::clusterSchedulingPolicy"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, clusterSchedulingPolicy) - 188usize];
    ["Offset of field: CUpti_ActivityKernel8::localMemoryTotal_v2"]
        [::std::mem::offset_of!(CUpti_ActivityKernel8, localMemoryTotal_v2) - 192usize];
};
#[repr(C, packed(8))]
#[derive(Copy, Clone)]
pub struct CUpti_ActivityKernel10 {
    pub kind: CUpti_ActivityKind,
    pub cacheConfig: CUpti_ActivityKernel10__bindgen_ty_1,
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
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union CUpti_ActivityKernel10__bindgen_ty_1 {
    pub both: u8,
    pub config: CUpti_ActivityKernel10__bindgen_ty_1__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_ActivityKernel10__bindgen_ty_1__bindgen_ty_1 {
    pub _bindgen_align: [u8; 0],
    pub _bindgen_opaque_blob: u8,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ActivityKernel10__bindgen_ty_1__bindgen_ty_1"]
        [::std::mem::size_of::<CUpti_ActivityKernel10__bindgen_ty_1__bindgen_ty_1>() - 1usize];
    ["Alignment of CUpti_ActivityKernel10__bindgen_ty_1__bindgen_ty_1"]
        [::std::mem::align_of::<CUpti_ActivityKernel10__bindgen_ty_1__bindgen_ty_1>() - 1usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ActivityKernel10__bindgen_ty_1"]
        [::std::mem::size_of::<CUpti_ActivityKernel10__bindgen_ty_1>() - 1usize];
    ["Alignment of CUpti_ActivityKernel10__bindgen_ty_1"]
        [::std::mem::align_of::<CUpti_ActivityKernel10__bindgen_ty_1>() - 1usize];
    ["Offset of field: CUpti_ActivityKernel10__bindgen_ty_1::both"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10__bindgen_ty_1, both) - 0usize];
    ["Offset of field: CUpti_ActivityKernel10__bindgen_ty_1::config"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10__bindgen_ty_1, config) - 0usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ActivityKernel10"][::std::mem::size_of::<CUpti_ActivityKernel10>() - 216usize];
    ["Alignment of CUpti_ActivityKernel10"]
        [::std::mem::align_of::<CUpti_ActivityKernel10>() - 8usize];
    ["Offset of field: CUpti_ActivityKernel10::kind"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, kind) - 0usize];
    ["Offset of field: CUpti_ActivityKernel10::cacheConfig"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, cacheConfig) - 4usize];
    ["Offset of field: CUpti_ActivityKernel10::sharedMemoryConfig"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, sharedMemoryConfig) - 5usize];
    ["Offset of field: CUpti_ActivityKernel10::registersPerThread"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, registersPerThread) - 6usize];
    ["Offset of field: CUpti_ActivityKernel10::partitionedGlobalCacheRequested"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, partitionedGlobalCacheRequested) - 8usize];
    ["Offset of field: CUpti_ActivityKernel10::partitionedGlobalCacheExecuted"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, partitionedGlobalCacheExecuted) - 12usize];
    ["Offset of field: CUpti_ActivityKernel10::start"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, start) - 16usize];
    ["Offset of field: CUpti_ActivityKernel10::end"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, end) - 24usize];
    ["Offset of field: CUpti_ActivityKernel10::completed"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, completed) - 32usize];
    ["Offset of field: CUpti_ActivityKernel10::deviceId"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, deviceId) - 40usize];
    ["Offset of field: CUpti_ActivityKernel10::contextId"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, contextId) - 44usize];
    ["Offset of field: CUpti_ActivityKernel10::streamId"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, streamId) - 48usize];
    ["Offset of field: CUpti_ActivityKernel10::gridX"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, gridX) - 52usize];
    ["Offset of field: CUpti_ActivityKernel10::gridY"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, gridY) - 56usize];
    ["Offset of field: CUpti_ActivityKernel10::gridZ"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, gridZ) - 60usize];
    ["Offset of field: CUpti_ActivityKernel10::blockX"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, blockX) - 64usize];
    ["Offset of field: CUpti_ActivityKernel10::blockY"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, blockY) - 68usize];
    ["Offset of field: CUpti_ActivityKernel10::blockZ"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, blockZ) - 72usize];
    ["Offset of field: CUpti_ActivityKernel10::staticSharedMemory"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, staticSharedMemory) - 76usize];
    ["Offset of field: CUpti_ActivityKernel10::dynamicSharedMemory"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, dynamicSharedMemory) - 80usize];
    ["Offset of field: CUpti_ActivityKernel10::localMemoryPerThread"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, localMemoryPerThread) - 84usize];
    ["Offset of field: CUpti_ActivityKernel10::localMemoryTotal"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, localMemoryTotal) - 88usize];
    ["Offset of field: CUpti_ActivityKernel10::correlationId"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, correlationId) - 92usize];
    ["Offset of field: CUpti_ActivityKernel10::gridId"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, gridId) - 96usize];
    ["Offset of field: CUpti_ActivityKernel10::name"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, name) - 104usize];
    ["Offset of field: CUpti_ActivityKernel10::reserved0"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, reserved0) - 112usize];
    ["Offset of field: CUpti_ActivityKernel10::queued"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, queued) - 120usize];
    ["Offset of field: CUpti_ActivityKernel10::submitted"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, submitted) - 128usize];
    ["Offset of field: CUpti_ActivityKernel10::launchType"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, launchType) - 136usize];
    ["Offset of field: CUpti_ActivityKernel10::isSharedMemoryCarveoutRequested"][::std::mem::offset_of!(
        CUpti_ActivityKernel10,
        isSharedMemoryCarveoutRequested
    ) - 137usize];
    ["Offset of field: CUpti_ActivityKernel10::sharedMemoryCarveoutRequested"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, sharedMemoryCarveoutRequested) - 138usize];
    ["Offset of field: CUpti_ActivityKernel10::padding"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, padding) - 139usize];
    ["Offset of field: CUpti_ActivityKernel10::sharedMemoryExecuted"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, sharedMemoryExecuted) - 140usize];
    ["Offset of field: CUpti_ActivityKernel10::graphNodeId"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, graphNodeId) - 144usize];
    ["Offset of field: CUpti_ActivityKernel10::shmemLimitConfig"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, shmemLimitConfig) - 152usize];
    ["Offset of field: CUpti_ActivityKernel10::graphId"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, graphId) - 156usize];
    ["Offset of field: CUpti_ActivityKernel10::pAccessPolicyWindow"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, pAccessPolicyWindow) - 160usize];
    ["Offset of field: CUpti_ActivityKernel10::channelID"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, channelID) - 168usize];
    ["Offset of field: CUpti_ActivityKernel10::channelType"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, channelType) - 172usize];
    ["Offset of field: CUpti_ActivityKernel10::clusterX"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, clusterX) - 176usize];
    ["Offset of field: CUpti_ActivityKernel10::clusterY"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, clusterY) - 180usize];
    ["Offset of field: CUpti_ActivityKernel10::clusterZ"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, clusterZ) - 184usize];
    ["Offset of field: CUpti_ActivityKernel10::clusterSchedulingPolicy"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, clusterSchedulingPolicy) - 188usize];
    ["Offset of field: CUpti_ActivityKernel10::localMemoryTotal_v2"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, localMemoryTotal_v2) - 192usize];
    ["Offset of field: CUpti_ActivityKernel10::maxPotentialClusterSize"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, maxPotentialClusterSize) - 200usize];
    ["Offset of field: CUpti_ActivityKernel10::maxActiveClusters"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, maxActiveClusters) - 204usize];
    ["Offset of field: CUpti_ActivityKernel10::isDeviceLaunched"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, isDeviceLaunched) - 208usize];
    ["Offset of field: CUpti_ActivityKernel10::padding3"]
        [::std::mem::offset_of!(CUpti_ActivityKernel10, padding3) - 209usize];
};
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ActivityMemset4"][::std::mem::size_of::<CUpti_ActivityMemset4>() - 88usize];
    ["Alignment of CUpti_ActivityMemset4"]
        [::std::mem::align_of::<CUpti_ActivityMemset4>() - 8usize];
    ["Offset of field: CUpti_ActivityMemset4::kind"]
        [::std::mem::offset_of!(CUpti_ActivityMemset4, kind) - 0usize];
    ["Offset of field: CUpti_ActivityMemset4::value"]
        [::std::mem::offset_of!(CUpti_ActivityMemset4, value) - 4usize];
    ["Offset of field: CUpti_ActivityMemset4::bytes"]
        [::std::mem::offset_of!(CUpti_ActivityMemset4, bytes) - 8usize];
    ["Offset of field: CUpti_ActivityMemset4::start"]
        [::std::mem::offset_of!(CUpti_ActivityMemset4, start) - 16usize];
    ["Offset of field: CUpti_ActivityMemset4::end"]
        [::std::mem::offset_of!(CUpti_ActivityMemset4, end) - 24usize];
    ["Offset of field: CUpti_ActivityMemset4::deviceId"]
        [::std::mem::offset_of!(CUpti_ActivityMemset4, deviceId) - 32usize];
    ["Offset of field: CUpti_ActivityMemset4::contextId"]
        [::std::mem::offset_of!(CUpti_ActivityMemset4, contextId) - 36usize];
    ["Offset of field: CUpti_ActivityMemset4::streamId"]
        [::std::mem::offset_of!(CUpti_ActivityMemset4, streamId) - 40usize];
    ["Offset of field: CUpti_ActivityMemset4::correlationId"]
        [::std::mem::offset_of!(CUpti_ActivityMemset4, correlationId) - 44usize];
    ["Offset of field: CUpti_ActivityMemset4::flags"]
        [::std::mem::offset_of!(CUpti_ActivityMemset4, flags) - 48usize];
    ["Offset of field: CUpti_ActivityMemset4::memoryKind"]
        [::std::mem::offset_of!(CUpti_ActivityMemset4, memoryKind) - 50usize];
    ["Offset of field: CUpti_ActivityMemset4::pad"]
        [::std::mem::offset_of!(CUpti_ActivityMemset4, pad) - 52usize];
    ["Offset of field: CUpti_ActivityMemset4::reserved0"]
        [::std::mem::offset_of!(CUpti_ActivityMemset4, reserved0) - 56usize];
    ["Offset of field: CUpti_ActivityMemset4::graphNodeId"]
        [::std::mem::offset_of!(CUpti_ActivityMemset4, graphNodeId) - 64usize];
    ["Offset of field: CUpti_ActivityMemset4::graphId"]
        [::std::mem::offset_of!(CUpti_ActivityMemset4, graphId) - 72usize];
    ["Offset of field: CUpti_ActivityMemset4::channelID"]
        [::std::mem::offset_of!(CUpti_ActivityMemset4, channelID) - 76usize];
    ["Offset of field: CUpti_ActivityMemset4::channelType"]
        [::std::mem::offset_of!(CUpti_ActivityMemset4, channelType) - 80usize];
    ["Offset of field: CUpti_ActivityMemset4::isDeviceLaunched"]
        [::std::mem::offset_of!(CUpti_ActivityMemset4, isDeviceLaunched) - 84usize];
    ["Offset of field: CUpti_ActivityMemset4::pad2"]
        [::std::mem::offset_of!(CUpti_ActivityMemset4, pad2) - 85usize];
};
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ActivityGraphTrace"]
        [::std::mem::size_of::<CUpti_ActivityGraphTrace>() - 48usize];
    ["Alignment of CUpti_ActivityGraphTrace"]
        [::std::mem::align_of::<CUpti_ActivityGraphTrace>() - 8usize];
    ["Offset of field: CUpti_ActivityGraphTrace::kind"]
        [::std::mem::offset_of!(CUpti_ActivityGraphTrace, kind) - 0usize];
    ["Offset of field: CUpti_ActivityGraphTrace::correlationId"]
        [::std::mem::offset_of!(CUpti_ActivityGraphTrace, correlationId) - 4usize];
    ["Offset of field: CUpti_ActivityGraphTrace::start"]
        [::std::mem::offset_of!(CUpti_ActivityGraphTrace, start) - 8usize];
    ["Offset of field: CUpti_ActivityGraphTrace::end"]
        [::std::mem::offset_of!(CUpti_ActivityGraphTrace, end) - 16usize];
    ["Offset of field: CUpti_ActivityGraphTrace::deviceId"]
        [::std::mem::offset_of!(CUpti_ActivityGraphTrace, deviceId) - 24usize];
    ["Offset of field: CUpti_ActivityGraphTrace::graphId"]
        [::std::mem::offset_of!(CUpti_ActivityGraphTrace, graphId) - 28usize];
    ["Offset of field: CUpti_ActivityGraphTrace::contextId"]
        [::std::mem::offset_of!(CUpti_ActivityGraphTrace, contextId) - 32usize];
    ["Offset of field: CUpti_ActivityGraphTrace::streamId"]
        [::std::mem::offset_of!(CUpti_ActivityGraphTrace, streamId) - 36usize];
    ["Offset of field: CUpti_ActivityGraphTrace::reserved"]
        [::std::mem::offset_of!(CUpti_ActivityGraphTrace, reserved) - 40usize];
};
#[repr(C)]
#[repr(align(8))]
#[derive(Copy, Clone)]
pub struct CUpti_ActivityContext {
    pub kind: CUpti_ActivityKind,
    pub contextId: u32,
    pub deviceId: u32,
    pub computeApiKind: u16,
    pub nullStreamId: u16,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ActivityContext"][::std::mem::size_of::<CUpti_ActivityContext>() - 16usize];
    ["Alignment of CUpti_ActivityContext"]
        [::std::mem::align_of::<CUpti_ActivityContext>() - 8usize];
    ["Offset of field: CUpti_ActivityContext::kind"]
        [::std::mem::offset_of!(CUpti_ActivityContext, kind) - 0usize];
    ["Offset of field: CUpti_ActivityContext::contextId"]
        [::std::mem::offset_of!(CUpti_ActivityContext, contextId) - 4usize];
    ["Offset of field: CUpti_ActivityContext::deviceId"]
        [::std::mem::offset_of!(CUpti_ActivityContext, deviceId) - 8usize];
    ["Offset of field: CUpti_ActivityContext::computeApiKind"]
        [::std::mem::offset_of!(CUpti_ActivityContext, computeApiKind) - 12usize];
    ["Offset of field: CUpti_ActivityContext::nullStreamId"]
        [::std::mem::offset_of!(CUpti_ActivityContext, nullStreamId) - 14usize];
};
#[repr(C, packed(8))]
#[derive(Copy, Clone)]
pub struct CUpti_ActivitySynchronization {
    pub kind: CUpti_ActivityKind,
    pub type_: CUpti_ActivitySynchronizationType,
    pub start: u64,
    pub end: u64,
    pub correlationId: u32,
    pub contextId: u32,
    pub streamId: u32,
    pub cudaEventId: u32,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ActivitySynchronization"]
        [::std::mem::size_of::<CUpti_ActivitySynchronization>() - 40usize];
    ["Alignment of CUpti_ActivitySynchronization"]
        [::std::mem::align_of::<CUpti_ActivitySynchronization>() - 8usize];
    ["Offset of field: CUpti_ActivitySynchronization::kind"]
        [::std::mem::offset_of!(CUpti_ActivitySynchronization, kind) - 0usize];
    ["Offset of field: CUpti_ActivitySynchronization::type_"]
        [::std::mem::offset_of!(CUpti_ActivitySynchronization, type_) - 4usize];
    ["Offset of field: CUpti_ActivitySynchronization::start"]
        [::std::mem::offset_of!(CUpti_ActivitySynchronization, start) - 8usize];
    ["Offset of field: CUpti_ActivitySynchronization::end"]
        [::std::mem::offset_of!(CUpti_ActivitySynchronization, end) - 16usize];
    ["Offset of field: CUpti_ActivitySynchronization::correlationId"]
        [::std::mem::offset_of!(CUpti_ActivitySynchronization, correlationId) - 24usize];
    ["Offset of field: CUpti_ActivitySynchronization::contextId"]
        [::std::mem::offset_of!(CUpti_ActivitySynchronization, contextId) - 28usize];
    ["Offset of field: CUpti_ActivitySynchronization::streamId"]
        [::std::mem::offset_of!(CUpti_ActivitySynchronization, streamId) - 32usize];
    ["Offset of field: CUpti_ActivitySynchronization::cudaEventId"]
        [::std::mem::offset_of!(CUpti_ActivitySynchronization, cudaEventId) - 36usize];
};
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ActivityMemcpy5"][::std::mem::size_of::<CUpti_ActivityMemcpy5>() - 88usize];
    ["Alignment of CUpti_ActivityMemcpy5"]
        [::std::mem::align_of::<CUpti_ActivityMemcpy5>() - 8usize];
    ["Offset of field: CUpti_ActivityMemcpy5::kind"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy5, kind) - 0usize];
    ["Offset of field: CUpti_ActivityMemcpy5::copyKind"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy5, copyKind) - 4usize];
    ["Offset of field: CUpti_ActivityMemcpy5::srcKind"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy5, srcKind) - 5usize];
    ["Offset of field: CUpti_ActivityMemcpy5::dstKind"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy5, dstKind) - 6usize];
    ["Offset of field: CUpti_ActivityMemcpy5::flags"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy5, flags) - 7usize];
    ["Offset of field: CUpti_ActivityMemcpy5::bytes"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy5, bytes) - 8usize];
    ["Offset of field: CUpti_ActivityMemcpy5::start"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy5, start) - 16usize];
    ["Offset of field: CUpti_ActivityMemcpy5::end"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy5, end) - 24usize];
    ["Offset of field: CUpti_ActivityMemcpy5::deviceId"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy5, deviceId) - 32usize];
    ["Offset of field: CUpti_ActivityMemcpy5::contextId"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy5, contextId) - 36usize];
    ["Offset of field: CUpti_ActivityMemcpy5::streamId"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy5, streamId) - 40usize];
    ["Offset of field: CUpti_ActivityMemcpy5::correlationId"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy5, correlationId) - 44usize];
    ["Offset of field: CUpti_ActivityMemcpy5::runtimeCorrelationId"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy5, runtimeCorrelationId) - 48usize];
    ["Offset of field: CUpti_ActivityMemcpy5::pad"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy5, pad) - 52usize];
    ["Offset of field: CUpti_ActivityMemcpy5::reserved0"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy5, reserved0) - 56usize];
    ["Offset of field: CUpti_ActivityMemcpy5::graphNodeId"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy5, graphNodeId) - 64usize];
    ["Offset of field: CUpti_ActivityMemcpy5::graphId"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy5, graphId) - 72usize];
    ["Offset of field: CUpti_ActivityMemcpy5::channelID"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy5, channelID) - 76usize];
    ["Offset of field: CUpti_ActivityMemcpy5::channelType"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy5, channelType) - 80usize];
    ["Offset of field: CUpti_ActivityMemcpy5::pad2"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy5, pad2) - 84usize];
};
#[repr(C, packed(8))]
#[derive(Copy, Clone)]
pub struct CUpti_ActivityMemcpy6 {
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
    pub isDeviceLaunched: u8,
    pub pad2: [u8; 3usize],
    pub copyCount: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_ActivityMemcpy6"][::std::mem::size_of::<CUpti_ActivityMemcpy6>() - 96usize];
    ["Alignment of CUpti_ActivityMemcpy6"]
        [::std::mem::align_of::<CUpti_ActivityMemcpy6>() - 8usize];
    ["Offset of field: CUpti_ActivityMemcpy6::kind"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy6, kind) - 0usize];
    ["Offset of field: CUpti_ActivityMemcpy6::copyKind"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy6, copyKind) - 4usize];
    ["Offset of field: CUpti_ActivityMemcpy6::srcKind"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy6, srcKind) - 5usize];
    ["Offset of field: CUpti_ActivityMemcpy6::dstKind"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy6, dstKind) - 6usize];
    ["Offset of field: CUpti_ActivityMemcpy6::flags"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy6, flags) - 7usize];
    ["Offset of field: CUpti_ActivityMemcpy6::bytes"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy6, bytes) - 8usize];
    ["Offset of field: CUpti_ActivityMemcpy6::start"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy6, start) - 16usize];
    ["Offset of field: CUpti_ActivityMemcpy6::end"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy6, end) - 24usize];
    ["Offset of field: CUpti_ActivityMemcpy6::deviceId"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy6, deviceId) - 32usize];
    ["Offset of field: CUpti_ActivityMemcpy6::contextId"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy6, contextId) - 36usize];
    ["Offset of field: CUpti_ActivityMemcpy6::streamId"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy6, streamId) - 40usize];
    ["Offset of field: CUpti_ActivityMemcpy6::correlationId"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy6, correlationId) - 44usize];
    ["Offset of field: CUpti_ActivityMemcpy6::runtimeCorrelationId"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy6, runtimeCorrelationId) - 48usize];
    ["Offset of field: CUpti_ActivityMemcpy6::pad"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy6, pad) - 52usize];
    ["Offset of field: CUpti_ActivityMemcpy6::reserved0"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy6, reserved0) - 56usize];
    ["Offset of field: CUpti_ActivityMemcpy6::graphNodeId"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy6, graphNodeId) - 64usize];
    ["Offset of field: CUpti_ActivityMemcpy6::graphId"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy6, graphId) - 72usize];
    ["Offset of field: CUpti_ActivityMemcpy6::channelID"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy6, channelID) - 76usize];
    ["Offset of field: CUpti_ActivityMemcpy6::channelType"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy6, channelType) - 80usize];
    ["Offset of field: CUpti_ActivityMemcpy6::isDeviceLaunched"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy6, isDeviceLaunched) - 84usize];
    ["Offset of field: CUpti_ActivityMemcpy6::pad2"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy6, pad2) - 85usize];
    ["Offset of field: CUpti_ActivityMemcpy6::copyCount"]
        [::std::mem::offset_of!(CUpti_ActivityMemcpy6, copyCount) - 88usize];
};
pub const CUPTI_DRIVER_TRACE_CBID_cuDriverGetVersion: CUpti_driver_api_trace_cbid_enum = 2;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD: CUpti_driver_api_trace_cbid_enum = 43;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH: CUpti_driver_api_trace_cbid_enum = 45;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoD: CUpti_driver_api_trace_cbid_enum = 47;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoA: CUpti_driver_api_trace_cbid_enum = 49;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyAtoD: CUpti_driver_api_trace_cbid_enum = 51;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoA: CUpti_driver_api_trace_cbid_enum = 53;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyAtoH: CUpti_driver_api_trace_cbid_enum = 54;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyAtoA: CUpti_driver_api_trace_cbid_enum = 55;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpy2D: CUpti_driver_api_trace_cbid_enum = 56;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpy2DUnaligned: CUpti_driver_api_trace_cbid_enum = 57;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpy3D: CUpti_driver_api_trace_cbid_enum = 58;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync: CUpti_driver_api_trace_cbid_enum = 60;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync: CUpti_driver_api_trace_cbid_enum = 62;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync: CUpti_driver_api_trace_cbid_enum = 64;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoAAsync: CUpti_driver_api_trace_cbid_enum = 66;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyAtoHAsync: CUpti_driver_api_trace_cbid_enum = 67;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpy2DAsync: CUpti_driver_api_trace_cbid_enum = 68;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DAsync: CUpti_driver_api_trace_cbid_enum = 69;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemsetD8: CUpti_driver_api_trace_cbid_enum = 71;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemsetD16: CUpti_driver_api_trace_cbid_enum = 73;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemsetD32: CUpti_driver_api_trace_cbid_enum = 75;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D8: CUpti_driver_api_trace_cbid_enum = 77;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D16: CUpti_driver_api_trace_cbid_enum = 79;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D32: CUpti_driver_api_trace_cbid_enum = 81;
pub const CUPTI_DRIVER_TRACE_CBID_cuLaunch: CUpti_driver_api_trace_cbid_enum = 115;
pub const CUPTI_DRIVER_TRACE_CBID_cuLaunchGrid: CUpti_driver_api_trace_cbid_enum = 116;
pub const CUPTI_DRIVER_TRACE_CBID_cuLaunchGridAsync: CUpti_driver_api_trace_cbid_enum = 117;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async: CUpti_driver_api_trace_cbid_enum = 216;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemsetD16Async: CUpti_driver_api_trace_cbid_enum = 218;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemsetD32Async: CUpti_driver_api_trace_cbid_enum = 220;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D8Async: CUpti_driver_api_trace_cbid_enum = 222;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D16Async: CUpti_driver_api_trace_cbid_enum = 224;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D32Async: CUpti_driver_api_trace_cbid_enum = 226;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemsetD8_v2: CUpti_driver_api_trace_cbid_enum = 249;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemsetD16_v2: CUpti_driver_api_trace_cbid_enum = 250;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemsetD32_v2: CUpti_driver_api_trace_cbid_enum = 251;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D8_v2: CUpti_driver_api_trace_cbid_enum = 252;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D16_v2: CUpti_driver_api_trace_cbid_enum = 253;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D32_v2: CUpti_driver_api_trace_cbid_enum = 254;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2: CUpti_driver_api_trace_cbid_enum = 276;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2: CUpti_driver_api_trace_cbid_enum = 277;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2: CUpti_driver_api_trace_cbid_enum = 278;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2: CUpti_driver_api_trace_cbid_enum = 279;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoD_v2: CUpti_driver_api_trace_cbid_enum = 280;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2: CUpti_driver_api_trace_cbid_enum = 281;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyAtoH_v2: CUpti_driver_api_trace_cbid_enum = 282;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyAtoHAsync_v2: CUpti_driver_api_trace_cbid_enum = 283;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyAtoD_v2: CUpti_driver_api_trace_cbid_enum = 284;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoA_v2: CUpti_driver_api_trace_cbid_enum = 285;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyAtoA_v2: CUpti_driver_api_trace_cbid_enum = 286;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpy2D_v2: CUpti_driver_api_trace_cbid_enum = 287;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpy2DUnaligned_v2: CUpti_driver_api_trace_cbid_enum = 288;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpy2DAsync_v2: CUpti_driver_api_trace_cbid_enum = 289;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpy3D_v2: CUpti_driver_api_trace_cbid_enum = 290;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DAsync_v2: CUpti_driver_api_trace_cbid_enum = 291;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoA_v2: CUpti_driver_api_trace_cbid_enum = 292;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoAAsync_v2: CUpti_driver_api_trace_cbid_enum = 293;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpy: CUpti_driver_api_trace_cbid_enum = 305;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync: CUpti_driver_api_trace_cbid_enum = 306;
pub const CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel: CUpti_driver_api_trace_cbid_enum = 307;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyPeer: CUpti_driver_api_trace_cbid_enum = 318;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyPeerAsync: CUpti_driver_api_trace_cbid_enum = 319;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DPeer: CUpti_driver_api_trace_cbid_enum = 320;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DPeerAsync: CUpti_driver_api_trace_cbid_enum = 321;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoD_v2_ptds: CUpti_driver_api_trace_cbid_enum = 397;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoH_v2_ptds: CUpti_driver_api_trace_cbid_enum = 398;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoD_v2_ptds: CUpti_driver_api_trace_cbid_enum = 399;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoA_v2_ptds: CUpti_driver_api_trace_cbid_enum = 400;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyAtoD_v2_ptds: CUpti_driver_api_trace_cbid_enum = 401;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoA_v2_ptds: CUpti_driver_api_trace_cbid_enum = 402;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyAtoH_v2_ptds: CUpti_driver_api_trace_cbid_enum = 403;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyAtoA_v2_ptds: CUpti_driver_api_trace_cbid_enum = 404;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpy2D_v2_ptds: CUpti_driver_api_trace_cbid_enum = 405;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpy2DUnaligned_v2_ptds: CUpti_driver_api_trace_cbid_enum =
    406;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpy3D_v2_ptds: CUpti_driver_api_trace_cbid_enum = 407;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpy_ptds: CUpti_driver_api_trace_cbid_enum = 408;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyPeer_ptds: CUpti_driver_api_trace_cbid_enum = 409;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DPeer_ptds: CUpti_driver_api_trace_cbid_enum = 410;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemsetD8_v2_ptds: CUpti_driver_api_trace_cbid_enum = 411;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemsetD16_v2_ptds: CUpti_driver_api_trace_cbid_enum = 412;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemsetD32_v2_ptds: CUpti_driver_api_trace_cbid_enum = 413;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D8_v2_ptds: CUpti_driver_api_trace_cbid_enum = 414;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D16_v2_ptds: CUpti_driver_api_trace_cbid_enum = 415;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D32_v2_ptds: CUpti_driver_api_trace_cbid_enum = 416;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync_ptsz: CUpti_driver_api_trace_cbid_enum = 418;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoAAsync_v2_ptsz: CUpti_driver_api_trace_cbid_enum = 419;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyAtoHAsync_v2_ptsz: CUpti_driver_api_trace_cbid_enum = 420;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2_ptsz: CUpti_driver_api_trace_cbid_enum = 421;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2_ptsz: CUpti_driver_api_trace_cbid_enum = 422;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2_ptsz: CUpti_driver_api_trace_cbid_enum = 423;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpy2DAsync_v2_ptsz: CUpti_driver_api_trace_cbid_enum = 424;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DAsync_v2_ptsz: CUpti_driver_api_trace_cbid_enum = 425;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyPeerAsync_ptsz: CUpti_driver_api_trace_cbid_enum = 426;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DPeerAsync_ptsz: CUpti_driver_api_trace_cbid_enum = 427;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async_ptsz: CUpti_driver_api_trace_cbid_enum = 428;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemsetD16Async_ptsz: CUpti_driver_api_trace_cbid_enum = 429;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemsetD32Async_ptsz: CUpti_driver_api_trace_cbid_enum = 430;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D8Async_ptsz: CUpti_driver_api_trace_cbid_enum = 431;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D16Async_ptsz: CUpti_driver_api_trace_cbid_enum = 432;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemsetD2D32Async_ptsz: CUpti_driver_api_trace_cbid_enum = 433;
pub const CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz: CUpti_driver_api_trace_cbid_enum = 442;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemPrefetchAsync: CUpti_driver_api_trace_cbid_enum = 467;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemPrefetchAsync_ptsz: CUpti_driver_api_trace_cbid_enum = 468;
pub const CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel: CUpti_driver_api_trace_cbid_enum = 477;
pub const CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz: CUpti_driver_api_trace_cbid_enum =
    478;
pub const CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernelMultiDevice:
    CUpti_driver_api_trace_cbid_enum = 480;
pub const CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture: CUpti_driver_api_trace_cbid_enum = 495;
pub const CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_ptsz: CUpti_driver_api_trace_cbid_enum = 496;
pub const CUPTI_DRIVER_TRACE_CBID_cuStreamEndCapture: CUpti_driver_api_trace_cbid_enum = 497;
pub const CUPTI_DRIVER_TRACE_CBID_cuStreamEndCapture_ptsz: CUpti_driver_api_trace_cbid_enum = 498;
pub const CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiate: CUpti_driver_api_trace_cbid_enum = 513;
pub const CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch: CUpti_driver_api_trace_cbid_enum = 514;
pub const CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz: CUpti_driver_api_trace_cbid_enum = 515;
pub const CUPTI_DRIVER_TRACE_CBID_cuGraphExecDestroy: CUpti_driver_api_trace_cbid_enum = 516;
pub const CUPTI_DRIVER_TRACE_CBID_cuLaunchHostFunc: CUpti_driver_api_trace_cbid_enum = 527;
pub const CUPTI_DRIVER_TRACE_CBID_cuLaunchHostFunc_ptsz: CUpti_driver_api_trace_cbid_enum = 528;
pub const CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_v2: CUpti_driver_api_trace_cbid_enum = 539;
pub const CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCapture_v2_ptsz: CUpti_driver_api_trace_cbid_enum =
    540;
pub const CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiate_v2: CUpti_driver_api_trace_cbid_enum = 578;
pub const CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithFlags: CUpti_driver_api_trace_cbid_enum =
    643;
pub const CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx: CUpti_driver_api_trace_cbid_enum = 652;
pub const CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz: CUpti_driver_api_trace_cbid_enum = 653;
pub const CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithParams: CUpti_driver_api_trace_cbid_enum =
    656;
pub const CUPTI_DRIVER_TRACE_CBID_cuGraphInstantiateWithParams_ptsz:
    CUpti_driver_api_trace_cbid_enum = 657;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemPrefetchAsync_v2: CUpti_driver_api_trace_cbid_enum = 716;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemPrefetchAsync_v2_ptsz: CUpti_driver_api_trace_cbid_enum =
    717;
pub const CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCaptureToGraph: CUpti_driver_api_trace_cbid_enum =
    720;
pub const CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCaptureToGraph_ptsz:
    CUpti_driver_api_trace_cbid_enum = 721;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyBatchAsync: CUpti_driver_api_trace_cbid_enum = 776;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyBatchAsync_ptsz: CUpti_driver_api_trace_cbid_enum = 777;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DBatchAsync: CUpti_driver_api_trace_cbid_enum = 778;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DBatchAsync_ptsz: CUpti_driver_api_trace_cbid_enum = 779;
pub const CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCaptureToCig: CUpti_driver_api_trace_cbid_enum = 783;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemPrefetchBatchAsync: CUpti_driver_api_trace_cbid_enum = 784;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemPrefetchBatchAsync_ptsz: CUpti_driver_api_trace_cbid_enum =
    785;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyBatchAsync_v2: CUpti_driver_api_trace_cbid_enum = 796;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyBatchAsync_v2_ptsz: CUpti_driver_api_trace_cbid_enum =
    797;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DBatchAsync_v2: CUpti_driver_api_trace_cbid_enum = 798;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DBatchAsync_v2_ptsz: CUpti_driver_api_trace_cbid_enum =
    799;
pub const CUPTI_DRIVER_TRACE_CBID_cuStreamBeginCaptureToCig_ptsz: CUpti_driver_api_trace_cbid_enum =
    814;
pub const CUPTI_DRIVER_TRACE_CBID_cuStreamEndCaptureToCig: CUpti_driver_api_trace_cbid_enum = 815;
pub const CUPTI_DRIVER_TRACE_CBID_cuStreamEndCaptureToCig_ptsz: CUpti_driver_api_trace_cbid_enum =
    816;
pub const CUPTI_DRIVER_TRACE_CBID_cuLaunchHostFunc_v2: CUpti_driver_api_trace_cbid_enum = 831;
pub const CUPTI_DRIVER_TRACE_CBID_cuLaunchHostFunc_v2_ptsz: CUpti_driver_api_trace_cbid_enum = 832;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyWithAttributesAsync: CUpti_driver_api_trace_cbid_enum =
    837;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpyWithAttributesAsync_ptsz:
    CUpti_driver_api_trace_cbid_enum = 838;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DWithAttributesAsync: CUpti_driver_api_trace_cbid_enum =
    839;
pub const CUPTI_DRIVER_TRACE_CBID_cuMemcpy3DWithAttributesAsync_ptsz:
    CUpti_driver_api_trace_cbid_enum = 840;
pub const CUPTI_DRIVER_TRACE_CBID_SIZE: CUpti_driver_api_trace_cbid_enum = 877;
pub type CUpti_driver_api_trace_cbid_enum = ::std::os::raw::c_uint;
pub use self::CUpti_driver_api_trace_cbid_enum as CUpti_driver_api_trace_cbid;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaDriverGetVersion_v3020: CUpti_runtime_api_trace_cbid_enum =
    1;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaLaunch_v3020: CUpti_runtime_api_trace_cbid_enum = 13;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy_v3020: CUpti_runtime_api_trace_cbid_enum = 31;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy2D_v3020: CUpti_runtime_api_trace_cbid_enum = 32;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyToArray_v3020: CUpti_runtime_api_trace_cbid_enum = 33;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy2DToArray_v3020: CUpti_runtime_api_trace_cbid_enum =
    34;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyFromArray_v3020: CUpti_runtime_api_trace_cbid_enum =
    35;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy2DFromArray_v3020: CUpti_runtime_api_trace_cbid_enum =
    36;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyArrayToArray_v3020: CUpti_runtime_api_trace_cbid_enum =
    37;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy2DArrayToArray_v3020:
    CUpti_runtime_api_trace_cbid_enum = 38;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyToSymbol_v3020: CUpti_runtime_api_trace_cbid_enum = 39;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyFromSymbol_v3020: CUpti_runtime_api_trace_cbid_enum =
    40;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020: CUpti_runtime_api_trace_cbid_enum = 41;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyToArrayAsync_v3020: CUpti_runtime_api_trace_cbid_enum =
    42;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyFromArrayAsync_v3020:
    CUpti_runtime_api_trace_cbid_enum = 43;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy2DAsync_v3020: CUpti_runtime_api_trace_cbid_enum = 44;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy2DToArrayAsync_v3020:
    CUpti_runtime_api_trace_cbid_enum = 45;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy2DFromArrayAsync_v3020:
    CUpti_runtime_api_trace_cbid_enum = 46;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyToSymbolAsync_v3020:
    CUpti_runtime_api_trace_cbid_enum = 47;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyFromSymbolAsync_v3020:
    CUpti_runtime_api_trace_cbid_enum = 48;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemset_v3020: CUpti_runtime_api_trace_cbid_enum = 49;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemset2D_v3020: CUpti_runtime_api_trace_cbid_enum = 50;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020: CUpti_runtime_api_trace_cbid_enum = 51;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemset2DAsync_v3020: CUpti_runtime_api_trace_cbid_enum = 52;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemset3D_v3020: CUpti_runtime_api_trace_cbid_enum = 142;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemset3DAsync_v3020: CUpti_runtime_api_trace_cbid_enum = 143;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy3D_v3020: CUpti_runtime_api_trace_cbid_enum = 144;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy3DAsync_v3020: CUpti_runtime_api_trace_cbid_enum = 145;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyPeer_v4000: CUpti_runtime_api_trace_cbid_enum = 160;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyPeerAsync_v4000: CUpti_runtime_api_trace_cbid_enum =
    161;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy3DPeer_v4000: CUpti_runtime_api_trace_cbid_enum = 162;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy3DPeerAsync_v4000: CUpti_runtime_api_trace_cbid_enum =
    163;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000: CUpti_runtime_api_trace_cbid_enum = 211;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaLaunch_ptsz_v7000: CUpti_runtime_api_trace_cbid_enum = 213;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_ptsz_v7000: CUpti_runtime_api_trace_cbid_enum =
    214;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy_ptds_v7000: CUpti_runtime_api_trace_cbid_enum = 215;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy2D_ptds_v7000: CUpti_runtime_api_trace_cbid_enum = 216;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyToArray_ptds_v7000: CUpti_runtime_api_trace_cbid_enum =
    217;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy2DToArray_ptds_v7000:
    CUpti_runtime_api_trace_cbid_enum = 218;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyFromArray_ptds_v7000:
    CUpti_runtime_api_trace_cbid_enum = 219;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy2DFromArray_ptds_v7000:
    CUpti_runtime_api_trace_cbid_enum = 220;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyArrayToArray_ptds_v7000:
    CUpti_runtime_api_trace_cbid_enum = 221;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy2DArrayToArray_ptds_v7000:
    CUpti_runtime_api_trace_cbid_enum = 222;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyToSymbol_ptds_v7000:
    CUpti_runtime_api_trace_cbid_enum = 223;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyFromSymbol_ptds_v7000:
    CUpti_runtime_api_trace_cbid_enum = 224;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_ptsz_v7000: CUpti_runtime_api_trace_cbid_enum =
    225;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyToArrayAsync_ptsz_v7000:
    CUpti_runtime_api_trace_cbid_enum = 226;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyFromArrayAsync_ptsz_v7000:
    CUpti_runtime_api_trace_cbid_enum = 227;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy2DAsync_ptsz_v7000: CUpti_runtime_api_trace_cbid_enum =
    228;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy2DToArrayAsync_ptsz_v7000:
    CUpti_runtime_api_trace_cbid_enum = 229;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy2DFromArrayAsync_ptsz_v7000:
    CUpti_runtime_api_trace_cbid_enum = 230;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyToSymbolAsync_ptsz_v7000:
    CUpti_runtime_api_trace_cbid_enum = 231;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyFromSymbolAsync_ptsz_v7000:
    CUpti_runtime_api_trace_cbid_enum = 232;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemset_ptds_v7000: CUpti_runtime_api_trace_cbid_enum = 233;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemset2D_ptds_v7000: CUpti_runtime_api_trace_cbid_enum = 234;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_ptsz_v7000: CUpti_runtime_api_trace_cbid_enum =
    235;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemset2DAsync_ptsz_v7000: CUpti_runtime_api_trace_cbid_enum =
    236;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemset3D_ptds_v7000: CUpti_runtime_api_trace_cbid_enum = 243;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemset3DAsync_ptsz_v7000: CUpti_runtime_api_trace_cbid_enum =
    244;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy3D_ptds_v7000: CUpti_runtime_api_trace_cbid_enum = 245;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy3DAsync_ptsz_v7000: CUpti_runtime_api_trace_cbid_enum =
    246;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy3DPeer_ptds_v7000: CUpti_runtime_api_trace_cbid_enum =
    249;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy3DPeerAsync_ptsz_v7000:
    CUpti_runtime_api_trace_cbid_enum = 250;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemPrefetchAsync_v8000: CUpti_runtime_api_trace_cbid_enum =
    252;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemPrefetchAsync_ptsz_v8000:
    CUpti_runtime_api_trace_cbid_enum = 253;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaLaunchCooperativeKernel_v9000:
    CUpti_runtime_api_trace_cbid_enum = 269;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaLaunchCooperativeKernel_ptsz_v9000:
    CUpti_runtime_api_trace_cbid_enum = 270;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaLaunchCooperativeKernelMultiDevice_v9000:
    CUpti_runtime_api_trace_cbid_enum = 272;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaLaunchHostFunc_v10000: CUpti_runtime_api_trace_cbid_enum =
    284;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaLaunchHostFunc_ptsz_v10000:
    CUpti_runtime_api_trace_cbid_enum = 285;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaGraphInstantiate_v10000: CUpti_runtime_api_trace_cbid_enum =
    310;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000: CUpti_runtime_api_trace_cbid_enum = 311;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_ptsz_v10000: CUpti_runtime_api_trace_cbid_enum =
    312;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaGraphExecDestroy_v10000: CUpti_runtime_api_trace_cbid_enum =
    313;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaStreamBeginCapture_v10000:
    CUpti_runtime_api_trace_cbid_enum = 315;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaStreamBeginCapture_ptsz_v10000:
    CUpti_runtime_api_trace_cbid_enum = 316;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaStreamEndCapture_v10000: CUpti_runtime_api_trace_cbid_enum =
    319;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaStreamEndCapture_ptsz_v10000:
    CUpti_runtime_api_trace_cbid_enum = 320;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaGraphInstantiateWithFlags_v11040:
    CUpti_runtime_api_trace_cbid_enum = 418;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060: CUpti_runtime_api_trace_cbid_enum =
    430;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_ptsz_v11060:
    CUpti_runtime_api_trace_cbid_enum = 431;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaGraphInstantiateWithParams_v12000:
    CUpti_runtime_api_trace_cbid_enum = 436;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaGraphInstantiateWithParams_ptsz_v12000:
    CUpti_runtime_api_trace_cbid_enum = 437;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaGraphInstantiate_v12000: CUpti_runtime_api_trace_cbid_enum =
    443;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemPrefetchAsync_v12020: CUpti_runtime_api_trace_cbid_enum =
    449;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemPrefetchAsync_ptsz_v12020:
    CUpti_runtime_api_trace_cbid_enum = 450;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaStreamBeginCaptureToGraph_v12030:
    CUpti_runtime_api_trace_cbid_enum = 452;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaStreamBeginCaptureToGraph_ptsz_v12030:
    CUpti_runtime_api_trace_cbid_enum = 453;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyBatchAsync_v12080: CUpti_runtime_api_trace_cbid_enum =
    482;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyBatchAsync_ptsz_v12080:
    CUpti_runtime_api_trace_cbid_enum = 483;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy3DBatchAsync_v12080:
    CUpti_runtime_api_trace_cbid_enum = 484;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy3DBatchAsync_ptsz_v12080:
    CUpti_runtime_api_trace_cbid_enum = 485;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemPrefetchBatchAsync_v13000:
    CUpti_runtime_api_trace_cbid_enum = 487;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemPrefetchBatchAsync_ptsz_v13000:
    CUpti_runtime_api_trace_cbid_enum = 488;
pub const CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_v13000: CUpti_runtime_api_trace_cbid_enum =
    505;
pub const CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_ptsz_v13000:
    CUpti_runtime_api_trace_cbid_enum = 506;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyBatchAsync_v13000: CUpti_runtime_api_trace_cbid_enum =
    509;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyBatchAsync_ptsz_v13000:
    CUpti_runtime_api_trace_cbid_enum = 510;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy3DBatchAsync_v13000:
    CUpti_runtime_api_trace_cbid_enum = 511;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy3DBatchAsync_ptsz_v13000:
    CUpti_runtime_api_trace_cbid_enum = 512;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaLaunchHostFunc_v2_v13020: CUpti_runtime_api_trace_cbid_enum =
    550;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaLaunchHostFunc_v2_ptsz_v13020:
    CUpti_runtime_api_trace_cbid_enum = 551;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyWithAttributesAsync_v13020:
    CUpti_runtime_api_trace_cbid_enum = 554;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyWithAttributesAsync_ptsz_v13020:
    CUpti_runtime_api_trace_cbid_enum = 555;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy3DWithAttributesAsync_v13020:
    CUpti_runtime_api_trace_cbid_enum = 556;
pub const CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy3DWithAttributesAsync_ptsz_v13020:
    CUpti_runtime_api_trace_cbid_enum = 557;
pub const CUPTI_RUNTIME_TRACE_CBID_SIZE: CUpti_runtime_api_trace_cbid_enum = 567;
pub type CUpti_runtime_api_trace_cbid_enum = ::std::os::raw::c_uint;
pub use self::CUpti_runtime_api_trace_cbid_enum as CUpti_runtime_api_trace_cbid;
#[repr(C)]
#[derive(Debug)]
pub struct CUpti_PmSampling_Object {
    _unused: [u8; 0],
}
pub const CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_SYSCLK_INTERVAL: CUpti_PmSampling_TriggerMode = 0;
pub const CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL: CUpti_PmSampling_TriggerMode = 1;
pub const CUPTI_PM_SAMPLING_TRIGGER_MODE_COUNT: CUpti_PmSampling_TriggerMode = 2;
pub type CUpti_PmSampling_TriggerMode = ::std::os::raw::c_uint;
pub const CUPTI_PM_SAMPLING_DECODE_STOP_REASON_OTHER: CUpti_PmSampling_DecodeStopReason = 0;
pub const CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL:
    CUpti_PmSampling_DecodeStopReason = 1;
pub const CUPTI_PM_SAMPLING_DECODE_STOP_REASON_END_OF_RECORDS: CUpti_PmSampling_DecodeStopReason =
    2;
pub const CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNT: CUpti_PmSampling_DecodeStopReason = 3;
pub type CUpti_PmSampling_DecodeStopReason = ::std::os::raw::c_uint;
pub const CUPTI_PM_SAMPLING_HARDWARE_BUFFER_APPEND_MODE_KEEP_OLDEST:
    CUpti_PmSampling_HardwareBuffer_AppendMode = 0;
pub const CUPTI_PM_SAMPLING_HARDWARE_BUFFER_APPEND_MODE_KEEP_LATEST:
    CUpti_PmSampling_HardwareBuffer_AppendMode = 1;
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_PmSampling_SetConfig_Params"]
        [::std::mem::size_of::<CUpti_PmSampling_SetConfig_Params>() - 64usize];
    ["Alignment of CUpti_PmSampling_SetConfig_Params"]
        [::std::mem::align_of::<CUpti_PmSampling_SetConfig_Params>() - 8usize];
    ["Offset of field: CUpti_PmSampling_SetConfig_Params::structSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_SetConfig_Params, structSize) - 0usize];
    ["Offset of field: CUpti_PmSampling_SetConfig_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_PmSampling_SetConfig_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_PmSampling_SetConfig_Params::pPmSamplingObject"]
        [::std::mem::offset_of!(CUpti_PmSampling_SetConfig_Params, pPmSamplingObject) - 16usize];
    ["Offset of field: CUpti_PmSampling_SetConfig_Params::configSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_SetConfig_Params, configSize) - 24usize];
    ["Offset of field: CUpti_PmSampling_SetConfig_Params::pConfig"]
        [::std::mem::offset_of!(CUpti_PmSampling_SetConfig_Params, pConfig) - 32usize];
    ["Offset of field: CUpti_PmSampling_SetConfig_Params::hardwareBufferSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_SetConfig_Params, hardwareBufferSize) - 40usize];
    ["Offset of field: CUpti_PmSampling_SetConfig_Params::samplingInterval"]
        [::std::mem::offset_of!(CUpti_PmSampling_SetConfig_Params, samplingInterval) - 48usize];
    ["Offset of field: CUpti_PmSampling_SetConfig_Params::triggerMode"]
        [::std::mem::offset_of!(CUpti_PmSampling_SetConfig_Params, triggerMode) - 56usize];
    ["Offset of field: CUpti_PmSampling_SetConfig_Params::hwBufferAppendMode"]
        [::std::mem::offset_of!(CUpti_PmSampling_SetConfig_Params, hwBufferAppendMode) - 60usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_PmSampling_Enable_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub deviceIndex: usize,
    pub pPmSamplingObject: *mut CUpti_PmSampling_Object,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_PmSampling_Enable_Params"]
        [::std::mem::size_of::<CUpti_PmSampling_Enable_Params>() - 32usize];
    ["Alignment of CUpti_PmSampling_Enable_Params"]
        [::std::mem::align_of::<CUpti_PmSampling_Enable_Params>() - 8usize];
    ["Offset of field: CUpti_PmSampling_Enable_Params::structSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_Enable_Params, structSize) - 0usize];
    ["Offset of field: CUpti_PmSampling_Enable_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_PmSampling_Enable_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_PmSampling_Enable_Params::deviceIndex"]
        [::std::mem::offset_of!(CUpti_PmSampling_Enable_Params, deviceIndex) - 16usize];
    ["Offset of field: CUpti_PmSampling_Enable_Params::pPmSamplingObject"]
        [::std::mem::offset_of!(CUpti_PmSampling_Enable_Params, pPmSamplingObject) - 24usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_PmSampling_Disable_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pPmSamplingObject: *mut CUpti_PmSampling_Object,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_PmSampling_Disable_Params"]
        [::std::mem::size_of::<CUpti_PmSampling_Disable_Params>() - 24usize];
    ["Alignment of CUpti_PmSampling_Disable_Params"]
        [::std::mem::align_of::<CUpti_PmSampling_Disable_Params>() - 8usize];
    ["Offset of field: CUpti_PmSampling_Disable_Params::structSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_Disable_Params, structSize) - 0usize];
    ["Offset of field: CUpti_PmSampling_Disable_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_PmSampling_Disable_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_PmSampling_Disable_Params::pPmSamplingObject"]
        [::std::mem::offset_of!(CUpti_PmSampling_Disable_Params, pPmSamplingObject) - 16usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_PmSampling_Start_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pPmSamplingObject: *mut CUpti_PmSampling_Object,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_PmSampling_Start_Params"]
        [::std::mem::size_of::<CUpti_PmSampling_Start_Params>() - 24usize];
    ["Alignment of CUpti_PmSampling_Start_Params"]
        [::std::mem::align_of::<CUpti_PmSampling_Start_Params>() - 8usize];
    ["Offset of field: CUpti_PmSampling_Start_Params::structSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_Start_Params, structSize) - 0usize];
    ["Offset of field: CUpti_PmSampling_Start_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_PmSampling_Start_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_PmSampling_Start_Params::pPmSamplingObject"]
        [::std::mem::offset_of!(CUpti_PmSampling_Start_Params, pPmSamplingObject) - 16usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_PmSampling_Stop_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pPmSamplingObject: *mut CUpti_PmSampling_Object,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_PmSampling_Stop_Params"]
        [::std::mem::size_of::<CUpti_PmSampling_Stop_Params>() - 24usize];
    ["Alignment of CUpti_PmSampling_Stop_Params"]
        [::std::mem::align_of::<CUpti_PmSampling_Stop_Params>() - 8usize];
    ["Offset of field: CUpti_PmSampling_Stop_Params::structSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_Stop_Params, structSize) - 0usize];
    ["Offset of field: CUpti_PmSampling_Stop_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_PmSampling_Stop_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_PmSampling_Stop_Params::pPmSamplingObject"]
        [::std::mem::offset_of!(CUpti_PmSampling_Stop_Params, pPmSamplingObject) - 16usize];
};
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_PmSampling_DecodeData_Params"]
        [::std::mem::size_of::<CUpti_PmSampling_DecodeData_Params>() - 48usize];
    ["Alignment of CUpti_PmSampling_DecodeData_Params"]
        [::std::mem::align_of::<CUpti_PmSampling_DecodeData_Params>() - 8usize];
    ["Offset of field: CUpti_PmSampling_DecodeData_Params::structSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_DecodeData_Params, structSize) - 0usize];
    ["Offset of field: CUpti_PmSampling_DecodeData_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_PmSampling_DecodeData_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_PmSampling_DecodeData_Params::pPmSamplingObject"]
        [::std::mem::offset_of!(CUpti_PmSampling_DecodeData_Params, pPmSamplingObject) - 16usize];
    ["Offset of field: CUpti_PmSampling_DecodeData_Params::pCounterDataImage"]
        [::std::mem::offset_of!(CUpti_PmSampling_DecodeData_Params, pCounterDataImage) - 24usize];
    ["Offset of field: CUpti_PmSampling_DecodeData_Params::counterDataImageSize"][::std::mem::offset_of!(
        CUpti_PmSampling_DecodeData_Params,
        counterDataImageSize
    ) - 32usize];
    ["Offset of field: CUpti_PmSampling_DecodeData_Params::decodeStopReason"]
        [::std::mem::offset_of!(CUpti_PmSampling_DecodeData_Params, decodeStopReason) - 40usize];
    ["Offset of field: CUpti_PmSampling_DecodeData_Params::overflow"]
        [::std::mem::offset_of!(CUpti_PmSampling_DecodeData_Params, overflow) - 44usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_PmSampling_GetCounterAvailability_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub deviceIndex: usize,
    pub counterAvailabilityImageSize: usize,
    pub pCounterAvailabilityImage: *mut u8,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_PmSampling_GetCounterAvailability_Params"]
        [::std::mem::size_of::<CUpti_PmSampling_GetCounterAvailability_Params>() - 40usize];
    ["Alignment of CUpti_PmSampling_GetCounterAvailability_Params"]
        [::std::mem::align_of::<CUpti_PmSampling_GetCounterAvailability_Params>() - 8usize];
    ["Offset of field: CUpti_PmSampling_GetCounterAvailability_Params::structSize"][::std::mem::offset_of!(
        CUpti_PmSampling_GetCounterAvailability_Params,
        structSize
    ) - 0usize];
    ["Offset of field: CUpti_PmSampling_GetCounterAvailability_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterAvailability_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_PmSampling_GetCounterAvailability_Params::deviceIndex"][::std::mem::offset_of!(
        CUpti_PmSampling_GetCounterAvailability_Params,
        deviceIndex
    ) - 16usize];
    [
        "Offset of field: CUpti_PmSampling_GetCounterAvailability_Params::counterAvailabilityImageSize",
    ][::std::mem::offset_of!(
        CUpti_PmSampling_GetCounterAvailability_Params,
        counterAvailabilityImageSize
    ) - 24usize];
    ["Offset of field: CUpti_PmSampling_GetCounterAvailability_Params::pCounterAvailabilityImage"]
        [::std::mem::offset_of!(
            CUpti_PmSampling_GetCounterAvailability_Params,
            pCounterAvailabilityImage
        ) - 32usize];
};
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_PmSampling_GetCounterDataSize_Params"]
        [::std::mem::size_of::<CUpti_PmSampling_GetCounterDataSize_Params>() - 56usize];
    ["Alignment of CUpti_PmSampling_GetCounterDataSize_Params"]
        [::std::mem::align_of::<CUpti_PmSampling_GetCounterDataSize_Params>() - 8usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataSize_Params::structSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterDataSize_Params, structSize) - 0usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataSize_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterDataSize_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataSize_Params::pPmSamplingObject"][::std::mem::offset_of!(
        CUpti_PmSampling_GetCounterDataSize_Params,
        pPmSamplingObject
    ) - 16usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataSize_Params::pMetricNames"][::std::mem::offset_of!(
        CUpti_PmSampling_GetCounterDataSize_Params,
        pMetricNames
    ) - 24usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataSize_Params::numMetrics"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterDataSize_Params, numMetrics) - 32usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataSize_Params::maxSamples"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterDataSize_Params, maxSamples) - 40usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataSize_Params::counterDataSize"][::std::mem::offset_of!(
        CUpti_PmSampling_GetCounterDataSize_Params,
        counterDataSize
    ) - 48usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_PmSampling_CounterDataImage_Initialize_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pPmSamplingObject: *mut CUpti_PmSampling_Object,
    pub counterDataSize: usize,
    pub pCounterData: *mut u8,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_PmSampling_CounterDataImage_Initialize_Params"]
        [::std::mem::size_of::<CUpti_PmSampling_CounterDataImage_Initialize_Params>() - 40usize];
    ["Alignment of CUpti_PmSampling_CounterDataImage_Initialize_Params"]
        [::std::mem::align_of::<CUpti_PmSampling_CounterDataImage_Initialize_Params>() - 8usize];
    ["Offset of field: CUpti_PmSampling_CounterDataImage_Initialize_Params::structSize"][::std::mem::offset_of!(
        CUpti_PmSampling_CounterDataImage_Initialize_Params,
        structSize
    )
        - 0usize];
    ["Offset of field: CUpti_PmSampling_CounterDataImage_Initialize_Params::pPriv"][::std::mem::offset_of!(
        CUpti_PmSampling_CounterDataImage_Initialize_Params,
        pPriv
    ) - 8usize];
    ["Offset of field: CUpti_PmSampling_CounterDataImage_Initialize_Params::pPmSamplingObject"][::std::mem::offset_of!(
        CUpti_PmSampling_CounterDataImage_Initialize_Params,
        pPmSamplingObject
    )
        - 16usize];
    ["Offset of field: CUpti_PmSampling_CounterDataImage_Initialize_Params::counterDataSize"][::std::mem::offset_of!(
        CUpti_PmSampling_CounterDataImage_Initialize_Params,
        counterDataSize
    )
        - 24usize];
    ["Offset of field: CUpti_PmSampling_CounterDataImage_Initialize_Params::pCounterData"][::std::mem::offset_of!(
        CUpti_PmSampling_CounterDataImage_Initialize_Params,
        pCounterData
    )
        - 32usize];
};
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_PmSampling_GetCounterDataInfo_Params"]
        [::std::mem::size_of::<CUpti_PmSampling_GetCounterDataInfo_Params>() - 56usize];
    ["Alignment of CUpti_PmSampling_GetCounterDataInfo_Params"]
        [::std::mem::align_of::<CUpti_PmSampling_GetCounterDataInfo_Params>() - 8usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataInfo_Params::structSize"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterDataInfo_Params, structSize) - 0usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataInfo_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_PmSampling_GetCounterDataInfo_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataInfo_Params::pCounterDataImage"][::std::mem::offset_of!(
        CUpti_PmSampling_GetCounterDataInfo_Params,
        pCounterDataImage
    ) - 16usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataInfo_Params::counterDataImageSize"][::std::mem::offset_of!(
        CUpti_PmSampling_GetCounterDataInfo_Params,
        counterDataImageSize
    )
        - 24usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataInfo_Params::numTotalSamples"][::std::mem::offset_of!(
        CUpti_PmSampling_GetCounterDataInfo_Params,
        numTotalSamples
    ) - 32usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataInfo_Params::numPopulatedSamples"][::std::mem::offset_of!(
        CUpti_PmSampling_GetCounterDataInfo_Params,
        numPopulatedSamples
    )
        - 40usize];
    ["Offset of field: CUpti_PmSampling_GetCounterDataInfo_Params::numCompletedSamples"][::std::mem::offset_of!(
        CUpti_PmSampling_GetCounterDataInfo_Params,
        numCompletedSamples
    )
        - 48usize];
};
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_PmSampling_CounterData_GetSampleInfo_Params"]
        [::std::mem::size_of::<CUpti_PmSampling_CounterData_GetSampleInfo_Params>() - 64usize];
    ["Alignment of CUpti_PmSampling_CounterData_GetSampleInfo_Params"]
        [::std::mem::align_of::<CUpti_PmSampling_CounterData_GetSampleInfo_Params>() - 8usize];
    ["Offset of field: CUpti_PmSampling_CounterData_GetSampleInfo_Params::structSize"][::std::mem::offset_of!(
        CUpti_PmSampling_CounterData_GetSampleInfo_Params,
        structSize
    ) - 0usize];
    ["Offset of field: CUpti_PmSampling_CounterData_GetSampleInfo_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_PmSampling_CounterData_GetSampleInfo_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_PmSampling_CounterData_GetSampleInfo_Params::pPmSamplingObject"][::std::mem::offset_of!(
        CUpti_PmSampling_CounterData_GetSampleInfo_Params,
        pPmSamplingObject
    )
        - 16usize];
    ["Offset of field: CUpti_PmSampling_CounterData_GetSampleInfo_Params::pCounterDataImage"][::std::mem::offset_of!(
        CUpti_PmSampling_CounterData_GetSampleInfo_Params,
        pCounterDataImage
    )
        - 24usize];
    ["Offset of field: CUpti_PmSampling_CounterData_GetSampleInfo_Params::counterDataImageSize"][::std::mem::offset_of!(
        CUpti_PmSampling_CounterData_GetSampleInfo_Params,
        counterDataImageSize
    )
        - 32usize];
    ["Offset of field: CUpti_PmSampling_CounterData_GetSampleInfo_Params::sampleIndex"][::std::mem::offset_of!(
        CUpti_PmSampling_CounterData_GetSampleInfo_Params,
        sampleIndex
    )
        - 40usize];
    ["Offset of field: CUpti_PmSampling_CounterData_GetSampleInfo_Params::startTimestamp"][::std::mem::offset_of!(
        CUpti_PmSampling_CounterData_GetSampleInfo_Params,
        startTimestamp
    )
        - 48usize];
    ["Offset of field: CUpti_PmSampling_CounterData_GetSampleInfo_Params::endTimestamp"][::std::mem::offset_of!(
        CUpti_PmSampling_CounterData_GetSampleInfo_Params,
        endTimestamp
    )
        - 56usize];
};
pub const CUPTI_PROFILER_TYPE_RANGE_PROFILER: CUpti_ProfilerType = 0;
pub const CUPTI_PROFILER_TYPE_PM_SAMPLING: CUpti_ProfilerType = 1;
pub const CUPTI_PROFILER_TYPE_PROFILER_INVALID: CUpti_ProfilerType = 2;
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_Profiler_Host_Initialize_Params"]
        [::std::mem::size_of::<CUpti_Profiler_Host_Initialize_Params>() - 56usize];
    ["Alignment of CUpti_Profiler_Host_Initialize_Params"]
        [::std::mem::align_of::<CUpti_Profiler_Host_Initialize_Params>() - 8usize];
    ["Offset of field: CUpti_Profiler_Host_Initialize_Params::structSize"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_Initialize_Params, structSize) - 0usize];
    ["Offset of field: CUpti_Profiler_Host_Initialize_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_Initialize_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_Profiler_Host_Initialize_Params::profilerType"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_Initialize_Params, profilerType) - 16usize];
    ["Offset of field: CUpti_Profiler_Host_Initialize_Params::pChipName"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_Initialize_Params, pChipName) - 24usize];
    ["Offset of field: CUpti_Profiler_Host_Initialize_Params::pCounterAvailabilityImage"][::std::mem::offset_of!(
        CUpti_Profiler_Host_Initialize_Params,
        pCounterAvailabilityImage
    )
        - 32usize];
    ["Offset of field: CUpti_Profiler_Host_Initialize_Params::pHostObject"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_Initialize_Params, pHostObject) - 40usize];
    ["Offset of field: CUpti_Profiler_Host_Initialize_Params::pSinglePassMetricSetName"][::std::mem::offset_of!(
        CUpti_Profiler_Host_Initialize_Params,
        pSinglePassMetricSetName
    )
        - 48usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_Profiler_Host_Deinitialize_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pHostObject: *mut CUpti_Profiler_Host_Object,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_Profiler_Host_Deinitialize_Params"]
        [::std::mem::size_of::<CUpti_Profiler_Host_Deinitialize_Params>() - 24usize];
    ["Alignment of CUpti_Profiler_Host_Deinitialize_Params"]
        [::std::mem::align_of::<CUpti_Profiler_Host_Deinitialize_Params>() - 8usize];
    ["Offset of field: CUpti_Profiler_Host_Deinitialize_Params::structSize"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_Deinitialize_Params, structSize) - 0usize];
    ["Offset of field: CUpti_Profiler_Host_Deinitialize_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_Deinitialize_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_Profiler_Host_Deinitialize_Params::pHostObject"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_Deinitialize_Params, pHostObject) - 16usize];
};
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
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_Profiler_Host_EvaluateToGpuValues_Params"]
        [::std::mem::size_of::<CUpti_Profiler_Host_EvaluateToGpuValues_Params>() - 72usize];
    ["Alignment of CUpti_Profiler_Host_EvaluateToGpuValues_Params"]
        [::std::mem::align_of::<CUpti_Profiler_Host_EvaluateToGpuValues_Params>() - 8usize];
    ["Offset of field: CUpti_Profiler_Host_EvaluateToGpuValues_Params::structSize"][::std::mem::offset_of!(
        CUpti_Profiler_Host_EvaluateToGpuValues_Params,
        structSize
    ) - 0usize];
    ["Offset of field: CUpti_Profiler_Host_EvaluateToGpuValues_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_EvaluateToGpuValues_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_Profiler_Host_EvaluateToGpuValues_Params::pHostObject"][::std::mem::offset_of!(
        CUpti_Profiler_Host_EvaluateToGpuValues_Params,
        pHostObject
    ) - 16usize];
    ["Offset of field: CUpti_Profiler_Host_EvaluateToGpuValues_Params::pCounterDataImage"][::std::mem::offset_of!(
        CUpti_Profiler_Host_EvaluateToGpuValues_Params,
        pCounterDataImage
    )
        - 24usize];
    ["Offset of field: CUpti_Profiler_Host_EvaluateToGpuValues_Params::counterDataImageSize"][::std::mem::offset_of!(
        CUpti_Profiler_Host_EvaluateToGpuValues_Params,
        counterDataImageSize
    )
        - 32usize];
    ["Offset of field: CUpti_Profiler_Host_EvaluateToGpuValues_Params::rangeIndex"][::std::mem::offset_of!(
        CUpti_Profiler_Host_EvaluateToGpuValues_Params,
        rangeIndex
    ) - 40usize];
    ["Offset of field: CUpti_Profiler_Host_EvaluateToGpuValues_Params::ppMetricNames"][::std::mem::offset_of!(
        CUpti_Profiler_Host_EvaluateToGpuValues_Params,
        ppMetricNames
    ) - 48usize];
    ["Offset of field: CUpti_Profiler_Host_EvaluateToGpuValues_Params::numMetrics"][::std::mem::offset_of!(
        CUpti_Profiler_Host_EvaluateToGpuValues_Params,
        numMetrics
    ) - 56usize];
    ["Offset of field: CUpti_Profiler_Host_EvaluateToGpuValues_Params::pMetricValues"][::std::mem::offset_of!(
        CUpti_Profiler_Host_EvaluateToGpuValues_Params,
        pMetricValues
    ) - 64usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_Profiler_Host_ConfigAddMetrics_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pHostObject: *mut CUpti_Profiler_Host_Object,
    pub ppMetricNames: *mut *const ::std::os::raw::c_char,
    pub numMetrics: usize,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_Profiler_Host_ConfigAddMetrics_Params"]
        [::std::mem::size_of::<CUpti_Profiler_Host_ConfigAddMetrics_Params>() - 40usize];
    ["Alignment of CUpti_Profiler_Host_ConfigAddMetrics_Params"]
        [::std::mem::align_of::<CUpti_Profiler_Host_ConfigAddMetrics_Params>() - 8usize];
    ["Offset of field: CUpti_Profiler_Host_ConfigAddMetrics_Params::structSize"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_ConfigAddMetrics_Params, structSize) - 0usize];
    ["Offset of field: CUpti_Profiler_Host_ConfigAddMetrics_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_ConfigAddMetrics_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_Profiler_Host_ConfigAddMetrics_Params::pHostObject"][::std::mem::offset_of!(
        CUpti_Profiler_Host_ConfigAddMetrics_Params,
        pHostObject
    ) - 16usize];
    ["Offset of field: CUpti_Profiler_Host_ConfigAddMetrics_Params::ppMetricNames"][::std::mem::offset_of!(
        CUpti_Profiler_Host_ConfigAddMetrics_Params,
        ppMetricNames
    ) - 24usize];
    ["Offset of field: CUpti_Profiler_Host_ConfigAddMetrics_Params::numMetrics"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_ConfigAddMetrics_Params, numMetrics) - 32usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_Profiler_Host_GetConfigImageSize_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pHostObject: *mut CUpti_Profiler_Host_Object,
    pub configImageSize: usize,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_Profiler_Host_GetConfigImageSize_Params"]
        [::std::mem::size_of::<CUpti_Profiler_Host_GetConfigImageSize_Params>() - 32usize];
    ["Alignment of CUpti_Profiler_Host_GetConfigImageSize_Params"]
        [::std::mem::align_of::<CUpti_Profiler_Host_GetConfigImageSize_Params>() - 8usize];
    ["Offset of field: CUpti_Profiler_Host_GetConfigImageSize_Params::structSize"][::std::mem::offset_of!(
        CUpti_Profiler_Host_GetConfigImageSize_Params,
        structSize
    ) - 0usize];
    ["Offset of field: CUpti_Profiler_Host_GetConfigImageSize_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetConfigImageSize_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_Profiler_Host_GetConfigImageSize_Params::pHostObject"][::std::mem::offset_of!(
        CUpti_Profiler_Host_GetConfigImageSize_Params,
        pHostObject
    ) - 16usize];
    ["Offset of field: CUpti_Profiler_Host_GetConfigImageSize_Params::configImageSize"][::std::mem::offset_of!(
        CUpti_Profiler_Host_GetConfigImageSize_Params,
        configImageSize
    )
        - 24usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_Profiler_Host_GetConfigImage_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub pHostObject: *mut CUpti_Profiler_Host_Object,
    pub configImageSize: usize,
    pub pConfigImage: *mut u8,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_Profiler_Host_GetConfigImage_Params"]
        [::std::mem::size_of::<CUpti_Profiler_Host_GetConfigImage_Params>() - 40usize];
    ["Alignment of CUpti_Profiler_Host_GetConfigImage_Params"]
        [::std::mem::align_of::<CUpti_Profiler_Host_GetConfigImage_Params>() - 8usize];
    ["Offset of field: CUpti_Profiler_Host_GetConfigImage_Params::structSize"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetConfigImage_Params, structSize) - 0usize];
    ["Offset of field: CUpti_Profiler_Host_GetConfigImage_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetConfigImage_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_Profiler_Host_GetConfigImage_Params::pHostObject"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetConfigImage_Params, pHostObject) - 16usize];
    ["Offset of field: CUpti_Profiler_Host_GetConfigImage_Params::configImageSize"][::std::mem::offset_of!(
        CUpti_Profiler_Host_GetConfigImage_Params,
        configImageSize
    ) - 24usize];
    ["Offset of field: CUpti_Profiler_Host_GetConfigImage_Params::pConfigImage"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetConfigImage_Params, pConfigImage) - 32usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_Profiler_Host_GetNumOfPasses_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub configImageSize: usize,
    pub pConfigImage: *mut u8,
    pub numOfPasses: usize,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_Profiler_Host_GetNumOfPasses_Params"]
        [::std::mem::size_of::<CUpti_Profiler_Host_GetNumOfPasses_Params>() - 40usize];
    ["Alignment of CUpti_Profiler_Host_GetNumOfPasses_Params"]
        [::std::mem::align_of::<CUpti_Profiler_Host_GetNumOfPasses_Params>() - 8usize];
    ["Offset of field: CUpti_Profiler_Host_GetNumOfPasses_Params::structSize"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetNumOfPasses_Params, structSize) - 0usize];
    ["Offset of field: CUpti_Profiler_Host_GetNumOfPasses_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetNumOfPasses_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_Profiler_Host_GetNumOfPasses_Params::configImageSize"][::std::mem::offset_of!(
        CUpti_Profiler_Host_GetNumOfPasses_Params,
        configImageSize
    ) - 16usize];
    ["Offset of field: CUpti_Profiler_Host_GetNumOfPasses_Params::pConfigImage"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetNumOfPasses_Params, pConfigImage) - 24usize];
    ["Offset of field: CUpti_Profiler_Host_GetNumOfPasses_Params::numOfPasses"]
        [::std::mem::offset_of!(CUpti_Profiler_Host_GetNumOfPasses_Params, numOfPasses) - 32usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_Profiler_Initialize_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_Profiler_Initialize_Params"]
        [::std::mem::size_of::<CUpti_Profiler_Initialize_Params>() - 16usize];
    ["Alignment of CUpti_Profiler_Initialize_Params"]
        [::std::mem::align_of::<CUpti_Profiler_Initialize_Params>() - 8usize];
    ["Offset of field: CUpti_Profiler_Initialize_Params::structSize"]
        [::std::mem::offset_of!(CUpti_Profiler_Initialize_Params, structSize) - 0usize];
    ["Offset of field: CUpti_Profiler_Initialize_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_Profiler_Initialize_Params, pPriv) - 8usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct CUpti_Device_GetChipName_Params {
    pub structSize: usize,
    pub pPriv: *mut ::std::os::raw::c_void,
    pub deviceIndex: usize,
    pub pChipName: *const ::std::os::raw::c_char,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of CUpti_Device_GetChipName_Params"]
        [::std::mem::size_of::<CUpti_Device_GetChipName_Params>() - 32usize];
    ["Alignment of CUpti_Device_GetChipName_Params"]
        [::std::mem::align_of::<CUpti_Device_GetChipName_Params>() - 8usize];
    ["Offset of field: CUpti_Device_GetChipName_Params::structSize"]
        [::std::mem::offset_of!(CUpti_Device_GetChipName_Params, structSize) - 0usize];
    ["Offset of field: CUpti_Device_GetChipName_Params::pPriv"]
        [::std::mem::offset_of!(CUpti_Device_GetChipName_Params, pPriv) - 8usize];
    ["Offset of field: CUpti_Device_GetChipName_Params::deviceIndex"]
        [::std::mem::offset_of!(CUpti_Device_GetChipName_Params, deviceIndex) - 16usize];
    ["Offset of field: CUpti_Device_GetChipName_Params::pChipName"]
        [::std::mem::offset_of!(CUpti_Device_GetChipName_Params, pChipName) - 24usize];
};
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
pub type cuptiActivityEnableRuntimeApi =
    ::std::option::Option<unsafe extern "C" fn(arg1: CUpti_CallbackId, arg2: u8) -> CUptiResult>;
pub type cuptiActivityEnable_v2 = ::std::option::Option<
    unsafe extern "C" fn(
        arg1: CUpti_SubscriberHandle,
        arg2: CUpti_ActivityKind,
        arg3: *mut CUpti_ActivityConfig,
    ) -> CUptiResult,
>;
pub type cuptiActivityFlushAll =
    ::std::option::Option<unsafe extern "C" fn(arg1: u32) -> CUptiResult>;
pub type cuptiActivityFlushPeriod =
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
pub type cuptiEnableDomain = ::std::option::Option<
    unsafe extern "C" fn(
        arg1: u32,
        arg2: CUpti_SubscriberHandle,
        arg3: CUpti_CallbackDomain,
    ) -> CUptiResult,
>;
pub type cuptiFinalize = ::std::option::Option<unsafe extern "C" fn() -> CUptiResult>;
pub type cuptiGetCallbackName = ::std::option::Option<
    unsafe extern "C" fn(
        arg1: CUpti_CallbackDomain,
        arg2: u32,
        arg3: *mut *const ::std::os::raw::c_char,
    ) -> CUptiResult,
>;
pub type cuptiGetContextId =
    ::std::option::Option<unsafe extern "C" fn(arg1: CUcontext, arg2: *mut u32) -> CUptiResult>;
pub type cuptiGetDeviceId =
    ::std::option::Option<unsafe extern "C" fn(arg1: CUcontext, arg2: *mut u32) -> CUptiResult>;
pub type cuptiGetErrorMessage = ::std::option::Option<
    unsafe extern "C" fn(
        arg1: CUptiResult,
        arg2: *mut *const ::std::os::raw::c_char,
    ) -> CUptiResult,
>;
pub type cuptiGetGraphExecId =
    ::std::option::Option<unsafe extern "C" fn(arg1: CUgraphExec, arg2: *mut u32) -> CUptiResult>;
pub type cuptiGetGraphId =
    ::std::option::Option<unsafe extern "C" fn(arg1: CUgraph, arg2: *mut u32) -> CUptiResult>;
pub type cuptiGetGraphNodeId =
    ::std::option::Option<unsafe extern "C" fn(arg1: CUgraphNode, arg2: *mut u64) -> CUptiResult>;
pub type cuptiGetLastError = ::std::option::Option<unsafe extern "C" fn() -> CUptiResult>;
pub type cuptiGetResultString = ::std::option::Option<
    unsafe extern "C" fn(
        arg1: CUptiResult,
        arg2: *mut *const ::std::os::raw::c_char,
    ) -> CUptiResult,
>;
pub type cuptiGetStreamIdEx = ::std::option::Option<
    unsafe extern "C" fn(arg1: CUcontext, arg2: CUstream, arg3: u8, arg4: *mut u32) -> CUptiResult,
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
pub type cuptiSetThreadIdType =
    ::std::option::Option<unsafe extern "C" fn(arg1: CUpti_ActivityThreadIdType) -> CUptiResult>;
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
