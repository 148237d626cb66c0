// Gets the signals that it is told to on standard input, one command a line, and answers "done COUNT" where it lives on:
//   null | write | divide | illegal | trap | abort | bus | overflow      of its own fault, and dies of it
//   thread COMMAND       the same in a thread that is started for it
//   fork COMMAND         the same in a child process that is started for it
//   exec COMMAND         the same in this program, started afresh in a child process
//   guarded N            touches a guard page N times; a handler for SIGSEGV opens it, as language runtimes do
//   handled SIGNAL       installs a handler for that number and sends it to itself
//   seccomp              a system call that its seccomp filter answers with SIGSYS
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>

static volatile long count = 0;
static char *guard = nullptr;

namespace demo {
struct Node {
    long first;
    long second;
};

[[gnu::noinline]] long read_through(volatile Node *node) { return node->second; }
[[gnu::noinline]] void write_through(volatile char *place) { *place = 1; }
[[gnu::noinline]] int divide(volatile int a, volatile int b) { return a / b; }
[[gnu::noinline]] void illegal() { __builtin_trap(); }
[[gnu::noinline]] void trap() { __asm__ volatile("int3"); }
[[gnu::noinline]] long overflow(volatile long depth) {
    volatile char room[4096];
    room[0] = static_cast<char>(depth);
    return overflow(depth + 1) + room[0];
}
[[gnu::noinline]] void bus() {
    FILE *file = tmpfile();
    auto *place = static_cast<volatile char *>(mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fileno(file), 0));
    count += place[0];
}
[[gnu::noinline]] void forbidden() {
    sock_filter program[] = {
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_getpriority},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_TRAP},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
    };
    sock_fprog filter = {4, program};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
    syscall(SYS_getpriority, 0, 0);
}
}  // namespace demo

extern "C" void open_guard(int, siginfo_t *, void *) { mprotect(guard, 4096, PROT_READ | PROT_WRITE); }
extern "C" void note(int) { ++count; }

[[gnu::noinline]] static void guarded(long times) {
    guard = static_cast<char *>(mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    struct sigaction action = {};
    action.sa_sigaction = open_guard;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, nullptr);
    for (long number = 0; number < times; ++number) {
        mprotect(guard, 4096, PROT_NONE);
        demo::write_through(guard + 8);
        ++count;
    }
}

static void run(const std::string &line) {
    std::istringstream words(line);
    std::string command, rest;
    words >> command;
    std::getline(words >> std::ws, rest);
    if (command == "null") count += demo::read_through(nullptr);
    else if (command == "write") demo::write_through(const_cast<char *>("a constant"));
    else if (command == "divide") count += demo::divide(7, 0);
    else if (command == "illegal") demo::illegal();
    else if (command == "trap") demo::trap();
    else if (command == "abort") std::abort();
    else if (command == "bus") demo::bus();
    else if (command == "overflow") count += demo::overflow(0);
    else if (command == "seccomp") demo::forbidden();
    else if (command == "guarded") guarded(std::stol(rest));
    else if (command == "handled") {
        std::signal(std::stoi(rest), note);
        raise(std::stoi(rest));
    } else if (command == "thread") {
        std::thread([&] { run(rest); }).join();
    } else if (command == "fork" || command == "exec") {
        const pid_t child = fork();
        if (child == 0) {
            if (command == "exec") execl("/proc/self/exe", "signals", rest.c_str(), nullptr);
            run(rest);
            _exit(0);
        }
        int status = 0;
        waitpid(child, &status, 0);
    }
}

int main(int argc, char **argv) {
    const rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    if (argc > 1) {
        run(argv[1]);
        return 0;
    }
    std::cout << "READY" << std::endl;
    for (std::string line; std::getline(std::cin, line);) {
        run(line);
        std::cout << "done " << count << std::endl;
    }
    return 0;
}
