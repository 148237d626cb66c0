// Throws before main, in main, and in a forked child, and ends with 7 once a file is there: `early FILE`.
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>

struct Before {
    Before() {
        try {
            throw std::runtime_error("before main");
        } catch (const std::exception &) {
        }
    }
};
static Before before;

int main(int, char **argv) {
    alarm(300);
    try {
        throw std::logic_error("in main");
    } catch (const std::exception &) {
    }
    const pid_t child = fork();
    if (child == 0) {
        try {
            throw std::runtime_error("in a child");
        } catch (const std::exception &) {
        }
        _exit(0);
    }
    waitpid(child, nullptr, 0);
    while (access(argv[1], F_OK)) usleep(10000);  // a process that is gone has no map to name its frames by
    return 7;
}
