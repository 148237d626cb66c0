#include <cstdint>
#include "pto_orchestration_api.h"
// One task, and then a loop in user code: no watchdog of the runtime sees that.
static volatile int g_go_on = 0;
__attribute__((noinline)) static void wait_for_user_flag(volatile int *flag) {
    while (*flag == 0) { }
}
extern "C" {
__attribute__((visibility("default"))) PTO2OrchestrationConfig
aicpu_orchestration_config(const ChipTaskArgs &orch_args) {
    (void)orch_args;
    return PTO2OrchestrationConfig{ .expected_arg_count = 3, };
}
__attribute__((visibility("default"))) void aicpu_orchestration_entry(const ChipTaskArgs &orch_args) {
    const ChipTensor &ext_a = orch_args.tensor(0).ref();
    const ChipTensor &ext_b = orch_args.tensor(1).ref();
    const ChipTensor &ext_f = orch_args.tensor(2).ref();
    CoreTaskArgs p0; p0.add_input(ext_a); p0.add_input(ext_b); p0.add_output(ext_f);
    rt_submit_aiv_task(0, p0);
    wait_for_user_flag(&g_go_on);
}
}  // extern "C"
