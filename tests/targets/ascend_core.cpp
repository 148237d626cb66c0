// Stands in for the simulator's library of the cores (aicore_sim_XXXXXX): what its threads write before they run.
#include <pthread.h>
#include <unistd.h>

#include <cstdint>
#include <string>

static pthread_key_t g_reg_base_key;
static pthread_key_t g_core_id_key;

extern "C" void make_keys() {
    pthread_key_create(&g_reg_base_key, nullptr);
    pthread_key_create(&g_core_id_key, nullptr);
}

extern "C" void run_core(uint32_t core, void *registers, int until) {
    pthread_setspecific(g_reg_base_key, registers);
    pthread_setspecific(g_core_id_key, reinterpret_cast<void *>(static_cast<uintptr_t>(core)));
    pthread_setname_np(pthread_self(), ("is" + std::to_string(core)).c_str());  // so that a test knows
    char ended;
    while (read(until, &ended, 1) > 0) {}
}
