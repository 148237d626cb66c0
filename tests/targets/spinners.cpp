// Threads that run in known functions, one that waits in epoll, one that gets signals.
// argv: SPINNERS [BEAT-FILE]. Prints READY PID TIDS-OF-SPINNERS BLOCKED-TID. With SIGNALS in the environment a thread sends
// SIGUSR1 to the first spinner, the next one when the last has been handled. Each line of input is answered by
// "signals SENT HANDLED eintr COUNT". Each spinner keeps the longest time between two turns of its loop in
// BEAT-FILE: 8 bytes a spinner, in ns.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#define APART __attribute__((noinline, noclone))

static std::atomic<uint64_t> sent, handled, interrupted;
static std::atomic<int> ready, blocked_tid;
static volatile uint64_t *beat;
static volatile uint64_t sink;
static std::atomic<int> tids[4096];

static void on_signal(int) { handled++; }

static uint64_t clock_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}
static uint64_t begun() {  // READY is said once all spin
    ready++;
    return clock_ns();
}
APART static void turn(int n, uint64_t &last) {
    uint64_t now = clock_ns();
    if (now - last > beat[n]) beat[n] = now - last;
    last = now;
}
namespace demo {
template <typename T>
struct Kernel {
    APART void spin_in_beta(int n) {
        uint64_t last = begun();
        for (;;) turn(n, last);
        sink = 1;
    }
};
}  // namespace demo
APART static void spin_in_alpha(int n) {
    uint64_t last = begun();
    for (;;) turn(n, last);
    sink = 2;
}
APART static void spin_in_gamma(int n) {
    volatile char room[3000];
    room[n % 3000] = 1;
    uint64_t last = begun();
    for (;;) turn(n, last);
    sink = room[n % 3000];
}
APART static void descend(int depth, int n) {
    if (depth > 0)
        descend(depth - 1, n);
    else if (n % 3 == 0)
        spin_in_alpha(n);
    else if (n % 3 == 1)
        demo::Kernel<long>().spin_in_beta(n);
    else
        spin_in_gamma(n);
    sink = depth;
}
static void wait_for_events() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    int events = epoll_create1(0);
    epoll_event event;
    blocked_tid = static_cast<int>(syscall(SYS_gettid));
    for (;;)
        if (epoll_wait(events, &event, 1, -1) < 0 && errno == EINTR) interrupted++;
}
static void send_signals(pthread_t to) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    for (;;) {
        if (handled == sent) {
            sent++;
            pthread_kill(to, SIGUSR1);
        }
        usleep(20);
    }
}

int main(int argc, char **argv) {
    int count = atoi(argv[1]);
    int fd = argc > 2 ? open(argv[2], O_RDWR | O_CREAT, 0600) : -1;
    if (fd >= 0 && ftruncate(fd, 4096 * 8)) return 1;
    beat = static_cast<uint64_t *>(
        mmap(NULL, 4096 * 8, PROT_READ | PROT_WRITE, fd >= 0 ? MAP_SHARED : MAP_SHARED | MAP_ANONYMOUS, fd, 0));
    signal(SIGUSR1, on_signal);
    std::thread(wait_for_events).detach();
    std::vector<std::thread> threads;
    for (int n = 0; n < count; n++)
        threads.emplace_back([n] {
            tids[n] = static_cast<int>(syscall(SYS_gettid));
            descend(n % 5, n);
        });
    while (ready < count || blocked_tid == 0) usleep(1000);
    if (getenv("SIGNALS")) std::thread(send_signals, threads[0].native_handle()).detach();
    printf("READY %d", getpid());
    for (int n = 0; n < count; n++) printf(" %d", tids[n].load());
    printf(" %d\n", blocked_tid.load());
    fflush(stdout);
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        uint64_t before, done;
        do {  // of one moment: `sent` stands still meanwhile
            before = sent;
            done = handled;
        } while (before != sent);
        printf("signals %lu %lu eintr %lu\n", before, done, interrupted.load());
        fflush(stdout);
    }
    for (;;) pause();
}
