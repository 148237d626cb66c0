"""Threads in uninterruptible sleep: a device or file system does not answer, and no signal ends that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.places import at
from livedbg.analysis.rules.words import duration, host_of, name_of, thread_evidence, waited_ns
from livedbg.model import Severity, Thread, ThreadState, WaitKind, ids
from livedbg.text.patterns import lazy_re
from livedbg.text.wording import sentence_case

_VFORK: Final = lazy_re(r"vfork|clone3?$")
"""vfork(2) and posix_spawn(3) (clone with CLONE_VFORK): the parent sleeps until the child runs another program."""

_NO_DEVICE: Final = lazy_re(r"coredump|vfork|refrigerator|userfault|ptrace|freezer")
"""Kernel functions in which a thread waits for another thread or process in state D."""


class Uninterruptible:
    """Rule for a thread that is in uninterruptible sleep for long."""

    name = "uninterruptible-sleep"
    doc = (
        "A thread has been in uninterruptible sleep (state D) for longer than the threshold (10 s), and has not run in "
        "it: a disk, a network file system or a driver does not answer, and no signal ends the wait. It is a stall if "
        "it is a main thread or others wait for it, else a note. The parent of a vfork, and threads of a process that "
        "dumps core, sleep so too and are left out. Rests on the state, the wait channel and the last run in /proc."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        for thread in state.snapshot.threads.values():
            slept = _slept_ns(thread, state) if thread.state is ThreadState.DISK and not thread.exited else 0
            if slept >= state.settings.thread_stall_ns and not _expected(thread):
                yield self._finding(thread, slept, state)

    def _finding(self, thread: Thread, slept: int, state: RuleInput) -> Finding:
        snapshot = state.snapshot
        pid = int(ids.parse(thread.process).parts[1])
        waiters = tuple(state.graph.waiters_of(thread.id))
        matters = pid == thread.tid or bool(waiters)
        channel = f" ({thread.wait_channel})" if thread.wait_channel else ""
        where = f"{thread.waits_in or thread.syscall or 'the kernel'}{at(thread.id, state)}"
        return Finding(
            rule=self.name,
            severity=Severity.ERROR if matters else Severity.WARNING,
            sentence=(
                f"{sentence_case(name_of(thread.id, snapshot))} has been in uninterruptible sleep in "
                f"{where} for {duration(slept)} or more{channel}: what is "
                "behind it (disk, network file system, driver) does not answer."
            ),
            entities=(thread.id, *waiters),
            evidence=(thread_evidence(thread, state),),
            next=(
                f"sudo cat /proc/{pid}/task/{thread.tid}/stack   shows where in the kernel",
                "sudo dmesg | grep -A 20 'blocked for more than'",
            ),
            since_wall_ns=snapshot.now(host_of(thread.id)).wall_ns - slept,
            state=VerdictState.STALLED if matters else None,
            roots=(thread.id,) if matters else (),
        )


def _slept_ns(thread: Thread, state: RuleInput) -> int:
    """Return for how long a thread has not run; 0 if not known. In a page fault, the kernel's clock is used."""
    waited = waited_ns(thread, state.snapshot)
    if waited is not None:
        return waited
    activity = state.snapshot.activity.get(thread.id)
    if activity is None or activity.cpu_total_ns or thread.last_ran_mono_ns is None:
        return 0
    return max(0, state.snapshot.now(host_of(thread.id)).mono_ns - thread.last_ran_mono_ns)


def _expected(thread: Thread) -> bool:
    """Return whether another process or thread ends such a sleep: vfork, a core dump, a freeze."""
    if _VFORK.match(thread.syscall or "") or thread.wait is WaitKind.STOP:
        return True
    return _NO_DEVICE.search(thread.wait_channel or "") is not None


def rules() -> Sequence[Rule]:
    return (Uninterruptible(),)
