"""The rows of the Threads table: their order, the columns of several processes, equal stacks together."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from livedbg.analysis.diagnosis import Diagnosis, Verdict, VerdictState
from livedbg.model import Edge, EdgeKind, Frame, Process, Stack, Thread, ThreadState
from livedbg.model import events as ev
from livedbg.panels.cells import Line
from livedbg.panels.draw_context import DrawContext
from livedbg.panels.threads import ThreadsPanel, merged_rows, order_by
from livedbg.state.store import Store
from tests.app.apps import make_app, ready, text_of, until
from tests.app.fakes import T0_MONO, FakeView, S, stamp
from tests.app.graphs import PlainGraph

THREADS = 12
ROOT = "thread:box/200/200"


def _thread(pid: int, number: int, state: ThreadState, cpu_s: float) -> Thread:
    return Thread(
        id=f"thread:box/{pid}/{pid + number}",
        process=f"process:box/{pid}",
        tid=pid + number,
        name="main" if number == 0 else f"worker-{number}",
        state=state,
        waits_in="futex" if state is ThreadState.WAITING else None,
        cpu_ns=round(cpu_s * S),
    )


def _stack(thread: str, *functions: str) -> Stack:
    frames = tuple(Frame(name, file="train.py", line=9, language="python") for name in functions)
    return Stack(thread=thread, frames=frames, taken_mono_ns=T0_MONO, source="py-spy", layer="merged")


def job(processes: int = 3, *, ranked: bool = True) -> FakeView:
    """Processes 100, 200, … of 12 threads each; all mains wait in a barrier but that of 200, which sleeps."""
    pids = [100 * number for number in range(1, processes + 1)]
    events: list[ev.Event] = [
        ev.ProcessSeen(
            **stamp(),
            process=Process(
                id=f"process:box/{pid}",
                host="box",
                pid=pid,
                rank=pid // 100 - 1 if ranked else None,
                command=("train.py",),
                state=ThreadState.WAITING,
            ),
        )
        for pid in pids
    ]
    for moment, more in ((0, 0.0), (20, 0.0), (21, 0.4)):
        threads = [
            _thread(pid, n, ThreadState.RUNNING if n == 5 else ThreadState.WAITING, 1 + more * (n == 5))
            for pid in pids
            for n in range(THREADS)
        ]
        events.append(ev.ThreadsSeen(**stamp(moment), threads=tuple(threads)))
    edges = tuple(
        Edge(kind=EdgeKind.WAITS_FOR, source=f"thread:box/{pid}/{pid}", target=ROOT, evidence="barrier")
        for pid in pids
        if pid != 200
    )
    stacks = []
    for pid in pids:
        stacks.append(_stack(f"thread:box/{pid}/{pid}", *(["sleep"] if pid == 200 else ["wait"]), "step"))
        stacks += [_stack(f"thread:box/{pid}/{pid + n}", "get", "work") for n in range(1, THREADS)]
    events += [
        ev.EdgesReplaced(**stamp(21), scope="test", edges=edges),
        *(ev.StacksSeen(**stamp(21), stacks=(stack,)) for stack in stacks),
    ]
    verdict = Verdict(
        state=VerdictState.UNKNOWN, sentence="rank 1 does not come", roots=(ROOT,) if processes > 1 else ()
    )

    def judge(store: Store) -> Diagnosis:
        shot = store.snapshot()
        return Diagnosis(verdict, {}, PlainGraph(shot.edges), shot.revision)

    return FakeView("job", events, judge)


def _context(view: FakeView) -> DrawContext:
    if not view.started:
        view.start()
    return DrawContext(update=view.latest())


def _order(context: DrawContext, sort: str = "state") -> list[str]:
    threads = context.snapshot.last_threads()
    return [thread.id for thread in sorted(threads, key=order_by(context, threads, sort))]


def test_the_process_of_the_root_is_first_and_what_is_blocked_before_the_rest() -> None:
    order = _order(_context(job()))
    assert [name.split("/")[1] for name in order[::THREADS]] == ["200", "100", "300"]
    assert order[0] == ROOT
    assert order[THREADS] == "thread:box/100/100", "it waits for the root"
    assert [name.rpartition("/")[2] for name in order[1:THREADS]] == [str(200 + n) for n in range(1, THREADS)]


@pytest.mark.invariant("threadrows.W1")
@pytest.mark.parametrize("sort", ["state", "cpu"])
def test_rows_keep_their_place_while_numbers_change(sort: str) -> None:
    view = job()
    before = _order(_context(view), sort)
    used = dict.fromkeys((100, 200, 300), 1.4)
    for moment, shares in enumerate([(0.401, 0.4, 0.399), (0.398, 0.4, 0.402)], 22):
        used = {pid: spent + share for (pid, spent), share in zip(used.items(), shares, strict=True)}
        changed = tuple(_thread(pid, 5, ThreadState.RUNNING, spent) for pid, spent in used.items())
        view.feed([ev.ThreadsSeen(**stamp(moment), threads=changed)])
    assert _order(_context(view), sort) == before


@pytest.mark.invariant("threadrows.W2")
def test_every_thread_is_in_one_row_and_roots_stay_apart() -> None:
    view = job()
    view.start()
    view.feed([ev.StacksSeen(**stamp(22), stacks=(_stack(ROOT, "get", "work"),))])
    context = _context(view)
    threads = context.snapshot.last_threads()
    rows = merged_rows(context, threads)
    assert sorted(one for members in rows.values() for one in members) == sorted(thread.id for thread in threads)
    assert rows[ROOT] == (ROOT,), "although its stack is that of the workers"
    assert sorted(map(len, rows.values())) == [1, 2, 33]


def _lines(panel: ThreadsPanel, width: int) -> list[str]:
    head = Line(width, panel.base_style)
    panel.draw_head(0, head)
    return [head.strip().text, *(panel.line(row, width).strip().text for row in range(panel.count()))]


async def test_many_threads_are_merged_over_processes_until_one_key_shows_all() -> None:
    app = make_app(job())
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await pilot.press("4")
        panel = app.query_one("#threads ThreadsPanel", ThreadsPanel)
        await until(pilot, lambda: panel.count() == 3 and "36 threads in 3 rows" in text_of(app))
        lines = _lines(panel, 76)
        assert "RANK" in lines[0] and "AT" in lines[0]
        assert [line.split()[2] for line in lines[1:]] == ["1", "0,2", "0-2"]
        assert "×33 worker-1" in lines[3]
        panel.follow("thread:box/300/307")
        assert panel.cursor == 2, "the row that stands for it"
        await pilot.press("m")
        await until(pilot, lambda: panel.count() == 36)
        await pilot.press("m")
        await until(pilot, lambda: panel.count() == 3)


@pytest.mark.parametrize(
    ("view", "there", "absent"),
    [
        (lambda: job(2), ["PID", "RANK"], []),
        (lambda: job(2, ranked=False), ["PID"], ["RANK"]),
        (lambda: job(1), [], ["PID", "RANK"]),
    ],
    ids=["ranks", "processes", "one"],
)
async def test_columns_name_processes_where_there_are_several(
    view: Callable[[], FakeView], there: list[str], absent: list[str]
) -> None:
    app = make_app(view())
    async with app.run_test(size=(200, 60)) as pilot:
        await ready(pilot)
        await pilot.press("4")
        panel = app.query_one("#threads ThreadsPanel", ThreadsPanel)
        await until(pilot, lambda: panel.count() == len(panel.context.snapshot.threads) > 0)
        head = _lines(panel, 150)[0].split()
        assert set(there) <= set(head) and not set(absent) & set(head)
