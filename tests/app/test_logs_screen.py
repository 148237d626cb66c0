"""The Logs screen: searching whole logs, matches, the error filter, equal lines of ranks, the marks."""

from __future__ import annotations

from pathlib import Path

from livedbg.logs.files import FileLogReader
from livedbg.model import LogRecord, LogSource, Process, Severity
from livedbg.model import events as ev
from livedbg.panels.logs import LogsPanel
from livedbg.session.filereaders import known_log_formats
from livedbg.themes import Role
from tests.app.apps import make_app, ready, text_of, until
from tests.app.fakes import FakeView, stamp
from tests.app.scenarios import scenario

_TRACEBACK = 'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\n    f()\nKeyError: 1\n'


def _view(folder: Path) -> FakeView:
    """A session with two logs in files, of which the state keeps the newest records only."""
    view = scenario("idle")
    logs = {"rank0": "step 1\nneedle one\n" + "step 2\n" * 500, "rank1": "ok\n" * 300 + "needle two\n" + _TRACEBACK}
    sources: list[LogSource] = []
    processes: list[ev.Event] = []
    for rank, (name, text) in enumerate(logs.items()):
        (folder / name).write_text(text)
        process = Process(id=f"process:box/{rank + 90}", host="box", pid=rank + 90, rank=rank, command=("train",))
        processes.append(ev.ProcessSeen(process=process, **stamp(1)))
        sources.append(
            LogSource(id=f"log:box/{name}", name=name, path=str(folder / name), size=len(text), process=process.id)
        )
    known = {source.id: source for source in sources}
    view.reader = FileLogReader(known.get, known_log_formats())  # type: ignore[assignment]
    news = [LogRecord(source=source.id, text="step 2", line=502) for source in sources]
    view.events = [
        *view.events,
        *processes,
        *(ev.LogSourceSeen(source=source, **stamp(1)) for source in sources),
        ev.LogsSeen(records=(*news, LogRecord(source=sources[1].id, text="bad", severity=Severity.ERROR)), **stamp(1)),
    ]
    return view


async def test_a_search_covers_whole_logs_and_leads_to_them(tmp_path: Path) -> None:
    app = make_app(_view(tmp_path))
    async with app.run_test(size=(120, 30)) as pilot:
        await ready(pilot)
        await pilot.press("6", "slash", *"needle", "enter")
        panel = app.query_one(LogsPanel)
        await until(pilot, lambda: "2 matches in 2 logs" in text_of(app))
        await until(pilot, lambda: "needle one" in text_of(app) and "needle two" in text_of(app))
        await pilot.press("n")
        assert panel.cursor == 1
        await pilot.press("o")
        await until(pilot, lambda: panel.source == "log:box/rank1" and panel.cursor == 300)
        await until(pilot, lambda: panel.scroll_offset.y > 200 and "needle two" in text_of(app))
        await until(pilot, lambda: "match 1 of 1" in text_of(app))
        await pilot.press("escape")
        await until(pilot, lambda: "match" not in str(panel.border_title))


async def test_matches_of_one_log_are_counted_and_n_goes_through_them(tmp_path: Path) -> None:
    app = make_app(_view(tmp_path))
    async with app.run_test(size=(120, 30)) as pilot:
        await ready(pilot)
        await pilot.press("6", "right_square_bracket")
        panel = app.query_one(LogsPanel)
        await until(pilot, lambda: panel.source == "log:box/rank0" and panel.count() == 502)
        await pilot.press("g")
        await until(pilot, lambda: panel.cursor == 0)
        await pilot.press("slash", *"step", "enter")
        await until(pilot, lambda: "match 1 of 501" in text_of(app))
        await pilot.press("n")
        await until(pilot, lambda: panel.cursor == 2 and "match 2 of 501" in text_of(app))
        await pilot.press("N", "N")
        await until(pilot, lambda: any("Not found" in notice.message for notice in app._notifications))
        assert panel.cursor == 0


async def test_the_error_filter_keeps_a_traceback_whole(tmp_path: Path) -> None:
    app = make_app(_view(tmp_path))
    async with app.run_test(size=(120, 30)) as pilot:
        await ready(pilot)
        await pilot.press("6", "right_square_bracket", "right_square_bracket", "v", "v")
        panel = app.query_one(LogsPanel)
        await until(pilot, lambda: panel.count() == 4 and "KeyError: 1" in text_of(app) and "line 3" in text_of(app))
        await pilot.press("slash", *"keyerror", "enter")
        await until(pilot, lambda: panel.cursor == 3)


async def test_equal_lines_of_ranks_are_one_row(tmp_path: Path) -> None:
    app = make_app(_view(tmp_path))
    async with app.run_test(size=(120, 30)) as pilot:
        await ready(pilot)
        await pilot.press("6")
        await until(pilot, lambda: any("ranks 0-1" in line and "step 2" in line for line in text_of(app).splitlines()))


async def test_the_scroll_bar_has_marks_where_errors_and_matches_are(tmp_path: Path) -> None:
    app = make_app(_view(tmp_path))
    async with app.run_test(size=(120, 30)) as pilot:
        await ready(pilot)
        await pilot.press("6", "right_square_bracket", "right_square_bracket")
        panel = app.query_one(LogsPanel)
        bad, warn = app.context.ink.style(Role.BAD), app.context.ink.style(Role.WARN)
        await until(pilot, lambda: {style for _sign, style in panel._bar_marks(20).values()} == {bad})
        assert set(panel._bar_marks(20)) == {19}
        await pilot.press("slash", *"ok", "enter")
        await until(pilot, lambda: panel._bar_marks(20).get(0, ("", None))[1] == warn)
        assert panel.show_vertical_scrollbar
        await until(
            pilot,
            lambda: (
                app.context.glyphs.track
                in str(panel.vertical_scrollbar.render_lines(panel.vertical_scrollbar.size.region))
            ),
        )


async def test_who_wrote_a_line_of_a_shared_log_is_shown_and_searched(tmp_path: Path) -> None:
    view = _view(tmp_path)
    (tmp_path / "rank0").write_text("".join(f"(W rank={rank} pid=30{rank}) step\n" for rank in (1, 2, 3, 1, 2, 3)))
    app = make_app(view)
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(pilot)
        await pilot.press("6", "right_square_bracket")
        await until(pilot, lambda: "rank 3, pid 303: step" in text_of(app))
        await pilot.press("g", "slash", *"pid", "space", *"302", "enter")
        await until(pilot, lambda: "match 1 of 2" in text_of(app))
