"""What a panel is given to draw: one consistent update, the shared selection, the ink and the glyphs."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from livedbg.analysis.diagnosis import Diagnosis, VerdictState
from livedbg.model.snapshot import Snapshot
from livedbg.panels.entities import Names
from livedbg.panels.ink import Ink, ink_of
from livedbg.panels.marks import UNICODE, Glyphs
from livedbg.session.view import NOTHING_YET, Update
from livedbg.themes import DEFAULT

__all__ = ["EMPTY_CONTEXT", "DrawContext"]


@dataclass(frozen=True)
class DrawContext:
    """Immutable; a new one for every change of state, selection or theme.

    Attributes:
        selection: the entity that is selected, for all panels.
        recorded: it is of a recording: nothing more can be asked for.
    """

    update: Update = NOTHING_YET
    selection: str | None = None
    ink: Ink = field(default_factory=lambda: ink_of(DEFAULT))
    glyphs: Glyphs = UNICODE
    recorded: bool = False

    @property
    def snapshot(self) -> Snapshot:
        """The state."""
        return self.update.snapshot

    @property
    def diagnosis(self) -> Diagnosis:
        """What was concluded from it."""
        return self.update.diagnosis

    @cached_property
    def names(self) -> Names:
        """Labels, states and times of entities."""
        return Names(self.snapshot, self.glyphs)

    @cached_property
    def now_ns(self) -> int:
        """Wall clock of the state: of the newest event, not of this machine."""
        return self.snapshot.now().wall_ns

    @cached_property
    def stalled(self) -> frozenset[str]:
        """The entities that the verdict calls stalled."""
        verdict = self.diagnosis.verdict
        return frozenset(verdict.roots) if verdict.state is VerdictState.STALLED else frozenset()

    def since_ns(self, wall_ns: int | None) -> int | None:
        """How long ago that was."""
        return None if wall_ns is None else max(self.now_ns - wall_ns, 0)


EMPTY_CONTEXT = DrawContext()
