// Ends badly within milliseconds: a child that divides by zero, or a function that calls itself for ever.
#include <cstdio>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>
int divide(int by) { return 64 / by; }
long descend(long depth) {
    char label[400];
    std::snprintf(label, sizeof label, "%ld", depth);
    return label[0] + descend(depth + 1) + 1;
}
int main(int, char **words) {
    if (std::strcmp(words[1], "deep") == 0) return static_cast<int>(descend(0));
    if (fork() == 0) _exit(divide(static_cast<int>(std::strlen(words[1]) - 5)));
    int status = 0;
    wait(&status);
    return status != 0;
}
