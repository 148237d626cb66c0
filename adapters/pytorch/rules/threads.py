"""Describe a rank's waiting thread, as part of a sentence about its rank."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from livedbg.analysis.behaviour import TICK_SHARE, cpu_share
from livedbg.analysis.place_names import line_of
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.places import at, blocked_in, user_frame
from livedbg.analysis.rules.words import call_of, duration
from livedbg.model import Frame, Thread, ThreadState, WaitKind
from livedbg.text.patterns import lazy_re

_HELPERS: Final = lazy_re(r"/(?:torch|tqdm|tensorboard|wandb)/|/lib/python\d[^/]*/(?!site-packages/)")
"""Files whose threads send nothing for the program: they report, or look after others."""

_OPENS: Final = lazy_re(r"open of (?:.*/)?([^/]+) for (reading|writing)")
_DEBUGGER: Final = lazy_re(r"/(?:pdb|bdb|ipdb/\w+|pudb/\w+)\.py$")
_INPUT: Final = lazy_re(r"read of (?:pipe|socket|terminal) 0\b|read of fd 0\b")


def main_thread(process: str, state: RuleInput) -> Thread | None:
    """Return the main thread of a process."""
    return next(filter(is_main, state.snapshot.threads_of(process)), None)


def is_main(thread: Thread) -> bool:
    return thread.process.rpartition("/")[2] == str(thread.tid)


def python_frames(thread: Thread, state: RuleInput) -> list[Frame]:
    """Return the Python frames of a thread, innermost first."""
    stack = state.snapshot.stacks.get(thread.id)
    return [frame for frame in stack.frames if frame.language == "python"] if stack is not None else []


def at_line(threads: Iterable[str], state: RuleInput) -> str:
    """Return ` (train.py:41)`: the user's line at which threads are, if the same; else ""."""
    lines = {line_of(frame) for one in threads if (frame := user_frame(one, state)) is not None}
    return f" ({lines.pop()})" if len(lines) == 1 and "" not in lines else ""


def waits_words(thread: Thread, state: RuleInput) -> str:
    """Return `it waits in recv of socket 3 in fetch (train.py:9)`, `it is in a debugger in step (train.py:9)`."""
    if any(_DEBUGGER.search(frame.file or "") for frame in python_frames(thread, state)):
        return f"it is in Python's debugger{at(thread.id, state)}"
    if _INPUT.match(call_of(thread, state)):
        return f"it waits for input ({call_of(thread, state)}){at(thread.id, state)}"
    return f"it waits in {blocked_in(thread, state)}"


def sleeps_again(thread: Thread, state: RuleInput) -> bool:
    """Return whether a thread sleeps repeatedly and does little in between."""
    activity = state.snapshot.activity.get(thread.id)
    sleeps = thread.wait is WaitKind.SLEEP
    return sleeps and activity is not None and activity.runs > 1 and cpu_share(thread, state.snapshot) < TICK_SHARE


def of_child(thread: Thread, state: RuleInput) -> str:
    """Return the end of the wait chain of an awaited child: `, and the child waits in write to pipe 9 in f (x.py:3)`.

    It may lead back to the waiting thread, for instance through a pipe that only that one reads.
    """
    threads = state.snapshot.threads
    blockers = state.graph.blockers_of(thread.id)
    children = [one for one in blockers if one in state.snapshot.processes] or _at_other_end(thread, blockers, state)
    main = main_thread(children[0], state) if len(children) == 1 else None
    chain = state.graph.chain(main.id) if main is not None else ()
    own = [threads[one] for one in chain if one in threads and threads[one].process == children[0]]
    end = own[-1] if own else main
    if end is None or end.state is not ThreadState.WAITING:
        return ""
    names = [state.snapshot.processes[one].command[:1] for one in (thread.process, children[0])]
    name = "" if names[0] == names[1] or not names[1] else f" {names[1][0].rpartition('/')[2]}"
    return f", and the child{name} waits in {blocked_in(end, state)}"


def _at_other_end(thread: Thread, blockers: Iterable[str], state: RuleInput) -> list[str]:
    """Return the children that have the other ends of all polled pipes, as for a program's output."""
    own = state.snapshot.processes.get(thread.process)
    pipes = list(blockers)
    if own is None or not pipes or not all(one.startswith("pipe:") for one in pipes):
        return []
    ends = {end for pipe in pipes for end in state.graph.blockers_of(pipe) if end.startswith("process:")}
    children = [one for end in ends if (one := state.snapshot.processes.get(end)) is not None and one.ppid == own.pid]
    return [one.id for one in children] if len(children) == len(ends) else []


def opens(thread: Thread, waited_ns: int, state: RuleInput) -> str:
    """Return what a thread that opens a file such as a FIFO has been doing; "" for others."""
    found = _OPENS.fullmatch(thread.waits_in or "")
    if found is None:
        return ""
    own = runs_users_code(thread, state)
    main = main_thread(thread.process, state)
    place = thread if own or main is None or not runs_users_code(main, state) else main
    return f"has been opening {found[1]} for {found[2]} for {duration(waited_ns)}{at_line((place.id,), state)}"


def runs_users_code(thread: Thread, state: RuleInput) -> bool:
    """Return whether a thread is in Python code other than torch's and of helper libraries."""
    frame = user_frame(thread.id, state)
    return frame is not None and frame.language == "python" and _HELPERS.search(frame.file or "") is None
