"""Where the CUDA driver and NCCL write their logs.

CUDA_LOG_FILE is a path, `stdout` or `stderr` (CUDA driver API, error log management). NCCL_DEBUG_FILE is a path with
`%h` for the host name and `%p` for the pid (NCCL user guide, environment variables).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from glob import escape
from typing import Final

_STREAMS: Final = frozenset({"stdout", "stderr", "stdlog"})  # these are no files


def paths(variables: Mapping[str, str], pids: Sequence[int], hosts: Sequence[str]) -> Iterator[str]:
    """The logs of a process as globs. See `LogPlaces`."""
    names = [variables.get("CUDA_LOG_FILE", "")]
    pattern = variables.get("NCCL_DEBUG_FILE", "")
    names += [pattern.replace("%h", host).replace("%p", str(pid)) for host in hosts for pid in pids]
    for name in names:
        if name and name not in _STREAMS:
            yield escape(name)
