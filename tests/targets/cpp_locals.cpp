// A thread that waits with values of the C++ library's types in its variables. Prints READY PID.
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <unistd.h>
#include <vector>

namespace app {
struct Base {
    virtual ~Base() = default;
    int first = 4;
};
struct Derived : Base {
    int last = 5;
};
struct Plain {
    int rows;
    double scale;
};

void wait_here() {
    std::vector<int> numbers{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    std::vector<double> empty;
    std::vector<std::string> names{"first", "second, which is longer than what fits in"};
    std::string text = "abc";
    std::string long_text(300, 'x');
    std::map<int, int> by_key{{1, 2}, {3, 4}};
    std::optional<int> maybe = 4;
    std::optional<int> nothing;
    std::mutex gate;
    gate.lock();
    Derived derived;
    Plain plain{1, 2.5};
    std::tuple<int, char> pair{1, 'c'};
    Plain& reference = plain;
    const char* literal = "literal";
    int* wild = reinterpret_cast<int*>(0x1234);
    const char* wild_text = reinterpret_cast<const char*>(0x10);
    std::vector<int> broken;
    std::memset(static_cast<void*>(&broken), 0x5a, sizeof broken);
    read(0, &reference, 1);
    std::vector<long> not_set;
    _exit(wild != nullptr && wild_text != nullptr && literal != nullptr);
}
}  // namespace app

int main() {
    std::printf("READY %d\n", getpid());
    std::fflush(stdout);
    app::wait_here();
}
