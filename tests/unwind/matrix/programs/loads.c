// Waits below a function of a library.
#include <stdio.h>
#include <unistd.h>

long library_calls(long (*back)(long), long value);

static long waits(long value) {
    char byte;
    return read(0, &byte, 1) + value;
}

int main(int argc, char** argv) {
    printf("READY %d\n", getpid());
    fflush(stdout);
    return (int)library_calls(waits, argc) + argv[0][0];
}
