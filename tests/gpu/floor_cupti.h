// The functions of a libcupti that is named at run time, and of its second activity API: for floor.cpp.
#pragma once

#include <dlfcn.h>

#include <stdexcept>
#include <string>

#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_version.h>

// The second activity API is in the headers from 13.3 on; with older ones only the first can be measured.
#define FLOOR_HAS_V2 (CUPTI_API_VERSION >= 130300)

#define FLOOR_EVERYWHERE(function)        \
  function(cuptiGetVersion)               \
  function(cuptiGetResultString)          \
  function(cuptiActivityRegisterCallbacks) \
  function(cuptiActivityEnable)           \
  function(cuptiActivityDisable)          \
  function(cuptiActivityFlushAll)         \
  function(cuptiActivityGetNextRecord)    \
  function(cuptiActivityGetNumDroppedRecords) \
  function(cuptiUnsubscribe)

#define FLOOR_SECOND(function)               \
  function(cuptiSubscribe_v2)                \
  function(cuptiActivityRegisterCallbacks_v2) \
  function(cuptiActivitySetAttribute_v2)     \
  function(cuptiActivityEnable_v2)           \
  function(cuptiActivityDisable_v2)          \
  function(cuptiActivityGetNextRecord_v2)    \
  function(cuptiActivityGetNumDroppedRecords_v2)

namespace floor_cupti {

class Library {
 public:
#define FLOOR_MEMBER(name) decltype(&::name) name = nullptr;
  FLOOR_EVERYWHERE(FLOOR_MEMBER)
#if FLOOR_HAS_V2
  FLOOR_SECOND(FLOOR_MEMBER)
#endif
#undef FLOOR_MEMBER
  // Null where it is not there: the simulated CUPTI has none.
  decltype(&::cuptiFinalize) cuptiFinalize = nullptr;
  std::string path;
  uint32_t version = 0;

  // Never closed: threads and exit handlers of CUPTI run to the very end.
  void open(const char* file, bool second) {
    path = file;
    handle_ = dlopen(file, RTLD_NOW);
    if (handle_ == nullptr) throw std::runtime_error(std::string("FLOOR_CUPTI: ") + dlerror());
#define FLOOR_FIND(name) find(#name, name);
    FLOOR_EVERYWHERE(FLOOR_FIND)
    cuptiFinalize = reinterpret_cast<decltype(cuptiFinalize)>(dlsym(handle_, "cuptiFinalize"));
    check("cuptiGetVersion", cuptiGetVersion(&version));
    if (!second) return;
#if FLOOR_HAS_V2
    if (version < 130300)
      throw std::runtime_error(path + " is CUPTI " + std::to_string(version) +
                               "; the second activity API needs 13.3 (130300) or later");
    FLOOR_SECOND(FLOOR_FIND)
#else
    throw std::runtime_error("built with the headers of CUPTI " + std::to_string(CUPTI_API_VERSION) +
                             "; build with those of 13.3 or later for FLOOR_API=v2");
#endif
#undef FLOOR_FIND
  }

  void check(const char* what, CUptiResult result) const {
    if (result == CUPTI_SUCCESS) return;
    const char* text = "";
    cuptiGetResultString(result, &text);
    throw std::runtime_error(std::string(what) + ": error " + std::to_string(result) + " " + text);
  }

 private:
  void* handle_ = nullptr;

  template <typename Function>
  void find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(handle_, name));
    if (function == nullptr) throw std::runtime_error(path + " has no " + name + "; give a newer one");
  }
};

}  // namespace floor_cupti
