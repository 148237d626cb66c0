"""Strings that a target could choose to harm the terminal or to be read as markup."""

from __future__ import annotations

HOSTILE = (
    "\x1b]52;c;SEFDS0VE\x07clip",
    "\x1b]0;HACKED-TITLE\x07title",
    "\x1b]0;HACKED-ST\x1b\\title",
    "\x9d0;HACKED-C1\x9ctitle",
    "\x9b31mred-c1",
    "\x1b[2J\x1b[Hwiped",
    "\x1b[?1049lleft the screen",
    "\x1bP+q544e\x1b\\dcs",
    "\x1b_apc\x1b\\after apc",
    "\x1bc reset",
    "\x0e shift out \x0f",
    "bell\x07backspace\x08\x08",
    "carriage\rreturn",
    "two\nlines",
    "tab\tbed",
    "NUL\x00inside",
    "bidi \u202egnp.exe\u202c and \u2066isolate\u2069",
    "zero\u200bwidth\ufeff",
    "[red]markup[/red] loss [/] done",
    "[@click=app.exit]press me[/]",
    "[rank0]: Traceback",
    "wide 漢字 and emoji 🙂",
    "lone \udc80 surrogate",
)
