// Throws and faults at a letter on standard input, with no system calls but read and write, and answers each with "done 0":
//   t   throws and catches std::runtime_error("confined")
//   p   the same in a plug-in that it was told to load
//   s   reads through a null pointer
// confined [strict] [plugin FILE | namespace FILE]
//   strict     confines itself by seccomp's strictest mode
//   plugin     loads FILE, by dlopen
//   namespace  loads FILE into a link namespace of its own, with its own C++ runtime, by dlmopen
#include <dlfcn.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <stdexcept>

static volatile long *volatile nowhere = nullptr;

[[gnu::noinline]] static void thrower() { throw std::runtime_error("confined"); }
[[gnu::noinline]] static void catcher() {
    try {
        thrower();
    } catch (const std::exception &) {
    }
}
[[gnu::noinline]] static long fault() { return *nowhere; }

static void say(const char *line) {
    if (write(1, line, strlen(line)) < 0) syscall(SYS_exit, 1);
}

int main(int argc, char **argv) {
    void (*plugged)() = nullptr;
    bool strict = false;
    for (int number = 1; number < argc; ++number) {
        if (strcmp(argv[number], "strict") == 0) {
            strict = true;
        } else if (number + 1 < argc) {
            const bool apart = strcmp(argv[number], "namespace") == 0;
            const char *file = argv[++number];
            void *loaded = apart ? dlmopen(LM_ID_NEWLM, file, RTLD_NOW) : dlopen(file, RTLD_NOW | RTLD_LOCAL);
            if (loaded == nullptr) {
                say(dlerror());
                return 1;
            }
            plugged = reinterpret_cast<void (*)()>(dlsym(loaded, "plugged"));
            plugged();
        }
    }
    catcher();  // what is allocated once is
    if (strict) prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    say("READY\n");
    for (char letter; read(0, &letter, 1) == 1;) {
        if (letter == 't') catcher();
        if (letter == 'p' && plugged != nullptr) plugged();
        if (letter == 's') fault();
        if (letter != '\n') say("done 0\n");
    }
    syscall(SYS_exit, 0);
}
