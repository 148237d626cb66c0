"""What is sampled often because somebody looks at it."""

from __future__ import annotations

from textual.screen import Screen

from livedbg.app.overlays import SheetScreen
from livedbg.app.views import Threads, View
from livedbg.model import ids
from livedbg.model.intents import SampleFaster
from livedbg.panels.draw_context import DrawContext


def faster_samples(screen: Screen[object], view: View, context: DrawContext) -> SampleFaster | None:
    """What to ask for; None where no samples are shown, or they are of a recording.

    Args:
        screen: that is on top.
        view: that is under it.
        context: what is shown.
    """
    if context.recorded:
        return None
    if isinstance(screen, SheetScreen):
        of, profiles = screen.entity, context.snapshot.profiles
        shown = of is not None and any(of in (thread, ids.process_of(thread)) for thread in profiles)
        return SampleFaster(of=of) if shown else None
    return SampleFaster() if isinstance(view, Threads) and view.has_functions else None
