// A plug-in that throws and catches by itself.
#include <stdexcept>

[[gnu::noinline]] static void plugin_thrower() { throw std::logic_error("plugged"); }

extern "C" [[gnu::visibility("default")]] void plugged() {
    try {
        plugin_thrower();
    } catch (const std::exception &) {
    }
}
