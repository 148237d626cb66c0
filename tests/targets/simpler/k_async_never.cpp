#include <cstdint>
#ifndef __gm__
#define __gm__
#endif
#ifndef __aicore__
#define __aicore__ [aicore]
#endif
#define static_assert(...) static_assert(sizeof(int) > 0, "")
#include <pto/pto-inst.hpp>
#include "pto_async_kernel_api.h"
static volatile uint32_t g_counter __attribute__((aligned(64))) = 0;
extern "C" __aicore__ void kernel_entry(__gm__ int64_t *args) {
    AsyncCtx ctx = get_async_ctx(args);
    save_expected_notification_counter(ctx, (volatile __gm__ void *)&g_counter, 1);
}
