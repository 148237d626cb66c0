"""What C++ and Rust code called when its thread blocked, in the user's words: `std::future::get`, `Mutex::lock`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from livedbg.analysis.place_names import Placed, plain_name, rust_name

__all__ = ["native_call"]

_HEADER: Final = re.compile(
    r"/include/c\+\+/(?:v1|[\d.]+)/(barrier|condition_variable|future|latch|mutex|semaphore|shared_mutex|thread)$"
)
"""Headers of the C++ library that wait, each with the class of its name; a name from debug information has no class."""

_LIBRARY: Final = re.compile(r"(?:std|boost|tbb|folly|absl)::(?:\w+::)*[a-z]\w*")
_RUST: Final = re.compile(r"/rustc/[^/]+/library/|^library/|/rustlib/src/")


def native_call(frames: Sequence[Placed], user: int) -> str:
    """The function of a library that a native frame called.

    Args:
        frames: of a stack, innermost first.
        user: the place of the caller among them.

    Returns:
        Its name without what it takes, of the C++ library, Boost, oneTBB, Folly, Abseil and Rust's library; "" for what
        is called by another language, for functions inside of a library, and where it is not known.
    """
    if not user or frames[user].language != "native":
        return ""
    callee = frames[user - 1]
    file = callee.file or ""
    if _RUST.search(file):
        parts = plain_name(rust_name(callee.function)).split("::")
        return "::".join(parts[-2:]) if len(parts) > 1 and all(part.isidentifier() for part in parts[-2:]) else ""
    header = _HEADER.search(file)
    name = plain_name(callee.function)
    if header is not None and "::" not in name:
        name = f"std::{header[1]}::{name}"
    name = name.replace("std::__cxx11::", "std::").replace("std::__1::", "std::")
    return name if _LIBRARY.fullmatch(name) and "::_" not in name else ""
