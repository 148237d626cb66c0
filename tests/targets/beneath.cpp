// Built as a library: throws and catches under whoever calls it, some time after that.
#include <stdexcept>
#include <unistd.h>

using Callback = void (*)(void);

extern "C" int throw_here(int before_us, int after_us) {
    usleep(before_us);
    try {
        throw std::runtime_error("from below");
    } catch (const std::runtime_error &) {
        usleep(after_us);
    }
    return 1;
}

extern "C" int call_back(Callback callback) {
    callback();
    return 1;
}
