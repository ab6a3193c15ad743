// Kernel records of CUPTI on and off, and nothing of ours: what residue.cu, detach.cu, both programs of replays and
// blocks.cpp share.
#pragma once

#include <cstdint>
#include <cstdio>
#include <ctime>

#include <cuda.h>
#include <cupti.h>

namespace cupti_switch {

constexpr int kBuffers = 64;
constexpr size_t kBytes = 1 << 20;
constexpr CUpti_ActivityKind kKind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;

alignas(4096) inline char pool[kBuffers][kBytes];
inline int next_buffer;
// All records, those of kernels, and of those the ones without usable times.
inline long records, kernels, untimed;
inline int errors;

inline double now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1e9 + now.tv_nsec;
}

inline void check(const char* what, CUptiResult result) {
  if (result == CUPTI_SUCCESS) return;
  __sync_fetch_and_add(&errors, 1);
  const char* text = "";
  cuptiGetResultString(result, &text);
  std::fprintf(stderr, "%s: %d %s\n", what, static_cast<int>(result), text);
}

// Buffers are read when they are completed and are free from then on, so a ring of them is enough.
inline void CUPTIAPI request(uint8_t** buffer, size_t* size, size_t* most) {
  const int index = __sync_fetch_and_add(&next_buffer, 1) % kBuffers;
  *buffer = reinterpret_cast<uint8_t*>(pool[index]);
  *size = kBytes;
  *most = 0;
}

inline void CUPTIAPI complete(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    __sync_fetch_and_add(&records, 1);
    if (record->kind != kKind && record->kind != CUPTI_ACTIVITY_KIND_KERNEL) continue;
    __sync_fetch_and_add(&kernels, 1);
    // The times stand at the same place in all versions of the record that have 64-bit ones.
    const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel9*>(record);
    if (kernel->start == 0 || kernel->end < kernel->start) __sync_fetch_and_add(&untimed, 1);
  }
}

// Microseconds that it took.
inline double switch_on() {
  const double start = now_ns();
  check("register", cuptiActivityRegisterCallbacks(request, complete));
  check("enable", cuptiActivityEnable(kKind));
  return (now_ns() - start) / 1e3;
}

// Microseconds that it took. `detach` takes CUPTI out of the process; it comes back by switch_on.
inline double switch_off(bool detach) {
  const double start = now_ns();
  check("disable", cuptiActivityDisable(kKind));
  if (detach) {
    check("flush", cuptiActivityFlushAll(1));
    check("finalize", cuptiFinalize());
  }
  return (now_ns() - start) / 1e3;
}

}  // namespace cupti_switch
