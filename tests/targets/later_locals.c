// A thread that waits in the second pass of a loop, before and behind declarations. Prints READY PID.
#include <stdio.h>
#include <unistd.h>

static inline __attribute__((always_inline)) long inlined(long given) {
    volatile long inner_before = given + 1;
    char byte;
    long same_line = given ? read(0, &byte, 1) : 0;
    volatile long inner_after = inner_before + same_line;
    return inner_after;
}

__attribute__((noinline)) static long wait_here(long count) {
    volatile long before = count;
    volatile long twice = 6;
    for (volatile long pass = 0; pass < 2; pass++) {
        volatile long in_loop = pass + 20;
        before += inlined(pass);
        volatile long later_in_loop = in_loop + 1;
        volatile long twice = later_in_loop;
        before += twice;
    }
    static volatile long counted = 7;
    volatile long after = before + counted;
    return after + twice;
}

int main(int argc, char** argv) {
    (void)argv;
    printf("READY %d\n", getpid());
    fflush(stdout);
    return (int)wait_here(40 + argc);
}
