// Kernels of graph_ways.h, which PTX of graph_levels.cpp cannot easily have.
// Build: nvcc -arch=sm_90 -rdc=true -dlink -cubin graph_ways.cu -o graph_ways.cubin -lcudadevrt
extern "C" __global__ void spin(float* values, long long cycles) {
  const long long start = clock64();
  values[threadIdx.x] += 1;
  while (clock64() - start < cycles) {
  }
}

extern "C" __global__ void stamp(unsigned long long* at) {
  unsigned long long now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  *at = now;
}

// Before an IF: its body runs in every second replay.
extern "C" __global__ void turn(cudaGraphConditionalHandle handle, int* turns) {
  *turns += 1;
  cudaGraphSetConditional(handle, *turns & 1);
}

// Before a WHILE, and last in its body.
extern "C" __global__ void count(cudaGraphConditionalHandle handle, int* left, int rounds) {
  *left = rounds > 0 ? rounds : *left - 1;
  cudaGraphSetConditional(handle, *left > 0);
}
