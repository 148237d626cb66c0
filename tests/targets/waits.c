/* One waiting pattern per mode. Prints "READY key=value ..." (tids, addresses, pids, inodes) once
   everything is where it should be, then stays so. usage: waits MODE [PATH] */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile pid_t tids[8];
static pthread_t th[8];
static pthread_mutex_t m[8];
static pthread_cond_t cv = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t bar, meet;
static sem_t sm;
static const char *path;

static pid_t gettid_(void) { return syscall(SYS_gettid); }
static void say(const char *f, ...) {
  va_list a;
  va_start(a, f);
  char b[900];
  vsnprintf(b, sizeof b, f, a);
  dprintf(1, "READY pid=%d main=%d %s\n", getpid(), gettid_(), b);
}
static void forever(void) { for (;;) pause(); }
static pid_t child(void) { /* dies with its parent */
  pid_t p = fork();
  if (!p) prctl(PR_SET_PDEATHSIG, SIGKILL);
  return p;
}
/* until thread i (or process p, thread p) sits in the kernel with a sleeping state */
static void asleep(pid_t p, pid_t t) {
  char f[99], b[600];
  snprintf(f, sizeof f, "/proc/%d/task/%d/stat", p, t);
  for (int calm = 0; calm < 5;) {
    int fd = open(f, O_RDONLY);
    ssize_t n = fd < 0 ? 0 : read(fd, b, sizeof b - 1);
    if (fd >= 0) close(fd);
    if (n <= 0) return;
    b[n] = 0;
    char *e = strrchr(b, ')');
    calm = e && e[2] == 'S' ? calm + 1 : 0;
    usleep(5000);
  }
}
/* until the first n threads sleep, all of them at the same time: one that sleeps may be woken by another yet */
static void settle(int n) {
  char f[99], b[600];
  for (int calm = 0; calm < 5; usleep(2000)) {
    int sleeping = 0;
    for (int i = 0; i < n && tids[i]; i++) {
      snprintf(f, sizeof f, "/proc/self/task/%d/stat", tids[i]);
      int fd = open(f, O_RDONLY);
      ssize_t r = fd < 0 ? 0 : read(fd, b, sizeof b - 1);
      if (fd >= 0) close(fd);
      b[r > 0 ? r : 0] = 0;
      char *e = strrchr(b, ')');
      sleeping += e && e[2] == 'S';
    }
    calm = sleeping == n ? calm + 1 : 0;
  }
}
static void start(int i, void *(*f)(void *)) { pthread_create(&th[i], 0, f, (void *)(long)i); }
#define ME tids[(long)x] = gettid_()
static void init(pthread_mutex_t *mutex, int kind, int proto, int robust, int shared) {
  pthread_mutexattr_t a;
  pthread_mutexattr_init(&a);
  pthread_mutexattr_settype(&a, kind);
  pthread_mutexattr_setprotocol(&a, proto);
  if (robust) pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
  if (shared) pthread_mutexattr_setpshared(&a, 1);
  pthread_mutex_init(mutex, &a);
}
static void *w_cycle(void *x) {
  ME;
  long i = (long)x;
  pthread_mutex_lock(&m[i]);
  pthread_barrier_wait(&meet);
  pthread_mutex_lock(&m[(i + 1) % 3]);
  return 0;
}
static void *w_hold(void *x) { pthread_mutex_lock(&m[0]); ME; forever(); return 0; }
static void *w_lock(void *x) { ME; pthread_mutex_lock(&m[0]); return 0; }
static void *w_timed(void *x) {
  ME;
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  t.tv_sec += 1000;
  pthread_mutex_timedlock(&m[0], &t);
  return 0;
}
static void *w_gone(void *x) { pthread_mutex_lock(&m[0]); ME; return 0; }
static void *w_cond(void *x) { ME; pthread_mutex_lock(&m[0]); for (;;) pthread_cond_wait(&cv, &m[0]); }
static void *w_condt(void *x) {
  ME;
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  t.tv_sec += 1000;
  pthread_mutex_lock(&m[0]);
  pthread_cond_timedwait(&cv, &m[0], &t);
  return 0;
}
static pthread_cond_t *volatile asked;
static void *w_asks(void *x) {  /* holds a lock, and waits on its own stack for another thread's answer */
  pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t answer = PTHREAD_COND_INITIALIZER;
  pthread_mutex_lock(&m[0]);
  pthread_mutex_lock(&own);
  asked = &answer;
  ME;
  for (;;) pthread_cond_wait(&answer, &own);
}
static void *w_sem(void *x) { ME; sem_wait(&sm); return 0; }
static void *w_pause(void *x) { ME; forever(); return 0; }
static void *w_join(void *x) { ME; pthread_join(th[0], 0); return 0; }
static void *w_wrhold(void *x) { pthread_rwlock_wrlock(&rw); ME; forever(); return 0; }
static void *w_rdhold(void *x) { pthread_rwlock_rdlock(&rw); ME; forever(); return 0; }
static void *w_rd(void *x) { ME; pthread_rwlock_rdlock(&rw); return 0; }
static void *w_wr(void *x) { ME; pthread_rwlock_wrlock(&rw); return 0; }
static void *w_bar(void *x) { ME; pthread_barrier_wait(&bar); return 0; }
static void *w_stdio_hold(void *x) { flockfile(stderr); ME; forever(); return 0; }
static void *w_stdio(void *x) { ME; fputs("x", stderr); return 0; }
static void *w_sleep(void *x) { ME; struct timespec t = {1000, 500000000}; nanosleep(&t, 0); return 0; }
static void *w_raw(void *x) { ME; static int word = 7; syscall(SYS_futex, &word, 128, 7, 0, 0, 0); return 0; }
static int evfd;
static void *w_event(void *x) { ME; uint64_t v; return read(evfd, &v, 8) ? x : 0; }

static void cycle(int kind, int proto, int robust) {
  pthread_barrier_init(&meet, 0, 3);
  for (int i = 0; i < 3; i++) init(&m[i], kind, proto, robust, 0);
  for (int i = 0; i < 3; i++) start(i, w_cycle);
  settle(3);
  say("t0=%d t1=%d t2=%d m0=%p m1=%p m2=%p", tids[0], tids[1], tids[2], &m[0], &m[1], &m[2]);
}
static unsigned long inode(int fd) { struct stat s; fstat(fd, &s); return s.st_ino; }
static int listen_tcp(struct sockaddr_in *a) {
  int l = socket(AF_INET, SOCK_STREAM, 0);
  *a = (struct sockaddr_in){AF_INET, 0, {htonl(INADDR_LOOPBACK)}, {0}};
  bind(l, (void *)a, sizeof *a);
  listen(l, 4);
  socklen_t n = sizeof *a;
  getsockname(l, (void *)a, &n);
  return l;
}
static int main_mode(const char *k) {
  char b[65536] = {0};
  int p[2];
  struct sockaddr_in a;
  if (!strcmp(k, "mutex")) cycle(PTHREAD_MUTEX_NORMAL, 0, 0);
  else if (!strcmp(k, "recursive")) cycle(PTHREAD_MUTEX_RECURSIVE, 0, 0);
  else if (!strcmp(k, "robust")) cycle(PTHREAD_MUTEX_NORMAL, 0, 1);
  else if (!strcmp(k, "pi")) cycle(PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_INHERIT, 0);
  else if (!strcmp(k, "pi-chain") || !strcmp(k, "hold") || !strcmp(k, "timed") || !strcmp(k, "errorcheck")) {
    init(&m[0], !strcmp(k, "errorcheck") ? PTHREAD_MUTEX_ERRORCHECK : 0, !strcmp(k, "pi-chain") ? PTHREAD_PRIO_INHERIT : 0, 0, 0);
    start(0, w_hold);
    settle(1);
    start(1, !strcmp(k, "timed") ? w_timed : w_lock);
    settle(2);
    say("t0=%d t1=%d m0=%p", tids[0], tids[1], &m[0]);
  } else if (!strcmp(k, "owner-exited")) {
    init(&m[0], 0, 0, 0, 0);
    start(0, w_gone);
    pthread_join(th[0], 0);
    tids[1] = 0;
    start(1, w_lock);
    while (!tids[1]) usleep(1000);
    asleep(getpid(), tids[1]);
    say("t0=%d t1=%d m0=%p", tids[0], tids[1], &m[0]);
  } else if (!strcmp(k, "shared-mutex") || !strcmp(k, "shared-robust")) {
    pthread_mutex_t *M = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    init(M, 0, 0, !strcmp(k, "shared-robust"), 1);
    pipe(p);
    pid_t c = child();
    if (!c) { pthread_mutex_lock(M); write(p[1], b, 1); forever(); }
    read(p[0], b, 1);
    say("child=%d lock=%p", c, M);
    pthread_mutex_lock(M);
  } else if (!strcmp(k, "cond") || !strcmp(k, "cond-timed")) {
    pthread_mutex_init(&m[0], 0);
    start(0, strcmp(k, "cond") ? w_condt : w_cond);
    settle(1);
    say("t0=%d cond=%p", tids[0], &cv);
  } else if (!strcmp(k, "asks")) {
    start(0, w_asks); settle(1); start(1, w_lock); settle(2);
    say("t0=%d t1=%d m0=%p cond=%p", tids[0], tids[1], &m[0], asked);
  } else if (!strcmp(k, "sem")) { sem_init(&sm, 0, 0); start(0, w_sem); settle(1); say("t0=%d sem=%p", tids[0], &sm); }
  else if (!strcmp(k, "join")) { start(0, w_pause); settle(1); start(1, w_join); settle(2); say("t0=%d t1=%d", tids[0], tids[1]); }
  else if (!strcmp(k, "rwlock-writer")) {
    start(0, w_wrhold); settle(1); start(1, w_rd); settle(2); start(2, w_wr); settle(3);
    say("t0=%d t1=%d t2=%d rw=%p", tids[0], tids[1], tids[2], &rw);
  } else if (!strcmp(k, "rwlock-reader")) {
    start(0, w_rdhold); settle(1); start(1, w_wr); settle(2);
    say("t0=%d t1=%d rw=%p", tids[0], tids[1], &rw);
  } else if (!strcmp(k, "barrier")) {
    pthread_barrier_init(&bar, 0, 3); start(0, w_bar); settle(1); start(1, w_bar); settle(2);
    say("t0=%d t1=%d bar=%p", tids[0], tids[1], &bar);
  } else if (!strcmp(k, "stdio")) {
    start(0, w_stdio_hold); settle(1); start(1, w_stdio); settle(2);
    say("t0=%d t1=%d", tids[0], tids[1]);
  } else if (!strcmp(k, "raw")) { start(0, w_raw); settle(1); say("t0=%d", tids[0]); }
  else if (!strcmp(k, "sleep")) { start(0, w_sleep); settle(1); say("t0=%d", tids[0]); }
  else if (!strcmp(k, "pipe") || !strcmp(k, "poll") || !strcmp(k, "select") || !strcmp(k, "epoll") || !strcmp(k, "epoll-nested") || !strcmp(k, "pipe-full") || !strcmp(k, "poll-timed")) {
    int full = !strcmp(k, "pipe-full");
    pipe(p);
    pid_t c = child();
    if (!c) { close(p[full]); forever(); }
    close(p[!full]);
    say("child=%d inode=%lu fd=%d", c, inode(p[full]), p[full]);
    if (full) for (;;) write(p[1], b, sizeof b);
    if (!strcmp(k, "pipe")) read(p[0], b, 1);
    else if (!strncmp(k, "poll", 4)) { struct pollfd f[2] = {{p[0], POLLIN, 0}, {0, POLLIN, 0}}; poll(f, 2, k[4] ? 1000000 : -1); }
    else if (!strcmp(k, "select")) { fd_set s; FD_ZERO(&s); FD_SET(p[0], &s); select(p[0] + 1, &s, 0, 0, 0); }
    else {
      int e = epoll_create1(0), o = epoll_create1(0);
      struct epoll_event v = {EPOLLIN, {0}};
      epoll_ctl(e, EPOLL_CTL_ADD, p[0], &v);
      epoll_ctl(o, EPOLL_CTL_ADD, e, &v);
      epoll_wait(k[5] ? o : e, &v, 1, -1);
    }
  } else if (!strcmp(k, "pipe-writers")) {
    pipe(p);
    pid_t c = child();
    if (!c) { close(p[0]); forever(); }
    pid_t d = child();
    if (!d) { close(p[0]); forever(); }
    close(p[1]);
    say("child=%d other=%d inode=%lu", c, d, inode(p[0]));
    read(p[0], b, 1);
  } else if (!strcmp(k, "fifo")) {
    mkfifo(path, 0600);
    pid_t c = child();
    if (!c) { open(path, O_WRONLY); forever(); }
    int f = open(path, O_RDONLY);
    say("child=%d inode=%lu", c, inode(f));
    read(f, b, 1);
  } else if (!strcmp(k, "ring")) { /* two processes, each reads what the other should write */
    int q[2];
    pipe(p); pipe(q);
    pid_t c = child();
    if (!c) { close(p[1]); close(q[0]); read(p[0], b, 1); forever(); }
    close(p[0]); close(q[1]);
    asleep(c, c);
    say("child=%d there=%lu back=%lu", c, inode(p[1]), inode(q[0]));
    read(q[0], b, 1);
  } else if (!strcmp(k, "unix")) {
    socketpair(AF_UNIX, SOCK_STREAM, 0, p);
    pid_t c = child();
    if (!c) { close(p[0]); forever(); }
    close(p[1]);
    say("child=%d inode=%lu", c, inode(p[0]));
    recv(p[0], b, 1, 0);
  } else if (!strcmp(k, "tcp")) {
    int l = listen_tcp(&a);
    pid_t c = child();
    if (!c) { int s = socket(AF_INET, SOCK_STREAM, 0); connect(s, (void *)&a, sizeof a); close(l); forever(); }
    int s = accept(l, 0, 0);
    close(l);
    say("child=%d inode=%lu port=%d", c, inode(s), ntohs(a.sin_port));
    recv(s, b, 1, 0);
  } else if (!strcmp(k, "accept")) { int l = listen_tcp(&a); say("port=%d inode=%lu", ntohs(a.sin_port), inode(l)); accept(l, 0, 0); }
  else if (!strcmp(k, "epoll-server")) { /* a server, idle by design, with a wake-up channel to itself */
    int l = listen_tcp(&a), e = epoll_create1(0);
    struct epoll_event v = {EPOLLIN, {0}};
    socketpair(AF_UNIX, SOCK_STREAM, 0, p);
    epoll_ctl(e, EPOLL_CTL_ADD, l, &v);
    epoll_ctl(e, EPOLL_CTL_ADD, p[0], &v);
    say("port=%d inode=%lu own=%lu", ntohs(a.sin_port), inode(l), inode(p[0]));
    epoll_wait(e, &v, 1, -1);
  } else if (!strcmp(k, "epoll-timer")) {
    int e = epoll_create1(0), t = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec s = {{0, 0}, {1000, 0}};
    timerfd_settime(t, 0, &s, 0);
    struct epoll_event v = {EPOLLIN, {0}};
    epoll_ctl(e, EPOLL_CTL_ADD, t, &v);
    say("fd=%d", t);
    epoll_wait(e, &v, 1, -1);
  } else if (!strcmp(k, "eventfd")) {
    evfd = eventfd(0, 0);
    pid_t c = child();
    if (!c) forever();
    say("child=%d", c);
    read(evfd, b, 8);
  } else if (!strcmp(k, "eventfd-own")) { evfd = eventfd(0, 0); start(0, w_event); settle(1); say("t0=%d", tids[0]); }
  else if (!strcmp(k, "flock") || !strcmp(k, "fcntl") || !strcmp(k, "ofd")) {
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    ftruncate(fd, 100);
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 20};
    pipe(p);
    pid_t c = child();
    if (!c) {
      int g = open(path, O_RDWR);
      if (!strcmp(k, "flock")) flock(g, LOCK_EX);
      else fcntl(g, !strcmp(k, "ofd") ? F_OFD_SETLKW : F_SETLKW, &l);
      write(p[1], b, 1);
      forever();
    }
    read(p[0], b, 1);
    say("child=%d inode=%lu", c, inode(fd));
    if (!strcmp(k, "flock")) flock(fd, LOCK_EX);
    else fcntl(fd, !strcmp(k, "ofd") ? F_OFD_SETLKW : F_SETLKW, &l);
  } else if (!strcmp(k, "waitpid") || !strcmp(k, "waitany")) {
    pid_t c = child();
    if (!c) forever();
    pid_t d = child();
    if (!d) forever();
    say("child=%d other=%d", c, d);
    waitpid(strcmp(k, "waitany") ? c : -1, 0, 0);
  } else if (!strcmp(k, "waitid-pidfd")) {
    pid_t c = child();
    if (!c) forever();
    say("child=%d", c);
    siginfo_t i;
    waitid(3, syscall(SYS_pidfd_open, c, 0), &i, WEXITED);
  } else if (!strcmp(k, "spin")) { start(0, w_pause); settle(1); say("t0=%d", tids[0]); for (volatile long x = 0;; x++); }
  else if (!strcmp(k, "orders")) { /* a line on stdin: 't' starts a thread, 'x' ends one, 'f' forks, 'k' kills the child, 'q' quits with 7 */
    static pid_t c;
    say("ok=1");
    for (int n = 0; read(0, b, 1) == 1;) {
      if (*b == 't') { start(n, w_pause); while (!tids[n]) usleep(1000); dprintf(1, "tid=%d\n", tids[n++]); }
      else if (*b == 'x') { pthread_cancel(th[--n]); pthread_join(th[n], 0); dprintf(1, "joined\n"); }
      else if (*b == 'f') { c = child(); if (!c) forever(); dprintf(1, "child=%d\n", c); }
      else if (*b == 'k') { kill(c, SIGKILL); waitpid(c, 0, 0); dprintf(1, "reaped\n"); }
      else if (*b == 'z') { kill(c, SIGTERM); dprintf(1, "zombie\n"); }
      else if (*b == 'q') exit(7);
    }
    exit(0);
  } else if (!strcmp(k, "zombie")) {
    pid_t c = fork();
    if (!c) _exit(3);
    char f[99];
    snprintf(f, sizeof f, "/proc/%d/stat", c);
    do { int fd = open(f, O_RDONLY); ssize_t n = read(fd, b, 500); b[n] = 0; close(fd); usleep(1000); } while (strrchr(b, ')')[2] != 'Z');
    say("child=%d", c);
  } else if (!strcmp(k, "undumpable")) { prctl(PR_SET_DUMPABLE, 0); say("ok=1"); }
  else if (!strcmp(k, "many")) {
    init(&m[0], 0, 0, 0, 0);
    pthread_t t;
    pthread_mutex_lock(&m[0]);
    for (int i = 0; i < 256; i++) pthread_create(&t, 0, i % 2 ? w_lock : w_cond, (void *)1L);
    sleep(1);
    say("m0=%p", &m[0]);
  } else return 1;
  forever();
  return 0;
}
int main(int c, char **v) {
  (void)c;
  path = v[2];
  return main_mode(v[1]);
}
