"""Waits for message queues and System V semaphores: who could send, as far as anybody can tell.

A POSIX queue is a file without a path (mq_overview(7)): once it was unlinked, only processes that have it open can use
it. Everything of System V can be used by any process that has its number and the permission (sysvipc(7)); for a queue,
the kernel remembers who last sent and received (/proc/sysvipc/msg, proc_sysvipc_msg(5)).
"""

from __future__ import annotations

import os

from livedbg.adapters.proc.view import ProcessView
from livedbg.adapters.proc.waits import Wait, Waited, Wakers
from livedbg.linux.descriptors import describe
from livedbg.linux.lines import rows
from livedbg.linux.procfs import process_exists, read_file
from livedbg.model import Resource, WaitKind, ids
from livedbg.text.sanitize import clean_line

__all__ = ["MessageWaits"]

_DELETED = " (deleted)"


class MessageWaits:
    """Describes what one process waits for in message queues and System V semaphores."""

    def __init__(self, view: ProcessView) -> None:
        self._view = view
        self._pid = view.pid

    def posix(self, verb: str, fd: int, timed: bool) -> Wait:
        """A call of mq_receive(3) (`receive from`) or mq_send(3) (`send to`).

        Args:
            verb: the call in a user's words.
            fd: the descriptor of the queue.
            timed: the call has a time limit.
        """
        found = describe(self._pid, fd)
        if found is None:
            return Wait(f"{verb} a message queue", timed, kind=WaitKind.MESSAGE_QUEUE)
        queue = f"message queue {clean_line(found.link, 200).removesuffix(_DELETED)}"
        named = not found.link.endswith(_DELETED)
        pids = {pid for pid, other in self._view.scene.index().opened(found.link) if self._same(fd, pid, other)}
        wakers = Wakers(frozenset(pids | {self._pid}), outside=f"any process that may open {queue}" if named else "")
        target = ids.fd_object("file", self._view.scene.host, f"mqueue.{found.number}")
        resource = Resource(id=target, kind="file", name=queue, attributes={"what": "mqueue"})
        waited = (Waited(target, f"fd {fd} -> {queue}", resource, wakers=wakers),)
        return Wait(f"{verb} {queue}", timed, waited, kind=WaitKind.MESSAGE_QUEUE)

    def _same(self, fd: int, pid: int, other: int) -> bool:
        """Whether a descriptor of another process is the same queue; what can't be asked counts as the same."""
        try:
            paths = (f"/proc/{self._pid}/fd/{fd}", f"/proc/{pid}/fd/{other}")
            one, two = (os.stat(path) for path in paths)  # noqa: PTH116 (follows the magic link)
        except OSError:
            return True
        return (one.st_dev, one.st_ino) == (two.st_dev, two.st_ino)

    def system_v(self, words: str, number: int, timed: bool, *, queue: bool) -> Wait:
        """A call of msgrcv(2), msgsnd(2) or semop(2).

        Args:
            words: the call in a user's words.
            number: of the queue, or the set of semaphores.
            timed: the call has a time limit.
            queue: it is a queue.
        """
        what = f"message queue {number}" if queue else f"semaphore set {number}"
        anybody = f"any process that may use {what}{self._last(number) if queue else ''}"
        return Wait(words, timed, outside=anybody, kind=WaitKind.SYSTEM_V)

    def _last(self, number: int) -> str:
        """`; process 812, which has ended, was the last to send`, if that is known of a queue."""
        try:
            if os.stat(f"/proc/{self._pid}/ns/ipc").st_ino != os.stat("/proc/self/ns/ipc").st_ino:  # noqa: PTH116
                return ""
            senders = dict(rows(read_file("/proc/sysvipc/msg"), _sender))
        except OSError:
            return ""
        sender = senders.get(number)
        if not sender:
            return "; nobody has sent to it yet" if sender == 0 else ""
        return f"; process {sender}{'' if process_exists(sender) else ', which has ended,'} was the last to send"


def _sender(row: str) -> tuple[int, int]:
    """The number of a queue, and the process that sent to it last; 0 for none."""
    words = row.split()
    return int(words[1]), int(words[5])
