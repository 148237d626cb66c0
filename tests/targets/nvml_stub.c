/* A stand-in for libnvidia-ml.so.1: plays back values from the file that NVML_STUB_FILE names, read at every call.
   Lines: `KEY=VALUE`; `KEY=!N` makes the call return error N; `KEY.sleep=MS` makes it take so long. Keys: `init`,
   `count`, `driver`, and per GPU `0.utilization` (GPU and memory, "100 7"), `0.memory` (total and used), `0.clock`,
   `0.power` (mW), `0.temperature`, `0.ecc`, `0.pages`, `0.rows` ("1 2 0 0"), `0.reasons`, `0.processes`
   ("PID:BYTES PID:BYTES"), `0.busy` ("PID:PERCENT"), `0.name`, `0.uuid`, `0.bus`, `0.handle`. Structures and names as
   in the NVML API Reference. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int nvmlReturn_t;
typedef struct { int index; } *nvmlDevice_t;
static struct { int index; } devices[16];
enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };

static nvmlReturn_t look(const char *key, char *value, size_t size) {
    const char *path = getenv("NVML_STUB_FILE");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[1024], slow[128];
    int found = NOT_SUPPORTED, pause_ms = 0;
    snprintf(slow, sizeof slow, "%s.sleep", key);
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *equals = strchr(line, '=');
        if (!equals) continue;
        *equals = 0;
        if (!strcmp(line, slow)) pause_ms = atoi(equals + 1);
        if (strcmp(line, key)) continue;
        if (equals[1] == '!') { found = atoi(equals + 2); continue; }
        snprintf(value, size, "%s", equals + 1);
        found = SUCCESS;
    }
    if (file) fclose(file);
    if (pause_ms) usleep(pause_ms * 1000);
    return found;
}

static nvmlReturn_t of(nvmlDevice_t device, const char *name, char *value, size_t size) {
    char key[64];
    if (!device) return INVALID_ARGUMENT;
    snprintf(key, sizeof key, "%d.%s", device->index, name);
    return look(key, value, size);
}

static nvmlReturn_t text(nvmlDevice_t device, const char *name, char *out, unsigned size) {
    return device ? of(device, name, out, size) : look(name, out, size);
}

static nvmlReturn_t number(nvmlDevice_t device, const char *name, unsigned *out) {
    char value[64];
    nvmlReturn_t result = of(device, name, value, sizeof value);
    if (result == SUCCESS) *out = (unsigned)strtoul(value, NULL, 10);
    return result;
}

nvmlReturn_t nvmlInitWithFlags(unsigned flags) {
    char value[64];
    (void)flags;
    nvmlReturn_t result = look("init", value, sizeof value);
    return result == NOT_SUPPORTED ? SUCCESS : result;
}
nvmlReturn_t nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(nvmlReturn_t result) { (void)result; return "an error of the stand-in"; }
nvmlReturn_t nvmlSystemGetDriverVersion(char *out, unsigned size) { return text(NULL, "driver", out, size); }
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *out) {
    char value[64];
    nvmlReturn_t result = look("count", value, sizeof value);
    if (result == SUCCESS) *out = atoi(value);
    return result;
}
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *out) {
    char value[64];
    if (index >= 16) return INVALID_ARGUMENT;
    devices[index].index = index;
    *out = (nvmlDevice_t)&devices[index];
    nvmlReturn_t result = of(*out, "handle", value, sizeof value);
    return result == NOT_SUPPORTED ? SUCCESS : result;
}
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t d, char *out, unsigned size) { return text(d, "name", out, size); }
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t d, char *out, unsigned size) { return text(d, "uuid", out, size); }

struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t d, struct pci *out) {
    memset(out, 0, sizeof *out);
    return of(d, "bus", out->bus_id, sizeof out->bus_id);
}
struct utilization { unsigned gpu, memory; };
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t d, struct utilization *out) {
    char value[64];
    nvmlReturn_t result = of(d, "utilization", value, sizeof value);
    if (result == SUCCESS && sscanf(value, "%u %u", &out->gpu, &out->memory) != 2) return INVALID_ARGUMENT;
    return result;
}
struct memory { unsigned long long total, free, used; };
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t d, struct memory *out) {
    char value[64];
    nvmlReturn_t result = of(d, "memory", value, sizeof value);
    if (result == SUCCESS && sscanf(value, "%llu %llu", &out->total, &out->used) != 2) return INVALID_ARGUMENT;
    if (result == SUCCESS) out->free = out->total - out->used;
    return result;
}
nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t d, int type, unsigned *out) { (void)type; return number(d, "clock", out); }
nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t d, unsigned *out) { return number(d, "power", out); }
nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t d, int sensor, unsigned *out) {
    (void)sensor;
    return number(d, "temperature", out);
}
nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t d, int type, int counter, unsigned long long *out) {
    unsigned value;
    (void)type; (void)counter;
    nvmlReturn_t result = number(d, "ecc", &value);
    if (result == SUCCESS) *out = value;
    return result;
}
nvmlReturn_t nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t d, unsigned *out) { return number(d, "pages", out); }
nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t d, unsigned *a, unsigned *b, unsigned *c, unsigned *e) {
    char value[64];
    nvmlReturn_t result = of(d, "rows", value, sizeof value);
    if (result == SUCCESS && sscanf(value, "%u %u %u %u", a, b, c, e) != 4) return INVALID_ARGUMENT;
    return result;
}
nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t d, unsigned long long *out) {
    unsigned value;
    nvmlReturn_t result = number(d, "reasons", &value);
    if (result == SUCCESS) *out = value;
    return result;
}

/* "PID:NUMBER PID:NUMBER": the n-th pair, or 0 */
static int pair(const char *text, int n, unsigned *pid, unsigned long long *number) {
    for (; n; n--) {
        text = strchr(text, ' ');
        if (!text) return 0;
        text++;
    }
    return sscanf(text, "%u:%llu", pid, number) == 2;
}

struct process { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; };
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t d, unsigned *count, struct process *out) {
    char value[512];
    unsigned n = 0, room = out ? *count : 0, pid;
    unsigned long long used;
    nvmlReturn_t result = of(d, "processes", value, sizeof value);
    if (result != SUCCESS) return result;
    for (; pair(value, n, &pid, &used); n++)
        if (n < room) out[n] = (struct process){pid, used, -1u, -1u};
    *count = n;
    return n > room ? INSUFFICIENT_SIZE : SUCCESS;
}

struct busy { unsigned pid; unsigned long long time_us; unsigned sm, memory, encoder, decoder; };
nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t d, struct busy *out, unsigned *count, unsigned long long since) {
    char value[512];
    unsigned n = 0, room = out ? *count : 0, pid;
    unsigned long long percent;
    nvmlReturn_t result = of(d, "busy", value, sizeof value);
    if (result != SUCCESS) return result;
    for (; pair(value, n, &pid, &percent); n++)
        if (n < room) out[n] = (struct busy){pid, since + 1, (unsigned)percent, 0, 0, 0};
    if (!n) return NOT_FOUND;
    *count = n;
    return n > room ? INSUFFICIENT_SIZE : SUCCESS;
}
