// CUPTI leaving a process (cuptiFinalize) and coming back, again and again -> whether its GPU work survives.
//
// Usage: detach WHO WHAT [SECONDS [STAY]]     Nothing of the collector is loaded.
//   WHO: `itself` (the thread that launches detaches CUPTI between two of its calls) or `beside`
//        (another thread does, while this one launches)
//   WHAT is launched: `kernels`, `copies`, `graphs`, or `all` in turn
//   STAY: any word; then records are switched off and CUPTI stays, for comparison
// Prints one line: how often CUPTI went, kernels launched and recorded, and the first error of CUDA.
// Exit status: 0 when all went well, 1 after an error; what kills the process speaks for itself.
// Build: nvcc -O2 -std=c++17 detach.cu -o detach -lcupti -lcuda (with the folders of CUPTI)
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include <unistd.h>

#include "cupti_switch.h"

using namespace cupti_switch;

namespace {

constexpr double kPeriodNs = 30e6;

std::atomic<bool> failed, done;

__global__ void nothing() {}

void must(const char* what, cudaError_t result) {
  if (result == cudaSuccess || failed.exchange(true)) return;
  std::printf("%s failed: %s; ", what, cudaGetErrorString(result));
}

// A stream with work of the kinds that were asked for.
struct Guest {
  const std::string what;
  cudaStream_t stream;
  cudaGraphExec_t graph;
  void* device;
  void* host;
  long calls = 0, launched = 0;

  explicit Guest(const char* kinds) : what(kinds) {
    must("cudaStreamCreate", cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    must("cudaMalloc", cudaMalloc(&device, 1 << 12));
    must("cudaMallocHost", cudaMallocHost(&host, 1 << 12));
    cudaGraph_t captured;
    must("begin capture", cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < 20; ++i) nothing<<<1, 32, 0, stream>>>();
    must("end capture", cudaStreamEndCapture(stream, &captured));
    must("instantiate", cudaGraphInstantiate(&graph, captured, 0));
  }

  bool wants(const char* kind) const { return what == kind || what == "all"; }

  // One call; every 64th is followed by a wait, so that the GPU has little in advance.
  void call() {
    const long turn = calls++ % 3;
    if (wants("kernels") && (what != "all" || turn == 0)) {
      nothing<<<1, 32, 0, stream>>>();
      launched += 1;
    }
    if (wants("copies") && (what != "all" || turn == 1)) {
      must("a copy", cudaMemcpyAsync(device, host, 1 << 12, cudaMemcpyHostToDevice, stream));
    }
    if (wants("graphs") && (what != "all" || turn == 2)) {
      must("a graph launch", cudaGraphLaunch(graph, stream));
      launched += 20;
    }
    must("a launch", cudaGetLastError());
    if (calls % 64 == 0) must("a wait", cudaStreamSynchronize(stream));
  }
};

}  // namespace

int main(int count, char** words) {
  if (count < 3) {
    std::fprintf(stderr, "usage: detach itself|beside kernels|copies|graphs|all [SECONDS [STAY]]\n");
    return 2;
  }
  const bool beside = std::strcmp(words[1], "beside") == 0;
  const double seconds = count > 3 ? std::atof(words[3]) : 5;
  const bool detach = count <= 4;
  cuInit(0);
  cudaFree(nullptr);
  Guest guest(words[2]);
  long times = 0;
  bool on = false;
  const auto turn = [&] {
    if (on) switch_off(detach); else switch_on();
    on = !on;
    times += !on;
  };
  const double end = now_ns() + seconds * 1e9;
  if (beside) {
    std::thread launching([&] { while (!done && !failed) guest.call(); });
    while (now_ns() < end && !failed) {
      turn();
      usleep(kPeriodNs / 1e3);
    }
    done = true;
    launching.join();
  } else {
    double next = now_ns();
    while (now_ns() < end && !failed) {
      guest.call();
      if (now_ns() < next) continue;
      turn();
      next = now_ns() + kPeriodNs;
    }
  }
  if (!failed) must("the last wait", cudaDeviceSynchronize());
  if (on && !failed) turn();
  std::printf("%s %s: CUPTI %s %ld times; %ld kernels launched, %ld recorded\n", words[1], words[2],
              detach ? "left" : "was switched off", times, guest.launched, kernels);
  std::fflush(stdout);
  _exit(failed || errors);
}
