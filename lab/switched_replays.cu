// Replays of a CUDA graph around each switch of kernel records, and nothing of ours -> us of each of them.
//
// Usage: switched_replays [flush] [on=N] [off=N] [rounds=N] [nodes=N] [graphs=N]
//   flush   cuptiActivityFlushAll(0) after records were switched off
//   on      replays while records are on (2), off: replays after that (8), graphs: that are replayed in turn (1)
// The program waits for each replay. Prints, for each place after a switch, the median over all rounds: of the
// launch alone, and until its end; then what the calls of CUPTI take. The first lines are those before CUPTI's start.
// Build: nvcc -O2 -std=c++17 switched_replays.cu -o switched_replays -lcupti -lcuda (with the folders of CUPTI)
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cupti_switch.h"

using namespace cupti_switch;

namespace {

__global__ void small(float* values) { values[threadIdx.x] += 1; }

double median(std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

// The us of all replays at one place after a switch.
struct Place {
  std::vector<double> launch, whole;

  void add(cudaGraphExec_t graph, cudaStream_t stream) {
    const double start = now_ns();
    cudaGraphLaunch(graph, stream);
    const double launched = now_ns();
    cudaStreamSynchronize(stream);
    launch.push_back((launched - start) / 1e3);
    whole.push_back((now_ns() - start) / 1e3);
  }

  void print(const char* what, int at) {
    std::printf("| %s | %d | %.1f | %.1f |\n", what, at, median(launch), median(whole));
  }
};

template <typename Call>
void timed(std::vector<double>& us, Call call) {
  const double start = now_ns();
  call();
  us.push_back((now_ns() - start) / 1e3);
}

}  // namespace

int main(int count, char** words) {
  const auto number = [&](const char* name, int otherwise) {
    const size_t length = std::strlen(name);
    for (int i = 1; i < count; ++i) {
      if (std::strncmp(words[i], name, length) == 0 && words[i][length] == '=') {
        return std::max(1, std::atoi(words[i] + length + 1));
      }
    }
    return otherwise;
  };
  const bool flush = count > 1 && std::strcmp(words[1], "flush") == 0;
  const int on = number("on", 2), off = number("off", 8), rounds = number("rounds", 100);
  const int nodes = number("nodes", 600), graphs = number("graphs", 1);
  cuInit(0);
  float* values = nullptr;
  cudaMalloc(&values, 1024 * sizeof(float));
  cudaStream_t stream;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  std::vector<cudaGraphExec_t> all(graphs);
  for (auto& graph : all) {
    cudaGraph_t captured;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
    for (int i = 0; i < nodes; ++i) small<<<1, 32, 0, stream>>>(values);
    cudaStreamEndCapture(stream, &captured);
    cudaGraphInstantiate(&graph, captured, 0);
  }
  long launched = 0;
  const auto next = [&] { return all[launched++ % graphs]; };

  std::vector<Place> with(on), without(off);
  Place before;
  for (int i = 0; i < 200; ++i) before.add(next(), stream);
  std::vector<double> enable, disable, flushed;
  check("register", cuptiActivityRegisterCallbacks(request, complete));
  for (int round = 0; round < rounds; ++round) {
    timed(enable, [] { check("enable", cuptiActivityEnable(kKind)); });
    for (auto& place : with) place.add(next(), stream);
    timed(disable, [] { check("disable", cuptiActivityDisable(kKind)); });
    if (flush) timed(flushed, [] { check("flush", cuptiActivityFlushAll(0)); });
    for (auto& place : without) place.add(next(), stream);
  }
  check("flush", cuptiActivityFlushAll(1));
  const long wanted = static_cast<long>(rounds) * on * nodes;
  std::printf("%d nodes, %d graphs, %d rounds%s; %ld of %ld records, %ld without times\n\n", nodes, graphs, rounds,
              flush ? ", flush" : "", kernels, wanted, untimed);
  std::printf("| records | place | launch us | launch and wait us |\n|---|---|---|---|\n");
  before.print("never on", 0);
  for (int i = 0; i < on; ++i) with[i].print("on", i + 1);
  for (int i = 0; i < off; ++i) without[i].print("off", i + 1);
  std::printf("\nenable %.1f us, disable %.1f us, flush %.1f us (medians)\n", median(enable), median(disable),
              median(flushed));
  return errors != 0;
}
