"""Which functions take the CPU time now: own and total share over all running threads, from their samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from livedbg.analysis.profile import FunctionShare, function_shares, profile_of
from livedbg.panels.draw_context import DrawContext
from livedbg.panels.keys import Key, bindings
from livedbg.panels.messages import FunctionsAsked
from livedbg.panels.profile import place_of, slices_since
from livedbg.panels.table import SORT_KEY, Cell, Column, Rows, TablePanel
from livedbg.text.demangling import short_symbol
from livedbg.text.quantities import count
from livedbg.text.wording import many
from livedbg.themes import Role

FUNCTIONS_KEY: Final = Key("f", "f", "functions", "show which functions take the CPU time, or the threads again")
_BACK_KEY: Final = Key("escape", "Esc", "back", "clear the filter, or show the threads again")
_KEYS: Final = (FUNCTIONS_KEY, _BACK_KEY, SORT_KEY)

_SPAN_S: Final = 10
"""The shares are those of so many last seconds."""


class FunctionsPanel(TablePanel):
    """Every function that samples of running threads are in."""

    LABEL = "Functions"
    HELP = (
        "The functions that take the CPU time, over all running threads of the target, in the last 10 seconds. OWN is "
        "the share of the samples in which a function is the innermost one, TOTAL the share in which it is anywhere in "
        "the stack; AT is its line that most of them are in. Blocked threads have no samples. The kernel's clock takes "
        "them, up to 50 a second of each thread while this is shown; no thread is stopped."
    )
    COLUMNS = (
        Column("OWN", 6, keep=10, sort="own", align="right"),
        Column("TOTAL", 6, keep=9, sort="total", align="right"),
        Column("FUNCTION", 24, stretch=2, keep=8, sort="name"),
        Column("AT", 18, stretch=1, keep=7),
        Column("SAMPLES", 7, keep=3, sort="samples", align="right"),
    )
    SORTS = ("own", "total", "samples", "name")
    KEYS: ClassVar[tuple[Key, ...]] = _KEYS
    BINDINGS = bindings("functions", _KEYS)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._shares: dict[str, FunctionShare] = {}

    def source(self, context: DrawContext) -> object:
        """The samples, and the time: old ones leave."""
        shot = context.snapshot
        return id(shot.profiles), shot.now().mono_ns // 1_000_000_000

    def make_rows(self, context: DrawContext, needle: str, sort: str) -> Rows:
        """The largest share first."""
        slices = slices_since(context.snapshot, _SPAN_S * 1_000_000_000)
        profile = profile_of(slices)
        self._shares = {_identity(share): share for share in function_shares(profile)}
        shown = [
            name for name, share in self._shares.items() if needle in f"{share.function} {place_of(share)}".lower()
        ]
        shown.sort(key=lambda name: _order(sort)(self._shares[name]))
        threads = many(len({one.thread for one in slices}), "thread")
        title = f"{many(profile.samples, 'sample')} of {threads} in {_SPAN_S} s" if profile.samples else ""
        note = f"{count(profile.unknown)} without a stack" if profile.unknown else ""
        return Rows(shown, len(self._shares), title, note=note)

    def cells(self, identity: str) -> Sequence[Cell]:
        """One function."""
        share, ink = self._shares.get(identity), self.context.ink
        if share is None:
            return [Cell("")] * len(self.COLUMNS)
        python = share.language == "python"
        return (
            Cell(f"{share.own:.1%}", ink.style(Role.GOOD if share.own >= 0.05 else Role.FAINT)),
            Cell(f"{share.total:.1%}", ink.style(Role.TEXT)),
            Cell(short_symbol(share.function), ink.style(Role.PYTHON if python else Role.TEXT, bold=share.own >= 0.05)),
            Cell(place_of(share), ink.style(Role.DIM)),
            Cell(count(share.samples), ink.style(Role.DIM)),
        )

    def entity(self, index: int) -> str | None:
        """A function is no entity."""
        return None

    def placeholder(self) -> str:
        """Why there are none."""
        if self.needle:
            return "No function matches the filter."
        if self.context.recorded:
            return "The recording contains no samples of these seconds."
        for status in self.context.snapshot.statuses.values():
            if status.source == "samples" and status.sentence:
                return status.sentence
        return f"No samples of the last {_SPAN_S} s: no thread was seen running."

    def action_functions(self) -> None:
        """Show the threads again."""
        self.post_message(FunctionsAsked())

    def action_back(self) -> None:
        """One step back."""
        if self.needle:
            self.filter("")
        else:
            self.post_message(FunctionsAsked())


def _identity(share: FunctionShare) -> str:
    return f"{share.function}\n{share.file}\n{share.module}\n{share.language}"


def _order(sort: str) -> Callable[[FunctionShare], tuple[object, ...]]:
    orders: dict[str, Callable[[FunctionShare], tuple[object, ...]]] = {
        "own": lambda share: (-share.own, -share.total, share.function),
        "total": lambda share: (-share.total, -share.own, share.function),
        "samples": lambda share: (-share.samples, -share.own, share.function),
        "name": lambda share: (share.function.lower(),),
    }
    return orders[sort]
