"""IREE's status lines: where the runtime failed, with what code, and in which dispatch or call.

Sources: iree/base/status.c (`FILE:LINE: CODE; MESSAGE; while invoking native function F; while calling import;`),
iree/vm/stack.c (`[ 0] bytecode module.function:OFFSET FILE:LINE:COLUMN`), the drivers in iree/hal/drivers.

Invariants:
    iree_status.L1. Only a line with a source file (or `<vm>`, for a check of the program), or with the native function
        that was invoked, and with one of the codes of a status is one.
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
    r"(?:(?P<file>[\w./+-]{1,400}\.(?:c|cc|cpp|h|m|mm|inl)|<vm>):(?P<line>\d{1,9}): "
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
    (r"scopes like '(?P<name>[^']{1,100})'", "--parameters={name}=FILE.irpa names the file of its parameters"),
    (r"required module 'io_parameters'", "the module has parameters: --parameters=FILE, or in Python "
     "create_io_parameters_module before the module"),
    (r"no parameter found in index|parameter `[^`]*` range", "iree-dump-parameters --parameters=FILE lists what the "
     "file has; it must be of the same model"),
    (r"no driver '", "iree-run-module --list_drivers lists the drivers"),
    (r"VK_ERROR_INCOMPATIBLE_DRIVER|libvulkan", "Vulkan found no driver: livedbg doctor lists them; look at "
     "VK_ICD_FILENAMES, or install mesa-vulkan-drivers"),
    (r"(?:HIP|CUDA) \w+ library", "the driver of that device is not on this host: livedbg doctor, or another --device"),
    (r"no function `", "iree-dump-module MODULE lists the functions"),
    (r"required module features", "the module was compiled for a newer runtime, or with more types than this one has: "
     "compile it with iree-base-compiler of the runtime's version"),
    (r"FlatBuffer data is not present", "the file is no compiled module (.vmfb)"),
    (r"failed to open file|unable to open file", "the path is relative to the working directory of the run"),
    (r"header prefix", "the file is no .npy file, or was cut"),
    (r"(?:type|rank|dimension \d+) mismatch|input list and function mismatch",
     "livedbg iree -- CMD compares the inputs with what the function declares"),
    (r"(?<!_)INCOMPATIBLE(?!_)|no executable|no compatible",
     "compile for that device: --iree-hal-target-device and its target"),
)  # fmt: skip
_DOING: Final = re.compile(
    r"(?:resolving dependencies|creating VM context|creating run context|loading modules|parsing function inputs"
    r"|invoking function|looking up function|`a?sync func|while |resolving module|$)"
)
"""What a status says of what the program was doing, which adds nothing to its words."""
_AT_WORK: Final = re.compile(r"(?:loading bytecode module|parsing input|creating (?:driver for )?device) ")
_COMPILED_FOR: Final = re.compile(
    r"(?P<who>HAL device `[^`]{1,100}` not found or unavailable): #hal\.device\.target<\"(?P<device>\w{1,40})\""
    r"(?:[^\n]{0,40}?#hal\.executable\.target<\"(?P<target>[\w-]{1,40})\")?"
)
_VERSIONS: Final = re.compile(
    r"version mismatch; runtime supports (?P<runtime>\d{1,6}\.\d{1,6}), module has (?P<module>\d{1,6}\.\d{1,6})"
)
_VM: Final = "<vm>"
_CHECKS: Final = ("FAILED_PRECONDITION", "UNKNOWN")
"""What `cf.assert` and the like are compiled to."""
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
    by += f", {doing}" if (doing := _doing(rest)) else ""
    lost = next((words for word, words in _WORDS.items() if word in rest), "")
    said = f"{lost} ({message})" if lost else message
    source = f"{match['file'].rpartition('/')[2]}:{match['line']}" if match["file"] else ""
    who = "A check of the program failed with" if match["file"] == _VM and code in _CHECKS else "IREE failed with"
    return Said(
        code=CODE,
        key=f"{match['file']}:{match['line']} {code} {message}",
        sentence=f"{who} {code}{f': {said}' if said else ''}{by}{where}",
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
    found = ((re.search(pattern, text), step) for pattern, step in _STEPS)
    return tuple(step.format(**match.groupdict()) for match, step in found if match is not None)[:2]


def _of_device(text: str) -> bool:
    return any(word in text for word in ("DEVICE_LOST", "ILLEGAL_ADDRESS", "LAUNCH_FAILED", "IllegalAddress"))


def _parts(rest: str) -> list[str]:
    return [part for each in rest.replace("\n", " ").split(";") if (part := each.strip())]


def _message(rest: str) -> str:
    """The words between the code and what was being done."""
    compiled = _COMPILED_FOR.search(rest)
    if compiled is not None:
        target = f" ({compiled['target']})" if compiled["target"] else ""
        return f"{compiled['who']}: the module is compiled for {compiled['device']}{target}"
    text = "; ".join(part for part in _parts(rest) if _DOING.match(part) is None and _AT_WORK.match(part) is None)
    text = text.rstrip(":")
    return text if len(text) <= 140 else f"{text[:139]}…"


def _doing(rest: str) -> str:
    """`loading bytecode module at 'm.vmfb'`: the file or device that it was about."""
    found = next((part for part in _parts(rest) if _AT_WORK.match(part) is not None), "")
    return found if len(found) <= 140 else f"{found[:139]}…"


FORMS: Final = (
    Form((*(f": {code};" for code in _CODES.split("|")), "; while invoking native function "), _STATUS, _status),
)
BLOCK: Final = (b"] bytecode ", b"]   native ", b"while invoking native function")
"""What the other lines of a status contain."""
