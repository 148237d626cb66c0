/* A program with threads of OpenMP that wait for its next parallel region, and a main thread that rests, or waits. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void *waits(void *at) {
    static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
    pthread_mutex_lock(at);
    pthread_cond_wait(&never, at);
    return NULL;
}

int main(int count, char **words) {
    double sum = 0;
#pragma omp parallel for num_threads(3) reduction(+ : sum)
    for (int n = 0; n < 1000; n++) sum += n;
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_t thread;
    if (count > 1 && strcmp(words[1], "beside") == 0) pthread_create(&thread, NULL, waits, &mutex);
    printf("READY %d %g\n", getpid(), sum);
    fflush(stdout);
    for (;;) sleep(300);
}
