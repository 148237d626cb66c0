// Waits of C++: std::future, atomic wait, latch, OpenMP.
#include <omp.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <future>
#include <latch>
#include <thread>

static void ready() { std::puts("READY"); std::fflush(stdout); }

int main(int argc, char **argv) {
    const std::string what = argc > 1 ? argv[1] : "";
    if (what == "future-never") {
        std::promise<int> promise;
        auto future = promise.get_future();
        ready();
        future.get();
    } else if (what == "atomic-never") {
        std::atomic<int> value{0};
        ready();
        value.wait(0);
    } else if (what == "latch-short") {
        std::latch latch(3);
        std::thread other([&] { latch.arrive_and_wait(); });
        ready();
        latch.arrive_and_wait();
    } else if (what == "openmp-lock") {
        omp_lock_t lock;
        omp_init_lock(&lock);
        omp_set_lock(&lock);
        ready();
#pragma omp parallel num_threads(3)
        omp_set_lock(&lock);
    } else if (what == "async-compute") {
        ready();
        std::async(std::launch::async, [] { for (volatile long n = 0;; n = n + 1) {} }).get();
    }
}
