"""Log files of torch besides standard error: TORCH_LOGS_OUT (torch/_logging/_internal.py).

The log of TORCH_TRACE is found by the process's open descriptor: its name is random.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from glob import escape
from typing import Final

_VARIABLE: Final = "TORCH_LOGS_OUT"


def paths(variables: Mapping[str, str], pids: Sequence[int], hosts: Sequence[str]) -> Iterator[str]:
    """Yield the log of a process as a glob. See `LogPlaces`."""
    if variables.get(_VARIABLE):
        yield escape(variables[_VARIABLE])
