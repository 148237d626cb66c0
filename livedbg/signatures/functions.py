"""The functions that signatures name, for values that no pattern can extract. All of them are here."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from livedbg.signatures.templates import frame_of
from livedbg.text.wording import listing

_ERROR: Final = (
    r"^[^\S\n]{0,40}((?:[A-Za-z_]\w{0,100}\.){0,20}[A-Z]\w{0,100}(?:Error|Exception|Interrupt|Exit)\b"
    r"(?::[^\n]{0,300})?)"
)
_COUNT: Final = r"^ +(?:(\d{1,9}) ranks? have|Rank (\d{1,9}) has) launched up to operation (\d{1,18})"
_MANAGED: Final = r"^ +Rank (\d{1,9}) -- GPU \S+ managed by process \d{1,10} on node"
_TRACE: Final = 20_000  # characters of a traceback that are read
_ALLOCATED: Final = r"([\d.]{1,40} [KMGT]?i?B) (?:is allocated by|already allocated)"
_UNUSED: Final = r"([\d.]{1,40} [KMGT]?i?B) is reserved by \w{1,40} but unallocated"
_ITSELF: Final = "this process has "
_HOLDERS: Final = 3_000  # characters of such a list
_ROUNDED: Final = 0.995  # sizes are rounded to two digits
_SHOWN: Final = 6  # ranks that are named


class Function(Struct, frozen=True):
    """A function that a signature can name.

    `make` takes the match; returns further values for the templates, or None if the text is no failure after all.
    """

    make: Callable[[re.Match[str]], Mapping[str, str] | None]
    gives: frozenset[str]


_NAME: Final = r"^ {2}(?P<name>[\w.-]{1,100}):\s*$"
_ITEM: Final = r"^ {0,8}- (?=[\w.-]{1,100}: )"
_ITEM_NAME: Final = r"^[ -]{2,12}name: \"?([\w.-]{1,100})"
_RUNS: Final = r"\bState:\s+Running\b|\"running\"\s*:\s*\{"
_DEF: Final = r"^\s{0,100}def (?P<kernel>\w{1,200})\s{0,100}\("
_PASS: Final = r"`(?P<pass>[^`\n]{1,300})` on '(?P<op>[^'\n]{1,100})' operation(?:: @(?P<name>[^\s,\]]{1,300}))?"


def _container(match: re.Match[str]) -> Mapping[str, str]:
    """Return `container`: the last heading above, in a description of kubectl; `again`, if that one runs now."""
    heads = list(re.finditer(_NAME, match.string, re.MULTILINE))
    own = next((head for head in reversed(heads) if head.start() < match.start()), None)
    below = next((head.start() for head in heads if head.start() > match.start()), None)
    again = re.search(_RUNS, match.string[own.start() if own is not None else 0 : below]) is not None
    name = own["name"] if own is not None else ""
    if name.endswith("Statuses"):  # a list of YAML, whose items have their names inside
        begins = [item.start() for item in re.finditer(_ITEM, match.string, re.MULTILINE)]
        begin = max((at for at in begins if at <= match.start()), default=0)
        end = min((at for at in begins if at > match.start()), default=len(match.string))
        item = re.search(_ITEM_NAME, match.string[begin:end], re.MULTILINE)
        name = item[1] if item is not None else ""
    return {"container": name, "again": "yes" if again else ""}


def _missing_ranks(match: re.Match[str]) -> Mapping[str, str]:
    """Return `ranks` and `tensors` of a list that has a rank and its tensors in each line."""
    rows = re.findall(r"^(\d{1,6}): \[([^\]\n]{1,400})", match["rows"], re.MULTILINE)
    ranks = listing(rank for rank, _ in rows)
    return {"ranks": f"{'ranks' if len(rows) > 1 else 'rank'} {ranks}", "tensors": rows[0][1] if rows else ""}


def _triton_excerpt(match: re.Match[str]) -> Mapping[str, str]:
    """Return `kernel` and `code` of the source that Triton quotes, up to its caret."""
    source = match["source"] or ""
    kernel = re.search(_DEF, source, re.MULTILINE)
    lines = [line.strip() for line in source.split("\n") if line.strip()]
    code = lines[-1] if lines and match["caret"] is not None and not lines[-1].startswith("def ") else ""
    return {"kernel": kernel["kernel"] if kernel is not None else "", "code": code}


def _mlir_passes(match: re.Match[str]) -> Mapping[str, str] | None:
    """Return `pass` and `function` of a list of passes: the last one failed."""
    passes = list(re.finditer(_PASS, match["passes"]))
    if not passes:
        return None
    named = [one["name"] for one in passes if one["name"]]
    return {"pass": passes[-1]["pass"].rpartition("::")[2], "of": named[0] if named else ""}


def _worker_trace(match: re.Match[str]) -> Mapping[str, str]:
    """Return `error` and `place` of a traceback at the beginning of the text; empty without one.

    Where it is cut off above the error, its last frame is that of a caller: often of its launcher's own handler.
    """
    if not (match["trace"] or "").startswith("Traceback"):
        return {}
    begin = match.start("trace")
    rest = match.string[begin : begin + _TRACE].partition("\n====")[0]
    errors = re.findall(_ERROR, rest, re.MULTILINE)
    return {"error": errors[-1].strip()[:200], "place": frame_of(rest)} if errors else {}


def _rank_list(match: re.Match[str]) -> Mapping[str, str]:
    """Return `who`: `Ranks 1, 2 and 3 more`; `rank`: the first of them."""
    found = re.findall(r"\brank (\d{1,9})", match["list"]) or re.findall(r"\d{1,9}", match["list"])
    ranks = sorted({int(rank) for rank in found})
    return {"who": f"Rank{'s' if len(ranks) > 1 else ''} {_some(ranks)}", "rank": str(ranks[0])}


def _operation_counts(match: re.Match[str]) -> Mapping[str, str] | None:
    """Return `who` launched fewer operations (`last`) than `others` (`first`), from counts with ranks below them."""
    counts: list[tuple[int, int, list[str]]] = []
    for line in match["rows"].split("\n"):
        if (counted := re.match(_COUNT, line)) is not None:
            many, rank, operation = counted.groups()
            counts.append((int(operation), int(many or 1), [rank] if rank else []))
        elif (managed := re.match(_MANAGED, line)) is not None and counts:
            counts[-1][2].append(managed[1])
    if len(counts) < 2:
        return None
    last, many, ranks = min(counts)
    first, _, others = max(counts)
    who = _ranks(ranks) if ranks else f"{many} ranks"
    return {"who": who, "last": str(last), "first": str(first), "others": _ranks(others) if others else "others"}


def _memory_holders(match: re.Match[str]) -> Mapping[str, str]:
    """Return `others`: the processes in a list that hold a device's memory, without the one that ran out of it.

    One that can't know its own pid (in a container) lists itself too: it is the smallest that holds its reported
    allocated and reserved memory.
    """
    text = match.string[match.start() : match.start() + _HOLDERS]
    listed = re.findall(r"\bProcess (\d{1,10}) has ([\d.]{1,40} [KMGT]?i?B)", text)
    counted = [size for size in (re.search(pattern, text) for pattern in (_ALLOCATED, _UNUSED)) if size is not None]
    if " memory in use" in text and _ITSELF not in text and counted:
        least = sum(_bytes(size[1]) for size in counted) * _ROUNDED
        own = min((one for one in listed if _bytes(one[1]) >= least), key=lambda one: _bytes(one[1]), default=None)
        listed = [one for one in listed if one != own]
    return {"others": ", ".join(f"{pid} ({size})" for pid, size in listed[:10])} if listed else {}


def _bytes(size: str) -> float:
    number, _, unit = size.partition(" ")
    factor: int = 1024 ** "BKMGT".index(unit[:1])
    return float(number.strip(".") or 0) * factor


def _ranks(ranks: Sequence[str]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {_some(ranks)}"


def _some(numbers: Sequence[object]) -> str:
    more = f" and {len(numbers) - _SHOWN} more" if len(numbers) > _SHOWN else ""
    return f"{', '.join(map(str, numbers[:_SHOWN]))}{more}"


def _table(**functions: tuple[Callable[[re.Match[str]], Mapping[str, str] | None], str]) -> Mapping[str, Function]:
    made = {name: Function(make, frozenset(gives.split())) for name, (make, gives) in functions.items()}
    return MappingProxyType({name.replace("_", "-"): function for name, function in made.items()})


FUNCTIONS: Final = _table(
    container=(_container, "container again"),
    missing_ranks=(_missing_ranks, "ranks tensors"),
    triton_excerpt=(_triton_excerpt, "kernel code"),
    mlir_passes=(_mlir_passes, "pass of"),
    worker_trace=(_worker_trace, "error place"),
    rank_list=(_rank_list, "who rank"),
    memory_holders=(_memory_holders, "others"),
    operation_counts=(_operation_counts, "who last first others"),
)
"""By the name that a signature gives; with the names of the values that it makes."""
