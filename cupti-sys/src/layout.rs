//! Turns a wrong struct layout into a build that fails: sizes and offsets of every field that a
//! collector reads, as measured on NVIDIA's headers and libraries from CUDA 11.8 to 13.5.
//!
//! The generated bindings carry asserts of their own, but those come from the very headers that
//! they check. The numbers here are independent of them and hold for all these versions, on x86-64
//! and aarch64.

use crate::{bindings as cupti, nvtx, record};

layout!(record::Kernel: 200 {
    kind @ 0, cacheConfig @ 4, sharedMemoryConfig @ 5, registersPerThread @ 6, start @ 16, end @ 24,
    completed @ 32, deviceId @ 40, contextId @ 44, streamId @ 48, gridX @ 52, gridY @ 56,
    gridZ @ 60, blockX @ 64, blockY @ 68, blockZ @ 72, staticSharedMemory @ 76,
    dynamicSharedMemory @ 80, localMemoryPerThread @ 84, localMemoryTotal @ 88, correlationId @ 92,
    gridId @ 96, name @ 104, queued @ 120, submitted @ 128, launchType @ 136,
    sharedMemoryExecuted @ 140, graphNodeId @ 144, graphId @ 156, channelID @ 168,
    channelType @ 172, clusterX @ 176, clusterY @ 180, clusterZ @ 184,
    clusterSchedulingPolicy @ 188, localMemoryTotal_v2 @ 192,
});

layout!(record::Memcpy: 88 {
    kind @ 0, copyKind @ 4, srcKind @ 5, dstKind @ 6, flags @ 7, bytes @ 8, start @ 16, end @ 24,
    deviceId @ 32, contextId @ 36, streamId @ 40, correlationId @ 44, runtimeCorrelationId @ 48,
    graphNodeId @ 64, graphId @ 72, channelID @ 76, channelType @ 80,
});

layout!(record::MemcpyPeer: 96 {
    kind @ 0, copyKind @ 4, srcKind @ 5, dstKind @ 6, flags @ 7, bytes @ 8, start @ 16, end @ 24,
    deviceId @ 32, contextId @ 36, streamId @ 40, srcDeviceId @ 44, srcContextId @ 48,
    dstDeviceId @ 52, dstContextId @ 56, correlationId @ 60, graphNodeId @ 72, graphId @ 80,
    channelID @ 84, channelType @ 88,
});

layout!(record::Memset: 88 {
    kind @ 0, value @ 4, bytes @ 8, start @ 16, end @ 24, deviceId @ 32, contextId @ 36,
    streamId @ 40, correlationId @ 44, flags @ 48, memoryKind @ 50, graphNodeId @ 64,
    graphId @ 72, channelID @ 76, channelType @ 80,
});

layout!(record::GraphTrace: 48 {
    kind @ 0, correlationId @ 4, start @ 8, end @ 16, deviceId @ 24, graphId @ 28, contextId @ 32,
    streamId @ 36,
});

layout!(record::Device: 176 {
    kind @ 0, flags @ 4, globalMemoryBandwidth @ 8, globalMemorySize @ 16, constantMemorySize @ 24,
    l2CacheSize @ 28, numThreadsPerWarp @ 32, coreClockRate @ 36, numMemcpyEngines @ 40,
    numMultiprocessors @ 44, maxIPC @ 48, maxWarpsPerMultiprocessor @ 52,
    maxBlocksPerMultiprocessor @ 56, maxSharedMemoryPerMultiprocessor @ 60,
    maxRegistersPerMultiprocessor @ 64, maxRegistersPerBlock @ 68, maxSharedMemoryPerBlock @ 72,
    maxThreadsPerBlock @ 76, computeCapabilityMajor @ 104, computeCapabilityMinor @ 108, id @ 112,
    eccEnabled @ 116, uuid @ 120, name @ 136, isMigEnabled @ 145, gpuInstanceId @ 152,
    computeInstanceId @ 156, migUuid @ 160,
});

layout!(cupti::CUpti_CallbackData: 72 {
    callbackSite @ 0, functionName @ 8, functionParams @ 16, functionReturnValue @ 24,
    symbolName @ 32, context @ 40, contextUid @ 48, correlationData @ 56, correlationId @ 64,
});

layout!(cupti::CUpti_ResourceData: 24 {
    context @ 0, resourceHandle.stream @ 8, resourceDescriptor @ 16,
});

layout!(cupti::CUpti_GraphData: 56 {
    graph @ 0, originalGraph @ 8, node @ 16, originalNode @ 24, nodeType @ 32, dependency @ 40,
    graphExec @ 48,
});

layout!(cupti::CUpti_ActivityKernel13: 248 {
    kind @ 0, registersPerThread @ 6, start @ 16, end @ 24, deviceId @ 40, contextId @ 44,
    streamId @ 48, gridX @ 52, blockX @ 64, staticSharedMemory @ 76, dynamicSharedMemory @ 80,
    localMemoryPerThread @ 84, correlationId @ 92, name @ 104, launchType @ 136,
    graphNodeId @ 144, graphId @ 156, clusterX @ 176, localMemoryTotal_v2 @ 192,
    maxPotentialClusterSize @ 200, maxActiveClusters @ 204, isDeviceLaunched @ 208,
});

// 13.0 and 13.1 end before `allowMultipleSubscribers`.
layout!(cupti::CUpti_SubscriberParams: 40 {
    structSize @ 0, subscriberName @ 8, oldSubscriberName @ 16, oldSubscriberSize @ 24,
    allowMultipleSubscribers @ 32,
});

// The second activity API: from 13.2 on, where 13.2 and 13.3 end before `pKindOptions`.
layout!(cupti::CUpti_ActivityConfig: 40 {
    structSize @ 0, fieldSelection.structSize @ 8, fieldSelection.numFields @ 16,
    fieldSelection.pFieldIds @ 24, pKindOptions @ 32,
});

layout!(cupti::CUpti_BufferCallbackRequestInfo: 8 { structSize @ 0, });

layout!(cupti::CUpti_BufferCallbackCompleteInfo: 32 {
    structSize @ 0, threadId @ 8, ppRecordLayouts @ 16, numRecordLayouts @ 24,
});

layout!(cupti::CUpti_ActivityRecordLayout: 32 {
    structSize @ 0, pEntries @ 8, numFields @ 16, recordSize @ 24,
});

layout!(cupti::CUpti_ActivityFieldLayoutEntry: 40 {
    structSize @ 0, fieldId @ 8, offset @ 16, size @ 24, alignment @ 32,
});

// NVTX: one layout for clients of version 2 and 3.
layout!(nvtx::nvtxEventAttributes_t: 48 {
    version @ 0, size @ 2, category @ 4, colorType @ 8, color @ 12, payloadType @ 16,
    payload @ 24, payload.ullValue @ 24, messageType @ 32, message @ 40, message.ascii @ 40,
});

layout!(nvtx::nvtxResourceAttributes_t: 32 {
    version @ 0, size @ 2, identifierType @ 4, identifier @ 8, messageType @ 16, message @ 24,
});

layout!(nvtx::NvtxExportTableCallbacks: 16 { struct_size @ 0, GetModuleFunctionTable @ 8, });

layout!(nvtx::NvtxExportTableVersionInfo: 24 {
    struct_size @ 0, version @ 8, SetInjectionNvtxVersion @ 16,
});

layout!(nvtx::nvtxExtModuleInfo_t: 40 {
    nvtxVer @ 0, structSize @ 2, moduleId @ 4, compatId @ 6, segmentsCount @ 8, segments @ 16,
    getExportFunction @ 24, extInfo @ 32,
});

layout!(nvtx::nvtxExtModuleSegment_t: 24 { segmentId @ 0, slotCount @ 8, functionSlots @ 16, });

layout!(nvtx::nvtxPayloadData_t: 24 { schemaId @ 0, size @ 8, payload @ 16, });

layout!(nvtx::nvtxPayloadSchemaAttr_t: 80 {
    fieldMask @ 0, name @ 8, type_ @ 16, flags @ 24, entries @ 32, numEntries @ 40,
    payloadStaticSize @ 48, packAlign @ 56, schemaId @ 64, extension @ 72,
});

layout!(nvtx::nvtxPayloadSchemaEntry_t: 64 {
    flags @ 0, type_ @ 8, name @ 16, description @ 24, arrayOrUnionDetail @ 32, offset @ 40,
    semantics @ 48, reserved @ 56,
});

layout!(nvtx::nvtxPayloadEnumAttr_t: 56 {
    fieldMask @ 0, name @ 8, entries @ 16, numEntries @ 24, sizeOfEnum @ 32, schemaId @ 40,
    extension @ 48,
});

layout!(nvtx::nvtxPayloadEnum_t: 24 { name @ 0, value @ 8, isFlag @ 16, });

// Ids that must never move. Those of fields are the same from 13.2 to 13.5.
const _: () = {
    assert!(cupti::CUPTI_ACTIVITY_KIND_MEMCPY == 1 && cupti::CUPTI_ACTIVITY_KIND_MEMSET == 2);
    assert!(cupti::CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL == 10);
    assert!(cupti::CUPTI_ACTIVITY_KIND_MEMCPY2 == 22);
    assert!(cupti::CUPTI_ACTIVITY_KIND_GRAPH_TRACE == 51);
    assert!(cupti::CUPTI_ACTIVITY_ATTR_USER_DEFINED_RECORDS == 11);
    assert!(cupti::KERNEL_FIELD_KIND == 0 && cupti::MEMCPY_FIELD_KIND == 0);
    assert!(cupti::MEMCPY2_FIELD_KIND == 0 && cupti::MEMSET_FIELD_KIND == 0);
    assert!(cupti::KERNEL_FIELD_START == 7 && cupti::KERNEL_FIELD_END == 8);
    assert!(cupti::KERNEL_FIELD_CORRELATION_ID == 22 && cupti::KERNEL_FIELD_NAME == 24);
    assert!(cupti::KERNEL_FIELD_GRAPH_NODE_ID == 31);
    assert!(cupti::CUPTI_DRIVER_TRACE_CBID_cuDriverGetVersion == 2);
    assert!(cupti::CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel == 307);
    assert!(cupti::CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz == 442);
    assert!(cupti::CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx == 652);
    assert!(cupti::CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz == 653);
    assert!(cupti::CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel == 477);
    assert!(cupti::CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch == 514);
    assert!(cupti::CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz == 515);
    assert!(nvtx::NVTX_CBID_CORE_SIZE == 16 && nvtx::NVTX_CBID_CORE2_SIZE == 16);
    assert!(nvtx::NVTX3EXT_CBID_nvtxPayloadSchemaRegister == 0);
    assert!(nvtx::NVTX3EXT_CBID_nvtxPayloadEnumRegister == 1);
    assert!(nvtx::NVTX3EXT_CBID_nvtxMarkPayload == 2);
    assert!(nvtx::NVTX3EXT_CBID_nvtxRangePushPayload == 3);
    assert!(nvtx::NVTX3EXT_CBID_nvtxRangePopPayload == 4);
    assert!(nvtx::NVTX3EXT_CBID_nvtxRangeStartPayload == 5);
    assert!(nvtx::NVTX3EXT_CBID_nvtxRangeEndPayload == 6);
    assert!(nvtx::NVTX3EXT_CBID_nvtxDomainIsEnabled == 7);
};
