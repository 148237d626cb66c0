// Sits in an uninterruptible wait: vfork, whose child waits for a signal. Prints READY CHILD, and ON once the child is dead.
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    static char line[64];
    pid_t child = vfork();
    if (child == 0) {
        sprintf(line, "READY %d\n", getpid());
        if (write(1, line, strlen(line)) < 0) _exit(1);
        for (;;) pause();
    }
    waitpid(child, NULL, 0);
    puts("ON");
    fflush(stdout);
    for (;;) pause();
}
