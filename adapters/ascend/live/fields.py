"""Which fields of the scheduler are read, under which names the runtime's versions have them, what is lost without."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["FIELDS", "ROOT", "Field"]

ROOT: Final = "executor"
"""The structure that the others are reached from."""


class Field(NamedTuple):
    """One field.

    Attributes:
        name: our own words, `structure.field`.
        paths: names in the runtime's source, newest first.
        leads_to: the structure that it is or points to.
        loss: what can't be shown without it, as the end of a sentence; "" where another field stands in.
        needed: nothing can be shown without it.
    """

    name: str
    paths: tuple[str, ...]
    leads_to: str = ""
    loss: str = ""
    needed: bool = False


def _all(name: str, leads_to: str, *paths: str) -> Field:
    return Field(name, paths, leads_to, "the tasks", needed=True)


FIELDS: Final = (
    # AicpuExecutor and its SchedulerContext
    _all("executor.scheduler", "scheduler", "sched_ctx_.sched_"),
    Field("executor.cores", ("sched_ctx_.core_exec_states_",), "core", "which core runs what"),
    Field("executor.trackers", ("sched_ctx_.core_trackers_",), "tracker", "which thread drives a core"),
    Field("executor.core_count", ("sched_ctx_.cores_total_num_",), loss="which core runs what"),
    Field("executor.threads", ("sched_ctx_.active_sched_threads_",), loss="which thread drives a core"),
    Field("executor.completed", ("sched_ctx_.completed_tasks_",), loss="how many tasks are done"),
    Field("executor.total", ("sched_ctx_.total_tasks_",), loss="how many tasks there are"),
    Field("executor.submitted", ("sched_ctx_.orchestrator_done_",)),
    Field("executor.over", ("sched_ctx_.completed_",)),
    Field(
        "executor.beats",
        ("sched_ctx_.sched_chip_swimlane_", "sched_ctx_.sched_l2_swimlane_"),
        "beat",
        "whether the scheduler's threads turn",
    ),
    Field("beat.turns", ("sched_loop_count",), loss="whether the scheduler's threads turn"),
    Field("beat.began", ("sched_start_ts",)),
    Field("executor.dispatched", ("sched_ctx_.payload_per_core_",), "dispatched"),
    Field("dispatched.function", ("function_bin_addr",)),
    Field("dispatched.task", ("local_context.async_ctx.task_token.raw",)),
    # PTO2SchedulerState, the rings
    Field("scheduler.rings", ("ring_sched_states", "ring_sched_state"), "rings", "the tasks", needed=True),
    Field("scheduler.queues", ("ready_queues",), "queue", "how many tasks are queued"),
    Field("scheduler.waits", ("async_wait_list",), "waits", "what a deferred task waits for"),
    Field("scheduler.header", ("sm_header",), "header"),
    Field("header.orchestrator_error", ("orch_error_code",)),
    Field("header.scheduler_error", ("sched_error_code",)),
    _all("rings.ring", "ring", "ring"),
    _all("ring.head", "", "fc.current_task_index"),
    Field("ring.tail", ("fc.last_task_alive",)),
    _all("ring.mask", "", "task_window_mask"),
    _all("ring.slots", "slot", "slot_states"),
    Field("ring.done_flags", ("completion_flags",)),
    # PTO2TaskSlotState
    _all("slot.state", "", "task_state"),
    _all("slot.task", "task", "task"),
    Field("slot.payload", ("payload",), "payload"),
    Field("slot.met", ("fanin_refcount",)),
    Field("slot.fanin", ("fanin_count",)),
    Field("slot.waiters", ("fanout_head",), "waiter"),
    Field("slot.returned", ("completed_subtasks",), loss="whether a kernel has returned"),
    Field("slot.required", ("total_required_subtasks",), loss="whether a kernel has returned"),
    Field("slot.blocks", ("logical_block_num",), loss="how many blocks a task has"),
    Field("slot.next_block", ("next_block_idx",), loss="whether a ready task was dispatched"),
    Field("slot.deferred", ("any_subtask_deferred",)),
    Field("slot.flags", ("lifecycle_flags",)),
    _all("task.id", "", "task_id.raw"),
    Field("task.kernels", ("kernel_id",), loss="which kernel a task runs"),
    Field("waiter.slot", ("slot_state",), loss="what waits for a task"),
    Field("waiter.next", ("next",), loss="what waits for a task"),
    Field("payload.fanin_actual", ("fanin_actual_count",)),
    Field("payload.fanin_count", ("fanin_count",)),
    Field("payload.fanin", ("fanin",)),
    # CoreExecState, CoreTracker
    Field("core.running", ("running_slot_state",), loss="which core runs what"),
    Field("core.pending", ("pending_slot_state",), loss="what is queued behind a running task"),
    Field("core.subslot", ("running_subslot",)),
    Field("core.dispatches", ("dispatch_seq",)),
    Field("tracker.clusters", ("cluster_count_",), loss="which thread drives a core"),
    Field("tracker.cores", ("core_id_map_",), loss="which thread drives a core"),
    # PTO2ReadyQueue, AsyncWaitList
    Field("queue.enqueued", ("enqueue_pos",), loss="how many tasks are queued"),
    Field("queue.dequeued", ("dequeue_pos",), loss="how many tasks are queued"),
    Field("waits.count", ("count",), loss="what a deferred task waits for"),
    Field("waits.entries", ("entries",), "entry", "what a deferred task waits for"),
    Field("entry.task", ("task_token.raw",), loss="what a deferred task waits for"),
    Field("entry.kernel_returned", ("normal_done",)),
    Field("entry.condition_count", ("condition_count",)),
    Field("entry.conditions", ("conditions",), "condition"),
    Field("condition.engine", ("engine",)),
    Field("condition.address", ("addr",)),
    Field("condition.counter", ("counter_addr",)),
    Field("condition.expected", ("expected_value",)),
    Field("condition.satisfied", ("satisfied",)),
)
