"""What the app says and hands out: notices, the clipboard, files, and the last word after a bug."""

from __future__ import annotations

import os
from pathlib import Path

from rich.text import Text

from livedbg.app import export
from livedbg.app.typeahead import OneAtATimeApp
from livedbg.panels.draw_context import EMPTY_CONTEXT, DrawContext
from livedbg.text.private_files import write_private
from livedbg.text.sanitize import clean, clean_line
from livedbg.text.wording import many

__all__ = ["BasicApp"]

_BUG = "Please report this bug; LIVEDBG_DEBUG=1 prints a traceback. `livedbg report` works without the app."


class BasicApp(OneAtATimeApp):
    """The part of the app that knows nothing of screens."""

    context: DrawContext = EMPTY_CONTEXT
    notice_s: float = 5.0
    """How long a notice stays."""

    def say(self, text: str, severity: str = "information") -> None:
        """A notice; never parsed as markup."""
        level = "warning" if severity == "warning" else "error" if severity == "error" else "information"
        self.notify(clean(text), severity=level, timeout=self.notice_s, markup=False)  # type: ignore[arg-type]

    def copy_text(self, text: str) -> None:
        """To the clipboard, cleaned; the terminal gets it as OSC 52, which is our own."""
        lines = clean(text).splitlines()
        if lines:
            self.copy_to_clipboard("\n".join(lines))
            more = f" and {many(len(lines) - 1, 'more line')}" if len(lines) > 1 else ""
            self.say(f"Copied: {clean_line(' '.join(lines[0].split()), 48)}{more}")

    def action_export(self) -> None:
        """Everything into files here."""
        self._write("json", "md", "svg")

    def action_export_as(self, suffix: str) -> None:
        """One file into the current directory."""
        self._write(suffix)

    def _write(self, *suffixes: str) -> None:
        """Files into the current directory, and one word about all of them."""
        written: list[Path] = []
        try:
            for suffix in suffixes:
                if suffix == "svg":
                    path = export.free_path(suffix)
                    write_private(path, self.export_screenshot(title="livedbg"))
                else:
                    path = export.write_report(self.context.update, suffix)
                written.append(path)
        except OSError as error:
            self.say(f"Can't write to {Path.cwd()}: {error.strerror}", "error")
        if written:
            self.say(f"Written to {written[0].parent}: {', '.join(path.name for path in written)}")

    def _fatal_error(self) -> None:
        """A bug in a panel: a short word for the user; the whole trace for those who ask for it."""
        if os.environ.get("LIVEDBG_DEBUG"):
            super()._fatal_error()
            return
        error = self._exception
        what = clean_line(f"{type(error).__name__}: {error}")
        self.panic(Text(f"The terminal app failed ({what}). The target keeps running.\n{_BUG}"))
