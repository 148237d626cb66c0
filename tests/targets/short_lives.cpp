// Ends badly within milliseconds: a child that divides by zero, or functions that call themselves for ever.
#include <cstdio>
#include <cstring>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
int divide(int by) { return 64 / by; }
long descend(long depth) {
    char label[400];
    std::snprintf(label, sizeof label, "%ld", depth);
    return label[0] + descend(depth + 1) + 1;
}
int ends(const int *at);
int begins(const int *at) {
    volatile int pad[20] = {at[0]};
    return ends(at) + pad[0];
}
int ends(const int *at) {
    volatile int pad[20] = {at[0]};
    return begins(at) + pad[1];
}
void *in_a_thread(void *at) {
    std::printf("%d\n", begins(static_cast<int *>(at)));
    return nullptr;
}
int main(int, char **words) {
    if (std::strcmp(words[1], "deep") == 0) return static_cast<int>(descend(0));
    if (std::strcmp(words[1], "thread") == 0) {
        pthread_t thread;
        int at = 0;
        pthread_create(&thread, nullptr, in_a_thread, &at);
        pthread_join(thread, nullptr);
    }
    if (fork() == 0) _exit(divide(static_cast<int>(std::strlen(words[1]) - 5)));
    int status = 0;
    wait(&status);
    return status != 0;
}
