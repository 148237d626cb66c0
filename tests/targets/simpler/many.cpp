#include <cstdint>
#include <cstdlib>
#include "pto_orchestration_api.h"
// MANY tasks that run func 2, each with an output of its own: in one scope (SCOPED=one), each in its own (SCOPED=each),
// or in none; then one more of func 0.
extern "C" {
__attribute__((visibility("default"))) PTO2OrchestrationConfig
aicpu_orchestration_config(const ChipTaskArgs &orch_args) {
    (void)orch_args;
    return PTO2OrchestrationConfig{ .expected_arg_count = 3, };
}
static void submit_one(const ChipTensor &a, const ChipTensor &b, TensorCreateInfo &inter) {
    CoreTaskArgs p; p.add_input(a); p.add_input(b); p.add_output(inter);
    rt_submit_aiv_task(2, p);
}
static void submit_all(const ChipTensor &a, const ChipTensor &b, const ChipTensor &f, TensorCreateInfo &inter, int many,
                       bool scoped) {
    for (int i = 0; i < many; i++) {
        if (scoped) {
            PTO2_SCOPE() { submit_one(a, b, inter); }
        } else {
            submit_one(a, b, inter);
        }
    }
    CoreTaskArgs p; p.add_input(a); p.add_input(b); p.add_output(f);
    rt_submit_aiv_task(0, p);
}
__attribute__((visibility("default"))) void aicpu_orchestration_entry(const ChipTaskArgs &orch_args) {
    const ChipTensor &a = orch_args.tensor(0).ref();
    const ChipTensor &b = orch_args.tensor(1).ref();
    const ChipTensor &f = orch_args.tensor(2).ref();
    uint32_t shapes[1] = {a.shapes[0]};
    TensorCreateInfo inter(shapes, 1, DataType::FLOAT32);
    const char *many = getenv("MANY"), *scoped = getenv("SCOPED");
    int count = many ? atoi(many) : 40;
    bool each = scoped && scoped[0] == 'e';
    if (scoped && !each) {
        PTO2_SCOPE() { submit_all(a, b, f, inter, count, false); }
    } else {
        submit_all(a, b, f, inter, count, each);
    }
}
}  // extern "C"
