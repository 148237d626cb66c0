// A thread that spins or computes: loops MODE. Prints READY PID. The names of the functions say nothing, or lie.
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#define APART __attribute__((noinline, noclone))

static std::atomic<bool> flag;
static std::atomic<int> taken{1};
static volatile uint64_t sink;
static volatile double real;

APART static void step() {
    while (!flag.load(std::memory_order_acquire)) {}  // @flag
    sink = 1;
}
APART static void lock() {
    while (taken.exchange(1)) __builtin_ia32_pause();  // @spinlock
    sink = 2;
}
APART static void wait_and_hash(uint64_t seed) {
    for (uint64_t n = 0;; n++) {
        seed = (seed ^ n) * 1099511628211u;  // @hash
        if (seed == 1) sink = seed;
    }
}
APART static void wait_and_sum(const unsigned char *bytes) {
    uint64_t sum = 0;
    for (unsigned n = 0;; n++) {
        sum += bytes[n & 4095];  // @sum
        if (sum == 1u << 31) sink = sum;
    }
}
APART static void spin_in_reals(double x) {
    while (x != 2.0) x = 3.7 * x * (1.0 - x);  // @reals
    real = x;
}
APART static void wait_for_product(double (*a)[32], double (*b)[32], double (*c)[32]) {
    for (;;)
        for (int row = 0; row < 32; row++)
            for (int column = 0; column < 32; column++)
                for (int n = 0; n < 32; n++) c[row][column] += a[row][n] * b[n][column];  // @matrix
}
APART static void wait_for_room(char *room, size_t size) {
    for (volatile int n = 0;; n = n + 1) {
        memset(room, n & 1, size);  // @fill
        asm volatile("" : : "r"(room) : "memory");
    }
}
APART static void poll_and_count() {
    for (uint64_t turns = 0; !flag.load(); turns++)  // @counts
        if (turns == UINT64_MAX) sink = turns;
    sink = 3;
}
APART static void add_up(uint64_t many) {
    double sum = 0;
    for (uint64_t n = 0; n < many; n++) {
        if (n % 3) sum += 0.5;
        sum += std::cos(sum);  // @ends
    }
    real = sum;
}
APART static void back_off() {
    for (volatile int n = 0; n < 2000; n = n + 1) {}  // @backs off
}
APART static void poll_and_back_off() {
    while (!flag.load()) back_off();
    sink = 4;
}
APART static void lock_again_and_again(pthread_spinlock_t *held) {
    for (uint64_t n = 0; n < UINT64_MAX; n++) pthread_spin_lock(held);  // @library
}

static unsigned char bytes[4096];
static char room[1 << 16];
static double a[32][32], b[32][32], c[32][32];

int main(int, char **argv) {
    std::string mode = argv[1];
    alarm(3600);
    bytes[1] = 1;
    printf("READY %d\n", getpid());
    fflush(stdout);
    if (mode == "flag") step();
    if (mode == "spinlock") lock();
    if (mode == "hash") wait_and_hash(static_cast<uint64_t>(getpid()));
    if (mode == "sum") wait_and_sum(bytes);
    if (mode == "reals") spin_in_reals(1.0 / (getpid() + 1));
    if (mode == "matrix") wait_for_product(a, b, c);
    if (mode == "fill") wait_for_room(room, sizeof room);
    if (mode == "counts") poll_and_count();
    if (mode == "ends") add_up(UINT64_MAX);
    if (mode == "backs_off") poll_and_back_off();
    if (mode == "in_a_library") {
        pthread_spinlock_t held;
        pthread_spin_init(&held, 0);
        lock_again_and_again(&held);
    }
}
