// A thread that waits with values in known variables, and some in registers that nobody saves. Prints READY PID.
#include <stdio.h>
#include <unistd.h>

struct part {
    int first;
    long second;
};

__attribute__((noinline)) static long wait_here(long count, const char* password) {
    volatile long kept = count + 1;
    volatile struct part part = {3, 4};
    volatile char text[8] = "abc";
    volatile char api_key[24] = "sk-abcdefghijklmnopqrs";
    long in_register = count * 3;
    __asm__ volatile("" : "+r"(in_register)::"memory");
    char byte;
    long got = read(0, &byte, 1);
    return got + kept + part.first + text[0] + api_key[0] + in_register + password[0];
}

int main(int argc, char** argv) {
    printf("READY %d\n", getpid());
    fflush(stdout);
    return (int)wait_here(40 + argc, argv[0]);
}
