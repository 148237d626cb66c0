// Two threads that wait: main() in read(), the other for a mutex that main() holds.
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

__attribute__((noinline)) static long innermost(long depth) {
    char byte;
    long got = read(0, &byte, 1);
    __asm__ volatile("" ::: "memory");
    return got + depth;
}

static inline __attribute__((always_inline)) long between(long depth) { return innermost(depth + 1) * 2; }

__attribute__((noinline)) long outer(long depth) { return between(depth) + 1; }

__attribute__((noinline)) static void* enters(void* argument) {
    pthread_mutex_lock(&gate);
    return argument;
}

int main(int argc, char** argv) {
    pthread_t thread;
    pthread_mutex_lock(&gate);
    pthread_create(&thread, 0, enters, argv);
    printf("READY %d\n", getpid());
    fflush(stdout);
    return (int)outer(argc);
}
