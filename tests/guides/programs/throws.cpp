// Throws and handles an exception ten times a second.
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
void parse(int number) {
    if (number % 2) throw std::invalid_argument("shape " + std::to_string(number) + " is odd");
}
int main() {
    for (int n = 0; n < 6000; ++n) {
        try {
            parse(n);
        } catch (const std::exception &) {
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
}
