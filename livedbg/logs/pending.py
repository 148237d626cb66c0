"""A record of a log whose end has not been seen, and which lines go on with it."""

from __future__ import annotations

from livedbg.logs.multiline import Continuation, ErrorDetails
from livedbg.logs.shapes import PLAIN, Header, may_hold_traceback
from livedbg.logs.wrapping.tags import NO_TAG, Tag
from livedbg.model import Severity

__all__ = ["Pending", "belongs"]


class Pending:
    """A record whose end has not been seen."""

    __slots__ = ("_continuation", "_details", "head", "header", "numbers", "offset", "size", "tag", "texts", "wall_ns")

    def __init__(
        self,
        text: str,
        offset: int,
        number: int | None,
        header: Header | None,
        *,
        tag: Tag = NO_TAG,
        wall_ns: int | None = None,
        details: ErrorDetails,
    ) -> None:
        self.offset = offset
        self.tag = tag
        self.wall_ns = wall_ns
        self.header = header
        self.head = text[: header.end] if header is not None and header.held else ""
        self.texts = [text]
        self.numbers = [number]
        self.size = len(text)
        self._details = details
        self._continuation: Continuation | None = None

    @property
    def continuation(self) -> Continuation:
        """Which lines go on with it. Most records have one line, and need none."""
        if self._continuation is None:
            header, text = self.header, self.texts[0]
            if header is None:
                self._continuation = Continuation(text, PLAIN, False, self._details)
            else:
                message = text[header.end :]
                severe = header.severity.rank >= Severity.WARNING.rank and may_hold_traceback(header, text)
                self._continuation = Continuation(message, header.shape, severe, self._details, header.quoted)
        return self._continuation

    @property
    def held_traceback(self) -> bool:
        """Whether there is a traceback in it."""
        if self._continuation is None and "(most recent call" not in self.texts[0]:
            return False
        return self.continuation.held_traceback


def belongs(pending: Pending, header: Header | None, body: str) -> bool:
    """Whether a line goes on with a record that is held back."""
    if header is None:
        return pending.continuation.takes(body)
    return bool(pending.head) and body.startswith(pending.head) and pending.continuation.follows(body[header.end :])
