// A kernel that waits for a flag that nobody sets: all of its warps stand in one loop.
extern "C" __global__ void hung(int volatile *flag)
{
    while (*flag == 0) {
    }
}
#ifndef __CUDACC_RTC__
#include "main.h"
int main() { return launch_and_wait(hung, 64, 128); }
#endif
