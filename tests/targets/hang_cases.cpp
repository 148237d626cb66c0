// Programs that hang, one way each: hang_cases MODE. When it is stuck it prints
// READY {"pid":…, "t":{"name":tid,…}, "p":{"name":pid,…}, "a":{"name":"0xaddress",…}}
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

struct Shared {  // lives in memory that forked processes share
    std::atomic<int> tid[16];
    std::atomic<int> arrived;
    pthread_mutex_t mutex[4];
};
static Shared *shared;
static std::atomic<bool> came{false}, stop_requested{false};  // neither is ever set
static std::map<std::string, int> threads, processes;
static std::map<std::string, void *> addresses;
static std::vector<std::string> names;

static int gettid_() { return (int)syscall(SYS_gettid); }
static void meet(int count) {  // all wait here until `count` have come
    shared->arrived++;
    while (shared->arrived < count) usleep(1000);
}
static void start(const char *name, std::function<void()> body) {
    int slot = (int)names.size();
    names.push_back(name);
    std::thread([=] {
        prctl(PR_SET_NAME, name);
        shared->tid[slot] = gettid_();
        body();
    }).detach();
    while (!shared->tid[slot]) usleep(1000);
    threads[name] = shared->tid[slot];
}
static int child(const char *name, std::function<void()> body) {
    int pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_NAME, name);
        body();
        _exit(0);
    }
    processes[name] = pid;
    return pid;
}
static char state_of(int tid) {
    char path[64], line[512] = {0};
    snprintf(path, sizeof path, "/proc/%d/stat", tid);
    FILE *f = fopen(path, "r");
    if (!f) return '-';
    size_t n = fread(line, 1, sizeof line - 1, f);
    fclose(f);
    char *end = n ? strrchr(line, ')') : nullptr;
    return end ? end[2] : '-';
}
static void ready() {
    usleep(200000);
    for (auto &[name, tid] : threads)  // everybody but the spinning ones is asleep by now
        for (int i = 0; i < 2000 && state_of(tid) == 'R' && name != "spinner"; i++) usleep(1000);
    std::string out = "READY {\"pid\":" + std::to_string(getpid());
    auto put = [&](const char *key, auto &map, auto text) {
        out += std::string(", \"") + key + "\":{";
        bool first = true;
        for (auto &[name, value] : map) {
            out += std::string(first ? "" : ", ") + "\"" + name + "\":" + text(value);
            first = false;
        }
        out += "}";
    };
    put("t", threads, [](int v) { return std::to_string(v); });
    put("p", processes, [](int v) { return std::to_string(v); });
    put("a", addresses, [](void *v) {
        char text[32];
        snprintf(text, sizeof text, "\"%p\"", v);
        return std::string(text);
    });
    printf("%s}\n", out.c_str());
    fflush(stdout);
}
static void forever() {
    for (;;) pause();
}

static pthread_mutex_t m[4] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
                               PTHREAD_MUTEX_INITIALIZER};
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t cv = PTHREAD_COND_INITIALIZER;
static pthread_t handles[2];

int main(int argc, char **argv) {
    std::string mode = argc > 1 ? argv[1] : "";
    shared = (Shared *)mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    threads["main"] = getpid();
    processes["main"] = getpid();
    for (int i = 0; i < 4; i++) addresses["m" + std::to_string(i)] = &m[i];
    alarm(3600);  // longer than a module of tests takes on a slow machine

    if (mode == "lock-cycle") {  // alpha -> m1 -> beta -> m2 -> gamma -> m0 -> alpha; delta and main only wait
        const char *who[] = {"alpha", "beta", "gamma"};
        for (int i = 0; i < 3; i++)
            start(who[i], [i] {
                pthread_mutex_lock(&m[i]);
                meet(3);
                pthread_mutex_lock(&m[(i + 1) % 3]);  // @lock-cycle
            });
        while (shared->arrived < 3) usleep(1000);
        usleep(50000);
        start("delta", [] { pthread_mutex_lock(&m[0]); });
        ready();
        forever();
    } else if (mode == "self-deadlock") {
        start("alpha", [] {
            pthread_mutex_lock(&m[0]);
            pthread_mutex_lock(&m[0]);  // @self-deadlock
        });
        ready();
        forever();
    } else if (mode == "dead-owner") {
        std::thread([] { pthread_mutex_lock(&m[0]); }).join();
        for (const char *name : {"alpha", "beta"}) start(name, [] { pthread_mutex_lock(&m[0]); });  // @dead-owner
        ready();
        forever();
    } else if (mode == "rwlock-cycle") {
        addresses["rw"] = &rw;
        start("writer", [] {
            pthread_rwlock_wrlock(&rw);
            meet(2);
            pthread_mutex_lock(&m[0]);  // @rwlock-cycle
        });
        start("locker", [] {
            pthread_mutex_lock(&m[0]);
            meet(2);
            pthread_rwlock_rdlock(&rw);  // @rwlock-cycle
        });
        ready();
        forever();
    } else if (mode == "spinning-holder") {
        start("spinner", [] {
            pthread_mutex_lock(&m[0]);
            for (volatile unsigned long n = 0;; n++) {}
        });
        usleep(50000);
        for (const char *name : {"one", "two", "three"}) start(name, [] { pthread_mutex_lock(&m[0]); });  // @spinning-holder
        ready();
        forever();
    } else if (mode == "sleeping-holder") {
        start("sleeper", [] {
            pthread_mutex_lock(&m[0]);
            sleep(3600);  // @sleeping-holder
        });
        usleep(50000);
        for (const char *name : {"one", "two"}) start(name, [] { pthread_mutex_lock(&m[0]); });
        ready();
        forever();
    } else if (mode == "join-cycle") {
        static std::atomic<int> up{0};
        for (int i = 0; i < 2; i++)
            pthread_create(
                &handles[i], nullptr,
                [](void *x) -> void * {
                    long me = (long)x;
                    shared->tid[me] = gettid_();
                    up++;
                    while (up < 3) usleep(1000);
                    pthread_join(handles[1 - me], nullptr);  // @join-cycle
                    return nullptr;
                },
                (void *)(long)i);
        while (up < 2) usleep(1000);
        up++;
        usleep(100000);
        threads["alpha"] = shared->tid[0];
        threads["beta"] = shared->tid[1];
        ready();
        forever();
    } else if (mode == "own-pipe") {  // reads a pipe of which it is the only writer
        int fd[2];
        if (pipe(fd)) return 1;
        start("reader", [=] {
            char c;
            (void)!read(fd[0], &c, 1);  // @own-pipe
        });
        ready();
        pthread_exit(nullptr);
    } else if (mode == "two-pipes") {  // each waits for the other's word
        int ab[2], ba[2];
        if (pipe(ab) || pipe(ba)) return 1;
        child("peer", [=] {
            char c;
            close(ab[1]), close(ba[0]);
            (void)!read(ab[0], &c, 1);  // @two-pipes
        });
        close(ab[0]), close(ba[1]);
        ready();
        char c;
        (void)!read(ba[0], &c, 1);  // @two-pipes
    } else if (mode == "full-pipe") {  // waits for a child that waits for its output to be read
        int fd[2];
        if (pipe(fd)) return 1;
        int pid = child("producer", [=] {
            close(fd[0]);
            static char block[1 << 20];
            (void)!write(fd[1], block, sizeof block);  // @full-pipe
        });
        close(fd[1]);
        ready();
        waitpid(pid, nullptr, 0);  // @full-pipe
    } else if (mode == "sockets") {
        int fd[2];
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd)) return 1;
        child("peer", [=] {
            char c;
            close(fd[0]);
            (void)!recv(fd[1], &c, 1, 0);  // @sockets
        });
        close(fd[1]);
        ready();
        char c;
        (void)!recv(fd[0], &c, 1, 0);  // @sockets
    } else if (mode == "tcp") {
        int server = socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof at;
        if (bind(server, (sockaddr *)&at, size) || listen(server, 1) || getsockname(server, (sockaddr *)&at, &size)) return 1;
        child("client", [=] {
            char c;
            close(server);
            int fd = socket(AF_INET, SOCK_STREAM, 0);
            if (connect(fd, (sockaddr *)&at, sizeof at)) _exit(1);
            (void)!recv(fd, &c, 1, 0);  // @tcp
        });
        int fd = accept(server, nullptr, nullptr);
        close(server);
        ready();
        char c;
        (void)!recv(fd, &c, 1, 0);  // @tcp
    } else if (mode == "shared-mutexes") {  // two processes, two process-shared mutexes, crosswise
        pthread_mutexattr_t attr;
        pthread_mutexattr_init(&attr);
        pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
        for (int i = 0; i < 2; i++) pthread_mutex_init(&shared->mutex[i], &attr);
        child("peer", [] {
            pthread_mutex_lock(&shared->mutex[1]);
            meet(2);
            pthread_mutex_lock(&shared->mutex[0]);  // @shared-mutexes
        });
        pthread_mutex_lock(&shared->mutex[0]);
        meet(2);
        ready();
        pthread_mutex_lock(&shared->mutex[1]);  // @shared-mutexes
    } else if (mode == "flocks") {
        char names_[2][32] = {"/tmp/livedbg-aXXXXXX", "/tmp/livedbg-bXXXXXX"};
        for (auto &name : names_) close(mkstemp(name));
        child("peer", [&] {
            int a = open(names_[0], O_RDWR), b = open(names_[1], O_RDWR);
            flock(b, LOCK_EX);
            meet(2);
            flock(a, LOCK_EX);  // @flocks
        });
        int a = open(names_[0], O_RDWR), b = open(names_[1], O_RDWR);
        flock(a, LOCK_EX);
        meet(2);
        for (auto &name : names_) unlink(name);
        ready();
        flock(b, LOCK_EX);  // @flocks
    } else if (mode == "stopped-child") {
        int pid = child("frozen", [] { forever(); });
        usleep(100000);
        kill(pid, SIGSTOP);
        ready();
        waitpid(pid, nullptr, 0);  // @stopped-child
    } else if (mode == "idle-server") {
        int server = socket(AF_INET, SOCK_STREAM, 0);
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (bind(server, (sockaddr *)&at, sizeof at) || listen(server, 8)) return 1;
        for (const char *name : {"pool-1", "pool-2"})
            start(name, [] {
                pthread_mutex_lock(&m[0]);
                for (;;) pthread_cond_wait(&cv, &m[0]);
            });
        ready();
        accept(server, nullptr, nullptr);  // @idle-server
    } else if (mode == "idle-epoll") {
        int server = socket(AF_INET, SOCK_STREAM, 0), poller = epoll_create1(0);
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (bind(server, (sockaddr *)&at, sizeof at) || listen(server, 8)) return 1;
        epoll_event event{};
        event.events = EPOLLIN;
        epoll_ctl(poller, EPOLL_CTL_ADD, server, &event);
        ready();
        epoll_wait(poller, &event, 1, -1);  // @idle-epoll
    } else if (mode == "cron") {
        ready();
        for (;;) sleep(3600);  // @cron
    } else if (mode == "joins-worker") {  // that works a little, and naps
        std::thread worker([] {
            prctl(PR_SET_NAME, "worker");
            threads["worker"] = gettid_();
            ready();
            for (int round = 0; round < 1000000; round++) {
                for (volatile int n = 0; n < 1000; n++) {}
                std::this_thread::sleep_for(std::chrono::milliseconds(100));  // @joins-worker
            }
        });
        worker.join();
    } else if (mode == "joins-poller") {
        std::thread poller([] {
            prctl(PR_SET_NAME, "poller");
            threads["poller"] = gettid_();
            ready();
            while (!came) usleep(100000);  // @joins-poller
        });
        poller.join();
    } else if (mode == "rests-beside-a-lost-wait") {
        start("lost", [] {
            pthread_mutex_lock(&m[0]);
            for (;;) pthread_cond_wait(&cv, &m[0]);
        });
        ready();
        while (!stop_requested.load()) usleep(100000);
    } else if (mode == "busy") {
        threads["spinner"] = threads["main"];
        threads.erase("main");
        ready();
        for (volatile unsigned long n = 0;; n++) {}
    } else if (mode == "busy-locks") {  // workers that share a lock and get on with it
        for (const char *name : {"spinner", "w2", "w3"})
            start(name, [] {
                for (;;) {
                    pthread_mutex_lock(&m[0]);
                    for (volatile int n = 0; n < 2000000; n++) {}
                    pthread_mutex_unlock(&m[0]);
                    usleep(100);
                }
            });
        ready();
        forever();
    } else {
        fprintf(stderr, "no such mode: %s\n", mode.c_str());
        return 2;
    }
    return 0;
}
