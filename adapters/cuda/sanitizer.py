"""Parse reports of compute-sanitizer (memcheck, racecheck, initcheck, synccheck, leaks) and of the older cuda-memcheck.

Source: Compute Sanitizer documentation, "Compute Sanitizer Tool Examples" and the chapters of the tools. Every line
begins with `=========`; a report's first line has one space after it, its details have five. Lines of the program
itself may come between them, and end nothing.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec.structs import replace

from livedbg.adapters.cuda.statement import (
    RULE,
    Point,
    Statement,
    base_name,
    by_name,
    by_number,
    device_place,
    host_frame,
    kernel_name,
    place_of,
)
from livedbg.model import Frame, Severity
from livedbg.text.patterns import lazy_re

_FRAMES: Final = 100
_ACCESS: Final = lazy_re(r"Invalid __(?P<space>\w+)__ (?P<access>[\w ]+?) of size (?P<size>[\d,]+)")
_API: Final = lazy_re(
    r"Program hit (?P<name>\w+) \(error (?P<number>\d{1,9})\) due to (?P<text>.+?) on CUDA API call to (?P<call>\w+)"
)
_RACE: Final = lazy_re(r"(?:(?P<level>Error|Warning|Info|Fatal): )?Race reported between (?P<first>.+)")
_HAZARD: Final = lazy_re(
    r"(?:(?P<level>Error|Warning|Info|Fatal): )?(?:\([^()]*\) )?Potential (?P<kind>RAW|WAR|WAW) hazard detected at "
    r"(?P<where>.+?)(?: in block \((?P<block>[\d,]+)\))? ?:?$"
)
_HAZARD_SIDE: Final = lazy_re(r"(?P<access>Write|Read|Atomic) Thread \((?P<thread>[\d,]+)\) at (?P<place>.+)")
_RACE_SIDE: Final = lazy_re(r"and (?P<access>\w+) access at (?P<place>.+?)(?: \[(?P<count>[\d,]{1,15}) hazards?\])?$")
_FIRST_SIDE: Final = lazy_re(r"(?P<access>\w+) access at (?P<place>.+?)(?= and \w+ access at |$)")
_LEAK: Final = lazy_re(r"Leaked (?P<size>[\d,]{1,20}) bytes at (?P<address>\S+)|Leaked an? (?P<object>\w+)")
_SUMMARY: Final = lazy_re(r"(?P<tool>ERROR|RACECHECK|LEAK) SUMMARY: (?P<text>.+)")
_COUNTED: Final = lazy_re(r"(?P<count>[\d,]{1,15}) (?:errors?|hazards?|bytes)")
_BY: Final = lazy_re(
    r"by threads? \((?P<thread>\d{1,18},\d{1,18},\d{1,18})\) in block \((?P<block>\d{1,18},\d{1,18},\d{1,18})\)"
)
_CLONE: Final = lazy_re(r"\[clone (?P<kernel>.+?)\] (?P<function>.+)")
_OTHERS: Final = (  # first words of other reports -> word for the tool
    ("Uninitialized ", "initcheck"),
    ("Host API ", "initcheck"),
    ("Unused memory", "unused"),
    ("Barrier error", "synccheck"),
    ("Stack overflow", "memcheck"),
    ("Illegal instruction", "memcheck"),
    ("Malloc/Free ", "memcheck"),
    ("Out-of-range ", "memcheck"),
    ("Invalid ", "memcheck"),
    ("Fatal UVM ", "memcheck"),
    ("Hardware ", "memcheck"),
    ("Device exception", "memcheck"),
    ("Unknown Error", "memcheck"),
    ("Internal Sanitizer Error", "itself"),
    ("Error: process didn't terminate", "end"),
    ("Error: No attachable process", "itself"),
)
_WITH_PLACE: Final = frozenset({"sanitizer", "hazard"})
"""Reports that always have a place: one without is followed by lines of another process."""

_OF_KERNEL: Final = lazy_re(r"__tmp_(?:kernel_)?(?P<kernel>\w{1,400}_f\d{1,9}_c\d{1,9}_r\d{1,9}_g\d{1,9})\.cu$")
"""nvFuser's source of one kernel (csrc/runtime/compiled_kernel.cpp): without device frames, only its name tells it."""

_SAME: Final = lazy_re(r"0x[0-9a-fA-F]{1,16}|\d[\d,]*")


class Sanitizer:
    """The reports in one stream of lines: a report is open until its end, or until the next one."""

    def __init__(self) -> None:
        self._open: Statement | None = None
        self._device: list[Frame] = []
        self._host: list[Frame] = []

    @property
    def opened(self) -> bool:
        """Return whether a report has begun and not ended."""
        return self._open is not None

    def line(self, text: str) -> list[Statement]:
        """Process a line that begins with the rule; return the completed reports."""
        body = text[len(RULE) :].strip()
        if not body:
            return self.end()
        begun = None if self._more(body) else _begin(body)
        if begun is None:
            return []
        mixed = self._open is not None and begun.code in _WITH_PLACE and not (self._device or self._host)
        done, self._open = self.end(), begun
        if mixed and done[0].code in _WITH_PLACE:
            done[0].attributes["mixed"] = begun.attributes["mixed"] = True
        return done

    def end(self) -> list[Statement]:
        """End and return the open report."""
        done, self._open = self._open, None
        if done is not None:
            _finish(done, self._device, self._host)
        self._device, self._host = [], []
        return [] if done is None else [done]

    def _more(self, body: str) -> bool:
        """Add a line to the open report; return False if it doesn't belong to it."""
        statement = self._open
        if statement is None:
            return False
        if body.startswith("at "):
            frame = device_place(body[3:])
            if frame is not None and not self._device:
                self._device.append(frame)
            return True
        by = _BY.match(body)
        if by is not None:
            statement.thread, statement.block = _point(by["thread"]), _point(by["block"])
            return True
        if body.startswith("Device Frame:"):
            frame = device_place(body[len("Device Frame:") :])
            if frame is not None and len(self._device) < _FRAMES:
                self._device.append(frame)
            return True
        if body.startswith("Host Frame:"):
            frame = host_frame(body[len("Host Frame:") :])
            if frame is not None and len(self._host) < _FRAMES:
                self._host.append(frame)
            return True
        if body.startswith("in ") and self._host:
            self._host[-1] = replace(self._host[-1], module=base_name(body[3:]) or None)
            return True
        if body.startswith(("Address ", "Access ", "and is ", "and was ", "Barrier ", "Current Value")):
            if body.startswith(("Barrier error",)):
                return False
            said = statement.attributes.get("address", "")
            if len(said) < 400:
                statement.attributes["address"] = f"{said} {body}".strip()
            return True
        return _side(statement, body) or body.startswith(("Saved host backtrace", "The backtrace", "Host Backtrace"))


def _begin(body: str) -> Statement | None:
    """Return the report that a line begins, or None."""
    access = _ACCESS.match(body)
    if access is not None:
        attributes = {"tool": "memcheck", "access": access["access"], "space": access["space"]}
        return Statement("sanitizer", body.rstrip("."), Severity.CRITICAL, hit=f"Invalid {access['access']}",
                         attributes=attributes)  # fmt: skip
    api = _API.match(body)
    if api is not None:
        return _api(api)
    race = _RACE.match(body)
    if race is not None:
        return _race(race)
    hazard = _HAZARD.match(body)
    if hazard is not None:
        what = f"Potential {hazard['kind']} hazard"
        statement = Statement("hazard", what, _level(hazard["level"]), hit=what)
        statement.attributes = {"tool": "racecheck", "address": hazard["where"]}
        statement.block = _point(hazard["block"])
        return statement
    leak = _LEAK.match(body)
    if leak is not None:
        what = "Leaked device memory" if leak["size"] else f"Leaked {leak['object']}"
        size = (leak["size"] or "").replace(",", "")
        return Statement("leak", what, Severity.WARNING, attributes={"tool": "memcheck", "bytes": size})
    summary = _SUMMARY.match(body)
    if summary is not None:
        return _summary(summary)
    for words, tool in _OTHERS:
        if body.startswith(words):
            return _other(body, tool)
    return None


def _api(match: re.Match[str]) -> Statement:
    number = int(match["number"])
    code = by_number(number) or by_name(match["name"])
    text = match["text"].strip('"')
    attributes = {
        "tool": "memcheck",
        "error": match["name"],
        "number": str(number),
        "call": match["call"],
        "sticky": code is not None and code.sticky,
        "of_kernel": code is not None and code.of_kernel,
    }
    what = f"{match['call']} returned {match['name']} ({number}, {text})"
    return Statement("sanitizer-api", what, key=(match["name"], match["call"]), attributes=attributes)


def _race(match: re.Match[str]) -> Statement:
    statement = Statement("hazard", "Race", _level(match["level"]), hit="Race")
    statement.attributes = {"tool": "racecheck"}
    side = _FIRST_SIDE.match(match["first"])
    if side is not None:
        _add_side(statement, side["access"], side["place"])
        _side(statement, match["first"][side.end() :].strip())
    return statement


def _side(statement: Statement, body: str) -> bool:
    """Add one of the two accesses of a race."""
    if statement.code != "hazard":
        return False
    race, hazard = _RACE_SIDE.match(body), _HAZARD_SIDE.match(body)
    if race is not None:
        _add_side(statement, race["access"], race["place"])
        if race["count"]:
            statement.attributes["hazards"] = race["count"].replace(",", "")
    elif hazard is not None:
        _add_side(statement, f"{hazard['access']} by thread ({hazard['thread']})", hazard["place"])
        statement.thread = _point(hazard["thread"]) if statement.thread is None else statement.thread
    return race is not None or hazard is not None


def _add_side(statement: Statement, access: str, place: str) -> None:
    frame = device_place(place)
    if frame is None:
        return
    at = place_of(frame.file, frame.line) if frame.file and frame.line is not None else frame.function
    statement.attributes["accesses"] = "; ".join(
        filter(None, (statement.attributes.get("accesses", "")[:400], f"{access.lower()} at {at}"))
    )
    statement.frames = (*statement.frames[:_FRAMES], frame)


def _level(word: str | None) -> Severity:
    return {"Warning": Severity.WARNING, "Info": Severity.INFO}.get(word or "", Severity.ERROR)


def _summary(match: re.Match[str]) -> Statement:
    counted = _COUNTED.match(match["text"])
    count = counted["count"].replace(",", "") if counted is not None else ""
    what = f"compute-sanitizer: {match['tool'].lower()} summary: {match['text']}"
    return Statement(
        "sanitizer-summary", what, Severity.INFO, attributes={"tool": match["tool"].lower(), "errors": count}
    )


def _other(body: str, tool: str) -> Statement:
    if tool == "unused":
        return Statement("leak", _SAME.sub("…", body), Severity.WARNING, attributes={"tool": "initcheck"})
    if tool == "itself":
        return Statement(
            "sanitizer-trouble", body.rstrip("."), Severity.WARNING, attributes={"tool": "compute-sanitizer"}
        )
    if tool == "end":
        return Statement("sanitizer-end", body.removeprefix("Error: ").rstrip("."), attributes={"tool": "memcheck"})
    head, _, tail = body.rstrip(".").partition(". ")
    words = f"{head}: {tail[:1].lower()}{tail[1:]}" if tail else head
    hit = head[:60]
    return Statement("sanitizer", words, Severity.CRITICAL, hit=hit, attributes={"tool": tool})


def _finish(statement: Statement, device: list[Frame], host: list[Frame]) -> None:
    """Set kernel, place and stack of a complete report."""
    frames = [*statement.frames, *device]
    if frames:
        inner, outer = frames[0], frames[-1]
        clone = _CLONE.match(inner.function)
        outer_name = clone["kernel"] if clone is not None and len(device) < 2 else outer.function
        own_file = _OF_KERNEL.search(outer.file or "")
        by_file = own_file["kernel"] if own_file is not None and own_file["kernel"] not in outer_name else ""
        statement.kernel = by_file or kernel_name(outer_name)
        known = next((frame for frame in frames if frame.file and frame.line is not None), None)
        if known is not None and known.file:
            statement.where = place_of(known.file, known.line or 0)
        if (inner is not outer or by_file) and statement.code != "hazard":
            statement.attributes["function"] = kernel_name(clone["function"] if clone is not None else inner.function)
    own = next((frame for frame in host if not _of_cuda(frame)), None)
    if own is not None:
        at = f" at {place_of(own.file, own.line or 0)}" if own.file else f" in {own.module}" if own.module else ""
        statement.host = f"{kernel_name(own.function)}{at}"
    statement.frames = (*frames, *host)
    if statement.code in ("sanitizer", "hazard", "leak"):
        statement.key = (statement.kernel, statement.where or statement.attributes.get("accesses", ""), statement.host)


def _of_cuda(frame: Frame) -> bool:
    module = frame.module or ""
    return module.startswith(("libcuda", "libcudart")) or frame.function.startswith(("cuda", "cu", "__cuda", "0x"))


def _point(text: str | None) -> Point | None:
    numbers = [int(word) for word in (text or "").split(",") if word and len(word) < 12]
    return (numbers[0], numbers[1], numbers[2]) if len(numbers) == 3 else None
