// Throws before main, in main, and in a forked child, and ends with 7 half a second later.
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

int main() {
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
    usleep(500000);
    return 7;
}
