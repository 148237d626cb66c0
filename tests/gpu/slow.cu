// A kernel that takes some twenty seconds and ends well: a dump in between must not change that.
extern "C" __global__ void slow(int volatile *flag)
{
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do {
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    } while (*flag == 0 && now - begin < 20000000000ull);
}
#ifndef __CUDACC_RTC__
#include "main.h"
int main() { return launch_and_wait(slow, 132, 256); }
#endif
