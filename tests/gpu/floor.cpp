// CUPTI's kernel records in any process, thrown away unread -> what no collector can cost less than.
//
// Use: CUDA_INJECTION64_PATH=floor.so PROGRAM     Where nothing was recorded, or not all of it, the
// process says so and ends with status 3: such a floor would be none.
// Build: nvcc -O2 -shared -Xcompiler -fPIC floor.cpp -o floor.so -lcupti (with the folders of CUPTI)
#include <atomic>
#include <cstdlib>

#include "cupti_switch.h"

namespace {

std::atomic<size_t> bytes, dropped;

void CUPTIAPI discard(CUcontext context, uint32_t stream, uint8_t*, size_t, size_t valid) {
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

}  // namespace

extern "C" int InitializeInjection() {
  using namespace cupti_switch;
  std::atexit(at_exit);
  check("register", cuptiActivityRegisterCallbacks(request, discard));
  check("enable", cuptiActivityEnable(kKind));
  return errors == 0;
}
