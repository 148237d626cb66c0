"""Errors of AOTInductor models in words: inputs that do not fit, NaN, a call of the generated code that failed.

Sources: torch/_inductor/codegen/cpp_wrapper_cpu.py (checks of inputs), torch/csrc/inductor/aoti_runtime/utils.h
(AOTI_TORCH_ERROR_CODE_CHECK), torch/csrc/inductor/aoti_torch/shim_common.cpp of torch 2.13; c10/core/ScalarType.h and
DeviceType.h for the numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct, structs

from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

_GUARD: Final = lazy_re(
    r"input_handles\[(?P<input>\d+)\]: "
    r"(?P<what>unmatched (?:dtype|device type)|unmatched (?:dim|stride) value at (?P<at>\d+)"
    r"|dim value is too (?:small|large) at (?P<limit>\d+)), expected(?: it)?(?: to be|:) (?P<wanted>[^,\n]+), "
    r"but got: (?P<got>\S+)"
)
_COUNT: Final = lazy_re(r"expected inputs vector size to be (\d+), but got (\d+)")
_INDEX: Final = lazy_re(r"(?:RuntimeError: |what\(\):  |Error: )(index out of bounds: [^\n]{1,200})")
_NAN: Final = lazy_re(r"At least one (NaN|INF) in (\S+)")
_ASSERT: Final = lazy_re(r"^\s+assert not (\w+)\.is(nan|inf)\(\)\.any\(\)\.item\(\)$")
_CALL: Final = lazy_re(r"^Error: (.+) API call failed at (\S+), line (\d+)")
_THROWN: Final = lazy_re(r"^(?:RuntimeError: |  what\(\):  |Error: )(.+)$")

_ERROR: Final = lazy_re(r"^(?:\w+\.)*\w+(?:Error|Exception|Interrupt)(?::|$)|^  what\(\):  ")

_TYPES: Final = (
    *("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32", "complex64"),
    *("complex128", "bool", "qint8", "quint8", "qint32", "bfloat16"),
)
_DEVICES: Final[Mapping[int, str]] = {0: "cpu", 1: "cuda", 12: "xpu", 13: "mps", 14: "meta", 20: "a device of its own"}


class Failure(Struct, frozen=True, kw_only=True):
    """One error.

    Attributes:
        kind: `input` (a check of inputs), `nan`, `infinity`, `result` (a graph returns NaN), `index`, or `call` (of the
            generated code).
        sentence: it, in words.
        number: of the input.
        name: of the tensor in the generated code.
        file: of the generated code, for a call.
        line: in it.
        message: what was thrown.
    """

    kind: str
    sentence: str = ""
    number: int | None = None
    name: str = ""
    file: str = ""
    line: int = 0
    message: str = ""


def failures(lines: Iterable[str]) -> list[Failure]:
    """The errors that a text shows, each once."""
    found: dict[Failure, None] = {}
    call: re.Match[str] | None = None
    message = ""
    for line in lines:
        if match := _GUARD.search(line):
            found[_of_guard(match)] = None
        elif match := _NAN.search(line):
            found[_of_value(match[1], clean_line(match[2], 100))] = None
        elif match := _ASSERT.match(line):
            found[_of_assert(match[1], "NaN" if match[2] == "nan" else "INF")] = None
        elif match := _COUNT.search(line):
            found[Failure(kind="input", sentence=_count(match[1], match[2]))] = None
        elif match := _INDEX.search(line):
            found[Failure(kind="index", sentence=_index(clean_line(match[1], 300)))] = None
        if (match := _CALL.match(line)) and call is None:
            call = match
        elif (match := _THROWN.match(line)) and not _CALL.match(line):
            message = message or clean_line(match[1], 300)
    if call is not None and not found:
        found[Failure(kind="call", file=clean_line(call[2], 500), line=int(call[3]), message=message)] = None
    return list(found)


def last_error(lines: Iterable[str]) -> str:
    """The last line that names an exception of Python or C++, or ""."""
    last = ""
    for line in lines:
        if _ERROR.match(line):
            last = line
    return clean_line(last.strip().removeprefix("what():"), 300).strip().rstrip(".")


def _of_value(kind: str, name: str) -> Failure:
    if kind == "NaN":
        return Failure(kind="nan", sentence=f"There is NaN in {name}.", name=name)
    sentence = f"There is infinity in {name}. If it is meant (a mask of -inf), only this check ended the run."
    return Failure(kind="infinity", sentence=sentence, name=name)


def _of_assert(name: str, kind: str) -> Failure:
    """One of the generated Python of torch.compile, which checks what a graph gets, and as `var` what it returns."""
    failure = _of_value(kind, "what the compiled graph returns" if name == "var" else name)
    if name != "var" or failure.kind != "nan":
        return failure
    told = "It was compiled by torch.compile: which kernel made it is not known here."
    return structs.replace(failure, sentence=f"{failure.sentence} {told}", kind="result")


def _count(wanted: str, got: str) -> str:
    return f"The model was compiled for {wanted} input{'' if wanted == '1' else 's'} (tensors), and gets {got}."


def _index(text: str) -> str:
    return f"A kernel that looks up by index (an embedding, a gather) got one that is out of range: {text}."


def _of_guard(match: re.Match[str]) -> Failure:
    number, what = int(match["input"]), match["what"]
    wanted, got = clean_line(match["wanted"], 100).strip(), clean_line(match["got"], 100).rstrip(".,")
    who = f"Input {number} (counted from 0)"
    if what == "unmatched dtype":
        sentence = f"{who} has type {_type(got)}, and the model was compiled for {_type(wanted)}."
    elif what == "unmatched device type":
        sentence = f"{who} is on {_device(got)}, and the model was compiled for {_device(wanted)}."
    elif match["limit"] is not None:
        sentence = f"{who}: dimension {match['limit']} is {got}, and the model was compiled for {wanted} in it."
    else:
        which = "dimension" if " dim " in what else "the stride of dimension"
        sentence = f"{who}: {which} {match['at']} is {got}, and the model was compiled for {wanted}."
    return Failure(kind="input", sentence=sentence, number=number)


def _type(text: str) -> str:
    """`6(at::kFloat)` or `7` as torch's name of the type."""
    number = re.match(r"\d+", text)
    return _TYPES[int(number[0])] if number and int(number[0]) < len(_TYPES) else text


def _device(text: str) -> str:
    """`00(cpu)` (torch writes the number twice) or `1` as a name."""
    named = re.search(r"\((\w+)\)", text)
    if named is not None:
        return named[1]
    return _DEVICES.get(int(text), f"device type {text}") if text.isdigit() else text
