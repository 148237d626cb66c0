// Fails as runtimes in C do, by functions of their names; with -DLIBRARY the library of these functions alone.
// One command a line on standard input, each answered with "done COUNT":
//   iree CODE TEXT | ireef CODE TEXT | cuda CODE | cu CODE | assert (in a child process)
#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct {
    const char *data;
    size_t size;
} text_view;  // iree_string_view_t: iree/base/string_view.h

void *iree_status_allocate(int code, const char *file, unsigned line, text_view message);
void *iree_status_allocate_f(int code, const char *file, unsigned line, const char *format, ...);
const char *cudaGetErrorString(int code);
int cuGetErrorString(int code, const char **text);

#ifdef LIBRARY
void *iree_status_allocate(int code, const char *file, unsigned line, text_view message) {
    return code && file && line && message.size ? (void *)message.data : NULL;
}
void *iree_status_allocate_f(int code, const char *file, unsigned line, const char *format, ...) {
    return code && file && line ? (void *)format : NULL;
}
const char *cudaGetErrorString(int code) { return code ? "an error" : "no error"; }
int cuGetErrorString(int code, const char **text) {
    *text = code ? "an error" : "no error";
    return 0;
}
#else
static void fail_in_a_child(int wanted) {
    const pid_t child = fork();
    if (child == 0) {
        assert(wanted < 0);
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

int main(void) {
    char line[4096];
    int count = 0;
    puts("READY");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        char what[16] = "";
        int code = 0, used = 0;
        sscanf(line, "%15s %d %n", what, &code, &used);
        char *text = line + used;
        text[strcspn(text, "\n")] = 0;
        const char *said = NULL;
        if (!strcmp(what, "iree")) {
            text_view message = {text, strlen(text)};
            iree_status_allocate(code, "runtime/src/device.c", 1234, message);
        } else if (!strcmp(what, "ireef")) {
            iree_status_allocate_f(code, "runtime/src/device.c", 77, "%s of %d bytes", text, code);
        } else if (!strcmp(what, "cuda")) {
            cudaGetErrorString(code);
        } else if (!strcmp(what, "cu")) {
            cuGetErrorString(code, &said);
        } else if (!strcmp(what, "assert")) {
            fail_in_a_child(code);
        }
        printf("done %d\n", ++count);
        fflush(stdout);
    }
    return 0;
}
#endif
