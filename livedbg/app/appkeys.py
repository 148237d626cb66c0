"""The keys that work in every screen, and those of a recording. Help and docs are made from this."""

from __future__ import annotations

from typing import Final

from livedbg.app.views import VIEWS
from livedbg.panels.messages import Key

SCREEN_KEYS: Final = tuple(
    Key(f"{spec.key},f{number}", f"{spec.key} F{number}", f"view('{spec.name}')", f"screen {spec.label}")
    for spec, number in ((spec, int(spec.key) or 10) for spec in VIEWS)
)

APP_KEYS: Final = (
    *SCREEN_KEYS,
    Key("e", "e", "evidence", "show the evidence of the verdict"),
    Key("escape", "Esc", "go_back", "go back, or clear the filter"),
    Key("slash", "/", "prompt", "filter rows by a text; in Logs: search"),
    Key("c", "c", "catch", "set a catchpoint: exception type, preset, or function"),
    Key("tab", "Tab", "app.focus_next", "next panel"),
    Key("shift+tab", "Shift+Tab", "app.focus_previous", "previous panel"),
    Key("y", "y", "copy", "copy the selected row"),
    Key("space", "Space", "freeze", "freeze the view; events are still read"),
    Key("R", "R", "resume_thread", "resume the thread that stopped at a catchpoint (asks first)"),
    Key("r", "r", "refresh_now", "scan all sources now"),
    Key("x", "x", "export", "export the report (JSON, Markdown) and a picture"),
    Key("t", "t", "next_theme", "next theme"),
    Key("question_mark", "?", "help", "show help for this screen"),
    Key("ctrl+p,colon", "^p :", "command_palette", "find any command"),
    Key(
        "q,ctrl+c",
        "q",
        "leave",
        "quit; an attached target keeps running, about a command under launch it asks",
    ),
)

GUIDE_KEYS: Final = (
    Key("ctrl+n", "^n", "next_step", "end the command, and run it again with the next step's settings"),
    Key("ctrl+g", "^g", "step_found", "show what this step found so far"),
)

REPLAY_KEYS: Final = (
    Key("p", "p", "play", "play or pause"),
    Key("full_stop", ".", "step(1)", "step forward", "step-on"),
    Key("comma", ",", "step(-1)", "step back", "step-back"),
    Key("greater_than_sign", ">", "seek(1)", "seek forward by 5 %", "seek-on"),
    Key("less_than_sign", "<", "seek(-1)", "seek back by 5 %", "seek-back"),
    Key("b", "b", "rewind", "go to the beginning"),
    Key("circumflex_accent,underscore", "^", "speed(0.5)", "half speed", "slower"),
    Key("asterisk,dollar_sign", "*", "speed(2)", "double speed", "faster"),
)
