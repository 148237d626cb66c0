"""Sizes as PyTorch writes them (`2.50 GiB`, `512 bytes`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from livedbg.text.patterns import lazy_re

_SIZE: Final = lazy_re(r"([\d.]+) ?([KMGT]?)i?B|([\d.]+) bytes")


def bytes_of(texts: Iterable[str | None]) -> list[float]:
    """Sizes as PyTorch writes them (`2.50 GiB`), in bytes; 0 for what is none."""
    sizes = []
    for text in texts:
        match = _SIZE.fullmatch(text or "")
        try:
            number = float((match[1] or match[3]) if match is not None else 0)
        except ValueError:
            number = 0.0
        sizes.append(number * 1024 ** " KMGT".index((match[2] if match is not None else "") or " "))
    return sizes
