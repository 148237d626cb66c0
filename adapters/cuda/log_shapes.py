"""Shapes of the logs of the CUDA driver, NCCL and TensorRT, and log paths of the first two.

CUDA_LOG_FILE is a path, `stdout` or `stderr` (CUDA driver API, error log management). NCCL_DEBUG_FILE is a path with
`%h` for the host name and `%p` for the pid (NCCL user guide, environment variables).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from glob import escape
from typing import Final

from livedbg.logs.clock import SourceClock
from livedbg.logs.shapes import SEVERITY_OF_LETTER, Header, Shape, severity_of_word
from livedbg.text.patterns import lazy_re

# NCCL (src/debug.cc): `host:pid:tid [dev] NCCL INFO …`, a time and a file in front in newer ones.
_NCCL = lazy_re(
    r"(?:\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.(\d{1,9}))?\] )?([\w.-]{1,255}):(\d{1,10}):(\d{1,10}) \[-?\d{1,4}\] "
    r"(?:[\w./+-]{1,300}:\d{1,18} )?NCCL (INFO|WARN|TRACE|ABORT|VERSION) ?"
)


def _nccl(match: re.Match[str], clock: SourceClock) -> Header:
    wall_ns = clock.date_time(match[1], match[2]) if match[1] else None
    return Header("nccl", severity_of_word(match[6]), match.end(), wall_ns, None, int(match[4]), int(match[5]))


# The driver's CUDA_LOG_FILE: `[14:38:03.928][thread][CUDA][E] …`, a fifth bracket in 13.0.
_CUDA = lazy_re(r"\[(\d\d:\d\d:\d\d)\.(\d{1,9})\]\[\d{1,18}\]\[CUDA\]\[([EWID])\](?:\[\w+\])? ?")


def _cuda(match: re.Match[str], clock: SourceClock) -> Header:
    return Header("cuda-log", SEVERITY_OF_LETTER[match[3]], match.end(), clock.time_of_day(match[1], match[2]))


# TensorRT's loggers (samples/common/logger.h; python/src/infer): `[08/21/2023-16:02:20] [E] [TRT] …`, `[TRT] [E] …`.
_TENSORRT = lazy_re(
    r"\[(\d\d)/(\d\d)/(\d{4})-(\d\d:\d\d:\d\d)\] (?:\[TRT\] )?\[([FEWIV])\] (?:\[TRT\] )?(?:Error\[\d{1,3}\]: )?"
)


def _tensorrt(match: re.Match[str], clock: SourceClock) -> Header:
    wall_ns = clock.date_time(f"{match[3]}-{match[1]}-{match[2]} {match[4]}", None)
    return Header("tensorrt", SEVERITY_OF_LETTER[match[5]], match.end(), wall_ns)


SHAPES: Final = (
    Shape("nccl", "", _NCCL, _nccl, holds=" NCCL "),
    Shape("cuda-log", "[", _CUDA, _cuda),
    Shape("tensorrt", "[", _TENSORRT, _tensorrt),
)
"""The specific ones first."""

_STREAMS: Final = frozenset({"stdout", "stderr", "stdlog"})  # these are no files


def paths(variables: Mapping[str, str], pids: Sequence[int], hosts: Sequence[str]) -> Iterator[str]:
    """Yield the logs of a process as globs. See `LogPlaces`."""
    names = [variables.get("CUDA_LOG_FILE", "")]
    pattern = variables.get("NCCL_DEBUG_FILE", "")
    names += [pattern.replace("%h", host).replace("%p", str(pid)) for host in hosts for pid in pids]
    for name in names:
        if name and name not in _STREAMS:
            yield escape(name)
