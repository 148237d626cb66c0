"""The variables of one stack, as they were last read: later samples of the same stack come without any."""

from __future__ import annotations

from livedbg.model import Stack
from livedbg.panels.threadrows import shape

__all__ = ["Variables"]


class Variables:
    """What is shown of the variables of one thread's frames; those of the next thread are hidden at first.

    Attributes:
        shown: the user wants to see them.
    """

    def __init__(self) -> None:
        self.shown = False
        self._asked_ns = 0
        self._stack: Stack | None = None
        self._texts: list[tuple[str, ...]] = []

    def toggle(self, now_ns: int) -> bool:
        """Show them, or hide them.

        Args:
            now_ns: the present moment on the target's monotonic clock.

        Returns:
            Whether they are shown now, so must be asked for.
        """
        self.shown = not self.shown
        self._asked_ns = now_ns
        return self.shown

    def follow(self, stack: Stack | None) -> None:
        """Take over a newer stack: the variables stay while thread and stack do."""
        known = self._stack
        self._stack = stack
        if stack is None:
            self._texts = []
            return
        fresh = [frame.local_variables for frame in stack.frames]
        if known is not None and known.thread == stack.thread and shape(known) == shape(stack):
            self._texts = [new or old for new, old in zip(fresh, self._texts, strict=True)]
        else:
            self._texts = fresh
            self.shown = self.shown and known is not None and known.thread == stack.thread

    def of(self, frame: int) -> tuple[str, ...]:
        """The variables of a frame, `name=value`; () while they are hidden."""
        return self._texts[frame] if self.shown and frame < len(self._texts) else ()

    def note(self, stack: Stack) -> str:
        """Why there are none, once they were asked for and the stack was taken again."""
        if not self.shown or any(self._texts) or stack.taken_mono_ns <= self._asked_ns:
            return ""
        return "no variables: native ones need debug information (-g) and values that are in memory"
