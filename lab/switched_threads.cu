// Bare CUPTI: what is recorded of threads that launch while another thread switches records on and off.
// Usage: switched_threads ORDER [WINDOWS]
// ORDER: which kinds are switched, and in which order (see `switch_on`). Prints the kernels that were recorded of
// each stream in each window, and how many windows of a stream are missing.
// Build: nvcc -O2 -std=c++17 -o switched_threads switched_threads.cu -lcupti -lcuda
#include <cuda_runtime.h>
#include <cupti.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

static const int THREADS = 4, KERNELS = 20, FEWEST = 100;
static const size_t BUFFER = 1 << 20;
static std::mutex lock;
static std::vector<std::pair<uint32_t, uint64_t>> records;  // stream, start

static void check(CUptiResult result, const char *call) {
  if (result != CUPTI_SUCCESS) printf("%s: error %d\n", call, (int)result);
}
#define CHECK(call) check(call, #call)

__global__ void kernel(float *values) { values[threadIdx.x] += 1; }

static void CUPTIAPI requested(uint8_t **buffer, size_t *size, size_t *most) {
  *buffer = (uint8_t *)aligned_alloc(8, BUFFER);
  *size = BUFFER;
  *most = 0;
}

static void CUPTIAPI completed(CUcontext, uint32_t, uint8_t *buffer, size_t, size_t valid) {
  CUpti_Activity *record = nullptr;
  std::lock_guard<std::mutex> guard(lock);
  while (valid && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
    if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) continue;
    auto *found = (CUpti_ActivityKernel9 *)record;
    uint32_t stream = found->streamId;
    uint64_t start = found->start;
    records.emplace_back(stream, start);
  }
  free(buffer);
}

static const CUpti_ActivityKind K = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, COPY = CUPTI_ACTIVITY_KIND_MEMCPY,
                                FILL = CUPTI_ACTIVITY_KIND_MEMSET;

static std::vector<CUpti_ActivityKind> switch_on(int order, bool first) {
  switch (order) {
    case 1: return {K, COPY, FILL};
    case 2: case 5: return {COPY, FILL, K};
    case 3: return first ? std::vector<CUpti_ActivityKind>{COPY, FILL, K} : std::vector<CUpti_ActivityKind>{K};
    case 4: return {K, COPY, FILL, K};
    case 6: return {COPY, K};
    default: return {K};
  }
}

static std::vector<CUpti_ActivityKind> switch_off(int order) {
  switch (order) {
    case 1: case 2: case 4: return {K, COPY, FILL};
    case 5: return {COPY, FILL, K};
    case 6: return {K, COPY};
    default: return {K};
  }
}

int main(int count, char **words) {
  if (count < 2) return fprintf(stderr, "usage: switched_threads ORDER [WINDOWS]\n"), 2;
  const int order = atoi(words[1]), windows = count > 2 ? atoi(words[2]) : 16;
  CUpti_SubscriberHandle subscriber;
  auto nothing = +[](void *, CUpti_CallbackDomain, CUpti_CallbackId, const void *) {};
  CHECK(cuptiSubscribe(&subscriber, (CUpti_CallbackFunc)nothing, nullptr));
  uint8_t on = 1;
  size_t size = 1;
  CHECK(cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER, &size, &on));
  CHECK(cuptiActivityRegisterCallbacks(requested, completed));
  if (cudaFree(0) != cudaSuccess) return fprintf(stderr, "SKIP no GPU\n"), 77;

  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < THREADS; thread++) {
    threads.emplace_back([&stop] {
      cudaStream_t stream;
      float *values;
      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
      cudaMalloc(&values, 4096);
      for (long step = 1; !stop; step++) {
        for (int launch = 0; launch < KERNELS; launch++) kernel<<<1, 32, 0, stream>>>(values);
        if (step % 8 == 0) cudaStreamSynchronize(stream);
        usleep(500);
      }
      cudaStreamSynchronize(stream);
    });
  }
  sleep(1);
  std::vector<std::pair<uint64_t, uint64_t>> times;
  for (int window = 0; window < windows; window++) {
    for (auto kind : switch_on(order, window == 0)) CHECK(cuptiActivityEnable(kind));
    uint64_t begin, end;
    CHECK(cuptiGetTimestamp(&begin));
    usleep(300000);
    CHECK(cuptiGetTimestamp(&end));
    times.emplace_back(begin, end);
    for (auto kind : switch_off(order)) CHECK(cuptiActivityDisable(kind));
    for (int flush = 0; flush < 6; flush++) {
      CHECK(cuptiActivityFlushAll(0));
      usleep(10000);
    }
    CHECK(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
    usleep(50000);
  }
  stop = true;
  for (auto &thread : threads) thread.join();
  CHECK(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));

  uint32_t version = 0;
  cuptiGetVersion(&version);
  std::map<uint32_t, std::vector<long>> found;
  for (auto &record : records) {
    auto &kernels = found[record.first];
    kernels.resize(windows);
    for (int window = 0; window < windows; window++)
      kernels[window] += record.second >= times[window].first && record.second <= times[window].second;
  }
  int missing = (THREADS - (int)found.size()) * windows;
  for (auto &[stream, kernels] : found) {
    printf("stream %u:", stream);
    for (long number : kernels) {
      printf(" %ld", number);
      missing += number < FEWEST;
    }
    puts("");
  }
  printf("CUPTI %u, order %d: %d windows of a stream are missing, of %d\n", version, order, missing, THREADS * windows);
}
