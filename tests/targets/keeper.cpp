// Frees what it touches first, and keeps what it touches afterwards.
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>
struct Page { std::unique_ptr<char[]> bytes; };
static std::vector<Page> pages;
void remember() { pages.push_back({std::make_unique<char[]>(3000)}); }
size_t answer(int number) { return std::string(50000 + number % 7, 'x').size(); }
int main() {
    std::puts("READY");
    std::fflush(stdout);
    size_t all = 0;
    for (int number = 0; number < 1 << 20; ++number) {
        all += answer(number);
        remember();
        std::this_thread::sleep_for(std::chrono::microseconds(300));
    }
    std::printf("%zu\n", all);
}
