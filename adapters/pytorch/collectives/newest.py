"""How far each rank has come in each of its groups: the number of the newest collective that it has enqueued there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from livedbg.adapters.pytorch.collectives.joined import Look

__all__ = ["reached"]

_EVERYBODY: Final = "0"  # name of the first group of all
_UNNAMED: Final = ("", "undefined", "default_pg")


def reached(looks: Sequence[Look]) -> Mapping[tuple[str, str], int]:
    """Process and group -> the number of its newest collective; 0 for none, where others of the group have one.

    What is not known is left out: a ring that has gone round may have lost the newest one of a group.
    """
    titles: dict[str, str] = {}
    newest: dict[tuple[str, str], int] = {}
    for look in looks:
        for group, backend in look.entered_groups:
            entries, _ = look.entered(group, backend)
            titles.setdefault(group, entries[0].description)
            newest[look.process, group] = max(entry.sequence for entry in entries)
    for look in looks:
        if all(ring.whole for ring in look.rings):
            for group, members in look.groups.items():
                if group in titles and look.rank in members:
                    newest.setdefault((look.process, group), 0)
    return {(process, _title(group, titles[group])): number for (process, group), number in newest.items()}


def _title(group: str, description: str) -> str:
    """What people call a group; groups of a device mesh share their description."""
    if description in _UNNAMED:
        return "all" if group == _EVERYBODY else group
    return f"{description}.{group}"
