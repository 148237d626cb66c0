"""Reads pickles that hold nothing but plain data: dicts, lists, tuples, texts, numbers.

Flight Recorder dumps are pickles (torch/csrc/distributed/c10d/FlightRecorder.hpp, dump). A pickle can name any function
and call it; here every name is refused, so that none can be called.

Invariants:
    plain_pickle.R1. Nothing of the pickle is imported, called or looked up.
"""

from __future__ import annotations

import io
import pickle
from typing import NoReturn

__all__ = ["NotPlain", "load_plain"]


class NotPlain(ValueError):
    """A pickle that is damaged, or holds more than plain data; the text says which, for users."""


class _Plain(pickle.Unpickler):
    """Builds what needs no name."""

    def find_class(self, module: str, name: str, /) -> NoReturn:
        raise NotPlain(f"it wants to use {module}.{name}, which is not done")

    def persistent_load(self, _identifier: object, /) -> NoReturn:
        raise NotPlain("it refers to things outside of it")


def load_plain(data: bytes) -> object:
    """The value that a pickle holds.

    Raises:
        NotPlain: see there.
    """
    try:
        return _Plain(io.BytesIO(data)).load()
    except NotPlain:
        raise
    except Exception as error:  # a damaged pickle fails in any way
        raise NotPlain(f"it is cut short or damaged ({type(error).__name__})") from None
