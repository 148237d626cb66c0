"""Hostile strings, as logs, thread names, argv and error texts can hold them, and what must hold of the output.

`HOSTILE` maps a name to a string with KEEP_LEFT in front of the hostile part and KEEP_RIGHT behind
it (on the next line where the sequence is unterminated). `is_harmless` says whether bytes written
for such a string can no longer do anything but be shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["FORBIDDEN", "HOSTILE", "KEEP_LEFT", "KEEP_RIGHT", "MARKUP", "is_harmless", "strings"]

KEEP_LEFT = "keepleft"
KEEP_RIGHT = "keepright"

_SEQUENCES: dict[str, str] = {
    "osc52_clipboard": "\x1b]52;c;ZXZpbA==\x07",
    "osc52_clipboard_st": "\x1b]52;c;ZXZpbA==\x1b\\",
    "osc52_query": "\x1b]52;c;?\x07",
    "osc_title": "\x1b]0;PWNED\x07",
    "osc_title_st": "\x1b]2;PWNED\x1b\\",
    "osc_title_8bit": "\x9d0;PWNED\x9c",
    "osc_title_8bit_bel": "\x9d2;PWNED\x07",
    "osc8_link": "\x1b]8;;file:///etc/passwd\x1b\\click\x1b]8;;\x1b\\",
    "osc_palette": "\x1b]4;1;rgb:ff/00/00\x07",
    "osc_iterm_file": "\x1b]1337;File=name=YQ==;inline=1:AAAA\x07",
    "osc_notify": "\x1b]9;PWNED\x07",
    "screen_title": "\x1bkPWNED\x1b\\",
    "dcs_sixel": "\x1bPq#0;2;0;0;0~~\x1b\\",
    "dcs_8bit": "\x90$qm\x9c",
    "dcs_tmux_passthrough": "\x1bPtmux;\x1b\x1b]52;c;ZXZpbA==\x07\x1b\\",
    "apc": "\x1b_Gf=100;AAAA\x1b\\",
    "apc_8bit": "\x9fhidden\x9c",
    "pm": "\x1b^hidden\x1b\\",
    "sos": "\x1bXhidden\x1b\\",
    "csi_clear": "\x1b[2J\x1b[H",
    "csi_colour": "\x1b[1;31m",
    "csi_colour_colon": "\x1b[38:2::255:0:0m",
    "csi_8bit": "\x9b31m\x9b2J",
    "csi_alt_screen": "\x1b[?1049l",
    "csi_mouse": "\x1b[?1003h\x1b[?1006h",
    "csi_paste": "\x1b[?2004l\x1b[201~",
    "csi_report": "\x1b[6n\x1b[c\x1b[>c",
    "csi_title_report": "\x1b[21t",
    "csi_intermediate": "\x1b[!p\x1b[2 q",
    "csi_long": "\x1b[" + "1;" * 500 + "m",
    "reset": "\x1bc",
    "charset": "\x1b(0\x1b)B\x1b%G",
    "keypad": "\x1b=\x1b>",
    "save_restore": "\x1b7\x1b8",
    "index": "\x1bM\x1bD\x1bE",
    "c1_forms": "\x84\x85\x88\x8d\x8e\x8f\x96\x97\x9a",
    "so_si": "\x0eqqq\x0f",
    "nul": "\x00\x00",
    "bell": "\x07\x07",
    "backspace": "abc\x08\x08\x08xyz",
    "vertical_tab_form_feed": "\x0b\x0c",
    "enquiry": "\x05",
    "delete": "\x7f",
    "cancel": "\x1b[3\x18\x1b[4\x1a",
    "xon_xoff": "\x11\x13",
    "bidi_override": "\u202egnp.exe\u202c",
    "bidi_isolates": "\u2066a\u2067b\u2068c\u2069",
    "bidi_marks": "\u200e\u200f\u061c",
    "bidi_embedding": "\u202a\u202b\u202d",
    "zero_width": "a\u200bb\u2060c\ufeffd\u00ade\u180ef",
    "line_separators": "a\u2028b\u2029c\u0085d",
    "interlinear": "\ufff9a\ufffab\ufffb",
    "tags": "\U000e0001\U000e0041\U000e007f",
    "surrogate_low": "\udc9b31m",
    "surrogate_high": "\ud83d",
    "surrogate_pair": "\ud83d\ude00",
    "surrogate_escape": b"\x9b2J\xff\xfe".decode("utf-8", "surrogateescape"),
    "nested": "\x1b\x1b[31m[2J",
    "split_by_sequence": "\x1b\x1b[m]0;PWNED\x07",
    "escape_in_osc": "\x1b]0;a\x1b[31mb\x07",
    "combining": "a" + "\u0301" * 200,
}

_UNTERMINATED: dict[str, str] = {
    "osc_unterminated": "\x1b]0;PWNED",
    "osc52_unterminated": "\x1b]52;c;ZXZpbA==",
    "osc_8bit_unterminated": "\x9d0;PWNED",
    "dcs_unterminated": "\x1bPq#0",
    "dcs_8bit_unterminated": "\x90q#0",
    "apc_unterminated": "\x1b_Gf=100",
    "pm_unterminated": "\x1b^x",
    "sos_unterminated": "\x98x",
    "csi_unterminated": "\x1b[1;3",
    "csi_8bit_unterminated": "\x9b1;3",
    "escape_at_end": "\x1b",
    "charset_unterminated": "\x1b(",
}

MARKUP: dict[str, str] = {
    "markup_action": "[@click=app.exit]x[/]",
    "markup_action_quit": "[@click=app.quit()]x[/@click]",
    "markup_close": "loss [/] done",
    "markup_close_named": "[/red]",
    "markup_open": "[red]never closed",
    "markup_rank": "[rank0]: Traceback (most recent call last):",
    "markup_list": "cores=[core=8(aiv0)] x[0][1] [] [[]] [=]",
    "markup_link": "[link=file:///etc/passwd]x[/link]",
    "markup_escape": "\\[bold]x\\[/bold]",
    "markup_backslash": "path\\",
    "markup_variable": "$primary $text-muted [$error]x",
    "markdown": "# x\n- [a](javascript:1) `b` **c** | d |\n```\n",
    "emoji_code": ":smile: :boom:",
    "format": "%s %n {0} {self} %(x)s",
    "long_word": "x" * 5000,
    "wide": "界" * 300,
}
"""Strings that are clean text but that a front end could read as markup."""

HOSTILE: dict[str, str] = {
    **{name: f"{KEEP_LEFT}{text}{KEEP_RIGHT}" for name, text in _SEQUENCES.items()},
    **{name: f"{KEEP_LEFT}{text}\n{KEEP_RIGHT}" for name, text in _UNTERMINATED.items()},
    "redraw": f"10 %\r20 %\r{KEEP_LEFT} {KEEP_RIGHT}\r\n",
    "redraw_sequence": f"{KEEP_LEFT}\x1b]0;a\rb\x07{KEEP_RIGHT}",
    **{name: f"{KEEP_LEFT} {text} {KEEP_RIGHT}" for name, text in MARKUP.items()},
}
"""Every hostile string by name."""

FORBIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
"""What must not be left in a sanitised string."""


def is_harmless(written: bytes) -> bool:
    """Whether terminal output holds none of the payloads: no clipboard, title, link, C1 byte in UTF-8, no bidi."""
    if re.search(rb"\x1b\](?:0|2|4|9|52|1337);", written) or re.search(rb"\x1b[PX^_k]", written):
        return False
    return FORBIDDEN.sub("", _without_csi(written.decode("utf-8", "replace"))) == _without_csi(
        written.decode("utf-8", "replace")
    )


def _without_csi(text: str) -> str:
    """Terminal output without what a front end itself writes: CSI, SGR, charset, CR, LF and BS."""
    text = re.sub(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[ -/]+[0-~]|\x1b[=>78cM]", "", text)
    return re.sub(r"[\r\x08\x0f]", "", text)


def strings(value: object, place: str = "") -> Iterator[tuple[str, str]]:
    """All strings of a value, with their places."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict):
        for name, part in value.items():
            yield from strings(name, f"{place} key")
            yield from strings(part, f"{place}.{name}")
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from strings(part, place)
