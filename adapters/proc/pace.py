"""How often to look: fast while things change, slower while nothing does, never too costly."""

from __future__ import annotations

from typing import Final

__all__ = ["Pace"]

_SLOWEST_S: Final = 2.0
_QUIET_LOOKS: Final = 6
_GROWTH: Final = 1.5
_SHARE: Final = 0.006
"""Largest share of one core that looking may take in the long run."""

_SECOND_S: Final = 0.15
"""Pause after the first look: only two looks show what makes progress."""

_BURST_S: Final = 0.05
"""CPU time that may be spent beyond that at once: the first look at a process costs the most."""


class Pace:
    """Gives the pause after each look.

    Args:
        fastest_s: shortest pause.
    """

    def __init__(self, fastest_s: float) -> None:
        self._fastest_s = fastest_s
        self._pause_s = fastest_s
        self._quiet = 0
        self._first = True
        self._credit_s = _BURST_S

    def after(self, *, changed: bool, cost_s: float) -> float:
        """The pause after a look.

        Args:
            changed: it found something new.
            cost_s: CPU time that it took.
        """
        if changed:
            self._quiet = 0
            self._pause_s = self._fastest_s
        else:
            self._quiet += 1
            if self._quiet > _QUIET_LOOKS:
                self._pause_s = min(self._pause_s * _GROWTH, max(_SLOWEST_S, self._fastest_s))
        self._credit_s -= cost_s
        pause_s = max(self._pause_s, min(-self._credit_s / _SHARE, 10 * _SLOWEST_S))
        if self._first:
            self._first, pause_s = False, min(pause_s, _SECOND_S)
        self._credit_s = min(_BURST_S, self._credit_s + pause_s * _SHARE)
        return pause_s
