"""IREE's status lines: where the runtime failed, with what code, and in which dispatch or call.

Sources: iree/base/status.c (`FILE:LINE: CODE; MESSAGE; while invoking native function F; while calling import;`),
iree/vm/stack.c (`[ 0] bytecode module.function:OFFSET FILE:LINE:COLUMN`), the drivers in iree/hal/drivers.

Invariants:
    iree_status.L1. Only a line with a source file, or the function that was invoked, and a code of a status is one.
"""

from __future__ import annotations

import re
from typing import Final

from livedbg.logs.said import Form, Said
from livedbg.model import CauseClass

__all__ = ["BLOCK", "CODE", "FORMS"]

CODE: Final = "status"

_CODES: Final = (
    "CANCELLED|UNKNOWN|INVALID_ARGUMENT|DEADLINE_EXCEEDED|NOT_FOUND|ALREADY_EXISTS|PERMISSION_DENIED|RESOURCE_EXHAUSTED"
    "|FAILED_PRECONDITION|ABORTED|OUT_OF_RANGE|UNIMPLEMENTED|INTERNAL|UNAVAILABLE|DATA_LOSS|UNAUTHENTICATED|DEFERRED"
    "|INCOMPATIBLE"
)
_STATUS = re.compile(
    r"(?:(?P<file>[\w./+-]{1,400}\.(?:c|cc|cpp|h|m|mm|inl)):(?P<line>\d{1,9}): "
    r"|^(?=[A-Z_]{5,20}; (?:[^\n]{0,1000}; )?while invoking native function ))(?P<code>" + _CODES + r");"
    r"(?P<rest>[^\n]{0,2000}(?:\n(?!\[ *\d)[^\n]{0,400}; ?while [^\n]{0,400})?)"
    r"(?P<stack>(?:\n *(?:\[ *\d{1,4}\]|at )[^\n]{0,600}|\n {4}[^\n]{0,400}|\n +\])*)",
    re.MULTILINE,
)
_NATIVE = re.compile(r"while invoking native function (?P<name>[\w.$@]{1,200})")
_FRAME = re.compile(
    r"\[ *\d{1,4}\] +bytecode (?P<name>[\w.$@]{1,300}):\d{1,18} *"
    r"(?P<place>[^\s\[\]-][^\s;\[\]]{0,300}:\d{1,9}(?::\d{1,9})?)?"
)
_AT = re.compile(r"\n +(?:at )?(?P<place>[^\s:\[\]]{1,300}\.\w{1,10}:\d{1,9}:\d{1,9})")
_STEPS: Final = (
    (r"(?i)shared memory", "smaller tile sizes for that dispatch, or another codegen pipeline"),
    (r"DEVICE_LOST", "dmesg, and a smaller dispatch; --device_replay_output=F keeps the work of the next one"),
    (r"(?i)RESOURCE_EXHAUSTED|out of memory", "look for a size that is wrong: the shapes of the inputs"),
    (r"semaphore", "the first failure is another one: read the lines before it"),
    (r"(?i)NOT_FOUND|INCOMPATIBLE|no executable", "compile for that device: --iree-hal-target-device and its target"),
)
_VERSIONS: Final = re.compile(
    r"version mismatch; runtime supports (?P<runtime>\d{1,6}\.\d{1,6}), module has (?P<module>\d{1,6}\.\d{1,6})"
)
_WORDS: Final = {"VK_ERROR_DEVICE_LOST": "the Vulkan device was lost"}


def _status(match: re.Match[str]) -> Said:
    code, rest = match["code"], match["rest"]
    stack = match["stack"] or ""
    message = _message(rest)
    native, frame = _NATIVE.search(rest), _FRAME.search(stack)
    at = _AT.search(stack)
    place = (frame["place"] if frame is not None else None) or (at["place"] if at is not None else "")
    where = f" in {frame['name']}" if frame is not None else ""
    where += f" ({place})" if place else ""
    by = f", calling {native['name']}" if native is not None else ""
    lost = next((words for word, words in _WORDS.items() if word in rest), "")
    said = f"{lost} ({message})" if lost else message
    source = f"{match['file'].rpartition('/')[2]}:{match['line']}" if match["file"] else ""
    return Said(
        code=CODE,
        key=f"{match['file']}:{match['line']} {code} {message}",
        sentence=f"IREE failed with {code}{f': {said}' if said else ''}{by}{where}",
        cause=CauseClass.DEVICE if _of_device(rest) else CauseClass.PROCESS,
        steps=_steps(f"{code} {rest}"),
        attributes={"status": code, "file": source, "place": place},
    )


def _steps(text: str) -> tuple[str, ...]:
    versions = _VERSIONS.search(text)
    if versions is not None:
        runtime, module = (tuple(map(int, versions[name].split("."))) for name in ("runtime", "module"))
        older, newer = ("compiler", "runtime") if module < runtime else ("runtime", "compiler")
        return (
            f"the {older} is older than the {newer}: pip install -U iree-base-{older}==VERSION, VERSION as pip show "
            f"iree-base-{newer} says, and compile the module again",
        )
    return tuple(step for pattern, step in _STEPS if re.search(pattern, text) is not None)[:2]


def _of_device(text: str) -> bool:
    return any(word in text for word in ("DEVICE_LOST", "ILLEGAL_ADDRESS", "LAUNCH_FAILED", "IllegalAddress"))


def _message(rest: str) -> str:
    """The words between the code and what was being done."""
    parts = [part.strip() for part in rest.replace("\n", " ").split(";")]
    own = [part for part in parts if part and not part.startswith(("while ", "invoking function"))]
    text = "; ".join(own)
    return text if len(text) <= 140 else f"{text[:139]}…"


FORMS: Final = (
    Form((*(f": {code};" for code in _CODES.split("|")), "; while invoking native function "), _STATUS, _status),
)
BLOCK: Final = (b"] bytecode ", b"]   native ", b"while invoking native function")
"""What the other lines of a status contain."""
