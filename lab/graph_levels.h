// What graph_levels.cpp calls: the CUDA driver, and a libcupti that is named at run time. Nothing is linked to
// either, so that one program tries several CUPTIs and builds where there is no CUDA.
#pragma once

#include <dlfcn.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include <cuda.h>
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_driver_cbid.h>
#include <cupti_profiler_target.h>
#include <cupti_version.h>

// The headers rename functions by macros (cuMemAlloc is cuMemAlloc_v2), so the name is expanded before it is text.
#define LEVELS_TEXT(name) LEVELS_TEXT_OF(name)
#define LEVELS_TEXT_OF(name) #name
#define LEVELS_MEMBER(name) decltype(&::name) name = nullptr;
#define LEVELS_FIND(name) name = reinterpret_cast<decltype(name)>(dlsym(handle, LEVELS_TEXT(name)));

#define LEVELS_DRIVER(each)                                                                                      \
  each(cuInit) each(cuDeviceGet) each(cuDevicePrimaryCtxRetain) each(cuCtxSetCurrent) each(cuCtxSynchronize)     \
  each(cuStreamCreate) each(cuStreamSynchronize) each(cuModuleLoadData) each(cuModuleGetFunction)                \
  each(cuMemAlloc) each(cuLaunchKernel) each(cuStreamBeginCapture) each(cuStreamEndCapture)                      \
  each(cuGraphInstantiate) each(cuGraphLaunch) each(cuGraphExecDestroy) each(cuGraphDestroy)                     \
  each(cuGraphUpload) each(cuGraphExecUpdate) each(cuEventCreate) each(cuEventRecord) each(cuEventElapsedTime)   \
  each(cuEventRecordWithFlags) each(cuGraphCreate) each(cuGraphGetNodes) each(cuGraphAddNode)                    \
  each(cuGraphAddKernelNode) each(cuGraphAddChildGraphNode) each(cuGraphKernelNodeGetParams)                     \
  each(cuGraphExecKernelNodeSetParams) each(cuGraphNodeSetEnabled) each(cuGraphNodeGetType)                      \
  each(cuGraphConditionalHandleCreate) each(cuMemAllocAsync) each(cuMemFreeAsync) each(cuMemHostAlloc)

#define LEVELS_CUPTI(each)                                                                                       \
  each(cuptiGetVersion) each(cuptiGetTimestamp) each(cuptiSubscribe) each(cuptiUnsubscribe)                      \
  each(cuptiEnableCallback) each(cuptiActivityRegisterCallbacks) each(cuptiActivityEnable)                       \
  each(cuptiActivityDisable) each(cuptiActivityEnableContext) each(cuptiActivityDisableContext)                  \
  each(cuptiActivityFlushAll) each(cuptiActivityGetNextRecord) each(cuptiActivityGetNumDroppedRecords)           \
  each(cuptiActivitySetAttribute) each(cuptiActivityGetAttribute) each(cuptiActivityEnableAllocationSource)      \
  each(cuptiActivityEnableCudaEventDeviceTimestamps)                                                             \
  each(cuptiFinalize) each(cuptiSubscribe_v2) each(cuptiActivityEnable_v2) each(cuptiActivityDisable_v2)         \
  each(cuptiActivityRegisterCallbacks_v2) each(cuptiActivitySetAttribute_v2)                                     \
  each(cuptiActivityGetAttribute_v2) each(cuptiActivityGetNextRecord_v2) each(cuptiGetTimestamp_v2)              \
  each(cuptiActivityEnableHWTrace) each(cuptiProfilerInitialize)

namespace levels {

inline void* open_library(const char* path) {
  // Never closed: threads and exit handlers of CUPTI run to the very end.
  void* handle = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) throw std::runtime_error(dlerror());
  return handle;
}

struct Driver {
  LEVELS_DRIVER(LEVELS_MEMBER)

  void open() {
    void* handle = open_library("libcuda.so.1");
    LEVELS_DRIVER(LEVELS_FIND)
  }
};

struct Library {
  LEVELS_CUPTI(LEVELS_MEMBER)
  uint32_t version = 0;

  void open(const char* path) {
    void* handle = open_library(path);
    LEVELS_CUPTI(LEVELS_FIND)
    if (cuptiGetVersion != nullptr) cuptiGetVersion(&version);
  }
};

// What a driver or a CUPTI answered; a function that is not there is an answer as well.
template <typename Function, typename... Arguments>
void must(const char* name, Function function, Arguments... arguments) {
  if (function == nullptr) throw std::runtime_error(std::string(name) + " is not there");
  const int result = static_cast<int>(function(arguments...));
  if (result != 0) throw std::runtime_error(std::string(name) + ": error " + std::to_string(result));
}

inline Driver driver;
inline Library cupti;

#define CUDA(name, ...) ::levels::must(#name, ::levels::driver.name, ##__VA_ARGS__)
#define CUPTI(name, ...) ::levels::must(#name, ::levels::cupti.name, ##__VA_ARGS__)

inline double now_us() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

// One kernel, one replay of a graph, or one event, which ends when it starts.
struct Record {
  uint32_t kind;
  uint64_t start, end;
  uint32_t correlation, graph;
  uint32_t stream = 0;  // 0 with chosen fields.
};

struct Subscriber {
  CUpti_SubscriberHandle handle = nullptr;
  bool subscribed = false, registered = false;
};

constexpr size_t kBytes = 1 << 20;
constexpr size_t kMostRecords = 2 << 20;
constexpr int kSubscribers = 2;
// CUDA 13.0: records of events have the GPU's time.
constexpr uint32_t kEventsWithTimes = 130000;

inline Subscriber subscribers[kSubscribers];
inline bool second_api = false, chosen_fields = false, with_name = false;
// A launch that asks for a buffer does not wait for one that is being read.
inline std::mutex buffers_lock, records_lock;
inline std::vector<uint8_t*> buffers;
// Buffers that CUPTI asked for when none was left.
inline long buffers_made = 0;
inline std::vector<Record> records;
inline long other_records = 0, unread_bytes = 0;

inline void provide_buffers(int count) {
  for (; count > 0; --count) {
    auto* buffer = static_cast<uint8_t*>(std::aligned_alloc(4096, kBytes));
    __builtin_memset(buffer, 0, kBytes);
    const std::lock_guard<std::mutex> guard(buffers_lock);
    buffers.push_back(buffer);
  }
}

inline void CUPTIAPI request(uint8_t** buffer, size_t* size, size_t* most) {
  const std::lock_guard<std::mutex> guard(buffers_lock);
  if (buffers.empty()) {
    ++buffers_made;
    buffers.push_back(static_cast<uint8_t*>(std::calloc(1, kBytes)));
  }
  *buffer = buffers.back();
  buffers.pop_back();
  *size = kBytes;
  *most = 0;
}

inline void CUPTIAPI request_second(uint8_t** buffer, size_t* size, size_t* most, CUpti_BufferCallbackRequestInfo*) {
  request(buffer, size, most);
}

// A field of a record with chosen fields; 0 where the record has none.
inline uint64_t field(const uint8_t* record, const CUpti_ActivityRecordLayout& layout, int id) {
  for (size_t i = 0; i < layout.numFields; ++i) {
    const CUpti_ActivityFieldLayoutEntry& entry = layout.pEntries[i];
    if (entry.fieldId != id) continue;
    uint64_t value = 0;
    __builtin_memcpy(&value, record + entry.offset, entry.size < 8 ? entry.size : 8);
    return value;
  }
  return 0;
}

inline void keep(const CUpti_Activity* raw, const CUpti_BufferCallbackCompleteInfo* info) {
  const uint32_t kind = raw->kind;
  const bool is_graph = kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE;
  if (kind == CUPTI_ACTIVITY_KIND_CUDA_EVENT && cupti.version >= kEventsWithTimes && !chosen_fields) {
    const auto* event = reinterpret_cast<const CUpti_ActivityCudaEvent2*>(raw);
    records.push_back({kind, event->deviceTimestamp, event->deviceTimestamp, event->correlationId, event->eventId});
    return;
  }
  if (!is_graph && kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL && kind != CUPTI_ACTIVITY_KIND_KERNEL) {
    ++other_records;
    return;
  }
  if (records.size() == kMostRecords) return;
  if (chosen_fields) {
    if (info == nullptr || kind >= info->numRecordLayouts || info->ppRecordLayouts[kind] == nullptr) return;
    const CUpti_ActivityRecordLayout& layout = *info->ppRecordLayouts[kind];
    const auto* bytes = reinterpret_cast<const uint8_t*>(raw);
    const auto of = [&](int graph, int kernel) { return field(bytes, layout, is_graph ? graph : kernel); };
    records.push_back({kind, of(GRAPH_TRACE_FIELD_START, KERNEL_FIELD_START),
                       of(GRAPH_TRACE_FIELD_END, KERNEL_FIELD_END),
                       static_cast<uint32_t>(of(GRAPH_TRACE_FIELD_CORRELATION_ID, KERNEL_FIELD_CORRELATION_ID)),
                       static_cast<uint32_t>(of(GRAPH_TRACE_FIELD_GRAPH_ID, KERNEL_FIELD_GRAPH_ID))});
  } else if (is_graph) {
    const auto* graph = reinterpret_cast<const CUpti_ActivityGraphTrace2*>(raw);
    records.push_back({kind, graph->start, graph->end, graph->correlationId, graph->graphId, graph->streamId});
  } else {
    // These fields stand at the same place in all versions of the record.
    const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel9*>(raw);
    records.push_back({kind, kernel->start, kernel->end, kernel->correlationId, kernel->graphId, kernel->streamId});
  }
}

template <typename Next>
void read_buffer(uint8_t* buffer, size_t valid, const CUpti_BufferCallbackCompleteInfo* info, Next next) {
  {
    CUpti_Activity* record = nullptr;
    const std::lock_guard<std::mutex> guard(records_lock);
    if (chosen_fields && (info == nullptr || info->ppRecordLayouts == nullptr)) {
      unread_bytes += static_cast<long>(valid);
    } else {
      while (valid > 0 && next(&record) == CUPTI_SUCCESS) keep(record, info);
    }
  }
  // Attribute 5 promises CUPTI clear buffers.
  __builtin_memset(buffer, 0, valid);
  const std::lock_guard<std::mutex> guard(buffers_lock);
  buffers.push_back(buffer);
}

inline void CUPTIAPI complete(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  read_buffer(buffer, valid, nullptr,
              [&](CUpti_Activity** record) { return cupti.cuptiActivityGetNextRecord(buffer, valid, record); });
}

// CUPTI does not say whose buffer it is, so each subscriber has a function.
template <int slot>
void CUPTIAPI complete_second(uint8_t* buffer, size_t, size_t valid, CUpti_BufferCallbackCompleteInfo* info) {
  read_buffer(buffer, valid, info, [&](CUpti_Activity** record) {
    // 13.2 has the second API without this function.
    if (cupti.cuptiActivityGetNextRecord_v2 == nullptr) {
      return cupti.cuptiActivityGetNextRecord(buffer, valid, record);
    }
    return cupti.cuptiActivityGetNextRecord_v2(subscribers[slot].handle, buffer, valid, record);
  });
}

inline void register_buffers(int slot) {
  if (subscribers[slot].registered) return;
  if (!second_api) {
    CUPTI(cuptiActivityRegisterCallbacks, request, complete);
  } else {
    CUPTI(cuptiActivityRegisterCallbacks_v2, subscribers[slot].handle, request_second,
          slot == 0 ? complete_second<0> : complete_second<1>);
  }
  subscribers[slot].registered = true;
}

inline void subscribe(int slot, bool others, CUpti_CallbackFunc callback) {
  Subscriber& subscriber = subscribers[slot];
  if (subscriber.subscribed) return;
  if (!second_api) {
    CUPTI(cuptiSubscribe, &subscriber.handle, callback, nullptr);
  } else {
    CUpti_SubscriberParams wanted = {};
    // 13.0 and 13.1 know a shorter one.
    wanted.structSize = cupti.version < 130200 ? offsetof(CUpti_SubscriberParams, allowMultipleSubscribers)
                                               : sizeof wanted;
    wanted.subscriberName = slot == 0 ? "levels A" : "levels B";
    static char holder[128];
    wanted.oldSubscriberName = holder;
    wanted.oldSubscriberSize = sizeof holder - 1;
    wanted.allowMultipleSubscribers = others;
    CUPTI(cuptiSubscribe_v2, &subscriber.handle, callback, nullptr, &wanted);
  }
  subscriber.subscribed = true;
}

inline void switch_kind(int slot, CUpti_ActivityKind kind, bool on) {
  if (!second_api) {
    if (on) CUPTI(cuptiActivityEnable, kind);
    else CUPTI(cuptiActivityDisable, kind);
    return;
  }
  const bool is_graph = kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE;
  int of_graph[] = {GRAPH_TRACE_FIELD_KIND, GRAPH_TRACE_FIELD_START, GRAPH_TRACE_FIELD_END,
                    GRAPH_TRACE_FIELD_CORRELATION_ID, GRAPH_TRACE_FIELD_GRAPH_ID};
  int of_kernel[] = {KERNEL_FIELD_KIND, KERNEL_FIELD_START, KERNEL_FIELD_END, KERNEL_FIELD_CORRELATION_ID,
                     KERNEL_FIELD_GRAPH_ID, KERNEL_FIELD_NAME};
  CUpti_ActivityConfig config = {};
  // What came with 13.4 an older library does not take.
  config.structSize = cupti.version < 130400 ? offsetof(CUpti_ActivityConfig, pKindOptions) : sizeof config;
  config.fieldSelection.structSize = sizeof config.fieldSelection;
  config.fieldSelection.pFieldIds = is_graph ? of_graph : of_kernel;
  config.fieldSelection.numFields = is_graph ? 5 : with_name ? 6 : 5;
  CUpti_ActivityConfig* const wanted = chosen_fields ? &config : nullptr;
  if (on) CUPTI(cuptiActivityEnable_v2, subscribers[slot].handle, kind, wanted);
  else CUPTI(cuptiActivityDisable_v2, subscribers[slot].handle, kind, nullptr);
}

inline void set_attribute(int slot, int number, size_t value) {
  // Device buffers and their pools are counted in size_t, all others in one byte.
  const bool is_byte = number == 5 || number == 8 || number == 9 || (number >= 11 && number <= 20);
  size_t size = is_byte ? 1 : sizeof value;
  const auto attribute = static_cast<CUpti_ActivityAttribute>(number);
  if (second_api) {
    CUPTI(cuptiActivitySetAttribute_v2, subscribers[slot].handle, attribute, &size, &value);
  } else {
    CUPTI(cuptiActivitySetAttribute, attribute, &size, &value);
  }
}

inline size_t attribute_of(int slot, int number) {
  size_t value = 0, size = sizeof value;
  const auto attribute = static_cast<CUpti_ActivityAttribute>(number);
  if (second_api) {
    CUPTI(cuptiActivityGetAttribute_v2, subscribers[slot].handle, attribute, &size, &value);
  } else {
    CUPTI(cuptiActivityGetAttribute, attribute, &size, &value);
  }
  return value;
}

inline uint64_t timestamp() {
  uint64_t now = 0;
  if (second_api && cupti.cuptiGetTimestamp_v2 != nullptr && subscribers[0].subscribed) {
    CUPTI(cuptiGetTimestamp_v2, subscribers[0].handle, &now);
  } else {
    CUPTI(cuptiGetTimestamp, &now);
  }
  return now;
}

}  // namespace levels
