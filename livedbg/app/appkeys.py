"""The keys that work in every screen, and those of a recording. Help and docs are made from this."""

from __future__ import annotations

from typing import Final

from livedbg.app.views import VIEWS
from livedbg.panels.keys import Key

__all__ = ["APP_KEYS", "REPLAY_KEYS", "SCREEN_KEYS"]

SCREEN_KEYS: Final = tuple(
    Key(f"{spec.key},f{number}", f"{spec.key} F{number}", f"view('{spec.name}')", f"screen {spec.label}")
    for spec, number in ((spec, int(spec.key) or 10) for spec in VIEWS)
)

APP_KEYS: Final = (
    *SCREEN_KEYS,
    Key("e", "e", "evidence", "what the verdict rests on"),
    Key("escape", "Esc", "go_back", "go back; clear the filter"),
    Key("slash", "/", "prompt", "show only rows with a text; in Logs: search"),
    Key("c", "c", "catch", "set a catchpoint: an exception's type, a preset, a function"),
    Key("tab", "Tab", "app.focus_next", "to the next panel"),
    Key("shift+tab", "Shift+Tab", "app.focus_previous", "to the panel before"),
    Key("y", "y", "copy", "copy the selected row"),
    Key("space", "Space", "freeze", "freeze the view; what happens is still taken in"),
    Key("R", "R", "let_go", "let the thread go on that stands at a catchpoint"),
    Key("r", "r", "refresh_now", "look at everything again now"),
    Key("x", "x", "export", "write the report as JSON and Markdown, and a picture, here"),
    Key("t", "t", "next_theme", "the next theme"),
    Key("question_mark", "?", "help", "this help"),
    Key("ctrl+p,colon", "^p :", "command_palette", "find any command"),
    Key("q,ctrl+c", "q", "leave", "quit; the target goes on running"),
)

REPLAY_KEYS: Final = (
    Key("p", "p", "play", "play or pause"),
    Key("full_stop", ".", "step(1)", "one step on", "step-on"),
    Key("comma", ",", "step(-1)", "one step back", "step-back"),
    Key("greater_than_sign", ">", "seek(1)", "a twentieth of the recording on", "seek-on"),
    Key("less_than_sign", "<", "seek(-1)", "a twentieth of the recording back", "seek-back"),
    Key("b", "b", "rewind", "to the beginning"),
    Key("circumflex_accent,underscore", "^", "speed(0.5)", "half as fast", "slower"),
    Key("asterisk,dollar_sign", "*", "speed(2)", "twice as fast", "faster"),
)
