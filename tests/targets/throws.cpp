// Throws what it is told to on standard input, one command a line, and answers each with "done COUNT":
//   KIND TEXT            in the main thread
//   thread KIND TEXT     in a thread that is started for it
//   fork KIND TEXT       in a child process that is started for it
//   flood KIND N RATE    N times, RATE a second
//   uncaught KIND TEXT   and nobody catches it
//   abort | exit
// KIND: runtime logic broken derived nvf c10 bad_alloc int text local rethrow
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>

namespace demo {
struct Broken : std::runtime_error {
    using std::runtime_error::runtime_error;
};
struct Mixin {
    virtual ~Mixin() = default;
    int value = 7;
};
struct Derived : Broken, Mixin {
    using Broken::Broken;
};
}  // namespace demo
namespace nvfuser {
class nvfError : public std::exception {
public:
    explicit nvfError(std::string text) : text_(std::move(text)) {}
    const char *what() const noexcept override { return text_.c_str(); }

private:
    std::string text_;
};
}  // namespace nvfuser
namespace c10 {
class Error : public std::exception {
public:
    explicit Error(std::string text) : text_(std::move(text)) {}
    const char *what() const noexcept override { return text_.c_str(); }

private:
    std::string text_;
};
}  // namespace c10
namespace {
struct Local : std::logic_error {
    using std::logic_error::logic_error;
};
}  // namespace

static long count = 0;

[[gnu::noinline]] void innermost(const std::string &kind, const std::string &text) {
    if (kind == "runtime") throw std::runtime_error(text);
    if (kind == "logic") throw std::logic_error(text);
    if (kind == "broken") throw demo::Broken(text);
    if (kind == "derived") throw demo::Derived(text);
    if (kind == "nvf") throw nvfuser::nvfError(text);
    if (kind == "c10") throw c10::Error(text);
    if (kind == "bad_alloc") throw std::bad_alloc();
    if (kind == "int") throw 42;
    if (kind == "text") throw "a C string";
    if (kind == "local") throw Local(text);
    std::cout << "unknown kind " << kind << std::endl;
}

[[gnu::noinline]] void outer(const std::string &kind, const std::string &text) {
    try {
        if (kind == "rethrow") {
            try {
                innermost("runtime", text);
            } catch (const std::exception &) {
                throw;
            }
        }
        innermost(kind, text);
    } catch (...) {
        ++count;
    }
}

static void run(const std::string &line) {
    std::istringstream words(line);
    std::string first, kind, text;
    words >> first;
    if (first == "thread" || first == "fork") {
        words >> kind;
        std::getline(words >> std::ws, text);
        if (first == "thread") {
            std::thread([&] { outer(kind, text); }).join();
        } else {
            const pid_t child = fork();
            if (child == 0) {
                outer(kind, text);
                _exit(0);
            }
            waitpid(child, nullptr, 0);
        }
    } else if (first == "flood") {
        long times = 0, rate = 0;
        words >> kind >> times >> rate;
        const auto begun = std::chrono::steady_clock::now();
        for (long number = 0; number < times; ++number) {
            outer(kind, "flood");
            std::this_thread::sleep_until(begun + std::chrono::microseconds(number * 1000000 / rate));
        }
    } else if (first == "uncaught") {
        words >> kind;
        std::getline(words >> std::ws, text);
        [&]() noexcept { innermost(kind, text); }();
    } else if (first == "abort") {
        std::abort();
    } else if (first == "exit") {
        _exit(3);
    } else {
        std::getline(words >> std::ws, text);
        outer(first, text);
    }
}

int main() {
    std::cout << "READY" << std::endl;
    for (std::string line; std::getline(std::cin, line);) {
        run(line);
        std::cout << "done " << count << std::endl;
    }
    return 0;
}
