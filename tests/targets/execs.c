// Waits for a byte in WAIT, called by CALL; then executes the program in argv[1]. Prints READY when it waits.
#include <stdio.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone))

static volatile int sink;

APART void WAIT(char **program) {
    char byte;
    sink = (int)read(0, &byte, 1);
    execv(program[0], program);
    sink = 1;
}

APART void CALL(char **program) {
    WAIT(program);
    sink = 2;
}

int main(int count, char **words) {
    printf("READY %d\n", getpid());
    fflush(stdout);
    if (count > 1) CALL(words + 1);
    CALL(words);
    return 0;
}
