// Throws steadily on several threads and counts, for tests of touching: what is thrown is known, and so is what
// the counters must do. A file of counters is shared: a test sees that the program goes on without talking to it.
// A thread starts a child, and a thread that throws a std::out_of_range, every 20 ms, and waits for both, where
// FORKS is 1.
//   thrower COUNTERS [THREADS [PAUSE_US [FORKS]]]
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace shop {
struct SoldOut : std::runtime_error {
    using std::runtime_error::runtime_error;
};
struct Closed : std::logic_error {
    using std::logic_error::logic_error;
};
} // namespace shop

struct Counters {
    std::atomic<unsigned long> heartbeat, runtime_error, sold_out, closed, number, forks;
};

static void sell(unsigned long turn, long thread) {
    switch (turn % 8) {
    case 0:
        throw std::runtime_error("disk full on shelf " + std::to_string(thread));
    case 4:
        throw shop::SoldOut("no more of item " + std::to_string(thread));
    case 2:
    case 6:
        throw static_cast<int>(turn);
    default:
        throw shop::Closed("closed on turn " + std::to_string(turn % 2));
    }
}

static void work(Counters *counters, long thread, long pause_us) {
    for (unsigned long turn = 0;; turn++) {
        try {
            sell(turn, thread);
        } catch (const shop::SoldOut &) {
            counters->sold_out++;
        } catch (const std::runtime_error &) {
            counters->runtime_error++;
        } catch (const std::logic_error &) {
            counters->closed++;
        } catch (int) {
            counters->number++;
        }
        usleep(pause_us);
    }
}

static void start_children(Counters *counters) {
    for (;; usleep(20000)) {
        std::thread([] {
            try {
                throw std::out_of_range("born late");
            } catch (const std::out_of_range &) {
            }
        }).join();
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        int status;
        if (child > 0 && waitpid(child, &status, 0) == child)
            counters->forks++;
    }
}

int main(int argc, char **argv) {
    int file = open(argv[1], O_RDWR | O_CREAT, 0600);
    if (argc < 2 || file < 0 || ftruncate(file, 4096))
        return 1;
    void *page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    auto *counters = new (page) Counters();
    long threads = argc > 2 ? atol(argv[2]) : 3;
    long pause_us = argc > 3 ? atol(argv[3]) : 2000;
    std::vector<std::thread> workers;
    for (long thread = 0; thread < threads; thread++)
        workers.emplace_back(work, counters, thread, pause_us);
    if (argc > 4 && atol(argv[4]))
        workers.emplace_back(start_children, counters);
    printf("READY\n");
    fflush(stdout);
    for (;;) {
        counters->heartbeat++;
        usleep(1000);
    }
}
