/* A stand-in for libcuda.so.1 and libcudart.so.12: the launch functions under their names and with their arguments,
   which do nothing. Built twice: -DRUNTIME gives the runtime's, which calls the driver's, as CUDA's own does. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

typedef struct { unsigned x, y, z; } dim3;
typedef struct { dim3 grid, block; unsigned shared; void *stream; void *attributes; unsigned count; } driver_config;
typedef struct { dim3 grid, block; size_t shared; void *stream; void *attributes; unsigned count; } runtime_config;

#ifndef RUNTIME
static volatile unsigned long launched;

__attribute__((noinline)) int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                             unsigned bz, unsigned shared, void *stream, void **params, void **extra) {
    launched += gx != 0;
    return 0;
}
__attribute__((noinline)) int cuLaunchKernelEx(const driver_config *config, void *f, void **params, void **extra) {
    launched += config->grid.x != 0;
    return 0;
}
__attribute__((noinline)) int cuGraphLaunch(void *graph, void *stream) { launched++; return 0; }
__attribute__((noinline)) int cuModuleGetFunction(void **out, void *module, const char *name) {
    *out = (void *)(0x70000000ul + 256 * strlen(name) + (unsigned char)name[0]);
    return 0;
}
#else
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
int cuLaunchKernelEx(const driver_config *, void *, void **, void **);

__attribute__((noinline)) int cudaLaunchKernel(const void *f, dim3 g, dim3 b, void **args, size_t shared, void *stream) {
    volatile char frame[256];
    frame[0] = 1;
    return cuLaunchKernel((void *)(uintptr_t)0xbeef, g.x, g.y, g.z, b.x, b.y, b.z, shared, stream, args, NULL) + !frame[0];
}
__attribute__((noinline)) int cudaLaunchKernelExC(const runtime_config *c, const void *f, void **args) {
    driver_config d = {c->grid, c->block, (unsigned)c->shared, c->stream, NULL, 0};
    return cuLaunchKernelEx(&d, (void *)(uintptr_t)0xbeef, args, NULL);
}
__attribute__((noinline)) int cudaStreamSynchronize(void *stream) {
    for (;;) pause();  /* what it was given last is never done */
    return stream != NULL;
}
__attribute__((noinline)) const char *cudaGetErrorString(int error) {
    return error == 700 ? "an illegal memory access was encountered" : "no error";
}
#endif
