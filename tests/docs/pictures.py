"""The pictures of docs/pictures: the app itself on recordings of the demos, at a fixed moment, with the keys pressed.

What they show comes from the recordings alone: no clock, no random name, no terminal. A test compares them.
"""

from __future__ import annotations

from dataclasses import dataclass

from livedbg.app.application import LivedbgApp
from livedbg.app.options import AppOptions, Colours
from livedbg.session.replay import ReplayView
from tests.app.apps import pressing
from tests.docs.examples import RECORDINGS

__all__ = ["PICTURES", "Picture", "picture"]


@dataclass(frozen=True)
class Picture:
    """One picture.

    Attributes:
        recording: of which demo.
        keys: what is pressed.
        sight: what is to be seen before the picture is taken.
        size: of the terminal.
        replay: as a recording; else as the live session looked.
    """

    name: str
    recording: str
    keys: tuple[str, ...]
    sight: str
    size: tuple[int, int] = (110, 32)
    theme: str = "dark"
    colours: Colours = Colours.FULL
    ascii_only: bool = False
    replay: bool = False


PICTURES = (
    Picture("overview", "deadlock", ("1",), "Next livedbg"),
    Picture("overview-80x24", "deadlock", ("1",), "Next livedbg", (80, 24)),
    Picture("evidence", "deadlock", ("e",), "lock-cycle"),
    Picture("graph", "deadlock", ("3", "w", "w"), "wait chain", (110, 44)),
    Picture("threads", "deadlock", ("4",), "take_both"),
    Picture("filter", "deadlock", ("4", "slash", *"work"), "5 of 8 match", (80, 24)),
    Picture("ascend-overview", "ascend", ("1",), "Next check MUL"),
    Picture("ascend-tasks", "ascend", ("2",), "r1t3"),
    Picture("ascend-logs", "ascend", ("6", "v"), "warning and worse"),
    Picture("values", "values", ("8", "n"), "min", (120, 32)),
    Picture("ledger", "deadlock", ("9",), "No intrusive actions"),
    Picture("help", "deadlock", ("4", "question_mark"), "Help: 4 Threads", (80, 24)),
    Picture("replay", "ascend", ("1",), "paused", replay=True),
    Picture("contrast", "deadlock", ("1",), "Next livedbg", theme="contrast"),
    Picture("ascii", "deadlock", ("1",), "Next livedbg", (80, 24), colours=Colours.NONE, ascii_only=True),
)


class _AsLive(ReplayView):
    """A recording's end, shown as the live session showed it."""

    mode = "observe"
    timeline = None  # type: ignore[assignment]


async def picture(wanted: Picture) -> str:
    """One picture as SVG."""
    kind = ReplayView if wanted.replay else _AsLive
    view = kind(RECORDINGS / f"{wanted.recording}.livedbg")
    if not wanted.replay:
        view.title = view.title.partition(" · ")[2]
    app = LivedbgApp(
        view,
        AppOptions(theme=wanted.theme, clock=lambda: view.end_wall_ns),
        interval_s=0.0,
        ascii_only=wanted.ascii_only,
        colours=wanted.colours,
    )
    try:
        async with app.run_test(size=wanted.size) as pilot:
            await pressing(" ".join(wanted.keys), wanted.sight)(pilot)
            return app.export_screenshot(title="livedbg", simplify=True)
    finally:
        app.feed.stop()
        view.stop()
