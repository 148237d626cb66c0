"""The driver's error log (CUDA 12.9 and later, environment variable CUDA_LOG_FILE).

Source: CUDA C++ Programming Guide, "Error Log Management": `[TIME][THREAD][CUDA][LEVEL] MESSAGE`; the guides of 13.0
and 13.1 have the function in a fifth bracket. What is wrong is in a line of its own, before `Returning 1
(CUDA_ERROR_INVALID_VALUE) from cuLaunchKernel` of the same thread.
"""

from __future__ import annotations

import re
from typing import Final

from livedbg.adapters.cuda.errors import by_name, by_number
from livedbg.adapters.cuda.statement import Statement
from livedbg.model import Severity

__all__ = ["DriverLog"]

_LINE: Final = re.compile(
    r"\[[\d:.]+\]\[(?P<thread>\d{1,20})\]\[CUDA\]\[(?P<level>[A-Z])\](?:\[(?P<function>\w+)\])? ?(?P<text>.*)"
)
_RETURNING: Final = re.compile(r"Returning (?P<number>\d{1,9}) \((?P<name>\w+)\) from (?P<call>\w+)")
_NUMBERS: Final = re.compile(r"0x[0-9a-fA-F]+|\d+")
_THREADS: Final = 1_000  # whose last words are kept


class DriverLog:
    """The lines of one log, in order."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}  # by thread: what is wrong, before the call returns

    def line(self, line: str) -> list[Statement]:
        """Take a line; gives what is complete."""
        match = _LINE.search(line)
        if match is None or match["level"] not in "EW":
            return []
        thread, text = match["thread"], match["text"].strip()
        returning = _RETURNING.match(text)
        if returning is None:
            if match["function"]:
                return [_error(None, "", match["function"], text)]
            done = self._of_thread(thread)
            if len(self._said) < _THREADS:
                self._said[thread] = text
            return done
        said = self._said.pop(thread, "")
        return [_error(int(returning["number"]), returning["name"], returning["call"], said)]

    def end(self) -> list[Statement]:
        """Words that no call's return followed."""
        return [statement for thread in tuple(self._said) for statement in self._of_thread(thread)]

    def _of_thread(self, thread: str) -> list[Statement]:
        said = self._said.pop(thread, "")
        return [_error(None, "", "", said)] if said else []


def _error(number: int | None, name: str, call: str, said: str) -> Statement:
    code = (by_number(number) if number is not None else None) or by_name(name)
    words = code.text if code is not None else name
    returned = (
        f"{call} returned {name} ({number}, {words})"
        if name
        else f"The driver has a complaint{f' about {call}' if call else ''}"
    )
    attributes = {
        "error": code.name if code is not None else name,
        "number": str(number) if number is not None else "",
        "call": call,
        "said": said[:1_000],
        "text": words,
        "sticky": "yes" if code is not None and code.sticky else "no",
        "of_kernel": "yes" if code is not None and code.of_kernel else "no",
    }
    severity = Severity.ERROR if name else Severity.WARNING
    return Statement(
        "api-error",
        returned,
        severity,
        key=(_NUMBERS.sub("#", said),),
        attributes={key: value for key, value in attributes.items() if value},
    )
