// Stands in for a simulator process: variables with the names and shapes that the debug information of the runtime's
// AICPU library shows, and a scheduler that does what it is told on its standard input. Own code, names apart.
//
//   submit RING KERNEL [PRODUCER…]   allocate the next task of a ring (producers: RING.LOCAL), wire it
//   run CORE RING.LOCAL | queue CORE RING.LOCAL | return RING.LOCAL | defer RING.LOCAL | done RING.LOCAL
//   consume RING | enqueue | submitted | error CODE | reset | again | later | turn | half RING | signal
//   fast                             one task after another through ring 0, as quickly as it goes, until the next line
//   kernel FILE                      a thread runs a kernel of a file that is deleted then; four more wait elsewhere
//   cores FILE COUNT | leave         a thread a core, as the library FILE (ascend_core.cpp) runs them; they end
//   exit
#include <dlfcn.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

enum PTO2TaskState { PTO2_TASK_PENDING = 0, PTO2_TASK_COMPLETED = 1, PTO2_TASK_CONSUMED = 2 };
enum class PTO2SubtaskSlot : uint8_t { AIC = 0, AIV0 = 1, AIV1 = 2 };
enum AsyncEngine : uint32_t { ASYNC_ENGINE_SDMA = 0, ASYNC_ENGINE_ROCE = 1 };
enum { RINGS = 4, CORES = 24, THREADS = 4, WINDOW = 65536, DEFERRED = 4 };

struct PTO2TaskId {
    uint64_t raw;
};
struct PTO2TaskSlotState;
struct PTO2TaskDescriptor {
    PTO2TaskId task_id;
#ifndef LACKS
    int32_t kernel_id[3];
#endif
    void *packed_buffer_base, *packed_buffer_end;
};
struct PTO2TaskPayload {
    int32_t tensor_count, scalar_count;
#ifdef POLLING
    int32_t fanin_count;
#else
    int32_t fanin_actual_count;
#endif
    template <typename T>
    struct SelfRelativePtr {
        int32_t delta_;
        void set(T *to) { delta_ = static_cast<int32_t>(reinterpret_cast<char *>(to) - reinterpret_cast<char *>(this)); }
    };
    SelfRelativePtr<int32_t> fanin;
    int32_t producers[8];
};
struct PTO2DepListEntry {
    PTO2TaskSlotState *slot_state;
    PTO2DepListEntry *next;
};
struct alignas(64) PTO2TaskSlotState {
#ifndef POLLING
    std::atomic<int32_t> fanout_lock;
    uint32_t fanout_count;
    PTO2DepListEntry *fanout_head;
#endif
    std::atomic<PTO2TaskState> task_state;
#ifndef POLLING
    std::atomic<int32_t> fanin_refcount;
    int32_t fanin_count;
#endif
    PTO2TaskPayload *payload;
    PTO2TaskDescriptor *task;
#ifdef POLLING
    std::atomic<bool> any_subtask_deferred;
#else
    std::atomic<uint8_t> lifecycle_flags;
#endif
    std::atomic<int16_t> completed_subtasks;
    int16_t total_required_subtasks, logical_block_num;
    std::atomic<int16_t> next_block_idx;
};
struct PTO2RingFlowControl {
    alignas(64) std::atomic<int32_t> current_task_index;
#ifndef POLLING
    alignas(64) std::atomic<int32_t> last_task_alive;
#endif
};
struct alignas(64) PTO2SharedMemoryRingHeader {
    PTO2RingFlowControl fc;
    uint64_t task_window_size;
    int32_t task_window_mask;
    PTO2TaskSlotState *slot_states;
#ifdef POLLING
    std::atomic<uint8_t> *completion_flags;
#endif
};
struct PTO2SharedMemoryHeader {
    std::atomic<int32_t> orch_error_code, sched_error_code;
};
struct CompletionCondition {
    AsyncEngine engine;
    bool satisfied;
    volatile uint32_t *counter_addr;
    uint64_t addr;
    uint32_t expected_value;
};
struct AsyncWaitEntry {
    PTO2TaskSlotState *slot_state;
    PTO2TaskId task_token;
    CompletionCondition conditions[2];
    int32_t condition_count;
    bool normal_done;
};
struct AsyncWaitList {
    std::atomic<int32_t> busy;
    AsyncWaitEntry entries[64];
    int32_t count;
};
struct PTO2ReadyQueue {
    alignas(64) std::atomic<uint64_t> enqueue_pos;
    alignas(64) std::atomic<uint64_t> dequeue_pos;
};
struct PTO2SchedulerState {
    PTO2SharedMemoryHeader *sm_header;
    struct alignas(64) RingSchedState {
        PTO2SharedMemoryRingHeader *ring;
    } ring_sched_states[RINGS];
    PTO2ReadyQueue ready_queues[3];
    AsyncWaitList async_wait_list;
};
struct alignas(64) CoreExecState {
    uint64_t reg_addr;
    PTO2TaskSlotState *running_slot_state, *pending_slot_state;
    int32_t running_reg_task_id, pending_reg_task_id;
    uint32_t dispatch_seq;
    PTO2SubtaskSlot running_subslot, pending_subslot;
};
class CoreTracker {
public:
    int32_t cluster_count_;
    unsigned __int128 core_states_;
    int32_t core_id_map_[72];
};
struct alignas(64) SchedChipSwimlaneCounters {
    bool chip_swimlane_enabled;
    uint64_t sched_start_ts;
    uint64_t sched_loop_count;
};
class SchedulerContext {
public:
    alignas(64) PTO2SchedulerState *sched_{nullptr};
#ifndef LACKS
    CoreExecState core_exec_states_[72];
#endif
    CoreTracker core_trackers_[THREADS];
    SchedChipSwimlaneCounters sched_chip_swimlane_[THREADS];
    std::atomic<int32_t> completed_tasks_{0};
    int32_t total_tasks_{0};
#ifndef POLLING
    std::atomic<bool> orchestrator_done_{false};
#endif
    std::atomic<bool> completed_{false};
    int32_t active_sched_threads_{0}, cores_total_num_{0};
};
struct AicpuExecutor {
    int32_t sched_thread_num_;
    SchedulerContext sched_ctx_;
};
#ifdef BARE
static AicpuExecutor *g_other_executor = new AicpuExecutor;
#define g_aicpu_executor (*g_other_executor)
#else
static AicpuExecutor g_aicpu_executor;
#endif

static PTO2SharedMemoryRingHeader rings[RINGS];
static PTO2SharedMemoryHeader header;
static PTO2SchedulerState scheduler;
static volatile uint32_t nobody_counts = 0;
static std::vector<PTO2TaskDescriptor> descriptors[RINGS];
static std::vector<PTO2TaskPayload> payloads[RINGS];

static SchedulerContext &context() { return g_aicpu_executor.sched_ctx_; }

static PTO2TaskSlotState &slot(int ring, int local) {
    return rings[ring].slot_states[local & rings[ring].task_window_mask];
}

static CoreExecState &core(int number) {
#ifdef LACKS
    static CoreExecState none[72];
    return none[number];
#else
    return context().core_exec_states_[number];
#endif
}

static int tail(int ring) {
#ifdef POLLING
    (void)ring;
    return 0;
#else
    return rings[ring].fc.last_task_alive;
#endif
}

static void set_up() {
    for (int r = 0; r < RINGS; r++) {
        int window = r == 0 ? WINDOW : 8;
        rings[r].task_window_size = window;
        rings[r].task_window_mask = window - 1;
        if (!rings[r].slot_states) rings[r].slot_states = new PTO2TaskSlotState[window]();
        descriptors[r].resize(window);
        payloads[r].resize(window);
        rings[r].fc.current_task_index = 0;
#ifdef POLLING
        if (!rings[r].completion_flags) rings[r].completion_flags = new std::atomic<uint8_t>[window]();
        for (int i = 0; i < window; i++) rings[r].completion_flags[i] = 0;
#else
        rings[r].fc.last_task_alive = 0;
#endif
        scheduler.ring_sched_states[r].ring = &rings[r];
    }
    scheduler.sm_header = &header;
    scheduler.async_wait_list.count = 0;
    SchedulerContext &c = context();
    c.cores_total_num_ = CORES;
    c.active_sched_threads_ = 3;
    for (int i = 0; i < CORES / 3; i++) {
        CoreTracker &t = c.core_trackers_[i % 3];
        int at = 3 * (i / 3);
        t.cluster_count_ = i / 3 + 1;
        t.core_id_map_[at] = i;
        t.core_id_map_[at + 1] = CORES / 3 + 2 * i;
        t.core_id_map_[at + 2] = CORES / 3 + 2 * i + 1;
    }
    for (int i = 0; i < CORES; i++) core(i).running_slot_state = core(i).pending_slot_state = nullptr;
    c.completed_tasks_ = 0;
    c.total_tasks_ = 0;
    c.completed_ = false;
    c.sched_ = &scheduler;
}

struct Id {
    int ring, local;
};

static Id id_of(const std::string &word) {
    size_t dot = word.find('.');
    return {std::stoi(word.substr(0, dot)), std::stoi(word.substr(dot + 1))};
}

static int submit(int ring, int kernel, const std::vector<Id> &producers, int blocks = 1) {
    int local = rings[ring].fc.current_task_index++;
    int at = local & rings[ring].task_window_mask;
    PTO2TaskSlotState &s = slot(ring, local);
    PTO2TaskPayload &p = payloads[ring][at];
    s.task_state = PTO2_TASK_PENDING;
    s.completed_subtasks = s.next_block_idx = 0;
    s.total_required_subtasks = s.logical_block_num = blocks;
    s.task = &descriptors[ring][at];
    s.payload = &p;
    s.task->task_id.raw = (static_cast<uint64_t>(ring) << 32) | static_cast<uint32_t>(local);
#ifndef LACKS
    s.task->kernel_id[0] = s.task->kernel_id[2] = -1;
    s.task->kernel_id[1] = kernel;
#else
    (void)kernel;
#endif
    int count = static_cast<int>(producers.size());
#ifdef POLLING
    s.any_subtask_deferred = false;
    rings[ring].completion_flags[at] = 0;
    for (int i = 0; i < count && i < 8; i++) p.producers[i] = producers[i].local;
    p.fanin.set(p.producers);
    p.fanin_count = count;
#else
    s.lifecycle_flags = 0;
    s.fanout_head = nullptr;
    s.fanin_refcount = 0;
    p.fanin_actual_count = count;
    int met = 1;
    for (const Id &producer : producers) {
        PTO2TaskSlotState &before = slot(producer.ring, producer.local);
        before.fanout_head = new PTO2DepListEntry{&s, before.fanout_head};
        met += before.task_state != PTO2_TASK_PENDING;
    }
    s.fanin_count = count + 1;
    s.fanin_refcount = met;
#endif
    return local;
}

static void run(int number, PTO2TaskSlotState &s) {
    CoreExecState &c = core(number);
    s.next_block_idx++;
    c.dispatch_seq++;
    c.running_subslot = PTO2SubtaskSlot::AIV0;
    c.running_slot_state = &s;
}

static void leave(PTO2TaskSlotState &s) {
    for (int i = 0; i < CORES; i++) {
        CoreExecState &c = core(i);
        if (c.running_slot_state != &s) continue;
        c.running_slot_state = c.pending_slot_state;
        c.pending_slot_state = nullptr;
        s.completed_subtasks++;
    }
}

static void done(int ring, int local) {
    PTO2TaskSlotState &s = slot(ring, local);
    leave(s);
    s.task_state = PTO2_TASK_COMPLETED;
#ifdef POLLING
    rings[ring].completion_flags[local & rings[ring].task_window_mask] = 1;
#else
    for (PTO2DepListEntry *e = s.fanout_head; e; e = e->next) e->slot_state->fanin_refcount++;
#endif
    context().completed_tasks_++;
}

static void consume(int ring) {
#ifndef POLLING
    int local = rings[ring].fc.last_task_alive;
    PTO2TaskSlotState &s = slot(ring, local);
    s.task_state = PTO2_TASK_CONSUMED;
    while (PTO2DepListEntry *e = s.fanout_head) {
        s.fanout_head = e->next;
        delete e;
    }
    s.fanin_refcount = 0;
    rings[ring].fc.last_task_alive++;
#endif
}

static void defer(int ring, int local) {
    PTO2TaskSlotState &s = slot(ring, local);
#ifdef POLLING
    s.any_subtask_deferred = true;
#else
    s.lifecycle_flags |= DEFERRED;
#endif
    leave(s);
    AsyncWaitEntry &e = scheduler.async_wait_list.entries[scheduler.async_wait_list.count];
    e.slot_state = &s;
    e.task_token = s.task->task_id;
    e.condition_count = 1;
    e.conditions[0].engine = ASYNC_ENGINE_ROCE;
    e.conditions[0].satisfied = false;
    e.conditions[0].counter_addr = &nobody_counts;
    e.conditions[0].addr = reinterpret_cast<uint64_t>(&nobody_counts);
    e.conditions[0].expected_value = 1;
    e.normal_done = true;
    scheduler.async_wait_list.count++;
}

// Task n runs kernel n % 7 in n % 3 + 1 blocks on core n % CORES, alone; it depends on the one before it.
static void fast() {
    std::vector<Id> before;
    for (pollfd next_line{STDIN_FILENO, POLLIN, 0}; poll(&next_line, 1, 0) == 0;) {
        int next = rings[0].fc.current_task_index;
        int local = submit(0, next % 7, before, next % 3 + 1);
        run(next % CORES, slot(0, local));
        for (volatile int spin = 0; spin < 5000 + next % 997; spin++) {}
        slot(0, local).completed_subtasks = slot(0, local).total_required_subtasks - 1;
        done(0, local);
        context().sched_chip_swimlane_[0].sched_loop_count++;
        before = {{0, local}};
        while (rings[0].fc.current_task_index - tail(0) > 200) consume(0);
    }
}

int main() {
    set_up();
    std::cout << "READY" << std::endl;
    for (std::string line; std::getline(std::cin, line);) {
        std::istringstream words(line);
        std::string what, word;
        words >> what;
        int number = 0;
        static int ending = -1;
        if (what == "submit") {
            int kernel = 0;
            std::vector<Id> producers;
            words >> number >> kernel;
            while (words >> word) producers.push_back(id_of(word));
            submit(number, kernel, producers);
        } else if (what == "many") {  // that many, each behind the one before it
            words >> number;
            std::vector<Id> before;
            for (int i = 0; i < number; i++) before = {{0, submit(0, i % 7, before)}};
        } else if (what == "run" || what == "queue") {
            words >> number >> word;
            Id id = id_of(word);
            if (what == "run") run(number, slot(id.ring, id.local));
            else {
                slot(id.ring, id.local).next_block_idx++;
                core(number).pending_slot_state = &slot(id.ring, id.local);
            }
        } else if (what == "half") {  // a slot is given out, and nothing of its task stands there yet
            words >> number;
            rings[number].fc.current_task_index++;
        } else if (what == "done" || what == "defer") {
            words >> word;
            Id id = id_of(word);
            if (what == "done") done(id.ring, id.local);
            else defer(id.ring, id.local);
        } else if (what == "consume") {
            words >> number;
            consume(number);
        } else if (what == "enqueue") {
            scheduler.ready_queues[1].enqueue_pos++;
        } else if (what == "submitted") {
            for (auto &ring : rings) context().total_tasks_ += ring.fc.current_task_index;
#ifndef POLLING
            context().orchestrator_done_ = true;
#endif
        } else if (what == "error") {
            words >> number;
            header.sched_error_code = number;
            context().completed_ = true;
        } else if (what == "over") {
            context().completed_ = true;
        } else if (what == "turn") {
            context().sched_chip_swimlane_[0].sched_loop_count += 1000;
        } else if (what == "again") {  // another run of the same graph has come as far as this one
            context().sched_chip_swimlane_[0].sched_loop_count = 1;
            context().sched_chip_swimlane_[0].sched_start_ts += 50'000'000;
        } else if (what == "later") {  // the same, of a runtime that does not count its turns
            context().sched_chip_swimlane_[0].sched_start_ts += 50'000'000;
        } else if (what == "reset") {
            set_up();
        } else if (what == "idle") {
            context().sched_ = nullptr;
        } else if (what == "fast") {
            fast();
        } else if (what == "kernel") {
            words >> word;
            auto entry = reinterpret_cast<void (*)(int64_t *)>(dlsym(dlopen(word.c_str(), RTLD_NOW), "kernel_entry"));
            unlink(word.c_str());
            for (int i = 0; i < 4; i++) std::thread([] { pause(); }).detach();
            std::thread(entry, nullptr).detach();
        } else if (what == "cores") {
            int count = 0;
            words >> word >> count;
            static void *library = dlopen(word.c_str(), RTLD_NOW | RTLD_LOCAL);
            static int until[2];
            static char registers[CORES];
            if (pipe(until)) return 1;
            reinterpret_cast<void (*)()>(dlsym(library, "make_keys"))();
            auto run = reinterpret_cast<void (*)(uint32_t, void *, int)>(dlsym(library, "run_core"));
            for (int i = 0; i < count; i++) {  // in another order than their numbers
                uint32_t core = (5 * i + 3) % count;
                std::thread([=] { run(core, registers + core, until[0]); }).detach();
            }
            ending = until[1];
        } else if (what == "leave") {
            close(ending);
        } else if (what == "exit") {
            return 0;
        }
        std::cout << "OK" << std::endl;
    }
    pause();
}
