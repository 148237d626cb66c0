"""The terminal app. `run(view, options)` is the entry; nothing else imports Textual."""

from __future__ import annotations

from livedbg.app.options import AppOptions
from livedbg.session.view import SessionView
from livedbg.text.sanitize import drawing

__all__ = ["AppOptions", "run"]


def run(view: SessionView, options: AppOptions | None = None) -> int:
    """Show a session until the user quits.

    Args:
        view: live or replayed; it is started after the first paint and stopped at the end.

    Returns:
        0, or 128 + the number of the signal that ended it.

    Raises:
        UsageError: this terminal can't show the app.
        LivedbgError: the session could not start.
    """
    from livedbg.app.runner import run_app  # Textual takes about 0.2 s to import

    with drawing():
        return run_app(view, options or AppOptions())
