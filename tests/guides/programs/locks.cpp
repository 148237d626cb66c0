// Two threads take two locks in opposite order.
#include <barrier>
#include <mutex>
#include <thread>
std::mutex queue_lock, stats_lock;
std::barrier both(2);
void push() {
    std::lock_guard first(queue_lock);
    both.arrive_and_wait();
    std::lock_guard second(stats_lock);
}
void report() {
    std::lock_guard first(stats_lock);
    both.arrive_and_wait();
    std::lock_guard second(queue_lock);
}
int main() {
    std::thread producer(push), reporter(report);
    producer.join();
    reporter.join();
}
