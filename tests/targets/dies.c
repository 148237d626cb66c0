/* Dies of a write through a null pointer, and so leaves a core where that is wanted. */
#include <stdio.h>

__attribute__((noinline)) static void store(volatile long *place) { *place = 1; }

int main(void) {
    puts("READY");
    fflush(stdout);
    store((volatile long *)8);
    return 0;
}
