// CUPTI's kernel records in any process, thrown away unread -> what no collector can cost less than.
//
// Use: CUDA_INJECTION64_PATH=floor.so PROGRAM     Where nothing was recorded, or not all of it, the
// process says so and ends with status 3: such a floor would be none.
// Build: nvcc -O2 -shared -Xcompiler -fPIC floor.cpp -o floor.so -lcupti (with the folders of CUPTI)
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include <cupti.h>

namespace {

// A buffer that comes round again was given back long before.
constexpr unsigned kBuffers = 64;
constexpr size_t kBytes = 1 << 20;

alignas(4096) char pool[kBuffers][kBytes];
std::atomic<unsigned> given;
std::atomic<size_t> bytes, dropped;

void CUPTIAPI request(uint8_t** buffer, size_t* size, size_t* most) {
  *buffer = reinterpret_cast<uint8_t*>(pool[given++ % kBuffers]);
  *size = kBytes;
  *most = 0;
}

void CUPTIAPI complete(CUcontext context, uint32_t stream, uint8_t*, size_t, size_t valid) {
  size_t lost = 0;
  bytes += valid;
  if (cuptiActivityGetNumDroppedRecords(context, stream, &lost) == CUPTI_SUCCESS) dropped += lost;
}

void at_exit() {
  cuptiActivityFlushAll(1);
  if (bytes > 0 && dropped == 0) return;
  std::fprintf(stderr, "floor: %zu bytes of records, %zu records dropped\n", bytes.load(),
               dropped.load());
  std::_Exit(3);
}

bool done(const char* what, CUptiResult result) {
  if (result == CUPTI_SUCCESS) return true;
  std::fprintf(stderr, "floor: %s: CUPTI says %d\n", what, static_cast<int>(result));
  return false;
}

}  // namespace

extern "C" int InitializeInjection() {
  std::atexit(at_exit);
  return done("register", cuptiActivityRegisterCallbacks(request, complete)) &&
         done("enable", cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
}
