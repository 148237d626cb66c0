// A kernel of which one thread fails an assert.
#ifndef __CUDACC_RTC__
#include <cassert>
#else
extern "C" __device__ void __assertfail(char const *, char const *, unsigned, char const *, unsigned long);
#define assert(condition) ((condition) ? (void)0 : __assertfail(#condition, __FILE__, __LINE__, __func__, 1))
#endif
extern "C" __global__ void asserted(int volatile *flag)
{
    assert(*flag != 0 || threadIdx.x != 7);
}
#ifndef __CUDACC_RTC__
#include "main.h"
int main() { return launch_and_wait(asserted, 4, 32); }
#endif
