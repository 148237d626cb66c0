// Launches a kernel on a flag that is 0, says READY, waits for its end and says how that came.
#pragma once
#include <cstdio>

template <typename Kernel> int launch_and_wait(Kernel kernel, int blocks, int threads)
{
    int *flag = nullptr;
    cudaError_t error = cudaMalloc(&flag, sizeof(int));
    if (error == cudaSuccess) {
        error = cudaMemset(flag, 0, sizeof(int));
    }
    if (error == cudaSuccess) {
        kernel<<<blocks, threads>>>(flag);
        error = cudaGetLastError();
    }
    if (error != cudaSuccess) {
        std::printf("FAILED %s\n", cudaGetErrorString(error));
        return 2;
    }
    std::printf("READY\n");
    std::fflush(stdout);
    error = cudaDeviceSynchronize();
    std::printf("ENDED %s\n", cudaGetErrorString(error));
    return error == cudaSuccess ? 0 : 1;
}
