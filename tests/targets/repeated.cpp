// A program that works in steps and may fail at one: `repeated HOW [STEP]`. Without a step it is the device's number.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <unistd.h>

static void fail(const std::string &how) {
    if (how == "throw") throw std::runtime_error("step is bad");
    if (how == "hang") pause();
    if (how == "exit") exit(3);
    raise(SIGSEGV);
}

int main(int argc, char **argv) {
    const std::string how = argc > 1 ? argv[1] : "well";
    const char *device = getenv("CUDA_VISIBLE_DEVICES");
    const int bad = argc > 2 ? atoi(argv[2]) : device ? atoi(device) : 0;
    for (int step = 0; step < 5; ++step) {
        printf("12:00:%02d.%03d launch step_%d\n", step, getpid() % 1000, step);
        fflush(stdout);
        if (how != "well" && step == bad) fail(how);
        printf("step_%d ok in %d ms\n", step, getpid() % 97);
    }
    printf("devices %s %s\n", device ? device : "-", getenv("ASCEND_RT_VISIBLE_DEVICES") ? "set" : "-");
}
