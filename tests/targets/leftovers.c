// Waits in main() and in a thread, above stacks full of what earlier calls left: frames that look like those of now.
#include <alloca.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone, noipa))

typedef long (*Step)(long, long);

static APART long waits(long wait, long depth) {
    char room[3000];  // mostly never written: it shows what was there
    if (wait) depth += read(0, room, 1);
    __asm__ volatile("" ::"r"(room) : "memory");
    return depth;
}

static APART long middle(long wait, long depth) {
    long value = waits(wait, depth + 1);
    __asm__ volatile("" : "+r"(value));
    return value + depth;
}

static APART long elsewhere(long left, long depth) {
    long value = left ? elsewhere(left - 1, depth + 1) : middle(0, depth);
    __asm__ volatile("" : "+r"(value));
    return value + waits(0, depth);
}

static APART long indirect(Step step, long wait, long depth) {
    long value = step(wait, depth) * 3;
    __asm__ volatile("" : "+r"(value));
    return value;
}

#ifdef SIZE_UNKNOWN
static APART long calls(long wait, long depth) {
    char* more = alloca(16 * (depth & 7) + 16);
    __asm__ volatile("" ::"r"(more) : "memory");
    long value = indirect(middle, wait, depth);
    __asm__ volatile("" ::"r"(more) : "memory");
    return value + more[0];
}
#else
static APART long calls(long wait, long depth) {
    long value = indirect(middle, wait, depth) * 7;
    __asm__ volatile("" : "+r"(value));
    return value;
}
#endif

static APART void* enters(void* argument) {
    long value = elsewhere(12, 0) + calls(1, (long)argument & 1);
    __asm__ volatile("" : "+r"(value));
    return (void*)value;
}

int main(int argc, char** argv) {
    pthread_t thread;
    pthread_create(&thread, 0, enters, argv);
    long value = elsewhere(12, 0);
    printf("READY %d\n", getpid());
    fflush(stdout);
    return (int)(value + calls(1, argc));
}
