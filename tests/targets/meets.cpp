// Threads that meet at a barrier and one that does not come, and what looks like it: meets MODE.
// Prints READY PID TID-OF-THE-ODD-ONE when all are where they stay.
#include <poll.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

static constexpr int workers = 4;
static std::atomic<int> tids[workers];
static std::barrier<> steps(workers);
static pthread_barrier_t rows;
static std::mutex guard;
static std::condition_variable work;

#define APART __attribute__((noinline, noclone))

APART static void load() {
    poll(nullptr, 0, -1);  // @odd
    asm volatile("");
}
APART static void step() {
    steps.arrive_and_wait();  // @std-barrier
    asm volatile("");
}
APART static void row() {
    pthread_barrier_wait(&rows);  // @pthread-barrier
    asm volatile("");
}
APART static void take() {
    std::unique_lock<std::mutex> lock(guard);
    work.wait(lock);
    asm volatile("");
}
APART static void worker(int number, const std::string &mode) {
    tids[number] = static_cast<int>(syscall(SYS_gettid));
    bool odd = number == workers - 1;
    if (mode == "rounds")
        for (;; row())
            if (odd) usleep(20000);  // the others wait for a moment
    if (odd) load();
    if (mode == "std-barrier") step();
    if (mode == "pthread-barrier") row();
    if (mode == "pool") take();
}
static bool blocked(int tid) {
    std::string path = "/proc/self/task/" + std::to_string(tid) + "/stat";
    char state = 'R';
    FILE *file = fopen(path.c_str(), "r");
    if (!file) return false;
    bool known = fscanf(file, "%*d (%*[^)]) %c", &state) == 1;
    fclose(file);
    return known && state == 'S';
}

int main(int, char **argv) {
    std::string mode = argv[1];
    alarm(3600);
    pthread_barrier_init(&rows, nullptr, workers);
    std::vector<std::thread> threads;
    for (int number = 0; number < workers; number++) threads.emplace_back(worker, number, mode);
    for (auto &tid : tids)
        while (!tid || (mode != "rounds" && !blocked(tid))) usleep(1000);
    printf("READY %d %d\n", getpid(), tids[workers - 1].load());
    fflush(stdout);
    for (auto &thread : threads) thread.join();
}
