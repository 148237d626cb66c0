"""Jobs of torch.distributed (gloo), started on request: `CASE RANKS` a line on standard input, the job's pid a line on
standard output. A job is a parent and its ranks, forked here, because torch takes seconds to import; it is a session of
its own, whose files are /dev/null.

With the path of a socket as argument it serves all who connect there, in the background, until the last has gone."""

from __future__ import annotations

import ctypes
import multiprocessing
import contextlib
import os
import queue
import select
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
import torch_further_cases
import torch_library_cases
import torch_user_cases
from torch.distributed import rpc
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


@dataclass
class Rank:
    """What a case gets: who it is, two groups of all ranks that have gone four steps together, and a folder."""

    rank: int
    world: int
    folder: Path
    dp: dist.ProcessGroup
    ep: dist.ProcessGroup

    @property
    def last(self) -> bool:
        return self.rank == self.world - 1

    def step(self, group: dist.ProcessGroup) -> None:
        dist.all_reduce(torch.ones(8), group=group)


def fetch_batch(batches: queue.Queue[object]) -> object:
    return batches.get()


def missing(me: Rank) -> None:
    if me.last:
        fetch_batch(queue.Queue())
    me.step(me.dp)


def spawned(me: Rank) -> None:
    missing(me)


def fewer(me: Rank) -> None:
    for _ in range(5 if me.last else 6):
        me.step(me.dp)
    dist.barrier()


def swapped(me: Rank) -> None:
    for group in (me.ep, me.dp) if me.last else (me.dp, me.ep):
        me.step(group)


def other_call(me: Rank) -> None:
    if me.last:
        dist.broadcast(torch.ones(8), 0, group=me.dp)
    else:
        me.step(me.dp)
    dist.barrier()


def stopped(me: Rank) -> None:
    if me.last:
        os.kill(os.getpid(), signal.SIGSTOP)
    me.step(me.dp)


def sleeps(me: Rank) -> None:
    if me.last:
        time.sleep(3600)
    me.step(me.dp)


def except_block(me: Rank) -> None:
    """One rank waits for a while before it tries again; the others know nothing of it."""
    try:
        if me.last:
            raise ValueError("bad shard")
        me.step(me.dp)
    except ValueError:
        time.sleep(3600)


def prefetch(lock: threading.Lock) -> None:
    lock.acquire()


def joins(me: Rank) -> None:
    """The main thread joins a thread that waits for a lock that nobody releases."""
    if me.last:
        lock = threading.Lock()
        lock.acquire()
        helper = threading.Thread(target=prefetch, args=(lock,), name="prefetch", daemon=True)
        helper.start()
        helper.join()
    me.step(me.dp)


def fifo(me: Rank) -> None:
    """Rank 0 opens its checkpoint for writing, and nobody reads it."""
    if me.rank == 0:
        (me.folder / "ckpt.fifo").open("wb")
    dist.barrier()


def loader(me: Rank) -> None:
    """A worker of the last rank's DataLoader hangs."""

    class Rows(torch.utils.data.Dataset[torch.Tensor]):
        def __len__(self) -> int:
            return 100

        def __getitem__(self, index: int) -> torch.Tensor:
            if index == 10 and me.last:
                queue.Queue[None]().get()
            return torch.zeros(2)

    for _ in torch.utils.data.DataLoader(Rows(), batch_size=2, num_workers=1):
        me.step(me.dp)


class TwoBranches(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(2, 2)
        self.second = torch.nn.Linear(2, 2)

    def forward(self, rows: torch.Tensor, both: bool) -> torch.Tensor:
        rows = self.first(rows)
        return self.second(rows) if both else rows


def unused_branch(me: Rank) -> None:
    """One rank does not take a branch of the model, so that the gradients of this never come."""
    model = torch.nn.parallel.DistributedDataParallel(TwoBranches(), process_group=me.dp)
    for both in (True, True, me.rank != 0):
        model(torch.ones(2, 2), both).sum().backward()
    dist.barrier(me.ep)


def unfinished(me: Rank) -> None:
    """Two ranks have enqueued a collective and wait for something else: only the third one waits for the last."""
    work = dist.all_reduce(torch.ones(8), group=me.dp, async_op=True) if not me.last else None
    if me.last or me.rank == 0:
        fetch_batch(queue.Queue())
    assert work is not None
    work.wait()


def computes(me: Rank) -> None:
    """One rank works: the others wait for it, as they should."""
    if me.last:
        child = multiprocessing.get_context("fork").Process(target=_works)
        child.start()
        child.join()
    me.step(me.dp)


def gives_way() -> None:
    """What computes for ever leaves the processor to whoever looks at it."""
    os.nice(5)
    with contextlib.suppress(OSError):  # sched(7): where sessions are groups, their nice values count
        Path("/proc/self/autogroup").write_text("5")


def _works() -> None:
    gives_way()
    rows = torch.ones(100, 100)
    while True:
        rows = (rows @ rows).clamp(0, 1)
        Path("/dev/null").write_text(str(float(rows.sum())))


def healthy(me: Rank) -> None:
    while True:
        me.step(me.dp)
        time.sleep(0.02)


def straggles(me: Rank) -> None:
    """One rank is always late by seconds."""
    while True:
        if me.last:
            time.sleep(3)
        me.step(me.dp)


def between_epochs(me: Rank) -> None:
    """All sleep, and nobody waits for anybody."""
    while True:
        dist.barrier()
        time.sleep(3600)


def mutual(me: Rank) -> None:
    dist.recv(torch.ones(8), 1 - me.rank, group=me.dp)


def wrong_root(me: Rank) -> None:
    dist.broadcast(torch.ones(8), 1 if me.last else 0, group=me.dp)
    dist.barrier()


def root_of_four(me: Rank) -> None:
    """Rank 2 of four expects a broadcast from another one than all others do."""
    dist.broadcast(torch.ones(1 << 22), 1 if me.rank == 2 else 0, group=me.dp)
    dist.barrier()


def third_of_four(me: Rank) -> None:
    """Rank 2 of four gets no second batch."""
    for _ in range(2):
        if me.rank == 2 and _:
            fetch_batch(queue.Queue())
        me.step(me.dp)


def monitored(me: Rank) -> None:
    if me.last:
        fetch_batch(queue.Queue())
    dist.monitored_barrier()


def stages(me: Rank) -> None:
    """A pipeline whose first stage gets no batch."""
    rows = torch.ones(8)
    if me.rank == 0:
        fetch_batch(queue.Queue())
    else:
        dist.recv(rows, me.rank - 1)
    if not me.last:
        dist.send(rows, me.rank + 1)


def slow_stage(me: Rank) -> None:
    """The first stage of a pipeline computes for as long as it is looked at."""
    if me.rank == 0:
        _works()
    dist.recv(torch.ones(8), me.rank - 1)


def pipeline(me: Rank) -> None:
    """A healthy one: each stage waits for the one before it, whose work takes a moment."""
    rows = torch.ones(8)
    for step in range(10**9):
        if me.rank:
            dist.recv(rows, me.rank - 1, tag=step)
        time.sleep(0.2)
        if not me.last:
            dist.send(rows, me.rank + 1, tag=step)


def feeder(me: Rank) -> None:
    """Both receive from each other, and a thread of the first one sends at some time."""
    if me.rank == 0:

        def feed() -> None:
            time.sleep(3600)
            dist.send(torch.ones(8), 1, group=me.dp)

        threading.Thread(target=feed, daemon=True).start()
    mutual(me)


def posted(me: Rank) -> None:
    """A receive that is posted and not waited for holds nobody up."""
    work = dist.irecv(torch.ones(8), (me.rank + 1) % me.world, group=me.ep)
    missing(me)
    work.wait()


def posted_wait(me: Rank) -> None:
    """Both have posted a receive from each other, and wait for it."""
    awaited = dist.irecv(torch.ones(8), 1 - me.rank, group=me.dp)
    awaited.wait()  # type: ignore[union-attr]


def keys(me: Rank) -> None:
    """The last rank sets no key; a thread of the others waits for another one, as long as the job runs."""
    store = dist.distributed_c10d._get_default_store()
    if me.last:
        fetch_batch(queue.Queue())
    threading.Thread(target=store.wait, args=(["stop"], timedelta(hours=2)), daemon=True).start()
    store.set_timeout(timedelta(hours=2))
    store.get("shards/ready")


def serves() -> None:
    fetch_batch(queue.Queue())


def asks(me: Rank) -> None:
    """The last rank asks the first one for a function that waits for what never comes."""
    options = rpc.TensorPipeRpcBackendOptions(
        num_worker_threads=2, init_method=f"file://{me.folder}/rpc", rpc_timeout=7200, _transports=["uv"],
        _channels=["basic"],
    )  # fmt: skip
    rpc.init_rpc(f"worker{me.rank}", rank=me.rank, world_size=me.world, rpc_backend_options=options)
    if me.last:
        rpc.rpc_sync("worker0", serves)
    rpc.shutdown()


def late_group(me: Rank) -> None:
    if me.last:
        fetch_batch(queue.Queue())
    dist.new_group(list(range(me.world)))


def broken(values: torch.Tensor) -> torch.Tensor:
    values = values.sin()
    torch._dynamo.graph_break()
    return values.cos()


def sized(values: torch.Tensor) -> torch.Tensor:
    return values.relu()


def large(values: torch.Tensor) -> torch.Tensor:
    for factor in range(1_000_000):
        values = values * factor
    return values


def compiles(me: Rank) -> None:
    """Its last rank compiles for hours, after a graph that breaks and one that is compiled twice."""
    if me.last:
        torch.compile(broken, backend="eager")(torch.ones(4))
        for size in (2, 3):
            torch.compile(sized, backend="eager", dynamic=False)(torch.ones(size))
        gives_way()
        torch.compile(large, backend="eager")(torch.ones(4))
    me.step(me.dp)


def sharded(me: Rank) -> None:
    """FSDP2, whose last rank gets no third batch."""
    mesh = init_device_mesh("cpu", (me.world,))
    model = TwoBranches()
    fully_shard(model.first, mesh=mesh)
    fully_shard(model, mesh=mesh)
    for step in range(4):
        if me.last and step == 2:
            fetch_batch(queue.Queue())
        model(torch.ones(2, 2), True).sum().backward()


def pool_task(me: Rank) -> None:
    """The last rank decodes in a pool, one of whose tasks hangs."""
    if me.last:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(fetch_batch, [queue.Queue[object]()]))
    me.step(me.dp)


def system_v(me: Rank) -> None:
    """The last rank waits for a message of any other program, in a queue whose key is the job's pid."""
    if me.last:
        libc = ctypes.CDLL(None)
        number = libc.msgget(os.getppid(), 0o1600)
        libc.msgrcv(number, ctypes.create_string_buffer(16), 8, 0, 0)
    me.step(me.dp)


def forked_lock(me: Rank) -> None:
    """Workers of the last rank's DataLoader are forked while a thread of it has a lock."""
    lock = threading.Lock()
    if me.last:
        threading.Thread(target=lambda: lock.acquire() and time.sleep(3600), daemon=True).start()
        while not lock.locked():
            time.sleep(0.01)

    class Rows(torch.utils.data.Dataset[torch.Tensor]):
        def __len__(self) -> int:
            return 8

        def __getitem__(self, index: int) -> torch.Tensor:
            with lock:
                return torch.zeros(2)

    for _ in torch.utils.data.DataLoader(Rows(), batch_size=4, num_workers=1):
        me.step(me.dp)


def throws(me: Rank) -> None:
    while True:
        time.sleep(0.05)
        with contextlib.suppress(RuntimeError):
            torch.ones(2, 3) @ torch.ones(4, 5)
        with contextlib.suppress(RuntimeError):
            dist.all_reduce(torch.ones(2), dist.ReduceOp.BAND, group=me.dp)


def relay(me: Rank) -> None:
    """A chain by posted messages, whose first rank has nothing to send."""
    if me.rank == 0:
        fetch_batch(queue.Queue())
    before, after = (dist.irecv(torch.ones(8), (me.rank + way) % me.world, group=me.dp) for way in (-1, 1))
    before.wait()  # type: ignore[union-attr]
    after.wait()  # type: ignore[union-attr]


def never_joins() -> None:
    """Of a rank that does not come to init_process_group."""
    fetch_batch(queue.Queue())


def starts(me: Rank) -> None:
    """Its last rank never comes: see `_rank`."""


CASES: dict[str, Callable[[Rank], None]] = {
    case.__name__: case
    for case in (
        missing, spawned, fewer, swapped, other_call, stopped, sleeps, except_block, joins, fifo, loader, unfinished, unused_branch,
        computes, healthy, straggles, between_epochs,
        mutual, wrong_root, root_of_four, third_of_four, monitored, stages, slow_stage, pipeline, feeder, posted, posted_wait, keys, asks, late_group,
        compiles, starts, sharded, pool_task, system_v, forked_lock, relay, throws, *torch_library_cases.CASES,
        *torch_further_cases.CASES, *torch_user_cases.CASES,
    )
}  # fmt: skip


BARE = ("spawned",)
"""Cases whose ranks are told by arguments only."""

UNCOLLECTED = ("killed", "ended_badly", "ended_well")
"""Cases whose parent waits for its first rank, as `join()` does, and so leaves those that end as zombies."""


def _rank(case: str, rank: int, world: int, folder: Path) -> None:
    if case not in BARE:
        os.environ.update(RANK=str(rank), WORLD_SIZE=str(world))
    torch.set_num_threads(1)
    if case == "starts" and rank == world - 1:
        never_joins()
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=world)
    everybody = list(range(world))
    dp = dist.new_group(everybody, timedelta(hours=2), group_desc="dp")
    ep = dist.new_group(everybody, timedelta(hours=2), group_desc="ep")
    me = Rank(rank, world, folder, dp, ep)
    for _ in range(4):
        me.step(dp)
        me.step(ep)
    CASES[case](me)


def _job(case: str, world: int) -> None:
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for file in range(3):
        os.dup2(nothing, file)
    folder = Path(tempfile.mkdtemp(prefix="livedbg-torch-"))
    os.mkfifo(folder / "ckpt.fifo")
    ranks = []
    for rank in range(world):
        ranks.append(os.fork())
        if not ranks[-1]:
            try:
                _rank(case, rank, world, folder)
            finally:
                os._exit(0)
    if case in UNCOLLECTED:
        os.waitpid(ranks[0], 0)
    while True:
        os.wait()


def _asked(line: str, *not_the_job_s: socket.socket) -> int:
    """The pid of the job of a line."""
    case, world = line.split()
    pid = os.fork()
    if not pid:
        for one in not_the_job_s:
            one.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        try:
            _job(case, int(world))
        finally:
            os._exit(0)
    return pid


def _serve(path: str) -> None:
    listener = socket.socket(socket.AF_UNIX)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    listener.bind(path)
    listener.listen()
    print("READY", flush=True)
    if os.fork():
        os._exit(0)
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for file in range(3):
        os.dup2(nothing, file)
    clients: list[socket.socket] = []
    while True:
        for ready in select.select([listener, *clients], [], [])[0]:
            if ready is listener:
                clients.append(listener.accept()[0])
                clients[-1].send(b"R")
            elif line := ready.recv(1000):
                ready.send(b"%d\n" % _asked(line.decode(), listener, *clients))
            else:
                clients.remove(ready)
                ready.close()
        if not clients:
            return


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    if sys.argv[1:]:
        _serve(sys.argv[1])
        return
    print("READY", flush=True)
    for line in sys.stdin:
        print(_asked(line), flush=True)


if __name__ == "__main__":
    main()
