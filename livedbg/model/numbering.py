"""Numbers for names, given once and never taken back.

Invariants:
    numbering.Q1. A name keeps its number, and `names[number]` its name, for as long as the numbering lives.
    numbering.Q2. Names may be numbered and looked up from several threads.
"""

from __future__ import annotations

import threading


class Numbering:
    """Numbers from 0, in the order in which names come.

    Attributes:
        names: number -> name. Only ever appended to.
    """

    __slots__ = ("_lock", "_numbers", "names")

    def __init__(self) -> None:
        self.names: list[str] = []
        self._numbers: dict[str, int] = {}
        self._lock = threading.Lock()

    def of(self, name: str) -> int:
        """The number of a name, which is given one if it has none."""
        number = self._numbers.get(name)
        if number is None:
            with self._lock:
                number = self._numbers.get(name)
                if number is None:
                    number = len(self.names)
                    self.names.append(name)
                    self._numbers[name] = number
        return number

    def get(self, name: str) -> int | None:
        """The number of a name, or None."""
        return self._numbers.get(name)

    def copy(self) -> Numbering:
        """A numbering of its own that begins as this one is."""
        other = Numbering()
        with self._lock:
            other.names = self.names.copy()
            other._numbers = self._numbers.copy()
        return other
