// Empty kernels in and out of a range -> what one costs at the launch, and when the last one was done.
//
// Usage: cost KERNELS     Prints `in=NS out=NS end=NS`: the fewest nanoseconds a launch took in the range
// `collected` and outside of every range, over batches, and the monotonic clock after the last kernel.
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include <nvtx3/nvToolsExt.h>

namespace {

constexpr int kBatch = 10000;

__global__ void nothing() {}

double now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1e9 + now.tv_nsec;
}

void check(cudaError_t error) {
  if (error != cudaSuccess) {
    std::fprintf(stderr, "cost: CUDA says: %s\n", cudaGetErrorString(error));
    std::exit(1);
  }
}

// Batches of kernels, each waited for; the shortest time of a launch.
double batches(int kernels) {
  double least = 1e18;
  for (int done = 0; done < kernels; done += kBatch) {
    const double start = now_ns();
    for (int i = 0; i < kBatch; ++i) nothing<<<1, 32>>>();
    check(cudaDeviceSynchronize());
    const double each = (now_ns() - start) / kBatch;
    if (each < least) least = each;
  }
  check(cudaGetLastError());
  return least;
}

}  // namespace

int main(int count, char** words) {
  const int kernels = count > 1 ? std::atoi(words[1]) : 1000000;
  if (kernels < kBatch) {
    std::fprintf(stderr, "cost: give at least %d kernels\n", kBatch);
    return 2;
  }
  batches(kBatch);
  nvtxRangePushA("collected");
  const double in = batches(kernels / 2);
  nvtxRangePop();
  const double out = batches(kernels / 2);
  std::printf("in=%.1f out=%.1f end=%.0f\n", in, out, now_ns());
  std::fflush(stdout);
  return 0;
}
