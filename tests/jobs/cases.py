"""What is true of each job, and what has to be said of it."""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["CASES", "Case"]


class Case(NamedTuple):
    """A job.

    Attributes:
        name: its case in tests/targets/torch_jobs.py, or the launcher that starts tests/targets/torch_launchers.py.
        ranks: how many it has.
        right: what the verdict may be.
        said: words that the verdict, or a finding, has.
    """

    name: str
    ranks: int
    right: tuple[str, ...]
    said: tuple[str, ...] = ()


_STUCK = ("stalled",)
_RUNS = ("running",)
_OPEN = ("unknown",)
_NOT_STUCK = ("running", "unknown")

CASES: Final = (
    Case("missing", 3, _STUCK, ("Rank 2 of 3 has not entered all_reduce #5 of group dp", "fetch_batch")),
    Case("third_of_four", 4, _STUCK, ("Rank 2 of 4 has not entered all_reduce #6 of group dp", "ranks 0, 1, 3 wait")),
    Case("fewer", 3, _STUCK, ("rank 2 is in barrier #1",)),
    Case("swapped", 3, _STUCK, ("the groups are taken in another order",)),
    Case("three_groups", 3, _STUCK, ("the groups are taken in another order",)),
    Case("other_call", 3, _STUCK, ("is not the same on all ranks",)),
    Case("wrong_root", 3, _STUCK, ("rank 2 expects it from rank 1",)),
    Case("root_of_four", 4, _STUCK, ("rank 2 expects it from rank 1",)),
    Case("mutual", 2, _STUCK, ("both receive from each other", "no matching send was seen")),
    Case("unused_branch", 2, _STUCK, ("parameters unused on rank 0?",)),
    Case("sharded", 2, _STUCK, ("Rank 1 of 2 has not entered all_gather #",)),
    Case("stages", 3, _STUCK, ("Rank 1 waits in recv from rank 0",)),
    Case("pipeline", 3, _NOT_STUCK),
    Case("asks", 2, _STUCK, ("Rank 1 waits for serves of worker0",)),
    Case("monitored", 3, _STUCK, ("is not in monitored_barrier",)),
    Case("keys", 3, _STUCK, ("key 'shards/ready' of the store",)),
    Case("except_block", 3, _OPEN, ("Rank 2 of 3 has not entered", "which ends by itself")),
    Case("stopped", 3, _STUCK, ("its process is stopped",)),
    Case("fifo", 3, _STUCK, ("has been opening ckpt.fifo for writing for",)),
    Case("between_epochs", 3, _RUNS, ("all 3 ranks sleep",)),
    Case("healthy", 3, _RUNS),
    Case("straggles", 2, _RUNS),
    Case("killed", 3, ("crashed",), ("Rank 2 of 3 (process", "was ended by SIGKILL", "ranks 0, 1 wait for key")),
    Case("loader_hangs", 2, _STUCK, ("its DataLoader waits for a worker", "take_row")),
    Case("loader_slow", 2, _NOT_STUCK),
    Case("loader_killed", 2, _STUCK, ("take_row",)),
    Case("loader_stopped", 2, _STUCK, ("it is stopped (SIGCONT lets it go on)",)),
    Case("loader_healthy", 2, _RUNS),
    Case("forked_lock", 2, _STUCK, ("its DataLoader waits for a worker",)),
    Case("checkpoint_pipe", 2, _STUCK, ("it waits in write to pipe",)),
    Case("checkpoint_read", 2, _NOT_STUCK),
    Case("async_save", 2, _STUCK, ("has been opening ckpt.fifo for writing for",)),
    Case("checkpoint_later", 2, _STUCK, ("it waits for a task of a thread pool",)),
    Case("descriptors_used_up", 2, _OPEN, ("files open that it may",)),
    Case("descriptors_nearly", 2, _RUNS),
    Case("autograd_lock", 2, ("deadlock",), ("that it holds itself",)),
    Case("autograd_healthy", 2, _RUNS),
    Case("compiles", 2, _RUNS),
    Case("compile_workers_killed", 2, ("crashed",), ("a child of rank 1, was ended by SIGKILL",)),
    Case("oversubscribed", 2, _RUNS),
    Case("late_shard", 2, _RUNS),
    Case("ring", 3, _RUNS),
    Case("ring_slow", 3, _NOT_STUCK),
    Case("ring_stuck", 3, _STUCK, ("ranks 0, 1 wait for it",)),
    Case("halo_healthy", 3, _RUNS),
    Case("batch_of_messages", 3, _STUCK, ("in recv from rank 2",)),
    Case("pipelining", 3, _STUCK, ("Rank 1 waits in recv from rank 0", "take_row")),
    Case("pipelining_healthy", 3, _RUNS),
    Case("asleep_epochs", 2, _RUNS),
    Case("uneven_join", 2, _STUCK, ("Rank 0 of 2 has not entered", "next_item")),
    Case("uneven_join_healthy", 2, _RUNS),
    Case("uneven_bare", 3, _STUCK, ("rank 2 has left the step and is in barrier",)),
    Case("tensor_parallel", 2, _STUCK, ("is not the same on all ranks", "all_gather")),
    Case("objects_gathered", 3, _STUCK, ("gather #2",)),
    Case("objects_missing", 3, _STUCK, ("Rank 2 of 3 has not entered all_gather", "next_item")),
    Case("joined_before_read", 2, _STUCK, ("the child waits in write to pipe",)),
    Case("queue_bounded", 2, _STUCK, ("Queue.put() in queue_bounded",)),
    Case("sharded_optimizer", 2, _STUCK, ("rank 0: broadcast", "rank 1: all_reduce")),
    Case(
        "heartbeat", 3, ("unknown", "stalled"), ("Rank 2 of 3 has not entered all_reduce #5 of group dp", "next_item")
    ),
    Case("heartbeat_messages", 3, ("unknown", "stalled"), ("Rank 2 of 3 has not entered all_reduce #5", "next_item")),
    Case("saves_beside", 2, _RUNS),
    Case("saves_crosswise", 2, _NOT_STUCK),
    Case("counted_down", 2, _STUCK, ("Barrier.wait() in counted_down",)),
    Case("child_sleeps", 2, _OPEN, ("Rank 1 of 2 has not entered",)),
    Case("tries_again", 3, _OPEN, ("Rank 2 of 3 has not entered", "fetch_with_retry", "again and again")),
    Case("tries_healthy", 3, _RUNS),
    Case("ended_badly", 3, ("crashed",), ("Rank 2 of 3 (process", "has ended with status 3; ranks 0, 1 wait for key")),
    Case("ended_well", 3, ("stalled", "unknown"), ()),
    Case("child_output", 2, _STUCK, ("and the child cat waits in open of", "ckpt.fifo for reading")),
    Case("child_healthy", 2, _RUNS),
    Case("object_root", 3, _STUCK, ("rank 2 expects it from rank 1", "the others from rank 0")),
    Case("scatter_root", 4, _STUCK, ("rank 3 expects it from rank 1", "the others from rank 0")),
    Case("scatter_healthy", 3, _RUNS),
    Case("reduce_scattered", 3, _STUCK, ("Rank 2 of 3 has not entered reduce_scatter #5 of group dp",)),
    Case("mesh_left", 4, _STUCK, ("of mesh_replicas", "the ranks do not call the same in one order")),
    Case("whole_state", 2, _STUCK, ("is not the same on all ranks", "rank 1: barrier")),
    Case("distributed_checkpoint", 2, _STUCK, ("has been opening __1_0.distcp for writing", "torch_user_cases.py")),
    Case("distributed_healthy", 2, _RUNS),
    Case("torchrun-nodes", 2, _OPEN, ("waits in torchrun's rendezvous for other nodes to join (--nnodes 2",)),
    Case("torchrun", 2, _STUCK, ("Rank 1 of 2 has not entered all_reduce #3", "rank 0 waits for it")),
    Case("torchrun-again", 2, _NOT_STUCK, ("The workers were started", "rank 1")),
    Case("mp.spawn", 2, _STUCK, ("Rank 1 of 2 has not entered all_reduce #3", "rank 0 waits for it")),
)
