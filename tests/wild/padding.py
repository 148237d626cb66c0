"""A text amid a large log of a job that trains."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.wild.texts import Text

__all__ = ["AT", "padded"]

AT: Final = ("start", "middle", "end")
_BLOCK: Final = 4096


def padded(text: Text, folder: Path, at: str, size: int = 200 << 20) -> None:
    """Write the logs of a text into a folder, the first one amid other lines.

    A log that goes on to train after a failure has survived it: only at the end the same is to be said as bare.

    Args:
        text: the text.
        folder: where to.
        at: where in the large log the text stands, one of `AT`.
        size: of the other lines, bytes.
    """
    lines = "".join(f"step {step} | loss {2.5 - step / 9999:.4f} | 411.2 ms | 9.1 GB\n" for step in range(_BLOCK))
    block = lines.encode()
    blocks = size // len(block)
    before = {"start": 1, "middle": blocks // 2, "end": blocks}[at]
    for number, (log, content) in enumerate(text.files().items()):
        path = folder / log
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            for _ in range(before if number == 0 else 0):
                file.write(block)
            file.write(content.encode())
            for _ in range(blocks - before if number == 0 else 0):
                file.write(block)
