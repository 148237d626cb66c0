// A program with mistakes that a sanitizer finds: `sanitized HOW`. `device`: the device's number says which.
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

struct Step {
    int at;
    int *values;
    int use() const { return values[at]; }
};

static int *made(int count) {
    int *values = new int[count];
    std::memset(values, 0, count * sizeof(int));
    return values;
}

static int freed() {
    Step step{1, made(4)};
    delete[] step.values;
    return step.use();
}

static int beyond() {
    char *from = new char[8]();
    char to[16] = {};
    std::memcpy(to, from, 12);
    return to[9];
}

static int undefined(int more) { return INT_MAX + more; }

int main(int argc, char **argv) {
    std::string how = argc > 1 ? argv[1] : "well";
    const char *device = getenv("CUDA_VISIBLE_DEVICES");
    printf("Running step_%s...\n", device ? device : "-");
    fflush(stdout);
    int got = 0;
    if (how == "device") how = device && *device == '1' ? "freed" : "beyond";
    if (how == "freed") got = freed();
    if (how == "beyond") got = beyond();
    if (how == "undefined") got = undefined(argc);
    printf("got %d\n", got);
    printf("Finished step_%s\n", device ? device : "-");
}
