// A kernel that never ends, and nothing of ours -> which calls still answer, and what they tell.
//
// Usage: standstill kernel|graph|queue [late]     what spins: a kernel, a node of a replayed graph, or a kernel with
//                                                 so many launches behind it that the next launch blocks
//   late   CUPTI is started only while the kernel spins, as a dormant collector would
//        standstill cost                          what a counter of launches by callbacks costs
// One thread waits for the stream for ever, as a program does. Each call is made on a thread of its own and given
// two seconds. Then the flag is set, everything ends, and what was recorded is counted again.
// Build: nvcc -O2 -std=c++17 standstill.cu -o standstill -lcupti -lcuda (with the folders of CUPTI)
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <unistd.h>

#include "cupti_switch.h"

using namespace cupti_switch;

namespace {

__global__ void small(float* values) { values[threadIdx.x] += 1; }

__global__ void spin(volatile int* flag) {
  while (*flag == 0) {
  }
}

std::atomic<long> launches;

void CUPTIAPI count(void*, CUpti_CallbackDomain, CUpti_CallbackId, const CUpti_CallbackData* data) {
  if (data->callbackSite == CUPTI_API_ENTER) launches.fetch_add(1, std::memory_order_relaxed);
}

// Makes a call with two seconds to answer in; one that does not is left behind.
void ask(const char* what, const std::function<std::string()>& call) {
  auto answer = std::make_shared<std::promise<std::string>>();
  auto future = answer->get_future();
  const long before = kernels;
  const double start = now_ns();
  std::thread([answer, call] { answer->set_value(call()); }).detach();
  const bool answered = future.wait_for(std::chrono::seconds(2)) == std::future_status::ready;
  const std::string said = answered ? future.get() : "no answer in 2 s";
  std::printf("| %s | %s | %.3f | %ld |\n", what, said.c_str(), (now_ns() - start) / 1e6, kernels - before);
  std::fflush(stdout);
}

std::string text(CUresult result) {
  const char* name = "?";
  cuGetErrorName(result, &name);
  return name;
}

std::string text(CUptiResult result) {
  const char* name = "?";
  cuptiGetResultString(result, &name);
  return name;
}

// By its symbols, because not every toolkit has the header.
template <typename... Args>
bool nvml(const char* name, Args... args) {
  static void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  auto call = library == nullptr ? nullptr : reinterpret_cast<int (*)(Args...)>(dlsym(library, name));
  return call != nullptr && call(args...) == 0;
}

std::string gpu_state() {
  void* device = nullptr;
  unsigned used[2] = {}, power = 0, clock = 0;
  if (!nvml("nvmlInit_v2") || !nvml("nvmlDeviceGetHandleByIndex_v2", 0u, &device)) return "no NVML";
  nvml("nvmlDeviceGetUtilizationRates", device, &used[0]);
  nvml("nvmlDeviceGetPowerUsage", device, &power);
  nvml("nvmlDeviceGetClockInfo", device, 1, &clock);
  return "GPU " + std::to_string(used[0]) + " %, memory " + std::to_string(used[1]) + " %, " +
         std::to_string(power / 1000) + " W, " + std::to_string(clock) + " MHz";
}

void cost() {
  float* values = nullptr;
  cudaMalloc(&values, 1024 * sizeof(float));
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  const auto per_launch = [&] {
    const double start = now_ns();
    for (int i = 0; i < 500; ++i) small<<<1, 32, 0, stream>>>(values);
    const double launched = now_ns();
    cudaStreamSynchronize(stream);
    return (launched - start) / 500;
  };
  for (int i = 0; i < 20; ++i) per_launch();
  CUpti_SubscriberHandle subscriber = nullptr;
  const char* ways[] = {"never subscribed", "subscribed, nothing enabled", "callback of launches"};
  for (int way = 0; way < 3; ++way) {
    if (way == 1) check("subscribe", cuptiSubscribe(&subscriber, (CUpti_CallbackFunc)count, nullptr));
    if (way == 2) {
      for (auto id : {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
                      CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch}) {
        check("enable", cuptiEnableCallback(1, subscriber, CUPTI_CB_DOMAIN_DRIVER_API, id));
      }
    }
    std::vector<double> all;
    for (int i = 0; i < 200; ++i) all.push_back(per_launch());
    std::sort(all.begin(), all.end());
    std::printf("| %s | %.1f | %.1f to %.1f | %ld |\n", ways[way], all[100], all[50], all[150], launches.load());
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "kernel";
  const bool late = argc > 2 && std::strcmp(argv[2], "late") == 0;
  cuInit(0);
  cudaFree(nullptr);
  if (mode == "cost") {
    std::printf("| way | ns per launch, median | quartiles | launches counted |\n|---|---|---|---|\n");
    cost();
    return 0;
  }
  int* flag = nullptr;
  cudaHostAlloc(&flag, sizeof(int), cudaHostAllocMapped);
  *flag = 1;
  float* values = nullptr;
  cudaMalloc(&values, 1024 * sizeof(float));
  cudaStream_t stuck, other;
  cudaStreamCreateWithFlags(&stuck, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
  if (!late) switch_on();

  const auto body = [&](int before) {
    for (int i = 0; i < before; ++i) small<<<1, 32, 0, stuck>>>(values);
    spin<<<1, 1, 0, stuck>>>(flag);
    for (int i = 0; i < 10; ++i) small<<<1, 32, 0, stuck>>>(values);
  };
  cudaGraphExec_t graph = nullptr;
  if (mode == "graph") {
    cudaGraph_t captured;
    cudaStreamBeginCapture(stuck, cudaStreamCaptureModeThreadLocal);
    body(10);
    cudaStreamEndCapture(stuck, &captured);
    cudaGraphInstantiate(&graph, captured, 0);
  }
  const auto run = [&] {
    if (graph != nullptr) {
      cudaGraphLaunch(graph, stuck);
    } else {
      body(10);
    }
  };
  // One that ends, so that everything is loaded; its records are handed out.
  run();
  small<<<1, 32, 0, other>>>(values);
  cudaDeviceSynchronize();
  if (!late) check("flush", cuptiActivityFlushAll(0));
  const long settled = kernels;
  *flag = 0;
  run();
  for (int i = 0; i < 50; ++i) small<<<1, 32, 0, other>>>(values);
  cudaStreamSynchronize(other);
  std::atomic<long> queued{0};
  std::thread filler;
  if (mode == "queue") {
    filler = std::thread([&] {
      for (int i = 0; i < 5000; ++i, ++queued) small<<<1, 32, 0, stuck>>>(values);
    });
  }
  std::atomic<bool> waited{false};
  std::thread waiter([&] { cudaStreamSynchronize(stuck); waited = true; });
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  std::printf("%s%s: 10 kernels before the one that spins, 10 behind it, 50 on another stream that have ended", mode.c_str(),
              late ? ", CUPTI started late" : "");
  if (mode == "queue") std::printf("; %ld further launches until one blocked", queued.load());
  std::printf("\n| call | answer | ms | kernel records handed out |\n|---|---|---|---|\n");
  ask("cuStreamQuery, the stuck stream", [&] { return text(cuStreamQuery(stuck)); });
  ask("cuStreamQuery, the other stream", [&] { return text(cuStreamQuery(other)); });
  ask("cuMemGetInfo", [&] {
    cudaFree(nullptr);
    size_t available = 0, all = 0;
    const auto result = cuMemGetInfo(&available, &all);
    return text(result) + ", " + std::to_string(available >> 20) + " MiB free";
  });
  ask("NVML", gpu_state);
  ask("cuptiGetTimestamp", [] {
    uint64_t at = 0;
    return text(cuptiGetTimestamp(&at));
  });
  if (late) {
    ask("cuptiActivityRegisterCallbacks", [] { return text(cuptiActivityRegisterCallbacks(request, complete)); });
    ask("cuptiActivityEnable(CONCURRENT_KERNEL)", [] { return text(cuptiActivityEnable(kKind)); });
  }
  ask("cuptiActivityFlushAll(0)", [] { return text(cuptiActivityFlushAll(0)); });
  ask("cuptiActivityFlushAll(0), again", [] { return text(cuptiActivityFlushAll(0)); });
  ask("a launch on a third stream, and its end", [&] {
    cudaStream_t third;
    cudaStreamCreateWithFlags(&third, cudaStreamNonBlocking);
    small<<<1, 32, 0, third>>>(values);
    const auto result = cudaStreamSynchronize(third);
    return std::string(cudaGetErrorName(result));
  });
  ask("cuptiActivityFlushAll(0), after it", [] { return text(cuptiActivityFlushAll(0)); });
  ask("cuptiActivityFlushAll(FORCED)", [] { return text(cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED)); });
  ask("NVML, later", gpu_state);
  const long while_stuck = kernels - settled;
  *flag = 1;
  waiter.join();
  if (filler.joinable()) filler.join();
  const auto end = cudaDeviceSynchronize();
  check("flush", cuptiActivityFlushAll(0));
  std::printf("While stuck %ld kernel records; after the flag was set %s, %ld in all since then (%ld without times), errors %d\n\n",
              while_stuck, cudaGetErrorName(end), kernels - settled, untimed, errors);
  std::fflush(stdout);
  _exit(0);
}
