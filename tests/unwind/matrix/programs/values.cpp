// Waits with values of many types in its variables.
#include <array>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unistd.h>
#include <unordered_map>
#include <variant>
#include <vector>
namespace app {
enum class Mode { idle, busy = 7 };
struct Shape { int rows; int columns; double scale; };
struct Base { virtual ~Base() = default; int id = 3; };
struct Derived : Base { std::string name = "derived"; };
struct Big { long many[200]; };
union Either { int whole; float part; };
struct Linked { int value; Linked* next; };

__attribute__((noinline)) long wait_here(const std::vector<int>& by_reference, Shape shape, long unused) {
    std::vector<int> numbers{1, 2, 3, 4, 5};
    std::vector<Shape> shapes{{1, 2, 0.5}, {3, 4, 1.5}};
    std::vector<std::string> names{"first", "second"};
    std::vector<bool> flags{true, false, true};
    std::vector<double> empty;
    std::string text = "short";
    std::string longer(300, 'x');
    std::string_view view = text;
    std::map<int, std::string> by_key{{1, "one"}, {2, "two"}};
    std::unordered_map<std::string, int> hashed{{"one", 1}};
    std::deque<int> queue{1, 2};
    std::unique_ptr<Shape> owned = std::make_unique<Shape>(Shape{5, 6, 2.5});
    std::shared_ptr<Shape> shared = std::make_shared<Shape>(Shape{7, 8, 3.5});
    std::optional<int> maybe = 4;
    std::optional<int> nothing;
    std::variant<int, std::string> choice = 3;
    std::tuple<int, char> pair{1, 'c'};
    std::array<short, 3> fixed{{7, 8, 9}};
    Mode mode = Mode::busy;
    Derived derived;
    Base& base = derived;
    Big big{};
    Either either{};
    Linked linked{1, nullptr};
    Linked* chain = &linked;
    int* wild = reinterpret_cast<int*>(0x1234);
    const char* c_text = "literal";
    const char* wild_text = reinterpret_cast<const char*>(0x10);
    void (*function)() = nullptr;
    bool yes = true;
    char letter = 'q';
    unsigned char octet = 200;
    double real = 2.5;
    __int128 huge = 5;
    std::string password = "hunter2hunter2";
    std::string api_key = "sk-abcdefghijklmnopqrs";
    int never_set;
    __asm__ volatile("" : : "m"(never_set));
    long optimised_out = unused * 3;
    auto lambda = [&numbers] { return numbers.size(); };
    char byte;
    long got = read(0, &byte, 1);
    __asm__ volatile("" : : "r"(&numbers), "r"(&shapes), "r"(&names), "r"(&flags), "r"(&empty), "r"(&view), "r"(&hashed) : "memory");
    __asm__ volatile("" : : "r"(&queue), "r"(&choice), "r"(&pair), "r"(&fixed), "r"(&mode), "r"(&base), "r"(&big), "r"(&either) : "memory");
    __asm__ volatile("" : : "r"(&chain), "r"(&wild), "r"(&c_text), "r"(&wild_text), "r"(&function), "r"(&yes), "r"(&letter) : "memory");
    __asm__ volatile("" : : "r"(&octet), "r"(&real), "r"(&huge), "r"(&lambda), "r"(&owned), "r"(&shared), "r"(&maybe), "r"(&nothing) : "memory");
    return got + by_reference.size() + shape.rows + longer.size() + by_key.size() + password.size() + api_key.size();
}
}  // namespace app
int main(int argc, char**) {
    std::printf("READY %d\n", getpid());
    std::fflush(stdout);
    return (int)app::wait_here({9, 8}, {1, 2, 3.5}, argc);
}
