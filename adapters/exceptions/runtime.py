"""Which function of a language's runtime is called as something is thrown, thrown on, caught or raised."""

from __future__ import annotations

from typing import Final

from livedbg.model.catchpoints import Moment

__all__ = ["RUNTIME"]

RUNTIME: Final = {
    Moment.THROW: "__cxa_throw",
    Moment.RETHROW: "__cxa_rethrow",
    Moment.CATCH: "__cxa_begin_catch",
    Moment.RAISE: "PyTraceBack_Here",
}
"""C++'s (Itanium C++ ABI: exception handling, 2.4) and Python's (CPython, Python/traceback.c)."""
