/* A C extension that takes a mutex of its own and then sleeps or asks for the GIL. For ctypes.PyDLL. */
#include <pthread.h>
#include <unistd.h>

static pthread_mutex_t engine_lock = PTHREAD_MUTEX_INITIALIZER;

void *engine_lock_address(void) { return &engine_lock; }

/* Called with the GIL held: lets the other thread go on, then blocks for ever on its mutex. */
void engine_lock_take(int tell)
{
    char byte = 'x';
    if (write(tell, &byte, 1) == 1)
        pthread_mutex_lock(&engine_lock);
}

extern void *PyEval_SaveThread(void);
extern void PyEval_RestoreThread(void *);

/* Lets the GIL go, takes the mutex, says so through a pipe, waits for a byte, asks for the GIL again. */
void engine_step(int say, int hear)
{
    char byte = 'x';
    void *state = PyEval_SaveThread();
    pthread_mutex_lock(&engine_lock);
    if (write(say, &byte, 1) != 1 || read(hear, &byte, 1) != 1)
        return;
    PyEval_RestoreThread(state);
    pthread_mutex_unlock(&engine_lock);
}
