#include <cassert>
#undef NDEBUG
#include <assert.h>
#include "common.h"
// Finds its input wrong.
extern "C" __aicore__ void kernel_entry(__gm__ int64_t *args) {
    usleep(500000);
    assert(numel(args,0) % 7 == 0 && "rows come in sevens");
    fptr(args,2)[0] = 0;
}
