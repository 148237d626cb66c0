// Throws or works at a pace, and says what its own clock says of it. One command a line on standard input:
//   throw KIND TIMES RATE   answers "done MEDIAN_NS P90_NS REACHED_PER_S": of one throw with its catch
//   work MILLISECONDS       answers "done CALLS_PER_S": of a function that throws nothing, a second of CPU time
// KIND: runtime logic
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

static volatile unsigned long sink = 0;

[[gnu::noinline]] static void fail(bool logic) {
    if (logic) throw std::logic_error("paced");
    throw std::runtime_error("paced");
}

[[gnu::noinline]] static void call(unsigned long number) { sink = sink + number; }

static void throws(bool logic, long times, long rate) {
    std::vector<long> took;
    took.reserve(times);
    const auto begun = Clock::now();
    for (long number = 0; number < times; ++number) {
        while (Clock::now() < begun + nanoseconds(number * 1000000000L / rate)) {
        }
        const auto before = Clock::now();
        try {
            fail(logic);
        } catch (const std::exception &) {
            ++sink;
        }
        took.push_back(nanoseconds(Clock::now() - before).count());
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - begun).count();
    std::sort(took.begin(), took.end());
    std::printf("done %ld %ld %.0f\n", took[times / 2], took[times * 9 / 10], times / seconds);
}

static double cpu_s() {
    timespec used;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return used.tv_sec + used.tv_nsec / 1e9;
}

static void work(long milliseconds) {
    const double begun = cpu_s();
    unsigned long calls = 0;
    while (cpu_s() < begun + milliseconds / 1e3)
        for (int number = 0; number < 10000; ++number) call(++calls);
    std::printf("done %.0f\n", calls / (cpu_s() - begun));
}

int main() {
    std::puts("READY");
    std::fflush(stdout);
    for (std::string line; std::getline(std::cin, line);) {
        std::istringstream words(line);
        std::string what, kind;
        long times = 0, rate = 1;
        words >> what;
        if (what == "throw") {
            words >> kind >> times >> rate;
            throws(kind == "logic", times, rate);
        } else {
            words >> times;
            work(times);
        }
        std::fflush(stdout);
    }
}
