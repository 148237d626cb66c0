"""Pictures of every screen in fixed states with a fixed clock; `make snapshots` takes them anew."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from livedbg.app.options import Colours
from tests.app.apps import make_app, pressing

SMALL, LARGE = (80, 24), (200, 60)
SCREENS = {
    "overview": ("1", "Verdict"),
    "tasks": ("2", "r0t13"),
    "graph": ("3", "▲"),
    "threads": ("4", "WAITS FOR"),
    "logs": ("6", "TIMEOUT_EXIT"),
    "ledger": ("9", "ascend-dump"),
}


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["80x24", "200x60"])
@pytest.mark.parametrize("name", SCREENS)
def test_screen(name: str, size: tuple[int, int], snap_compare: Callable[..., bool]) -> None:
    keys, sight = SCREENS[name]
    sight = "ascend" if name == "ledger" else sight
    assert snap_compare(make_app("ascend"), terminal_size=size, run_before=pressing(keys, sight))


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["80x24", "200x60"])
@pytest.mark.parametrize("name", ["deadlock", "idle", "gil", "recording", "hostile"])
def test_state(name: str, size: tuple[int, int], snap_compare: Callable[..., bool]) -> None:
    assert snap_compare(make_app(name), terminal_size=size, run_before=pressing("1", "Verdict"))


@pytest.mark.parametrize(("keys", "sight"), [("e", "lock-cycle"), ("question_mark", "Help"), ("enter", "thread:box")])
def test_sheet(keys: str, sight: str, snap_compare: Callable[..., bool]) -> None:
    assert snap_compare(make_app("deadlock"), terminal_size=SMALL, run_before=pressing(keys, sight))


@pytest.mark.parametrize("theme", ["contrast", "colour-blind"])
def test_theme(theme: str, snap_compare: Callable[..., bool]) -> None:
    app = make_app("gil", theme=theme)
    assert snap_compare(app, terminal_size=(120, 40), run_before=pressing("4", "spin_forever"))


def test_ascii(snap_compare: Callable[..., bool]) -> None:
    app = make_app("deadlock", ascii_only=True)
    assert snap_compare(app, terminal_size=(120, 40), run_before=pressing("3", "mutex"))


@pytest.mark.parametrize("colours", [Colours.NONE, Colours.SIXTEEN])
def test_few_colours(colours: Colours, snap_compare: Callable[..., bool]) -> None:
    app = make_app("ascend", colours=colours)
    assert snap_compare(app, terminal_size=(120, 40), run_before=pressing("1", "r0t13"))
