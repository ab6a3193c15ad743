//! The functions whose types are generated. Of structs, enums and constants all are generated.

/// Functions of CUPTI.
#[rustfmt::skip]
pub const FUNCTIONS: &[&str] = &[
    "cuptiActivityDisable", "cuptiActivityDisable_v2", "cuptiActivityEnable",
    "cuptiActivityEnableAndDump", "cuptiActivityEnableDriverApi", "cuptiActivityEnableHWTrace",
    "cuptiActivityEnable_v2", "cuptiActivityFlushAll", "cuptiActivityGetAttribute",
    "cuptiActivityGetAttribute_v2", "cuptiActivityGetNextRecord", "cuptiActivityGetNextRecord_v2",
    "cuptiActivityGetNumDroppedRecords", "cuptiActivityGetNumDroppedRecords_v2",
    "cuptiActivityRegisterCallbacks", "cuptiActivityRegisterCallbacks_v2",
    "cuptiActivitySetAttribute", "cuptiActivitySetAttribute_v2", "cuptiDeviceGetChipName",
    "cuptiEnableCallback", "cuptiFinalize", "cuptiGetDeviceId", "cuptiGetGraphId",
    "cuptiGetGraphNodeId", "cuptiGetResultString", "cuptiGetTimestamp", "cuptiGetTimestamp_v2",
    "cuptiGetVersion", "cuptiPmSamplingCounterDataGetSampleInfo",
    "cuptiPmSamplingCounterDataImageInitialize", "cuptiPmSamplingDecodeData",
    "cuptiPmSamplingDisable", "cuptiPmSamplingEnable", "cuptiPmSamplingGetCounterAvailability",
    "cuptiPmSamplingGetCounterDataInfo", "cuptiPmSamplingGetCounterDataSize",
    "cuptiPmSamplingSetConfig", "cuptiPmSamplingStart", "cuptiPmSamplingStop",
    "cuptiProfilerHostConfigAddMetrics", "cuptiProfilerHostDeinitialize",
    "cuptiProfilerHostEvaluateToGpuValues", "cuptiProfilerHostGetConfigImage",
    "cuptiProfilerHostGetConfigImageSize", "cuptiProfilerHostGetNumOfPasses",
    "cuptiProfilerHostInitialize", "cuptiProfilerInitialize", "cuptiSubscribe", "cuptiSubscribe_v2",
    "cuptiUnsubscribe",
];

/// Functions of NVTX's payload extension whose types are generated.
#[rustfmt::skip]
pub const NVTX_FUNCTIONS: &[&str] = &[
    "nvtxDomainIsEnabled", "nvtxMarkPayload", "nvtxPayloadEnumRegister",
    "nvtxPayloadSchemaRegister", "nvtxRangeEndPayload", "nvtxRangePopPayload",
    "nvtxRangePushPayload", "nvtxRangeStartPayload",
];
