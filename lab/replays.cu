// Replays of a CUDA graph, recorded and not, and nothing of ours -> which times CUPTI gives to recorded ones.
//
// Usage: replays [WORD...]   A graph of 50 kernels of 20 us each is launched six times with records on, which
// are switched off behind it. WORDs:
//   wait         for the GPU before records are switched off
//   flush        cuptiActivityFlushAll(0) after they were switched off
//   again        20 launches of the graph follow that are not recorded
//   whole        GRAPH_TRACE in place of kernel records, off when the graph is made (this crashes CUPTI 13.0)
//   whole-on     the same, on when the graph is made
// Prints how many records have the right length, and lie within the time in which they were on.
// Build: nvcc -O2 -std=c++17 replays.cu -o replays -lcupti -lcuda (with the folders of CUPTI)
#include <cstdio>
#include <cstring>

#include <unistd.h>

#include "cupti_switch.h"

using namespace cupti_switch;

namespace {

constexpr int kKernels = 50;
constexpr long kKernelNs = 20000;
constexpr int kRecorded = 6;

struct Times {
  uint64_t start, end;
};

Times times[kRecorded * kKernels];
int found;

void CUPTIAPI complete_times(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (found == kRecorded * kKernels) return;
    if (record->kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE) {
      const auto* graph = reinterpret_cast<const CUpti_ActivityGraphTrace2*>(record);
      times[found++] = {graph->start, graph->end};
    } else if (record->kind == kKind) {
      const auto* kernel = reinterpret_cast<const CUpti_ActivityKernel9*>(record);
      times[found++] = {kernel->start, kernel->end};
    }
  }
}

__device__ long global_ns() {
  long ns;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
  return ns;
}

__global__ void spin(long ns) {
  const long start = global_ns();
  while (global_ns() - start < ns) {
  }
}

uint64_t timestamp() {
  uint64_t now = 0;
  check("timestamp", cuptiGetTimestamp(&now));
  return now;
}

}  // namespace

int main(int count, char** words) {
  const auto has = [&](const char* word) {
    for (int i = 1; i < count; ++i) {
      if (std::strcmp(words[i], word) == 0) return true;
    }
    return false;
  };
  const bool whole = has("whole") || has("whole-on");
  const CUpti_ActivityKind kind = whole ? CUPTI_ACTIVITY_KIND_GRAPH_TRACE : kKind;
  cuInit(0);
  cudaFree(nullptr);
  cudaStream_t stream;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  check("register", cuptiActivityRegisterCallbacks(request, complete_times));
  if (has("whole-on")) check("enable", cuptiActivityEnable(kind));
  cudaGraph_t captured;
  cudaGraphExec_t graph;
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
  for (int i = 0; i < kKernels; ++i) spin<<<1, 1, 0, stream>>>(kKernelNs);
  cudaStreamEndCapture(stream, &captured);
  cudaGraphInstantiate(&graph, captured, 0);
  if (has("whole-on")) check("disable", cuptiActivityDisable(kind));
  cudaGraphLaunch(graph, stream);
  cudaStreamSynchronize(stream);

  Times on[kRecorded];
  for (auto& span : on) {
    span.start = timestamp();
    check("enable", cuptiActivityEnable(kind));
    cudaGraphLaunch(graph, stream);
    if (has("wait")) cudaStreamSynchronize(stream);
    span.end = timestamp();
    check("disable", cuptiActivityDisable(kind));
    if (has("flush")) check("flush", cuptiActivityFlushAll(0));
    for (int i = 0; has("again") && i < 20; ++i) cudaGraphLaunch(graph, stream);
    usleep(30000);
  }
  cudaDeviceSynchronize();
  check("flush", cuptiActivityFlushAll(1));

  const double wanted_us = (whole ? kKernels : 1) * kKernelNs / 1e3;
  int right = 0, inside = 0;
  double longest_us = 0;
  for (int i = 0; i < found; ++i) {
    const double us = (times[i].end - times[i].start) / 1e3;
    right += us < 1.3 * wanted_us;
    if (us > longest_us) longest_us = us;
    for (const auto& span : on) inside += times[i].start >= span.start && times[i].end <= span.end;
  }
  for (int i = 1; i < count; ++i) std::printf("%s ", words[i]);
  std::printf("-> %d records, %d of the right length, longest %.1f us, %d while records were on\n", found,
              right, longest_us, inside);
  return errors != 0;
}
