// CUPTI's kernel records in any process, thrown away unread -> what no collector can cost less than.
//
// Use: CUDA_INJECTION64_PATH=floor.so FLOOR_CUPTI=/path/to/libcupti.so PROGRAM
//   FLOOR_API=v1|v2    which activity API (v1); v2 needs CUPTI 13.3 and its headers
//   FLOOR_FIELDS=...   with v2: all, default, min, or names of fields with commas between (all)
//   FLOOR_PER_THREAD=1 with v2: each thread has its own buffers, as the collector asks for
//   FLOOR_OUT=FILE     where the line of JSON goes that tells what was recorded (stderr)
// Where nothing was recorded, or not all of it, the process says so and ends with status 3: such a floor
// would be none. A program that switches by itself calls floor_on, floor_off and floor_report instead.
//
// Build: g++ -std=c++17 -O2 -shared -fPIC floor.cpp -o floor.so -ldl -isystem CUPTI/include -isystem cuda_types
// It is not linked to CUPTI; cuda_types stands in for the headers of CUDA.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <pthread.h>
#include <unistd.h>

#include "floor_cupti.h"
#if FLOOR_HAS_V2
#include "floor_fields.h"
#endif

namespace {

constexpr CUpti_ActivityKind kKind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
constexpr size_t kBytes = 1 << 20;
constexpr size_t kBuffersAtFirst = 64;

floor_cupti::Library cupti;
CUpti_SubscriberHandle subscriber;
bool second;

// Buffers that CUPTI does not hold. They are made and touched before anything is measured, and asked for
// once in thousands of launches, so that a lock costs nothing that could be seen.
std::mutex buffers_lock;
std::vector<uint8_t*> buffers;

std::atomic<size_t> completed, bytes, dropped, requested_late;

// The first buffer with records stays as it is, so that the length of a record can be found in the end.
struct Kept {
  uint8_t* buffer = nullptr;
  size_t valid = 0;
  size_t told_bytes = 0;  // As the layout says; 0 without one.
  struct Place {
    int field;
    size_t offset, bytes;
  };
  std::vector<Place> places;
} kept;
// Sizes of the other buffers, each of which has to hold whole records.
std::vector<size_t> sizes;

uint8_t* make_buffer() {
  auto* buffer = static_cast<uint8_t*>(std::aligned_alloc(4096, kBytes));
  if (buffer != nullptr) std::memset(buffer, 0, kBytes);
  return buffer;
}

void hand_out(uint8_t** buffer, size_t* size, size_t* most) {
  *most = 0;
  *size = kBytes;
  {
    const std::lock_guard<std::mutex> guard(buffers_lock);
    if (!buffers.empty()) {
      *buffer = buffers.back();
      buffers.pop_back();
      return;
    }
  }
  ++requested_late;
  *buffer = make_buffer();
}

// Returns whether the caller is to keep this buffer's layout too.
bool take_back(uint8_t* buffer, size_t valid) {
  bytes += valid;
  ++completed;
  const std::lock_guard<std::mutex> guard(buffers_lock);
  if (valid > 0) sizes.push_back(valid);
  if (kept.buffer == nullptr && valid > 0) {
    kept.buffer = buffer;
    kept.valid = valid;
    return true;
  }
  buffers.push_back(buffer);
  return false;
}

void CUPTIAPI request(uint8_t** buffer, size_t* size, size_t* most) { hand_out(buffer, size, most); }

void CUPTIAPI complete(CUcontext context, uint32_t stream, uint8_t* buffer, size_t, size_t valid) {
  take_back(buffer, valid);
  size_t lost = 0;
  if (cupti.cuptiActivityGetNumDroppedRecords(context, stream, &lost) == CUPTI_SUCCESS) dropped += lost;
}

#if FLOOR_HAS_V2
std::vector<floor_fields::Field> fields;

// Which thread asked for a buffer, to compare with the one that CUPTI names when it is full.
struct Asker {
  uint64_t kernel, library;  // gettid() and pthread_self()
};
std::unordered_map<uint8_t*, Asker> askers;
std::atomic<size_t> told_asker, told_another;

void CUPTIAPI request_second(uint8_t** buffer, size_t* size, size_t* most,
                             CUpti_BufferCallbackRequestInfo*) {
  hand_out(buffer, size, most);
  const std::lock_guard<std::mutex> guard(buffers_lock);
  askers[*buffer] = {static_cast<uint64_t>(gettid()), static_cast<uint64_t>(pthread_self())};
}

// Whether CUPTI names the thread that asked for the buffer, by either number (pthread_self is cut to 32 bits
// by one of CUPTI's own ways to count threads).
void compare_thread(uint8_t* buffer, uint64_t told) {
  const std::lock_guard<std::mutex> guard(buffers_lock);
  const auto asker = askers.find(buffer);
  if (asker == askers.end()) return;
  const auto [kernel, library] = asker->second;
  ++(told == kernel || told == library || told == static_cast<uint32_t>(library) ? told_asker : told_another);
}

void CUPTIAPI complete_second(uint8_t* buffer, size_t, size_t valid, CUpti_BufferCallbackCompleteInfo* info) {
  if (info != nullptr && valid > 0) compare_thread(buffer, info->threadId);
  if (!take_back(buffer, valid) || info == nullptr || info->ppRecordLayouts == nullptr) return;
  // By kind, with null for kinds without chosen fields.
  if (info->numRecordLayouts <= static_cast<size_t>(kKind)) return;
  const CUpti_ActivityRecordLayout* layout = info->ppRecordLayouts[kKind];
  if (layout == nullptr) return;
  kept.told_bytes = layout->recordSize;
  for (size_t i = 0; i < layout->numFields && i < 256; ++i) {
    const CUpti_ActivityFieldLayoutEntry& entry = layout->pEntries[i];
    kept.places.push_back({entry.fieldId, entry.offset, entry.size});
  }
}

void CUPTIAPI no_callback(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

void subscribe() {
  CUpti_SubscriberParams parameters = {};
  parameters.structSize = CUpti_SubscriberParams_STRUCT_SIZE;
  parameters.subscriberName = "stage2 floor";
  char holder[128] = "";
  parameters.oldSubscriberName = holder;
  parameters.oldSubscriberSize = sizeof holder - 1;
  const CUptiResult result = cupti.cuptiSubscribe_v2(&subscriber, no_callback, nullptr, &parameters);
  if (result != CUPTI_SUCCESS && holder[0] != 0)
    cupti.check((std::string("subscribe beside ") + holder).c_str(), result);
  cupti.check("subscribe", result);
}

void enable_second() {
  if (subscriber == nullptr) subscribe();
  if (!fields.empty()) {
    uint8_t one = 1;
    size_t size = sizeof one;
    cupti.check("choose fields", cupti.cuptiActivitySetAttribute_v2(
                                     subscriber, CUPTI_ACTIVITY_ATTR_USER_DEFINED_RECORDS, &size, &one));
  }
  if (const char* each = std::getenv("FLOOR_PER_THREAD"); each != nullptr && *each == '1') {
    uint8_t one = 1;
    size_t size = sizeof one;
    cupti.check("give each thread its buffers",
                cupti.cuptiActivitySetAttribute_v2(subscriber, CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER,
                                                   &size, &one));
  }
  cupti.check("register",
              cupti.cuptiActivityRegisterCallbacks_v2(subscriber, request_second, complete_second));
  std::vector<int> ids;
  for (const auto& field : fields) ids.push_back(field.id);
  CUpti_ActivityConfig config = {};
  config.structSize = sizeof config;
#if CUPTI_API_VERSION >= 130400
  // What came with 13.4 an older library does not take.
  if (cupti.version < 130400) config.structSize = offsetof(CUpti_ActivityConfig, pKindOptions);
#endif
  config.fieldSelection.structSize = sizeof config.fieldSelection;
  config.fieldSelection.pFieldIds = ids.data();
  config.fieldSelection.numFields = ids.size();
  cupti.check("enable",
              cupti.cuptiActivityEnable_v2(subscriber, kKind, ids.empty() ? nullptr : &config));
}
#endif

CUptiResult next_record(CUpti_Activity** record) {
#if FLOOR_HAS_V2
  if (second) return cupti.cuptiActivityGetNextRecord_v2(subscriber, kept.buffer, kept.valid, record);
#endif
  return cupti.cuptiActivityGetNextRecord(kept.buffer, kept.valid, record);
}

// Bytes from one record to the next, by CUPTI's own walk; 0 without records.
size_t walked_bytes() {
  CUpti_Activity* record = nullptr;
  if (kept.buffer == nullptr || next_record(&record) != CUPTI_SUCCESS) return 0;
  const auto* first = reinterpret_cast<uint8_t*>(record);
  if (next_record(&record) != CUPTI_SUCCESS) return kept.valid;
  return static_cast<size_t>(reinterpret_cast<uint8_t*>(record) - first);
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= ' ') out += c;
  }
  return out + '"';
}

std::string layout_json() {
  std::string out = "[";
#if FLOOR_HAS_V2
  for (const auto& place : kept.places) {
    if (out.size() > 1) out += ", ";
    out += "{\"field\": " + quoted(floor_fields::name_of(place.field)) +
           ", \"offset\": " + std::to_string(place.offset) + ", \"bytes\": " + std::to_string(place.bytes) +
           "}";
  }
#endif
  return out + "]";
}

// Runs what may throw; 1 where it went well, which is what an injected library answers.
template <typename Body>
int guarded(Body body) {
  try {
    body();
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "floor: %s\n", error.what());
    return 0;
  }
}

void open_once() {
  if (!cupti.path.empty()) return;
  const auto text = [](const char* name, const char* otherwise) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr || *value == 0 ? otherwise : value);
  };
  const std::string path = text("FLOOR_CUPTI", ""), api = text("FLOOR_API", "v1");
  const std::string list = text("FLOOR_FIELDS", "all");
  if (path.empty()) throw std::runtime_error("set FLOOR_CUPTI to the path of a libcupti.so");
  if (api != "v1" && api != "v2") throw std::runtime_error("FLOOR_API is `" + api + "`; give v1 or v2");
  second = api == "v2";
  if (!second && list != "all") throw std::runtime_error("FLOOR_FIELDS needs FLOOR_API=v2");
#if FLOOR_HAS_V2
  fields = floor_fields::chosen(list);
#endif
  cupti.open(path.c_str(), second);
  for (size_t i = 0; i < kBuffersAtFirst; ++i) buffers.push_back(make_buffer());
}

}  // namespace

// Starts collecting kernel records. 1: it does.
extern "C" int floor_on() {
  return guarded([] {
    open_once();
#if FLOOR_HAS_V2
    if (second) return enable_second();
#endif
    cupti.check("register", cupti.cuptiActivityRegisterCallbacks(request, complete));
    cupti.check("enable", cupti.cuptiActivityEnable(kKind));
  });
}

// Stops it: `disable`, `unsubscribe` (v2: disables first) or `finalize` (takes CUPTI out of the process
// after all of that; no other thread may launch graphs then). 1: it did.
extern "C" int floor_off(const char* how) {
  return guarded([how] {
    const std::string method = how;
    if (method != "disable" && method != "unsubscribe" && method != "finalize")
      throw std::runtime_error("`" + method + "` is no way to stop; give disable, unsubscribe or finalize");
    if (!second && method == "unsubscribe") throw std::runtime_error("v1 has no subscriber");
    if (method == "finalize" && cupti.cuptiFinalize == nullptr)
      throw std::runtime_error(cupti.path + " has no cuptiFinalize");
#if FLOOR_HAS_V2
    if (second)
      cupti.check("disable", cupti.cuptiActivityDisable_v2(subscriber, kKind, nullptr));
    else
#endif
      cupti.check("disable", cupti.cuptiActivityDisable(kKind));
    if (method == "disable") return;
    cupti.check("flush", cupti.cuptiActivityFlushAll(1));
    if (second) {
      cupti.check("unsubscribe", cupti.cuptiUnsubscribe(subscriber));
      subscriber = nullptr;
    }
    if (method == "finalize") cupti.check("finalize", cupti.cuptiFinalize());
  });
}

// Writes the line of JSON. 1: something was recorded, and all of it. Call it before CUPTI has left.
extern "C" int floor_report() {
  cupti.cuptiActivityFlushAll(1);
#if FLOOR_HAS_V2
  size_t lost = 0;
  if (second && subscriber != nullptr &&
      cupti.cuptiActivityGetNumDroppedRecords_v2(subscriber, nullptr, 0, &lost) == CUPTI_SUCCESS)
    dropped += lost;
#endif
  const size_t walked = walked_bytes();
  const size_t record = walked != 0 ? walked : kept.told_bytes;
  const std::lock_guard<std::mutex> guard(buffers_lock);
  size_t uneven = 0;
  for (const size_t size : sizes) uneven += record == 0 || size % record != 0;
  std::string line = "{\"cupti\": " + std::to_string(cupti.version) + ", \"library\": " + quoted(cupti.path) +
                     ", \"api\": \"" + (second ? "v2" : "v1") + "\", \"records\": " +
                     std::to_string(record == 0 ? 0 : bytes / record);
  const auto number = [&line](const char* name, size_t value) {
    line += std::string(", \"") + name + "\": " + std::to_string(value);
  };
  number("record_bytes", record);
  number("record_bytes_by_layout", kept.told_bytes);
  number("bytes", bytes);
  number("buffers", completed);
  number("uneven_buffers", uneven);
  number("late_buffers", requested_late);
  number("dropped", dropped);
#if FLOOR_HAS_V2
  number("buffers_of_asker", told_asker);
  number("buffers_of_another_thread", told_another);
#endif
  line += ", \"layout\": " + layout_json() + "}\n";
  const char* place = std::getenv("FLOOR_OUT");
  std::FILE* file = place == nullptr || *place == 0 ? stderr : std::fopen(place, "a");
  if (file == nullptr) {
    std::fprintf(stderr, "floor: FLOOR_OUT=%s cannot be written\n", place);
    file = stderr;
  }
  std::fputs(line.c_str(), file);
  if (file == stderr)
    std::fflush(file);
  else
    std::fclose(file);
  return bytes > 0 && dropped == 0 && uneven == 0;
}

// Called by the driver in cuInit.
extern "C" int InitializeInjection() {
  const int on = floor_on();
  // After CUPTI was loaded, so that it runs before CUPTI's own exit handlers.
  if (on == 1) {
    std::atexit([] {
      if (floor_report() == 1) return;
      std::fprintf(stderr, "floor: nothing was recorded, or not all of it\n");
      std::_Exit(3);
    });
  } else {
    std::_Exit(3);
  }
  return on;
}
