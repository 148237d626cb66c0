// Throws on two threads under a filter that ends the process at any system call that it doesn't need itself: whoever
// made it run a foreign one would kill it (seccomp(2)). Counts as thrower.cpp does, in three counters.
//   seccomped COUNTERS
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

struct Counters {
    std::atomic<unsigned long> heartbeat, first, second;
};

static std::atomic<bool> shut;
static std::atomic<int> begun;

static void work(std::atomic<unsigned long> *count) {
    for (begun++; !shut;)
        usleep(1000);
    for (;; usleep(2000))
        try {
            throw std::runtime_error("inside the filter");
        } catch (const std::runtime_error &) {
            (*count)++;
        }
}

static bool shut_the_filter() {
    const unsigned allowed[] = {SYS_clock_nanosleep, SYS_nanosleep, SYS_futex, SYS_write, SYS_mmap, SYS_munmap,
                                SYS_mprotect, SYS_brk, SYS_madvise, SYS_rt_sigreturn, SYS_restart_syscall,
                                SYS_exit, SYS_exit_group};
    const unsigned count = sizeof allowed / sizeof *allowed;
    sock_filter code[count + 3];
    code[0] = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
    for (unsigned at = 0; at < count; at++)
        code[1 + at] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[at], static_cast<unsigned char>(count - at), 0);
    code[count + 1] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    code[count + 2] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    sock_fprog program = {static_cast<unsigned short>(count + 3), code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

int main(int argc, char **argv) {
    int file = argc > 1 ? open(argv[1], O_RDWR | O_CREAT, 0600) : -1;
    if (file < 0 || ftruncate(file, 4096))
        return 1;
    void *page = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    auto *counters = new (page) Counters();
    std::thread(work, &counters->first).detach();
    std::thread(work, &counters->second).detach();
    while (begun < 2)
        usleep(1000);
    if (!shut_the_filter())
        return 2;
    shut = true;
    if (write(1, "READY\n", 6) != 6)
        return 3;
    for (;; usleep(1000))
        counters->heartbeat++;
}
