// cupti_switch.h for Python: what blocks.py calls through ctypes.
//
// Build: g++ -O2 -shared -fPIC blocks.cpp -o blocks.so -lcupti (with the folders of CUPTI)
#include "cupti_switch.h"

extern "C" {

double block_on() { return cupti_switch::switch_on(); }

double block_off(int detach) { return cupti_switch::switch_off(detach != 0); }

// Hands over what CUPTI holds; without it records come with the next buffers.
void block_flush() { cupti_switch::check("flush", cuptiActivityFlushAll(1)); }

long block_kernels() { return cupti_switch::kernels; }

long block_untimed() { return cupti_switch::untimed; }

int block_errors() { return cupti_switch::errors; }
}
