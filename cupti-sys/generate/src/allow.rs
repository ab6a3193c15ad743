//! What goes into the bindings: the names that a kernel collector reads or calls.

/// CUPTI functions whose types are generated.
#[rustfmt::skip]
pub const FUNCTIONS: &[&str] = &[
    "cuptiActivityDisable", "cuptiActivityDisable_v2", "cuptiActivityEnable",
    "cuptiActivityEnableAndDump", "cuptiActivityEnableDriverApi", "cuptiActivityEnableHWTrace",
    "cuptiActivityEnableRuntimeApi", "cuptiActivityEnable_v2", "cuptiActivityFlushAll",
    "cuptiActivityFlushPeriod", "cuptiActivityGetAttribute", "cuptiActivityGetAttribute_v2",
    "cuptiActivityGetNextRecord", "cuptiActivityGetNextRecord_v2",
    "cuptiActivityGetNumDroppedRecords", "cuptiActivityGetNumDroppedRecords_v2",
    "cuptiActivityRegisterCallbacks", "cuptiActivityRegisterCallbacks_v2",
    "cuptiActivitySetAttribute", "cuptiActivitySetAttribute_v2", "cuptiDeviceGetChipName",
    "cuptiEnableCallback", "cuptiEnableDomain", "cuptiFinalize", "cuptiGetCallbackName",
    "cuptiGetContextId", "cuptiGetDeviceId", "cuptiGetErrorMessage", "cuptiGetGraphExecId",
    "cuptiGetGraphId", "cuptiGetGraphNodeId", "cuptiGetLastError", "cuptiGetResultString",
    "cuptiGetStreamIdEx", "cuptiGetTimestamp", "cuptiGetTimestamp_v2", "cuptiGetVersion",
    "cuptiPmSamplingCounterDataGetSampleInfo", "cuptiPmSamplingCounterDataImageInitialize",
    "cuptiPmSamplingDecodeData", "cuptiPmSamplingDisable", "cuptiPmSamplingEnable",
    "cuptiPmSamplingGetCounterAvailability", "cuptiPmSamplingGetCounterDataInfo",
    "cuptiPmSamplingGetCounterDataSize", "cuptiPmSamplingSetConfig", "cuptiPmSamplingStart",
    "cuptiPmSamplingStop", "cuptiProfilerHostConfigAddMetrics", "cuptiProfilerHostDeinitialize",
    "cuptiProfilerHostEvaluateToGpuValues", "cuptiProfilerHostGetConfigImage",
    "cuptiProfilerHostGetConfigImageSize", "cuptiProfilerHostGetNumOfPasses",
    "cuptiProfilerHostInitialize", "cuptiProfilerInitialize", "cuptiSetThreadIdType",
    "cuptiSubscribe", "cuptiSubscribe_v2", "cuptiUnsubscribe",
];

/// Types of CUPTI (regular expressions): records, callback data, and the enums of their values.
///
/// The records without the highest number are the layouts of CUPTI 11.8: each is a prefix of every
/// later one, so it is what a reader of records from any version may copy out whole.
#[rustfmt::skip]
pub const TYPES: &[&str] = &[
    "CUpti_Activity", "CUpti_ActivityKernel(8|10|13)", "CUpti_ActivityMemcpy[567]",
    "CUpti_ActivityMemcpyPtoP4", "CUpti_ActivityMemset[45]", "CUpti_ActivityGraphTrace2?",
    "CUpti_ActivityDevice[46]", "CUpti_ActivityContext4?", "CUpti_ActivityStream",
    "CUpti_ActivityAPI", "CUpti_ActivityOverhead3?", "CUpti_ActivitySynchronization2?",
    "CUpti_ActivityKind", "CUpti_ActivityAttribute", "CUpti_ActivityFlag",
    "CUpti_ActivityLaunchType", "CUpti_ActivityMemcpyKind", "CUpti_ActivityMemoryKind",
    "CUpti_ActivityOverheadKind", "CUpti_ActivitySynchronizationType", "CUpti_ActivityThreadIdType",
    "CUpti_Activity(Kernel|Memcpy2?|Memset|GraphTrace|Api|Device|Context)FieldIds",
    "CUpti_ApiCallbackSite", "CUpti_BuffersCallback(Request|Complete)Func(_v2)?",
    "CUpti_CallbackData", "CUpti_CallbackDomain", "CUpti_CallbackFunc",
    "CUpti_CallbackId(Resource|State)", "CUpti_ChannelType", "CUpti_GraphData",
    "CUpti_ModuleResourceData", "CUpti_ResourceData", "CUpti_StateData", "CUpti_SubscriberHandle",
    "CUpti_SubscriberParams", "CUpti_driver_api_trace_cbid", "CUpti_runtime_api_trace_cbid",
    "CUptiResult",
];

/// Types of NVTX (regular expressions).
#[rustfmt::skip]
pub const NVTX_TYPES: &[&str] = &[
    "NvtxCallbackIdCore2?", "NvtxCallbackModule", "NvtxExportTable(Callbacks|ID|VersionInfo)",
    "NvtxExtInitializeInjectionFunc_t", "NvtxGetExportTableFunc_t",
    "NvtxInitializeInjectionNvtxFunc_t", "nvtx(Color|Message|Payload)Type_t",
    "nvtxDomain(Create[AW]|Destroy)_impl_fntype",
    "nvtxDomain(MarkEx|NameCategory[AW]|Range(StartEx|End|PushEx|Pop))_impl_fntype",
    "nvtxDomain(RegisterString[AW]|Resource(Create|Destroy))_impl_fntype", "nvtxEventAttributes_t",
    "nvtxExtModule(Info|Segment)_t", "nvtxInitialize_impl_fntype", "nvtxMark(A|W|Ex)_impl_fntype",
    "nvtxName(Category|OsThread)[AW]_impl_fntype",
    "nvtxPayload(Data|Enum|EnumAttr|SchemaAttr|SchemaEntry)_t",
    "nvtxRange(End|Pop|(Push|Start)(A|W|Ex))_impl_fntype", "nvtxResourceAttributes_t",
];

/// Functions of NVTX's payload extension whose types are generated.
#[rustfmt::skip]
pub const NVTX_FUNCTIONS: &[&str] = &[
    "nvtxDomainIsEnabled", "nvtxMarkPayload", "nvtxPayloadEnumRegister",
    "nvtxPayloadSchemaRegister", "nvtxRangeEndPayload", "nvtxRangePopPayload",
    "nvtxRangePushPayload", "nvtxRangeStartPayload",
];

/// Constants of NVTX that are macros or ours (regular expressions).
#[rustfmt::skip]
pub const NVTX_CONSTANTS: &[&str] = &[
    "NVTX3EXT_CBID_nvtx(DomainIsEnabled|MarkPayload)",
    "NVTX3EXT_CBID_nvtxPayload(Enum|Schema)Register",
    "NVTX3EXT_CBID_nvtxRange(Push|Pop|Start|End)Payload", "NVTX_EXT_PAYLOAD_(MODULEID|COMPATID)",
    "NVTX_PAYLOAD_ENTRY_(FLAG|TYPE)_.*", "NVTX_PAYLOAD_(ENUM|SCHEMA)_ATTR_.*",
    "NVTX_PAYLOAD_SCHEMA_TYPE_.*", "NVTX_PAYLOAD_TYPE_EXTENDED", "NVTX_PUSH_POP_NOT_TRACKED",
    "NVTX_VERSION",
];

/// Whether an enum value is kept: of the ids of CUDA's functions only those that a collector can
/// meet, of everything else all.
pub fn keeps_variant(name: &str) -> bool {
    /// What puts work on the GPU, what builds graphs from it, and the cheap call used as a fence.
    const CALLS: &[&str] = &[
        "DriverGetVersion",
        "GraphExecDestroy",
        "GraphInstantiate",
        "GraphLaunch",
        "Launch",
        "MemPrefetch",
        "Memcpy",
        "Memset",
        "StreamBeginCapture",
        "StreamEndCapture",
    ];
    let call = name
        .strip_prefix("CUPTI_DRIVER_TRACE_CBID_")
        .or_else(|| name.strip_prefix("CUPTI_RUNTIME_TRACE_CBID_"));
    match call {
        Some("SIZE") => true,
        Some(call) => {
            let call = call.trim_start_matches('_');
            let verb = call.strip_prefix("cuda").or_else(|| call.strip_prefix("cu"));
            verb.is_some_and(|verb| CALLS.iter().any(|kept| verb.starts_with(kept)))
        }
        // The value that only makes the C enum 32 bits wide.
        None => !name.ends_with("_FORCE_INT"),
    }
}
