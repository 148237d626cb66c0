/* A very large process: THREADS that wait for one mutex, MAPPINGS of a page, DESCRIPTORS, as many as it may have.
 * Usage: large THREADS MAPPINGS DESCRIPTORS */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *wait_for_it(void *nothing) {
    pthread_mutex_lock(&lock);
    return nothing;
}

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    int threads = atoi(argv[1]), mappings = atoi(argv[2]), descriptors = atoi(argv[3]), made = 0;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    for (int number = 0; number < mappings; number++) { /* neighbours that differ stay apart */
        int protection = number & 1 ? PROT_READ : PROT_READ | PROT_WRITE;
        if (mmap(NULL, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
            return 1;
    }
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 65536);
    pthread_mutex_lock(&lock);
    for (int number = 0; number < threads; number++) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, wait_for_it, NULL) != 0)
            return 1;
    }
    while (made < descriptors && open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0)
        made++;
    printf("READY %d\n", made);
    fflush(stdout);
    pause();
    return 0;
}
