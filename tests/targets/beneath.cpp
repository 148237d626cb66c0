// Built as a library: throws and catches under whoever calls it.
#include <stdexcept>
#include <unistd.h>

using Callback = void (*)(void);

// turns: where another thread counts; it is to count twice before the throw. stays: after it, until a line comes in.
extern "C" int throw_here(const volatile long *turns, int stays) {
    if (turns != nullptr)
        for (long first = *turns; *turns < first + 2;) usleep(1000);
    try {
        throw std::runtime_error("from below");
    } catch (const std::runtime_error &) {
        char letter = 0;
        while (stays && letter != '\n' && read(0, &letter, 1) == 1) {
        }
    }
    return 1;
}

extern "C" int call_back(Callback callback) {
    callback();
    return 1;
}
