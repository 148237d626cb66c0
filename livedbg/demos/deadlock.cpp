// Demo `deadlock`: an inference server in small. Three threads take two of three locks each, in an order
// that makes a cycle once they meet; four workers then queue up behind them, and main joins the workers.
//   scheduler:  queue   -> streams
//   launcher:   streams -> memory
//   allocator:  memory  -> queue
#include <pthread.h>
#include <sys/prctl.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

static std::mutex queue_lock, streams_lock, memory_lock;
static std::atomic<int> holding{0};

static void name_thread(const std::string &name) { prctl(PR_SET_NAME, name.c_str()); }

static void take_both(const char *name, std::mutex &first, std::mutex &second) {
    name_thread(name);
    std::lock_guard<std::mutex> outer(first);
    holding++;
    while (holding < 3) std::this_thread::yield();
    std::lock_guard<std::mutex> inner(second);
    std::puts("never printed");
}

static void work(int number) {
    name_thread("worker-" + std::to_string(number));
    for (int batch = 0;; batch++) {
        std::lock_guard<std::mutex> guard(queue_lock);
        std::printf("worker %d: batch %d\n", number, batch);
        std::fflush(stdout);
    }
}

int main() {
    std::thread scheduler(take_both, "scheduler", std::ref(queue_lock), std::ref(streams_lock));
    std::thread launcher(take_both, "launcher", std::ref(streams_lock), std::ref(memory_lock));
    std::thread allocator(take_both, "allocator", std::ref(memory_lock), std::ref(queue_lock));
    while (holding < 3) std::this_thread::yield();
    std::vector<std::thread> workers;
    for (int number = 0; number < 4; number++) workers.emplace_back(work, number);
    std::puts("READY");
    std::fflush(stdout);
    for (std::thread &worker : workers) worker.join();
    scheduler.join(), launcher.join(), allocator.join();
}
