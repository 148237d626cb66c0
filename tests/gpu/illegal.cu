// A kernel of which one thread writes where it may not.
extern "C" __global__ void illegal(int volatile *flag)
{
    if (blockIdx.x == 3 && threadIdx.x == 5) {
        *(int volatile *)0x10 = *flag;
    }
    while (*flag == 0) {
    }
}
#ifndef __CUDACC_RTC__
#include "main.h"
int main() { return launch_and_wait(illegal, 8, 64); }
#endif
