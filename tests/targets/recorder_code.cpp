// A library with the recorder of torch.distributed in a static variable of a function, which exported functions ask for,
// in one of three forms: -DFORM=1 inline, -DFORM=2 by a call, -DFORM=3 two functions ask for two recorders.
#include <cstdint>

#ifndef FORM
#define FORM 1
#endif

namespace c10 {
struct Event;
struct Other;
}  // namespace c10

namespace c10d {

template <typename Event>
struct FlightRecorder {
    std::int64_t entries[12];
    FlightRecorder();

#if FORM == 2
    __attribute__((noinline))
#else
    __attribute__((always_inline))
#endif
    static FlightRecorder* get() {
        static FlightRecorder* instance = new FlightRecorder();
        return instance;
    }
};

// GCC places the first of them behind the other: they look like a guard and its variable.
static volatile std::int64_t beginning = 7;
static volatile bool verbose = true;

template <typename Event>
FlightRecorder<Event>::FlightRecorder() {
    entries[0] = beginning;
}

__attribute__((visibility("default"))) std::int64_t dump_fr_trace_json(bool all, bool active) {
    std::int64_t first = verbose ? FlightRecorder<c10::Event>::get()->entries[all] : 0;
    return first + active + beginning;
}

__attribute__((visibility("default"))) std::int64_t dump_fr_trace(bool all, bool, bool) {
#if FORM == 3
    return FlightRecorder<c10::Other>::get()->entries[all];
#else
    return FlightRecorder<c10::Event>::get()->entries[all];
#endif
}

}  // namespace c10d
