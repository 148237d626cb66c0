// Two threads that wait: main() in read() below inlined functions, templates and a constructor, the other for a condition.
#include <condition_variable>
#include <cstdio>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace app {
namespace {
__attribute__((noinline)) long wait_for_input(long round) {
    char byte;
    long got = read(0, &byte, 1);
    __asm__ volatile("" ::: "memory");
    return got + round;
}
}  // namespace

static inline __attribute__((always_inline)) long step(long round) {
    return wait_for_input(round) + 1;
}

template <typename Value>
struct Engine {
    __attribute__((noinline)) Value run(Value first, const std::vector<Value>& rest) {
        Value sum = first;
        for (const Value& one : rest) {
            sum += step(one);
        }
        return sum + total;
    }
    __attribute__((noinline)) bool operator()(const std::string& text) {
        total += run(static_cast<Value>(text.size()), {1, 2, 3});
        return total > 0;
    }
    Value total = 0;
};

struct Session {
    __attribute__((noinline)) explicit Session(Engine<long>& engine) {
        std::function<bool(const std::string&)> call = [&engine](const std::string& text) { return engine(text); };
        good = call("eleven char");
    }
    bool good = false;
};

template <typename Item, int Most>
class Queue {
  public:
    __attribute__((noinline)) Item pop() {
        std::unique_lock<std::mutex> held(mutex_);
        ready_.wait(held, [this] { return !items_.empty(); });
        return items_.back();
    }

  private:
    std::mutex mutex_;
    std::condition_variable ready_;
    std::vector<Item> items_;
};
}  // namespace app

int main(int argc, char** argv) {
    app::Queue<std::string, 4> queue;
    std::thread worker([&queue] { queue.pop(); });
    std::printf("READY %d\n", getpid());
    std::fflush(stdout);
    app::Engine<long> engine;
    app::Session session(engine);
    _exit(session.good ? argc : argv[0][0]);
}
