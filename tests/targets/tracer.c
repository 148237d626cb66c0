// Traces all threads of a process, as strace does, and lets each go on at every stop.
//   tracer PID
//   tracer PID idle    never asks what became of them, so that their ends are not collected
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    char path[64];
    int pid = argc > 1 ? atoi(argv[1]) : 0;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    if (!tasks)
        return 1;
    for (struct dirent *entry; (entry = readdir(tasks));) {
        int tid = atoi(entry->d_name);
        if (tid && ptrace(PTRACE_SEIZE, tid, 0, 0) && errno != ESRCH && (errno != EPERM || tid == pid))
            return 2;  // EPERM: a thread that is about to end (kernel/ptrace.c, ptrace_attach)
    }
    closedir(tasks);
    printf("READY\n");
    fflush(stdout);
    while (argc > 2)
        pause();
    for (;;) {
        int status;
        pid_t tid = waitpid(-1, &status, __WALL);
        if (tid < 0)
            return 0;
        if (WIFSTOPPED(status)) {
            int number = status >> 16 ? 0 : WSTOPSIG(status);
            ptrace(PTRACE_CONT, tid, 0, number);
        }
    }
}
