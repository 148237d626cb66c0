// One program a word, all of whose threads wait without a time limit. What could wake it differs.
#define _GNU_SOURCE
#include <fcntl.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <linux/netlink.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

static sem_t own;
static int ends[2], pair[2];
static char stack[65536];

static void ready(void) { puts("READY"); fflush(stdout); }
static void handler(int sig) { (void)sig; sem_post(&own); }
static void in_sem(void) { for (;;) sem_wait(&own); }
static void *thread(void *arg) { in_sem(); return arg; }
static int posts_later(void *arg) { (void)arg; sleep(10000); sem_post(&own); return 0; }
static void *sleeper(void *arg) { posts_later(arg); return 0; }
static void in_poll(int fd) { struct pollfd one = {fd, POLLIN, 0}; ready(); for (;;) poll(&one, 1, -1); }
static void in_epoll(int set, int fd) {
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
}
static sem_t *shared(int flags, int fd) {
    sem_t *sem = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | flags, fd, 0);
    sem_init(sem, 1, 0);
    return sem;
}

int main(int argc, char **argv) {
    const char *what = argv[1];
    pthread_t other;
    if (argc < 3 || pipe(ends) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return 1;
    sem_init(&own, 0, 0);
    if (!strcmp(what, "sem")) { pthread_create(&other, 0, thread, 0); ready(); pthread_join(other, 0); }
    else if (!strcmp(what, "own-pair")) in_poll(pair[0]);
    else if (!strcmp(what, "own-epoll")) {
        int set = epoll_create1(0); struct epoll_event event; in_epoll(set, eventfd(0, 0)); in_epoll(set, ends[0]);
        ready(); epoll_wait(set, &event, 1, -1);
    } else if (!strcmp(what, "shared-both")) {
        sem_t *sem = shared(MAP_ANONYMOUS, -1); if (fork()) ready();
        sem_wait(sem);
    } else if (!strcmp(what, "child-waits")) { if (!fork()) in_sem(); ready(); wait(0); }
    else if (!strcmp(what, "handler")) { signal(SIGTERM, handler); ready(); in_sem(); }
    else if (!strcmp(what, "shared-sleeper")) {
        sem_t *sem = shared(MAP_ANONYMOUS, -1); if (!fork()) { sleep(10000); sem_post(sem); return 0; }
        ready(); sem_wait(sem);
    } else if (!strcmp(what, "shared-named")) {
        int fd = open(argv[2], O_RDWR | O_CREAT, 0600); if (ftruncate(fd, 4096)) return 1;
        sem_t *sem = shared(0, fd); ready(); sem_wait(sem);
    } else if (!strcmp(what, "shared-semaphore")) {
        char name[64]; snprintf(name, sizeof name, "/livedbg-asleep-%d", getpid());
        sem_t *sem = sem_open(name, O_CREAT, 0600, 0); ready(); sem_wait(sem);
    } else if (!strncmp(what, "unguessed", 9)) {  // named as multiprocessing does, with a random name
        char name[64]; snprintf(name, sizeof name, "/mp-asleep_%d", getpid());
        sem_t *sem = sem_open(name, O_CREAT, 0600, 0); int child = fork();
        if (!child && !strcmp(what, "unguessed-told")) {  // it does not map it yet
            munmap((void *)((unsigned long)sem & ~4095ul), 4096); sleep(10000); return 0;
        }
        if (child) ready();
        sem_wait(sem);
    } else if (!strcmp(what, "shared-memfd")) {  // a child has it open, and may map it later
        int fd = memfd_create("sem", 0); if (ftruncate(fd, 4096)) return 1;
        if (!fork()) for (;;) sleep(10000);
        sem_t *sem = shared(0, fd); close(fd); ready(); sem_wait(sem);
    } else if (!strcmp(what, "shared-sysv")) {
        int id = shmget(IPC_PRIVATE, 4096, 0600); sem_t *sem = shmat(id, 0, 0); shmctl(id, IPC_RMID, 0);
        sem_init(sem, 1, 0); ready(); sem_wait(sem);
    } else if (!strcmp(what, "clone-vm")) {
        clone(posts_later, stack + sizeof stack, CLONE_VM | SIGCHLD, 0); ready(); in_sem();
    } else if (!strcmp(what, "main-ended")) {
        pthread_create(&other, 0, thread, 0); ready(); pthread_exit(0);
    } else if (!strcmp(what, "sleeping-thread")) {
        pthread_create(&other, 0, sleeper, 0); ready(); in_sem();
    } else if (!strcmp(what, "pause")) { ready(); for (;;) pause(); }
    else if (!strcmp(what, "inotify")) { int fd = inotify_init(); inotify_add_watch(fd, "/", IN_CREATE); in_poll(fd); }
    else if (!strcmp(what, "netlink")) {
        struct sockaddr_nl to = {.nl_family = AF_NETLINK, .nl_groups = 1};
        int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_KOBJECT_UEVENT); if (bind(fd, (void *)&to, sizeof to)) return 1;
        in_poll(fd);
    } else if (!strcmp(what, "udp")) {
        struct sockaddr_in at = {.sin_family = AF_INET}; int fd = socket(AF_INET, SOCK_DGRAM, 0);
        if (bind(fd, (void *)&at, sizeof at)) return 1;
        in_poll(fd);
    } else if (!strcmp(what, "datagrams")) {
        struct sockaddr_un at = {.sun_family = AF_UNIX}; int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
        strncpy(at.sun_path, argv[2], sizeof at.sun_path - 1); if (bind(fd, (void *)&at, sizeof at)) return 1;
        in_poll(fd);
    } else if (!strcmp(what, "receive")) { char c; ready(); while (recv(pair[0], &c, 1, 0) < 0) {} }
    else if (!strcmp(what, "receive-limited")) {
        struct timeval limit = {1000, 0}; setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        char c; ready(); while (recv(pair[0], &c, 1, 0) < 0) {}
    } else if (!strcmp(what, "epoll-inherited")) {  // the child may add to the set
        int set = epoll_create1(0); struct epoll_event event; in_epoll(set, ends[0]);
        if (!fork()) for (;;) sleep(10000);
        ready(); epoll_wait(set, &event, 1, -1);
    } else if (!strcmp(what, "epoll-closed")) {  // a socket stays in the set by a copy, under a number that is a pipe now
        int set = epoll_create1(0), copy = dup(pair[0]); struct epoll_event event; in_epoll(set, pair[0]); (void)copy;
        dup2(ends[0], pair[0]); ready(); epoll_wait(set, &event, 1, -1);
    } else if (!strcmp(what, "epoll-nested")) {
        int set = epoll_create1(0), inner = epoll_create1(0); struct epoll_event event;
        in_epoll(inner, ends[0]); in_epoll(set, inner); ready(); epoll_wait(set, &event, 1, -1);
    } else if (!strcmp(what, "exceptions")) {
        fd_set set; FD_ZERO(&set); FD_SET(pair[0], &set); fd_set read = set; ready(); select(pair[0] + 1, &read, 0, &set, 0);
    } else if (!strcmp(what, "tracer")) {
        pid_t child = fork(); if (!child) { ptrace(PTRACE_TRACEME, 0, 0, 0); raise(SIGSTOP); in_sem(); }
        waitpid(child, 0, 0); ptrace(PTRACE_CONT, child, 0, 0); ready(); for (;;) wait(0);
    } else if (!strcmp(what, "semop")) {
        int id = semget(IPC_PRIVATE, 1, 0600); struct sembuf down = {0, -1, 0}; ready(); semop(id, &down, 1);
    } else if (!strcmp(what, "queue-named") || !strcmp(what, "queues-crossed")) {
        struct mq_attr size = {.mq_maxmsg = 2, .mq_msgsize = 8}; mqd_t queues[2]; char name[64], text[8];
        for (int i = 0; i < 2; i++) {
            snprintf(name, sizeof name, "/livedbg-asleep-%d-%d", getpid(), i);
            queues[i] = mq_open(name, O_CREAT | O_RDWR, 0600, &size);
            if (strcmp(what, "queue-named")) mq_unlink(name);
        }
        int child = strcmp(what, "queue-named") ? fork() : 1; if (child) ready();
        mq_receive(queues[child != 0], text, sizeof text, 0);
    } else if (!strcmp(what, "timer")) {
        timer_t timer; struct sigevent event = {.sigev_notify = SIGEV_NONE}; timer_create(CLOCK_MONOTONIC, &event, &timer);
        ready(); in_sem();
    } else return 2;
    return 0;
}
