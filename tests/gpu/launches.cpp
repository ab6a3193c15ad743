// Empty kernels, launched one by one and as nodes of a graph -> what one costs the launching thread, as JSON.
//
// Usage: launches [--launches N] [--replays N] [--driver LIBCUDA] [--switch FLOOR.so HOW]
//   --launches  empty kernels, in batches of 10,000 that are waited for (100000; 0: none)
//   --replays   launches of a graph of 100 empty nodes, in batches of 100 (1000; 0: none)
//   --driver    the driver to load (libcuda.so.1; the simulated one also serves)
//   --switch    measures before, while and after kernel records are on: floor.cpp collects them, and HOW is
//               how it stops (disable, unsubscribe, finalize; none: it never starts)
// Prints one line: for each phase the nanoseconds of a launch and of a node, minimum and median of the
// batches. With --switch also those of a node where each replay is waited for: of a graph that was made in
// this phase, and of one that was made in the first. Exit status: 0, 1 (the driver or the switch failed),
// 2 (usage), 77 (no driver or no GPU).
//
// Build: g++ -std=c++17 -O2 launches.cpp -o launches -ldl      It needs no header of NVIDIA's.
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

namespace {

constexpr int kLaunchesOfBatch = 10000, kReplaysOfBatch = 100, kNodes = 100;
constexpr int kNoDevice = 100, kSkipped = 77;

constexpr const char kPtx[] =
    ".version 6.4\n.target sm_70\n.address_size 64\n.visible .entry nothing()\n{\n    ret;\n}\n";

using Handle = void*;

void* driver;

// A function of the driver by its name and its parameters, all of which return a CUresult.
template <typename... Parameters>
int call(const char* name, Parameters... parameters) {
  using Function = int (*)(Parameters...);
  const auto function = reinterpret_cast<Function>(dlsym(driver, name));
  if (function == nullptr) {
    std::fprintf(stderr, "launches: the driver has no %s\n", name);
    std::exit(1);
  }
  return function(parameters...);
}

void check(const char* what, int result) {
  if (result == 0) return;
  const char* text = nullptr;
  call("cuGetErrorName", result, &text);
  std::fprintf(stderr, "launches: %s failed: CUDA error %d %s\n", what, result, text == nullptr ? "" : text);
  std::exit(what == std::string("cuInit") && result == kNoDevice ? kSkipped : 1);
}

// In the measured loops the functions are looked up once.
using Launch = int (*)(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle,
                       void**, void**);
using Replay = int (*)(Handle, Handle);
Launch launch_kernel;
Replay launch_graph;
Handle kernel, stream;

double now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

void launch() {
  const int result = launch_kernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, nullptr, nullptr);
  if (result != 0) check("cuLaunchKernel", result);
}

// Nanoseconds of one, for each batch. One batch before them is not measured.
template <typename One>
std::vector<double> batches(int all, int of_batch, int parts, One one) {
  std::vector<double> times;
  for (int done = -of_batch; done < all; done += of_batch) {
    const double start = now_ns();
    for (int i = 0; i < of_batch; ++i) one();
    check("cuStreamSynchronize", call("cuStreamSynchronize", stream));
    if (done >= 0) times.push_back((now_ns() - start) / of_batch / parts);
  }
  std::sort(times.begin(), times.end());
  return times;
}

void print_times(const char* name, const std::vector<double>& times, bool comma) {
  if (times.empty()) return;
  std::printf("%s\"%s\": {\"min\": %.2f, \"median\": %.2f, \"batches\": %zu}", comma ? ", " : "", name,
              times.front(), times[times.size() / 2], times.size());
}

Handle captured() {
  Handle graph = nullptr, exec = nullptr;
  // 1: work of other threads stays out of it.
  check("cuStreamBeginCapture", call("cuStreamBeginCapture_v2", stream, 1));
  for (int i = 0; i < kNodes; ++i) launch();
  check("cuStreamEndCapture", call("cuStreamEndCapture", stream, &graph));
  check("cuGraphInstantiate", call("cuGraphInstantiateWithFlags", &exec, graph, std::uint64_t{0}));
  check("cuGraphDestroy", call("cuGraphDestroy", graph));
  return exec;
}

void replay(Handle exec) {
  const int result = launch_graph(exec, stream);
  if (result != 0) check("cuGraphLaunch", result);
}

// Nanoseconds of a node of replays that are waited for one by one.
std::vector<double> waited(int replays, Handle exec) {
  return batches(replays, kReplaysOfBatch, kNodes, [exec] {
    replay(exec);
    check("cuStreamSynchronize", call("cuStreamSynchronize", stream));
  });
}

// `kept` holds the graph of the first phase; null: no replay is waited for.
void phase(const char* name, int launches, int replays, bool first, Handle* kept) {
  std::printf("%s\"%s\": {", first ? "" : ", ", name);
  if (launches > 0) print_times("eager_ns", batches(launches, kLaunchesOfBatch, 1, launch), false);
  if (replays > 0) {
    const Handle exec = captured();
    const auto queued = [exec] { replay(exec); };
    print_times("graph_ns", batches(replays, kReplaysOfBatch, kNodes, queued), launches > 0);
    if (kept != nullptr) {
      if (*kept == nullptr) *kept = captured();
      print_times("waited_ns", waited(replays, exec), true);
      print_times("kept_ns", waited(replays, *kept), true);
    }
    check("cuGraphExecDestroy", call("cuGraphExecDestroy", exec));
  }
  std::printf("}");
}

// What floor.cpp exports, from the file that --switch names.
struct Switch {
  int (*on)() = nullptr;
  int (*off)(const char*) = nullptr;
  int (*report)() = nullptr;

  explicit Switch(const char* file) {
    void* library = dlopen(file, RTLD_NOW);
    if (library != nullptr) {
      on = reinterpret_cast<int (*)()>(dlsym(library, "floor_on"));
      off = reinterpret_cast<int (*)(const char*)>(dlsym(library, "floor_off"));
      report = reinterpret_cast<int (*)()>(dlsym(library, "floor_report"));
    }
    if (on == nullptr || off == nullptr || report == nullptr) {
      const char* why = library == nullptr ? dlerror() : "it has not all of floor_on, floor_off, floor_report";
      std::fprintf(stderr, "launches: --switch %s: %s\n", file, why);
      std::exit(1);
    }
  }
};

void usage() {
  std::fprintf(stderr,
               "usage: launches [--launches N] [--replays N] [--driver LIBCUDA] [--switch FLOOR.so HOW]\n"
               "N is a whole number from 0 on; at least one of the two is not 0\n");
  std::exit(2);
}

int number(const char* word) {
  char* end = nullptr;
  const long value = std::strtol(word, &end, 10);
  if (*word == 0 || *end != 0 || value < 0 || value > 1000000000) usage();
  return static_cast<int>(value);
}

}  // namespace

int main(int count, char** words) {
  int launches = 100000, replays = 1000;
  const char *file = "libcuda.so.1", *floor = nullptr, *how = "none";
  for (int i = 1; i < count; ++i) {
    const std::string option = words[i];
    const int values = option == "--switch" ? 2 : 1;
    if (i + values >= count) usage();
    if (option == "--launches") launches = number(words[i + 1]);
    else if (option == "--replays") replays = number(words[i + 1]);
    else if (option == "--driver") file = words[i + 1];
    else if (option == "--switch") floor = words[i + 1], how = words[i + 2];
    else usage();
    i += values;
  }
  if (launches == 0 && replays == 0) usage();

  driver = dlopen(file, RTLD_NOW);
  if (driver == nullptr) {
    std::fprintf(stderr, "launches: no driver: %s\n", dlerror());
    return kSkipped;
  }
  check("cuInit", call("cuInit", 0U));
  int device = 0;
  Handle context = nullptr, module = nullptr;
  check("cuDeviceGet", call("cuDeviceGet", &device, 0));
  check("cuDevicePrimaryCtxRetain", call("cuDevicePrimaryCtxRetain", &context, device));
  check("cuCtxSetCurrent", call("cuCtxSetCurrent", context));
  check("cuModuleLoadData", call("cuModuleLoadData", &module, static_cast<const void*>(kPtx)));
  check("cuModuleGetFunction", call("cuModuleGetFunction", &kernel, module, "nothing"));
  check("cuStreamCreate", call("cuStreamCreate", &stream, 1U));
  launch_kernel = reinterpret_cast<Launch>(dlsym(driver, "cuLaunchKernel"));
  launch_graph = reinterpret_cast<Replay>(dlsym(driver, "cuGraphLaunch"));
  if (launch_kernel == nullptr || launch_graph == nullptr) {
    std::fprintf(stderr, "launches: the driver has no cuLaunchKernel or no cuGraphLaunch\n");
    return 1;
  }

  // All launches of a phase, those that are not measured with them, so that a collector can be checked.
  const int eager = launches > 0 ? (launches + kLaunchesOfBatch - 1) / kLaunchesOfBatch + 1 : 0;
  const int graph = replays > 0 ? (replays + kReplaysOfBatch - 1) / kReplaysOfBatch + 1 : 0;
  const long kernels = static_cast<long>(eager) * kLaunchesOfBatch +
                       static_cast<long>(graph) * kReplaysOfBatch * kNodes * (floor == nullptr ? 1 : 3);
  std::printf("{\"kernels\": %ld, ", kernels);
  if (floor == nullptr) {
    phase("all", launches, replays, true, nullptr);
  } else {
    const Switch control(floor);
    const bool switches = std::strcmp(how, "none") != 0;
    Handle kept = nullptr;
    phase("before", launches, replays, true, &kept);
    if (switches && control.on() != 1) return 1;
    phase("on", launches, replays, false, &kept);
    if (switches && (control.report() != 1 || control.off(how) != 1)) return 1;
    phase("off", launches, replays, false, &kept);
  }
  std::printf("}\n");
  return std::fflush(stdout) == 0 ? 0 : 1;
}
