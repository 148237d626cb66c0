"""Layers that take a prefix off a line, made of a pattern whose named groups say what the prefix means."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Final

from livedbg.logs.clock import SourceClock, month_of
from livedbg.logs.writers import NO_TAG, Opened, Tag

Layer = Callable[[str, SourceClock], Opened | None]
"""Takes a wrapping off a line; None for a line that has it not."""

_STREAMS: Final = {"O": "stdout", "E": "stderr"}
_MOST_RANKS: Final = 16_384
_WRITERS: Final = frozenset(
    ("rank", "label", "host", "pod", "service", "container", "stream", "program", "pid", "step")
)  # groups that say who wrote it
MONTH: Final = r"(?P<month>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
"""Of a pattern."""


def by(pattern: str, behind: Callable[[str, int], int] | None = None) -> Layer:
    """Return a layer that takes off a prefix.

    Args:
        pattern: matches it. Its groups are optional fields (`stream_2` is another place of `stream`): `time`, `part`
            and `zone` of a date and time; or `month`, `day`, `clock`, and `part` or `year`; or `ms`, or `unix` and
            `micro`, since 1970; `rank`, `label` (a rank, or a port), `host`, `pod` and `container`, `service`,
            `stream`, `program` and `pid`, `step` of a build; `cut`: the next line continues it.
        behind: returns where the text begins, from the line and the end of the match.
    """
    compiled = re.compile(pattern)
    groups = compiled.groupindex
    writers = tuple(name for name in groups if name.partition("_")[0] in _WRITERS)
    tag_of = lru_cache(maxsize=4096)(partial(_tag, writers))
    time_of = _clock_of(groups)

    def opened(text: str, clock: SourceClock) -> Opened | None:
        match = compiled.match(text)
        if match is None:
            return None
        end, tag = match.end(), NO_TAG
        if writers:
            tag = tag_of(match.group(*writers))
        wall_ns = None if time_of is None else time_of(match, clock)
        goes_on = "cut" in groups and match["cut"] is not None
        return Opened(text[end if behind is None else behind(text, end) :], tag, wall_ns, goes_on)

    return opened


def any_of(*layers: Layer) -> Layer:
    """Return a layer that takes off a prefix of one of some forms."""
    return lambda text, clock: next((found for layer in layers if (found := layer(text, clock)) is not None), None)


def _clock_of(groups: Mapping[str, int]) -> Callable[[re.Match[str], SourceClock], int | None] | None:
    part, zone = (name if name in groups else None for name in ("part", "zone"))
    if "time" in groups:
        return lambda match, clock: (
            clock.date_time(match["time"], part and match[part], zone and match[zone]) if match["time"] else None
        )
    if "ms" in groups:
        return lambda match, clock: int(match["ms"]) * 1_000_000
    if "unix" in groups:
        return lambda match, clock: int(match["unix"] + match["micro"]) * 1000
    if "year" in groups:
        return lambda match, clock: clock.date_time(
            f"{match['year']}-{month_of(match['month']) or 0:02}-{int(match['day']):02} {match['clock']}", None
        )
    if "clock" in groups:
        return lambda match, clock: clock.month_day(
            month_of(match["month"]) or 0, int(match["day"]), match["clock"], part and match[part]
        )
    return None


def _tag(names: tuple[str, ...], values: tuple[str | None, ...] | str | None) -> Tag:
    values = values if isinstance(values, tuple) else (values,)
    said = {name.partition("_")[0]: value for name, value in zip(names, values, strict=True) if value}
    host, container, stream = (said.get(name, "") for name in ("host", "container", "stream"))
    stream = _STREAMS.get(stream, stream)
    if "program" in said:
        return program_tag(said["program"], int(said["pid"]) if "pid" in said else None, host, container)
    if "pod" in said:
        return Tag(f"pod {said['pod']}/{container}", host=said["pod"], container=container, stream=stream)
    if "service" in said:
        return Tag(f"container {said['service']}", container=said["service"])
    if "step" in said:
        return Tag(f"build step {said['step']}")
    label = int(said.get("label", "0"))
    if label > _MOST_RANKS:
        return Tag(f"process or port {label}")
    if "rank" in said or "label" in said:
        rank = int(said.get("rank", label))
        return Tag(f"rank {rank}", rank=rank, host=host, stream=stream)
    tag = Tag(host or container, host=host, stream=stream, container=container)
    return NO_TAG if tag == NO_TAG else tag


@lru_cache(maxsize=4096)
def program_tag(program: str, pid: int | None, host: str, container: str) -> Tag:
    """Return the tag of a host's program, as syslog and the journal name it."""
    writer = f"{program}[{pid}]" if pid is not None else program or host
    return Tag(writer, pid=pid, host=host, container=container)
