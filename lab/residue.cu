// Kernel records of CUPTI switched on and off, and nothing of ours -> what a launch costs afterwards.
//
// Usage: residue [detach]     Prints nanoseconds a launch took at least, over batches: before CUPTI was
// used, with kernel records on, after they were switched off, and after ten more times on and off; and
// what switching took. `detach` ends with cuptiFinalize each time, which takes CUPTI out of the process.
// Build: nvcc -O2 residue.cu -o residue -lcupti -lcuda (with the folders of CUPTI)
#include <cstdio>
#include <cstring>

#include "cupti_switch.h"

using namespace cupti_switch;

namespace {

constexpr int kBatch = 10000;

__global__ void nothing() {}

// The shortest time of a launch, over batches that are waited for.
double least_ns(int batches) {
  double least = 1e18;
  for (int batch = 0; batch < batches; ++batch) {
    const double start = now_ns();
    for (int i = 0; i < kBatch; ++i) nothing<<<1, 32>>>();
    cudaDeviceSynchronize();
    const double each = (now_ns() - start) / kBatch;
    if (each < least) least = each;
  }
  return least;
}

}  // namespace

int main(int count, char** words) {
  const bool detach = count > 1 && std::strcmp(words[1], "detach") == 0;
  cuInit(0);
  cudaFree(nullptr);
  least_ns(5);
  const double before = least_ns(20);
  const double first_on_us = switch_on();
  const double on = least_ns(20);
  const double first_off_us = switch_off(detach);
  const double off = least_ns(20);
  double pairs_us = 0;
  const long known = records;
  for (int pair = 0; pair < 10; ++pair) {
    pairs_us += switch_on();
    least_ns(1);
    pairs_us += switch_off(detach);
  }
  const double again = least_ns(20);
  std::printf("before %.0f on %.0f off %.0f after ten %.0f ns; ", before, on, off, again);
  std::printf("first on %.0f off %.0f, a pair %.0f us; ", first_on_us, first_off_us, pairs_us / 10);
  std::printf("%ld records of ten batches\n", records - known);
}
