// Waits of a C program, one a word: those that end by themselves or from outside, and those that never end.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int ends[2];
static sem_t sem;
static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER, two = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static atomic_int flag;

static void wake(int sig) { (void)sig; if (write(ends[1], "x", 1) < 0) {} }
static void post(int sig) { (void)sig; sem_post(&sem); }
static void on(int sig, void (*handler)(int)) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(sig, &action, 0);
}
static void ready(void) { puts("READY"); fflush(stdout); }
static void read_all(int fd) { char c[128]; for (;;) if (read(fd, c, sizeof c) < 0 && errno != EINTR) return; }
static void *forever(void *arg) { (void)arg; for (;;) pause(); }
static void *in_barrier(void *arg) { (void)arg; pthread_barrier_wait(&barrier); return 0; }
static void *in_cond(void *arg) {
    (void)arg;
    pthread_mutex_lock(&one);
    for (;;) pthread_cond_wait(&cond, &one);
}
static void *ticks(void *arg) { (void)arg; for (;;) { usleep(10000); flag++; flag--; } }
static void *takes_two(void *arg) {
    (void)arg;
    pthread_mutex_lock(&two); usleep(200000); pthread_mutex_lock(&one);
    return 0;
}
static void *in_sem(void *arg) { (void)arg; sem_wait(&sem); return 0; }
static void *asleep(void *arg) { (void)arg; for (;;) sleep(30); }
static void joins_again_and_again(pthread_t thread) {
    for (struct timespec end; ; ) {
        clock_gettime(CLOCK_REALTIME, &end);
        if ((end.tv_nsec += 50000000) >= 1000000000) { end.tv_sec++; end.tv_nsec -= 1000000000; }
        if (pthread_timedjoin_np(thread, 0, &end) != ETIMEDOUT) return;
    }
}
static void *signaled(void *arg) {
    sigset_t *set = arg;
    for (int sig;;) if (sigwait(set, &sig) == 0) wake(sig);
}
static void *tries(void *arg) {  // inverted locks with time-outs: no deadlock
    pthread_mutex_t *first = arg ? &one : &two, *second = arg ? &two : &one;
    for (;;) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += 1;
        pthread_mutex_lock(first);
        usleep(300000);
        if (pthread_mutex_timedlock(second, &until) == 0) pthread_mutex_unlock(second);
        pthread_mutex_unlock(first);
        usleep(arg ? 1000 : 5000);
    }
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    pthread_t thread;
    if (pipe(ends)) return 1;
    if (!strcmp(what, "self-pipe-signal")) { on(SIGTERM, wake); ready(); read_all(ends[0]); }
    else if (!strcmp(what, "self-pipe-timer")) {
        timer_t timer;
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
        struct itimerspec every = {{7, 0}, {7, 0}};
        on(SIGUSR1, wake); timer_create(CLOCK_MONOTONIC, &event, &timer); timer_settime(timer, 0, &every, 0);
        ready(); read_all(ends[0]);
    } else if (!strcmp(what, "self-pipe-itimer")) {
        struct itimerval every = {{7, 0}, {7, 0}};
        on(SIGALRM, wake); setitimer(ITIMER_REAL, &every, 0); ready(); read_all(ends[0]);
    } else if (!strcmp(what, "self-pipe-sigwait")) {
        static sigset_t set;
        sigemptyset(&set); sigaddset(&set, SIGHUP); sigaddset(&set, SIGTERM);
        pthread_sigmask(SIG_BLOCK, &set, 0); pthread_create(&thread, 0, signaled, &set);
        ready(); read_all(ends[0]);
    } else if (!strcmp(what, "signalfd")) {
        sigset_t set; sigemptyset(&set); sigaddset(&set, SIGTERM); sigprocmask(SIG_BLOCK, &set, 0);
        int fd = signalfd(-1, &set, 0); ready(); read_all(fd);
    } else if (!strcmp(what, "timerfd")) {
        struct itimerspec every = {{8, 0}, {8, 0}};
        int fd = timerfd_create(CLOCK_MONOTONIC, 0); timerfd_settime(fd, 0, &every, 0);
        ready(); uint64_t n; for (;;) if (read(fd, &n, 8) != 8) return 1;
    } else if (!strcmp(what, "named-fifo")) {
        mkfifo(argv[2], 0600); int fd = open(argv[2], O_RDWR); ready(); read_all(fd);
    } else if (!strcmp(what, "named-fifo-open")) { mkfifo(argv[2], 0600); ready(); read_all(open(argv[2], O_RDONLY)); }
    else if (!strcmp(what, "sem-handler")) { sem_init(&sem, 0, 0); on(SIGUSR1, post); ready(); for (;;) sem_wait(&sem); }
    else if (!strcmp(what, "sigwait-main")) {
        sigset_t set; sigemptyset(&set); sigaddset(&set, SIGTERM); sigprocmask(SIG_BLOCK, &set, 0);
        for (int i = 0; i < 3; i++) pthread_create(&thread, 0, in_cond, 0);
        ready(); int sig; sigwait(&set, &sig);
    } else if (!strcmp(what, "pause")) { on(SIGTERM, wake); ready(); for (;;) pause(); }
    else if (!strcmp(what, "inverted-timed")) {
        pthread_create(&thread, 0, tries, 0); pthread_create(&thread, 0, tries, &one); ready(); for (;;) pause();
    } else if (!strcmp(what, "child-busy")) {
        if (!fork()) for (;;) flag++;
        ready(); wait(0);
    } else if (!strcmp(what, "child-sleeps")) {
        if (!fork()) for (;;) sleep(5);
        ready(); wait(0);
    } else if (!strcmp(what, "slow-holder")) {  // holds a lock for long, and computes
        pthread_mutex_lock(&one); pthread_create(&thread, 0, in_cond, 0);
        ready(); for (;;) flag++;
    } else if (!strcmp(what, "recv-limited-pair")) {  // each tries again when its time limit has passed
        int pair[2]; char c; struct timeval limit = {60, 0};
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return 1;
        for (int i = 0; i < 2; i++) setsockopt(pair[i], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        int child = fork() == 0; close(pair[!child]); if (!child) ready();
        for (;;) if (recv(pair[child], &c, 1, 0) >= 0) return 1;
    } else if (!strcmp(what, "timed-join")) {
        pthread_create(&thread, 0, asleep, 0); ready(); joins_again_and_again(thread);
    } else if (!strcmp(what, "timed-join-never")) {
        sem_init(&sem, 0, 0); pthread_create(&thread, 0, in_sem, 0); ready(); joins_again_and_again(thread);
    } else if (!strcmp(what, "queues-crossed")) {  // each of two processes waits for a message of the other one
        struct mq_attr size = {.mq_maxmsg = 2, .mq_msgsize = 8}; mqd_t queues[2]; char name[64], text[8];
        for (int i = 0; i < 2; i++) {
            snprintf(name, sizeof name, "/livedbg-zoo-%d-%d", getpid(), i);
            queues[i] = mq_open(name, O_CREAT | O_RDWR, 0600, &size); mq_unlink(name);
        }
        int child = fork() == 0; if (!child) ready();
        mq_receive(queues[child], text, sizeof text, 0);
    } else if (!strcmp(what, "sem-never")) { sem_init(&sem, 0, 0); ready(); sem_wait(&sem); }
    else if (!strcmp(what, "sem-never-ticker")) {
        sem_init(&sem, 0, 0); pthread_create(&thread, 0, ticks, 0); ready(); sem_wait(&sem);
    } else if (!strcmp(what, "cond-never")) { pthread_create(&thread, 0, in_cond, 0); ready(); pthread_join(thread, 0); }
    else if (!strcmp(what, "barrier-short")) {
        pthread_barrier_init(&barrier, 0, 3); pthread_create(&thread, 0, in_barrier, 0); ready();
        pthread_barrier_wait(&barrier);
    } else if (!strcmp(what, "own-pipe-alone")) { ready(); read_all(ends[0]); }
    else if (!strcmp(what, "eventfd-never")) { int fd = eventfd(0, 0); ready(); read_all(fd); }
    else if (!strcmp(what, "spin-flag")) { pthread_create(&thread, 0, forever, 0); ready(); while (!flag) {} }
    else if (!strcmp(what, "lock-cycle-ticker")) {
        pthread_create(&thread, 0, ticks, 0); pthread_create(&thread, 0, takes_two, 0);
        pthread_mutex_lock(&one); usleep(200000); ready(); pthread_mutex_lock(&two);
    } else if (!strcmp(what, "dead-child-lock")) {  // a process-shared lock whose owner was killed
        pthread_mutexattr_t attr; pthread_mutexattr_init(&attr); pthread_mutexattr_setpshared(&attr, 1);
        pthread_mutex_t *shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        pthread_mutex_init(shared, &attr);
        pid_t child = fork();
        if (!child) { pthread_mutex_lock(shared); kill(getpid(), SIGKILL); }
        waitpid(child, 0, 0); ready(); pthread_mutex_lock(shared);
    } else if (!strcmp(what, "posix-lock")) {
        int fd = open(argv[2], O_RDWR | O_CREAT, 0600); if (ftruncate(fd, 100)) return 1;
        struct flock part = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 10};
        int go[2]; if (pipe(go)) return 1;
        if (!fork()) { fcntl(fd, F_SETLKW, &part); if (write(go[1], "x", 1) < 0) return 1; for (;;) pause(); }
        char c; if (read(go[0], &c, 1) < 1) return 1;
        ready(); fcntl(fd, F_SETLKW, &part);
    } else if (!strcmp(what, "other-range")) {  // holds another range of the same file: nobody waits for it
        int fd = open(argv[2], O_RDWR | O_CREAT, 0600); if (ftruncate(fd, 100)) return 1;
        struct flock part = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 50, .l_len = 10};
        fcntl(fd, F_SETLKW, &part); on(SIGTERM, wake); ready(); for (;;) pause();
    } else return 2;
    return 0;
}
