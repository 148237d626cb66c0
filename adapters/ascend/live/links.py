"""What depends on a task: the lists that hang on its slot (simpler pto_runtime2_types.h, PTO2DepListEntry).

A consumer is put in front of the list, and an entry never changes as long as the producer has its slot: so a list that
was read once is only read up to where it was known.
"""

from __future__ import annotations

import struct
from typing import Final

from livedbg.adapters.ascend.live.image import Image
from livedbg.adapters.ascend.live.layout import Layout

__all__ = ["WaiterLists"]

_PAGE: Final = 4096
_MOST: Final = 200_000
"""Entries of one sample."""


class WaiterLists:
    """The lists of one ring system.

    Args:
        layout: where the fields of an entry lie.
    """

    def __init__(self, layout: Layout) -> None:
        slot, following = layout.get("waiter.slot"), layout.get("waiter.next")
        self._places = None if slot is None or following is None else (slot.offset, following.offset)
        self._known: dict[int, tuple[int, tuple[int, ...]]] = {}
        self.cut = False

    def clear(self) -> None:
        """A new run."""
        self._known.clear()

    def forget(self, raw: int) -> None:
        """A task gave its slot back."""
        self._known.pop(raw, None)

    def read(self, image: Image, heads: dict[int, int]) -> dict[int, tuple[int, ...]]:
        """Addresses of the slots of those that depend on tasks, newest first; only lists that are new or longer.

        Args:
            image: the memory.
            heads: addresses of the first entries, by task.
        """
        if self._places is None:
            return {}
        pages: dict[int, bytes | None] = {}
        found: dict[int, tuple[int, ...]] = {}
        left = _MOST
        for raw, head in heads.items():
            known_head, known = self._known.get(raw, (0, ()))
            if head == known_head:
                continue
            fresh: list[int] = []
            at = head
            while at and at != known_head and left > 0:
                entry = self._entry(image, pages, at)
                if entry is None:
                    break
                slot, at = entry
                fresh.append(slot)
                left -= 1
            if at == known_head or not at:
                found[raw] = (*fresh, *known) if at else tuple(fresh)
        self.cut = left <= 0
        return found

    def keep(self, raw: int, head: int, addresses: tuple[int, ...]) -> None:
        """A list held while it was read."""
        self._known[raw] = (head, addresses)

    def _entry(self, image: Image, pages: dict[int, bytes | None], address: int) -> tuple[int, int] | None:
        assert self._places is not None
        words = []
        for offset in self._places:
            page, at = divmod(address + offset, _PAGE)
            if page not in pages:
                pages[page] = image.read([(page * _PAGE, _PAGE)])[0]
            data = pages[page]
            if data is None or at > _PAGE - 8:
                return None
            words.append(struct.unpack_from("<Q", data, at)[0])
        return words[0], words[1]
