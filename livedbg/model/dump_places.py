"""Where each of several dumps lies in its run: by rank and dispatch, `rank0/d1`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import TypeVar

P = TypeVar("P", bound=PurePath)


def places(paths: Sequence[P]) -> dict[str, P]:
    """Dumps by the folder above theirs, seen from what all of them have in common.

    Where that is the same for two of them, it is their own folder, or all of the path.
    """
    for folders in (
        {path: path.parent.parent.parts for path in paths},
        {path: path.parent.parts for path in paths},
        {path: path.parts for path in paths},
    ):
        if len(set(folders.values())) == len(folders):
            break
    common = 0
    while len({parts[: common + 1] for parts in folders.values()}) == 1 and common < min(map(len, folders.values())):
        common += 1
    if len(folders) == 1:
        common = max(0, len(next(iter(folders.values()))) - 2)
    return {"/".join(parts[common:]): path for path, parts in folders.items()}
