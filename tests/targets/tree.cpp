// A process tree that lives: threads that throw, that fork and reap, that fork, exec and reap, that spawn and reap,
// that end threads, and a child that lasts and throws on threads of its own. All of them count in a shared file.
//   tree COUNTERS [PAUSE_US]
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <spawn.h>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <csignal>
#include <thread>
#include <unistd.h>
#include <vector>

struct Counters {
    std::atomic<unsigned long> heartbeat, thrown, forks, execs, spawns, threads, child;
};

static long pause_us = 5000;
static char self[] = "/proc/self/exe";
static char leaf[] = "leaf";
static char *leaf_argv[] = {leaf, nullptr};
extern char **environ;

static void throw_on(std::atomic<unsigned long> &count) {
    for (;; usleep(pause_us))
        try {
            throw std::runtime_error("a leaf fell");
        } catch (const std::runtime_error &) {
            count++;
        }
}

static void reap(pid_t child, std::atomic<unsigned long> &count) {
    int status = 1;
    if (child > 0 && waitpid(child, &status, 0) == child && status == 0)
        count++;
}

static void fork_on(Counters *counters) {
    for (;; usleep(pause_us)) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        reap(child, counters->forks);
    }
}

static void exec_on(Counters *counters) {
    for (;; usleep(pause_us)) {
        pid_t child = fork();
        if (child == 0) {
            execv(self, leaf_argv);
            _exit(1);
        }
        reap(child, counters->execs);
    }
}

static void spawn_on(Counters *counters) {
    for (;; usleep(pause_us)) {
        pid_t child = -1;
        if (posix_spawn(&child, self, nullptr, nullptr, leaf_argv, environ) == 0)
            reap(child, counters->spawns);
    }
}

static void thread_on(Counters *counters) {
    for (;; usleep(pause_us))
        std::thread([counters] { counters->threads++; }).join();
}

int main(int argc, char **argv) {
    if (argc < 2)
        return strcmp(argv[0], leaf) != 0;
    int file = open(argv[1], O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, 4096))
        return 1;
    void *page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    auto *counters = new (page) Counters();
    if (argc > 2)
        pause_us = atol(argv[2]);
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        std::thread(throw_on, std::ref(counters->child)).detach();
        throw_on(counters->child);
    }
    std::vector<std::thread> workers;
    workers.emplace_back(throw_on, std::ref(counters->thrown));
    for (auto *work : {fork_on, exec_on, spawn_on, thread_on})
        workers.emplace_back(work, counters);
    printf("READY\n");
    fflush(stdout);
    for (;; usleep(1000))
        counters->heartbeat++;
}
