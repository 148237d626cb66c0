"""Cases of torch_jobs.py in which a library or the system holds a rank up: checkpoints, DataLoaders, autograd, compile
workers, descriptors; each with what looks like it and is healthy. Libraries that take long to import are imported by
their case."""

from __future__ import annotations

import contextlib
import os
import queue
import resource
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch_jobs import Rank


_HOURS = timedelta(hours=2)


def take_row(rows: queue.Queue[object]) -> object:
    return rows.get()


class Rows(torch.utils.data.Dataset[torch.Tensor]):
    """Rows of zeros; something is done at the tenth, or at each.

    Args:
        at_ten: done at the tenth.
        at_each: done at each.
    """

    def __init__(self, at_ten: Callable[[], object] = int, at_each: Callable[[], object] = int) -> None:
        self.at_ten, self.at_each = at_ten, at_each

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> torch.Tensor:
        self.at_each()
        if index == 10:
            self.at_ten()
        return torch.zeros(2)


def _epoch(me: Rank, rows: Rows) -> None:
    for _ in torch.utils.data.DataLoader(rows, batch_size=2, num_workers=1):
        me.step(me.dp)


def loader_hangs(me: Rank) -> None:
    _epoch(me, Rows(at_ten=lambda: take_row(queue.Queue()) if me.last else None))


def loader_slow(me: Rank) -> None:
    """Each row of the last rank takes a while."""
    _epoch(me, Rows(at_each=lambda: time.sleep(25) if me.last else None))


def loader_killed(me: Rank) -> None:
    """A worker is killed, as for lack of memory; the rank sees that and waits for another shard."""
    rows = Rows(at_ten=lambda: os.kill(os.getpid(), signal.SIGKILL) if me.last else None)
    batches = iter(torch.utils.data.DataLoader(rows, batch_size=2, num_workers=1))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # torch's handler would raise anywhere, also while that is handled
    with contextlib.suppress(RuntimeError, OSError, EOFError):  # also where a batch that it had made is fetched from it
        for _ in batches:
            me.step(me.dp)
    del batches  # which collects the status of the worker
    take_row(queue.Queue())


def loader_stopped(me: Rank) -> None:
    _epoch(me, Rows(at_ten=lambda: os.kill(os.getpid(), signal.SIGSTOP) if me.last else None))


def loader_healthy(me: Rank) -> None:
    _epoch(me, Rows(at_each=lambda: time.sleep(0.05)))


def killed(me: Rank) -> None:
    """The last rank is killed, and the others wait for what it would have told them."""
    store = dist.distributed_c10d._get_default_store()
    if me.last:
        os.kill(os.getpid(), signal.SIGKILL)
    store.set_timeout(_HOURS)
    store.get("shards/ready")


def _write(pipe: int) -> None:
    """A checkpoint goes into a pipe, in a thread of its own."""
    with os.fdopen(pipe, "wb") as file:
        torch.save(torch.zeros(1 << 20), file)


def checkpoint_pipe(me: Rank) -> None:
    """Who should read the checkpoint of rank 0 does not."""
    _checkpoint(me, lambda pipe: take_row(queue.Queue()))


def checkpoint_read(me: Rank) -> None:
    """Healthy: the checkpoint is read, slowly."""

    def read(pipe: int) -> None:
        while os.read(pipe, 512):
            time.sleep(0.1)

    _checkpoint(me, read)


def _checkpoint(me: Rank, read: Callable[[int], object]) -> None:
    if me.rank == 0:
        reading, writing = os.pipe()
        if not os.fork():
            os.close(writing)
            read(reading)
        os.close(reading)
        with ThreadPoolExecutor(1, "checkpoint") as pool:
            pool.submit(_write, writing).result()
    dist.barrier()


def async_save(me: Rank) -> None:
    """torch.distributed.checkpoint.async_save, whose writer of rank 0 waits for a disk that does not answer."""
    import torch.distributed.checkpoint as dcp

    class Writer(dcp.FileSystemWriter):
        def write_data(self, *plan: object) -> object:
            if me.rank == 0:
                with (me.folder / "ckpt.fifo").open("wb"):
                    pass
            return super().write_data(*plan)

    saved = dcp.async_save(
        {"rows": torch.zeros(4)}, checkpoint_id=str(me.folder / "saved"), storage_writer=Writer(me.folder / "saved")
    )
    me.step(me.dp)
    saved.result()
    dist.barrier()


def _limit(more: int) -> None:
    """Lower the limit of open files to some more than there are."""
    number = len(list(Path("/proc/self/fd").iterdir())) - 1
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (number + more, hard))


def _open_shards(me: Rank) -> None:
    shards = []
    while len(shards) < 20:
        try:
            shards.append((me.folder / "ckpt.shard").open("wb"))
        except OSError:
            time.sleep(0.5)


def descriptors_used_up(me: Rank) -> None:
    """The last rank opens its shards, and tries again while that fails."""
    if me.last:
        _limit(4)
        _open_shards(me)
    me.step(me.dp)


def descriptors_nearly(me: Rank) -> None:
    """Healthy: few are left."""
    _limit(2)
    while True:
        me.step(me.dp)
        time.sleep(0.02)


class Logged(torch.autograd.Function):
    """Its backward pass takes a lock."""

    lock = threading.Lock()

    @staticmethod
    def forward(ctx: object, rows: torch.Tensor) -> torch.Tensor:
        return rows * 2

    @staticmethod
    def backward(ctx: object, gradient: torch.Tensor) -> torch.Tensor:
        with Logged.lock:
            return gradient * 2


def _backward() -> None:
    rows = torch.ones(4, requires_grad=True)
    Logged.apply(rows).sum().backward()  # type: ignore[no-untyped-call]


def autograd_lock(me: Rank) -> None:
    """The last rank calls backward while it has the lock that its backward pass takes."""
    if me.last:
        with Logged.lock:
            _backward()
    me.step(me.dp)


def autograd_healthy(me: Rank) -> None:
    """Another thread has the lock, for moments."""

    def log() -> None:
        while True:
            with Logged.lock:
                time.sleep(0.05)
            time.sleep(0.01)

    threading.Thread(target=log, daemon=True).start()
    while True:
        _backward()
        me.step(me.dp)


def compile_workers_killed(me: Rank) -> None:
    """The pool of compile workers of the last rank is stopped while it compiles."""
    import torch._inductor.config as config
    from torch._inductor.async_compile import AsyncCompile

    if me.last:
        config.compile_threads = 2
        config.worker_start_method = "subprocess"
        config.force_disable_caches = True
        pool = AsyncCompile.process_pool()
        pool.submit(int).result()
        for child in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split():
            os.kill(int(child), signal.SIGKILL)
        pool.submit(time.sleep, 1).result()
    me.step(me.dp)


def oversubscribed(me: Rank) -> None:
    """Healthy: each rank computes with more threads than there are cores."""
    torch.set_num_threads(8)
    rows = torch.rand(400, 400)
    while True:
        rows = (rows @ rows).clamp(0, 1)
        me.step(me.dp)


def late_shard(me: Rank) -> None:
    """Straggler: the last rank computes longer."""
    rows = torch.ones(200, 200)
    while True:
        end = time.monotonic() + (2 if me.last else 0)
        while time.monotonic() < end:
            rows = (rows @ rows).clamp(0, 1)
        me.step(me.dp)


def _ring(me: Rank, pause_s: float) -> None:
    rows, got = torch.ones(8), torch.ones(8)
    while True:
        sent = dist.isend(rows, (me.rank + 1) % me.world)
        posted = dist.irecv(got, (me.rank - 1) % me.world)
        sent.wait()  # type: ignore[union-attr]
        posted.wait()  # type: ignore[union-attr]
        time.sleep(pause_s)


def ring(me: Rank) -> None:
    """Healthy: a ring of messages, that no recorder has."""
    _ring(me, 0.02)


def ring_slow(me: Rank) -> None:
    """Healthy, and slow: a message now and then."""
    _ring(me, 3)


def ring_stuck(me: Rank) -> None:
    if me.last:
        take_row(queue.Queue())
    _ring(me, 0.02)


def _stages(me: Rank, delay: Callable[[], object]) -> None:
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(8, 8)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            delay()
            out: torch.Tensor = self.layer(rows)
            return out

    stage = PipelineStage(Layer(), me.rank, me.world, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, 2, loss_fn=torch.nn.functional.mse_loss)
    while True:
        if me.rank == 0:
            schedule.step(torch.rand(4, 8))
        elif me.last:
            schedule.step(target=torch.rand(4, 8))
        else:
            schedule.step()


def pipelining(me: Rank) -> None:
    """torch.distributed.pipelining, whose first stage hangs in its third step."""
    calls = iter(range(1000))
    _stages(me, lambda: take_row(queue.Queue()) if me.rank == 0 and next(calls) == 5 else None)


def pipelining_healthy(me: Rank) -> None:
    _stages(me, lambda: time.sleep(0.05))


def asleep_epochs(me: Rank) -> None:
    """Healthy: all sleep for seconds between epochs."""
    while True:
        for _ in range(5):
            me.step(me.dp)
        time.sleep(13)


CASES: tuple[Callable[[Rank], None], ...] = (
    loader_hangs, loader_slow, loader_killed, loader_stopped, loader_healthy, killed,
    checkpoint_pipe, checkpoint_read, async_save, descriptors_used_up, descriptors_nearly,
    autograd_lock, autograd_healthy, compile_workers_killed, oversubscribed, late_shard,
    ring, ring_slow, ring_stuck, pipelining, pipelining_healthy, asleep_epochs,
)  # fmt: skip
