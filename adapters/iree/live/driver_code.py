"""Code that Mesa's lavapipe has compiled for dispatches: which address is in the code of which.

The driver compiles a shader when it is first launched, into anonymous memory. Its object of the compiled variant
(`lp_compute_shader_variant`, src/gallium/drivers/llvmpipe/lp_state_cs.h) has the address of the code, and behind it the
address of the shader; the pipeline (`lvp_pipeline`, whose address is the handle) has the address of the shader too. So
a pipeline owns code if the same address, of no other pipeline, is in it and shortly behind a pointer to the code.

Invariants:
    iree_driver_code.J1. Code that no pipeline, or more than one, can claim has no name.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from livedbg.adapters.iree.live.image import Image
from livedbg.adapters.iree.live.libraries import Dispatch
from livedbg.linux.maps import Mapping as Mapped

_SIZE: Final = struct.Struct("<Q")  # of a block of glibc's heap, before it; the low bits are flags
_NEAR: Final = 16  # words behind the pointer to the code
_PAGE: Final = 4096
_LEAST, _MOST = 64, 16384  # bytes of a pipeline


class Code(Struct, frozen=True):
    """The code of one dispatch.

    Attributes:
        start: where it begins.
        end: the first address behind it.
        proof: the words that say so: their addresses and values.
    """

    start: int
    end: int
    dispatch: Dispatch
    proof: tuple[tuple[int, int], ...] = ()


def code_mappings(mappings: Sequence[Mapped]) -> tuple[tuple[int, int], ...]:
    """Where a driver's code may be: anonymous memory that can be run."""
    return tuple(
        (one.start, one.end) for one in mappings if one.permissions == "r-xp" and not one.inode and not one.path
    )


def read_code(image: Image, places: Sequence[tuple[int, int]], pipelines: Mapping[int, Dispatch]) -> tuple[Code, ...]:
    """The code of some pipelines, as far as it is compiled.

    Args:
        image: the memory.
        places: where code may be: begin and end, in rising order.
        pipelines: dispatches by the handle of their pipeline.
    """
    shaders = _words_of(image, pipelines)
    if not shaders or not places:
        return ()
    begins = {start for start, _ in places}
    claims: dict[int, dict[int, tuple[tuple[int, int], ...]]] = {}
    found = list(image.pointers(places))
    begins.update(value for _, value in found if value % _PAGE == 0)
    starts = sorted(begins)
    for place, value in found:
        claim = _claim(image, place, shaders)
        if claim is not None:
            handle, proof = claim
            start = starts[bisect_right(starts, value) - 1]
            claims.setdefault(start, {})[handle] = ((place, value), proof)
    return tuple(_codes(starts, places, claims, pipelines))


def _codes(
    starts: Sequence[int],
    places: Sequence[tuple[int, int]],
    claims: Mapping[int, Mapping[int, tuple[tuple[int, int], ...]]],
    pipelines: Mapping[int, Dispatch],
) -> Iterator[Code]:
    """What one pipeline alone claims (J1)."""
    for number, start in enumerate(starts):
        handles = claims.get(start, {})
        if len(handles) != 1:
            continue
        end = next(end for begin, end in places if begin <= start < end)
        if number + 1 < len(starts):
            end = min(end, starts[number + 1])
        [(handle, proof)] = handles.items()
        yield Code(start, end, pipelines[handle], proof)


def _words_of(image: Image, pipelines: Mapping[int, Dispatch]) -> dict[int, int]:
    """The addresses that are in one of the pipelines only: by each, the handle."""
    words: dict[int, set[int]] = {}
    for handle in pipelines:
        head = image.unpack(_SIZE, handle - _SIZE.size)
        size = (head[0] & ~15) - _SIZE.size if head is not None else 0
        data = image.bytes_at(handle, size) if _LEAST <= size <= _MOST else None
        if data is not None:
            words[handle] = {word for (word,) in struct.iter_unpack("<Q", data[: len(data) // 8 * 8]) if word in image}
    counts = Counter(word for one in words.values() for word in one)
    return {word: handle for handle, one in words.items() for word in one if counts[word] == 1}


def _claim(image: Image, place: int, shaders: Mapping[int, int]) -> tuple[int, tuple[int, int]] | None:
    """The pipeline whose shader is named first behind a pointer to code, and the word that names it."""
    data = image.bytes_at(place + 8, 8 * _NEAR) or b""
    for number, (word,) in enumerate(struct.iter_unpack("<Q", data)):
        if word in shaders:
            return shaders[word], (place + 8 + 8 * number, word)
    return None
