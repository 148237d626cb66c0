/* A stand-in for the CUDA runtime and driver: one device, memory of the host, and a yes to every call.
 *
 * For tests of nvFuser on a machine without a GPU (test_wheel.py): segmenting, lowering and NVRTC are the real ones,
 * which look at the device's properties and otherwise need none. Loaded by LD_PRELOAD; its soname is the driver's, so
 * that opening `libcuda.so.1` finds it too.
 *
 * STAND_IN_REFUSE=N   the driver refuses to load the N-th kernel (`all`: each)
 * STAND_IN_HANG=N     loading the N-th kernel never ends
 */

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#undef cudaGetDeviceProperties
#undef cudaGetDeviceProperties_v2

static char handle[64];

/* the runtime */

cudaError_t cudaGetDeviceCount(int *count) { *count = 1; return cudaSuccess; }
cudaError_t cudaGetDevice(int *device) { *device = 0; return cudaSuccess; }
cudaError_t cudaSetDevice(int device) { return cudaSuccess; }
cudaError_t cudaDriverGetVersion(int *version) { *version = 12080; return cudaSuccess; }
cudaError_t cudaGetLastError(void) { return cudaSuccess; }
cudaError_t cudaPeekAtLastError(void) { return cudaSuccess; }

cudaError_t cudaGetDeviceProperties_v2(struct cudaDeviceProp *p, int device) {
  memset(p, 0, sizeof *p);
  strcpy(p->name, "stand-in");
  p->totalGlobalMem = 80ull << 30;
  p->sharedMemPerBlock = 49152;
  p->sharedMemPerBlockOptin = 232448;
  p->sharedMemPerMultiprocessor = 233472;
  p->reservedSharedMemPerBlock = 1024;
  p->regsPerBlock = p->regsPerMultiprocessor = 65536;
  p->warpSize = 32;
  p->maxThreadsPerBlock = p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
  p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = 2147483647;
  p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->major = 9;
  p->multiProcessorCount = 132;
  p->maxThreadsPerMultiProcessor = 2048;
  p->maxBlocksPerMultiProcessor = 32;
  p->clockRate = 1980000;
  p->memoryClockRate = 2619000;
  p->memoryBusWidth = 5120;
  p->l2CacheSize = 52428800;
  p->cooperativeLaunch = p->concurrentKernels = 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
  *value = attribute == cudaDevAttrComputeCapabilityMajor        ? 9
           : attribute == cudaDevAttrMultiProcessorCount         ? 132
           : attribute == cudaDevAttrMaxSharedMemoryPerBlockOptin ? 232448
           : attribute == cudaDevAttrMaxThreadsPerBlock          ? 1024
           : attribute == cudaDevAttrCooperativeLaunch           ? 1
                                                                 : 0;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void **p, size_t n) { *p = aligned_alloc(512, (n + 511) / 512 * 512); return cudaSuccess; }
cudaError_t cudaFree(void *p) { free(p); return cudaSuccess; }
cudaError_t cudaMemGetInfo(size_t *left, size_t *all) { *left = *all = 80ull << 30; return cudaSuccess; }
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, enum cudaMemcpyKind k, cudaStream_t s) {
  memcpy(to, from, n);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t n, enum cudaMemcpyKind k) {
  memcpy(to, from, n);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void *to, int value, size_t n, cudaStream_t s) { memset(to, value, n); return cudaSuccess; }
cudaError_t cudaStreamIsCapturing(cudaStream_t s, enum cudaStreamCaptureStatus *c) {
  *c = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) { return cudaSuccess; }
cudaError_t cudaDeviceSynchronize(void) { return cudaSuccess; }
cudaError_t cudaStreamQuery(cudaStream_t s) { return cudaSuccess; }
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *m) { return cudaSuccess; }
cudaError_t cudaDeviceGetStreamPriorityRange(int *low, int *high) { *low = *high = 0; return cudaSuccess; }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned f, int p) { *s = (void *)handle; return cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned f) { *e = (void *)handle; return cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) { return cudaSuccess; }
cudaError_t cudaEventQuery(cudaEvent_t e) { return cudaSuccess; }
cudaError_t cudaEventDestroy(cudaEvent_t e) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t e) { return cudaSuccess; }
cudaError_t cudaLaunchKernel(const void *f, dim3 g, dim3 b, void **a, size_t n, cudaStream_t s) { return cudaSuccess; }
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *a, const void *f) {
  memset(a, 0, sizeof *a);
  a->maxThreadsPerBlock = 1024;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n, const void *f, int b, size_t s) {
  *n = 8;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n, const void *f, int b, size_t s, unsigned m) {
  *n = 8;
  return cudaSuccess;
}

/* the driver */

enum { NO_BINARY = 209 };

int cuModuleLoadDataEx(void **module, const void *image, unsigned n, void *options, void **values) {
  static int loaded;
  const int number = __sync_add_and_fetch(&loaded, 1);
  const char *refuse = getenv("STAND_IN_REFUSE"), *hang = getenv("STAND_IN_HANG");
  if (refuse && (!strcmp(refuse, "all") || atoi(refuse) == number)) return NO_BINARY;
  while (hang && atoi(hang) == number) pause();
  *module = handle;
  return 0;
}
int cuModuleLoadData(void **module, const void *image) { return cuModuleLoadDataEx(module, image, 0, 0, 0); }
int cuModuleGetFunction(void **function, void *module, const char *name) { *function = handle; return 0; }
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, void *f, int block, size_t shared) { *n = 8; return 0; }
int cuFuncGetAttribute(int *value, int attribute, void *f) { *value = 0; return 0; }
int cuDriverGetVersion(int *version) { *version = 12080; return 0; }
int cuCtxGetCurrent(void **context) { *context = handle; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = handle; return 0; }
int cuGetErrorName(int error, const char **name) {
  *name = error == NO_BINARY ? "CUDA_ERROR_NO_BINARY_FOR_GPU" : "CUDA_ERROR_UNKNOWN";
  return 0;
}
int cuGetErrorString(int error, const char **text) {
  *text = error == NO_BINARY ? "no kernel image is available for execution on the device" : "unknown error";
  return 0;
}

#define YES(name) int name(void) { return 0; }
YES(cuLaunchKernel) YES(cuLaunchCooperativeKernel)
YES(cuCtxFromGreenCtx) YES(cuCtxPopCurrent) YES(cuCtxPushCurrent) YES(cuCtxSetCurrent) YES(cuDeviceGet)
YES(cuDeviceGetAttribute) YES(cuDeviceGetCount) YES(cuDeviceGetDevResource) YES(cuDeviceGetUuid)
YES(cuDevicePrimaryCtxGetState) YES(cuFuncSetCacheConfig) YES(cuGreenCtxCreate) YES(cuGreenCtxDestroy) YES(cuInit)
YES(cuLinkAddData_v2) YES(cuMemAddressFree) YES(cuMemAddressReserve) YES(cuMemCreate)
YES(cuMemExportToShareableHandle) YES(cuMemGetAddressRange_v2) YES(cuMemGetAllocationGranularity)
YES(cuMemImportFromShareableHandle) YES(cuMemMap) YES(cuMemRelease) YES(cuMemSetAccess) YES(cuMemUnmap)
YES(cuMemsetD32Async) YES(cuMulticastAddDevice) YES(cuMulticastBindMem) YES(cuMulticastCreate)
YES(cuMulticastUnbind) YES(cuPointerGetAttribute) YES(cuStreamWriteValue32) YES(cuTensorMapEncodeTiled)

static int yes(void) { return 0; }

static void *entry(const char *name) {
#define IS(function) if (!strcmp(name, #function)) return (void *)function
  IS(cuModuleLoadDataEx); IS(cuModuleLoadData); IS(cuModuleGetFunction); IS(cuFuncGetAttribute); IS(cuDriverGetVersion);
  IS(cuOccupancyMaxActiveBlocksPerMultiprocessor); IS(cuCtxGetCurrent); IS(cuDevicePrimaryCtxRetain);
  IS(cuGetErrorName); IS(cuGetErrorString);
  return (void *)yes;
}
cudaError_t cudaGetDriverEntryPoint(const char *name, void **f, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *result) {
  *f = entry(name);
  if (result) *result = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **f, unsigned version, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *result) {
  return cudaGetDriverEntryPoint(name, f, flags, result);
}
