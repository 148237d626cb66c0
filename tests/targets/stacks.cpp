// Threads that wait deep in known functions. argv[1]: how many. Prints READY PID when all are there.
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#define APART __attribute__((noinline, noclone))

static std::mutex gate;
static sem_t never;
static int quiet[2];
static volatile int sink;

namespace demo {
template <typename T>
struct Queue {
    APART void pop(T value) {
        char byte;
        sink = static_cast<int>(read(quiet[0], &byte, 1)) + static_cast<int>(value);
        sink = 1;
    }
};
}  // namespace demo

APART void take_gate() {
    std::lock_guard<std::mutex> hold(gate);
    sink = 2;
}
APART void wait_for_credit() {
    sem_wait(&never);
    sink = 3;
}
APART void wait_for_events(int n) {
    pollfd set[4];
    for (int i = 0; i < 4; i++) set[i] = {quiet[0], POLLIN, 0};
    sink = poll(set, static_cast<nfds_t>(1 + n % 4), -1);
    sink = 4;
}
APART void dispatch(int n) {
    volatile char room[3000];
    room[n] = 1;
    switch (n % 4) {
        case 0: take_gate(); break;
        case 1: wait_for_credit(); break;
        case 2: wait_for_events(n); break;
        default: demo::Queue<long>().pop(n);
    }
    sink = room[n];
}
APART void descend(int depth, int n) {
    if (depth == 0)
        dispatch(n);
    else
        descend(depth - 1, n);
    sink = depth;
}

int main(int, char** argv) {
    int count = atoi(argv[1]);
    if (pipe(quiet) || sem_init(&never, 0, 0)) return 1;
    gate.lock();
    std::vector<std::thread> threads;
    for (int n = 0; n < count; n++) threads.emplace_back([n] { descend(n % 7, n); });
    printf("READY %d\n", getpid());
    fflush(stdout);
    for (;;) pause();
}
