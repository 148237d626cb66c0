// A healthy program in which everything that is waited for comes and goes: threads that live for milliseconds take
// mutexes, read-write locks, semaphores and condition variables in one order, with short and long holds; children
// exchange messages over pipes and sockets and take turns with a file lock. With the word `deadlock`, two of its
// threads stop in a cycle of mutexes after the first second, and all else goes on; with `orphan`, a thread ends with a
// mutex that another one wants.
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <pthread.h>
#include <semaphore.h>
#include <shared_mutex>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

std::mutex locks[8];
std::shared_mutex readers;
sem_t slots;
std::mutex queue_lock;
std::condition_variable queue_ready;
int queued = 0;
char lock_file[] = "/tmp/churn-XXXXXX";

unsigned next_random() {
    thread_local unsigned state = static_cast<unsigned>(pthread_self()) * 2654435761u + getpid();
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

void hold() {
    const unsigned what = next_random() % 100;
    if (what < 70)
        usleep(next_random() % 3000);
    else if (what < 97)
        usleep(20000 + next_random() % 80000);
    else
        usleep(300000 + next_random() % 900000);
}

void take_locks() {
    const unsigned first = next_random() % 7;
    std::lock_guard outer(locks[first]);
    hold();
    std::lock_guard inner(locks[first + 1 + next_random() % (7 - first)]);
    hold();
}

void read_or_write() {
    if (next_random() % 4) {
        std::shared_lock shared(readers);
        hold();
    } else {
        std::unique_lock alone(readers);
        usleep(next_random() % 20000);
    }
}

void use_slot() {
    sem_wait(&slots);
    hold();
    sem_post(&slots);
}

void produce() {
    usleep(next_random() % 20000);
    std::lock_guard guard(queue_lock);
    ++queued;
    queue_ready.notify_one();
}

void consume() {
    std::unique_lock guard(queue_lock);
    queue_ready.wait(guard, [] { return queued > 0; });
    --queued;
}

void join_one() {
    std::thread other([] { hold(); });
    other.join();
}

void keep_only(int file) {  // else a child has the ends of what others talk over
    for (int other = 3; other < 1024; ++other)
        if (other != file)
            close(other);
}

void talk(int here, int there) {  // a child answers each byte
    const pid_t child = fork();
    if (child == 0) {
        keep_only(there);
        char byte;
        while (read(there, &byte, 1) == 1) {
            usleep(next_random() % 5000);
            if (write(there, &byte, 1) != 1)
                break;
        }
        _exit(0);
    }
    close(there);
    char byte = 'x';
    for (int turn = 0; turn < 20; ++turn)
        if (write(here, &byte, 1) != 1 || read(here, &byte, 1) != 1)
            break;
    close(here);
    waitpid(child, nullptr, 0);
}

void over_a_socket() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0)
        talk(ends[0], ends[1]);
}

void from_a_pipe() {
    int ends[2];
    if (pipe(ends) != 0)
        return;
    const pid_t child = fork();
    if (child == 0) {
        keep_only(ends[1]);
        for (int turn = 0; turn < 10; ++turn) {
            usleep(next_random() % 20000);
            if (write(ends[1], "x", 1) != 1)
                break;
        }
        _exit(0);
    }
    close(ends[1]);
    char byte;
    while (read(ends[0], &byte, 1) == 1) {
    }
    close(ends[0]);
    waitpid(child, nullptr, 0);
}

void take_file_lock() {
    const pid_t child = fork();
    if (child == 0) {
        keep_only(-1);
        const int file = open(lock_file, O_RDWR);
        flock(file, LOCK_EX);
        usleep(next_random() % 30000);
        _exit(0);
    }
    const int file = open(lock_file, O_RDWR | O_CLOEXEC);
    flock(file, LOCK_EX);
    usleep(next_random() % 30000);
    close(file);
    waitpid(child, nullptr, 0);
}

void (*const doings[])() = {take_locks, take_locks, take_locks, take_locks, read_or_write, use_slot, produce,
                            consume,    join_one,   over_a_socket, from_a_pipe, take_file_lock, produce};

void live_and_die(void (*what)()) {
    for (;;) {
        std::thread mortal(what);  // its number is soon another thread's
        mortal.join();
    }
}

std::mutex one, other;

void cross(std::mutex &first, std::mutex &second) {
    std::lock_guard outer(first);
    sleep(1);
    std::lock_guard inner(second);
}

}  // namespace

int main(int count, char **words) {
    const char *word = count > 1 ? words[1] : "";
    close(mkstemp(lock_file));
    sem_init(&slots, 0, 2);
    std::vector<std::thread> owners;
    if (!strcmp(word, "deadlock")) {
        owners.emplace_back(cross, std::ref(one), std::ref(other));
        owners.emplace_back(cross, std::ref(other), std::ref(one));
    } else if (!strcmp(word, "orphan")) {
        std::thread([] { one.lock(); }).join();
        owners.emplace_back([] { std::lock_guard never(one); });
    }
    for (int copy = 0; copy < 3; ++copy)
        for (auto what : doings)
            owners.emplace_back(live_and_die, what);
    puts("ready");
    fflush(stdout);
    for (auto &owner : owners)
        owner.join();
}
