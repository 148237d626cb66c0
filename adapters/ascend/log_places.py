"""Paths of a process's CANN logs (CANN log reference).

`<root>/{debug,run,security}/plog/plog-<pid>_<time>.log`, and `device-<id>/device-<pid>_<time>.log` next to `plog`; in
some versions without the first folder. The root is ASCEND_PROCESS_LOG_PATH, else ASCEND_WORK_PATH/log, else
~/ascend/log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from glob import escape
from pathlib import PurePosixPath
from typing import Final

_FOLDERS: Final = (
    *(f"{kind}/{place}" for kind in ("debug", "run", "security") for place in ("plog", "device-*")),
    "device-*",
    "plog",
)


def paths(variables: Mapping[str, str], pids: Sequence[int], hosts: Sequence[str]) -> Iterator[str]:
    """Yield the logs of a process as globs. See `LogPlaces`."""
    root = _root(variables)
    if root is None:
        return
    for folder in _FOLDERS:
        for pid in pids:
            for kind in ("plog", "device"):
                yield f"{escape(str(root))}/{folder}/{kind}-{pid}_*.log"


def _root(variables: Mapping[str, str]) -> PurePosixPath | None:
    for name, below in (("ASCEND_PROCESS_LOG_PATH", ""), ("ASCEND_WORK_PATH", "log"), ("HOME", "ascend/log")):
        value = variables.get(name)
        if value:
            return PurePosixPath(value, below)
    return None
