"""The actions that move the time line of a recording; without one they do nothing."""

from __future__ import annotations

from livedbg.session.view import Timeline


class ReplayActions:
    """Actions of the app for a recording."""

    @property
    def timeline(self) -> Timeline | None:
        """The time line of a recording."""
        raise NotImplementedError

    def moved(self) -> None:
        """The time line was moved."""
        raise NotImplementedError

    def action_play(self) -> None:
        """Play or pause."""
        if (line := self.timeline) is not None:
            line.pause() if line.playing else line.play()
            self.moved()

    def action_step(self, count: int) -> None:
        """One step."""
        if (line := self.timeline) is not None:
            line.pause()
            line.step(count)
            self.moved()

    def action_seek(self, parts: int) -> None:
        """A twentieth of the recording."""
        if (line := self.timeline) is not None:
            length = line.end_wall_ns - line.start_wall_ns
            wanted = line.position_wall_ns + parts * length // 20
            line.seek(min(max(wanted, line.start_wall_ns), line.end_wall_ns))
            self.moved()

    def action_rewind(self) -> None:
        """To the beginning."""
        if (line := self.timeline) is not None:
            line.seek(line.start_wall_ns)
            self.moved()

    def action_speed(self, factor: float) -> None:
        """Faster or slower."""
        if (line := self.timeline) is not None:
            line.set_speed(min(max(line.speed * factor, 1 / 64), 1024))
            self.moved()
