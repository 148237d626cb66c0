"""Step 1, sanity: the environment, the inputs against the function, CMD as it is, and once on the simplest device.

The environment checks are those of `livedbg doctor` for IREE, for the program's Python.

Invariants:
    iree_sanity.Y1. A mismatched input is the cause only if CMD failed.
    iree_sanity.I1. Only sizes known on both sides are compared: a dynamic size, or a file whose shape is not read,
    fits.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from livedbg.adapters.iree.checks import COMPILERS, RUNTIMES, clocks, cores, devices, load, versions, vulkan, wheels
from livedbg.adapters.iree.differences.first import bad_inputs, has_nan, tensors_told
from livedbg.adapters.iree.differences.toolchain import functions_of, hardware_of
from livedbg.adapters.iree.differences.trace import Trace
from livedbg.adapters.iree.flow.as_given import EXPECTED, AsGiven, run_as_given, saved_source
from livedbg.adapters.iree.flow.ground import Ground
from livedbg.model.errors import LivedbgError
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line
from livedbg.text.wording import many

_INPUT: Final = lazy_re(r"%\w{1,1000}: (tensor<[^>]{0,2000}>|[\w!.]{1,400})")
_SPEC: Final = lazy_re(r"(?P<shape>(?:\d++x)*+)(?P<type>[a-z]+\d\w*+)(?:=|$)")
_NUMBER: Final = lazy_re(r"[-+]?(?:0x[\da-fA-F]+|(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d+)?|inf|nan)")
_WORDS: Final = {"b": "i1", "f": "f", "i": "i", "u": "i"}


class Declared(Struct, frozen=True):
    """One declared input.

    Attributes:
        shape: None for a dynamic size.
        type: of its elements; "" if not known.
        tensor: False for a number, or an object of the runtime.
    """

    shape: tuple[int | None, ...] = ()
    type: str = ""
    tensor: bool = True


def declared_inputs(declaration: str) -> list[Declared] | None:
    """Return the inputs of `sync func @main(%input0: tensor<4xf32>) -> (…)`; None if nothing is declared."""
    head, arrow, _ = declaration.partition(") ->")
    if not arrow:
        return None
    return [_declared(match[1]) for match in _INPUT.finditer(head.partition("(")[2])]


def shown(inputs: Sequence[Declared]) -> str:
    """Return `4x?xf32, i32`."""
    return ", ".join(_shown(one) for one in inputs) or "none"


def misfits(declared: Sequence[Declared], specs: Sequence[str], function: str) -> Iterator[str]:
    """Yield a sentence for each mismatched input."""
    if any(spec.startswith("*") for spec in specs):
        return  # how many inputs the file has is not read
    if len(declared) != len(specs):
        yield f"{function} takes {many(len(declared), 'input')} ({shown(declared)}), and gets {len(specs)}."
        return
    for number, (wanted, spec) in enumerate(zip(declared, specs, strict=True)):
        got = _given(spec)
        if got is None or not wanted.tensor:
            continue
        who = f"Input {number} (counted from 0) is {_shown(got)}, and {function} takes {_shown(wanted)}"
        if len(got.shape) != len(wanted.shape):
            yield f"{who}: it has {many(len(got.shape), 'dimension')}, not {len(wanted.shape)}."
            continue
        wrong = next(
            (at for at, (mine, its) in enumerate(zip(got.shape, wanted.shape, strict=True)) if its not in (None, mine)),
            None,
        )
        if wrong is not None:
            yield f"{who}: dimension {wrong} is {got.shape[wrong]}, not {wanted.shape[wrong]}."
        elif got.type and wanted.type and _signless(got.type) != _signless(wanted.type):
            yield f"{who}: its elements are {got.type}, not {wanted.type}."


def _declared(text: str) -> Declared:
    if not text.startswith("tensor<"):
        return Declared(type=text, tensor=False)
    *sizes, element = text[7:-1].partition(",")[0].split("x")
    return Declared(tuple(int(size) if size.isdigit() else None for size in sizes), element)


def _given(spec: str) -> Declared | None:
    if spec.startswith("@"):
        return _of_file(Path(spec[1:]))
    match = _SPEC.match(spec)
    if match is None:
        return Declared(type="", tensor=False) if _NUMBER.fullmatch(spec) else None
    return Declared(tuple(int(size) for size in match["shape"].split("x") if size), match["type"])


def _of_file(path: Path) -> Declared | None:
    from numpy.lib import format as npy

    if path.suffix != ".npy":
        return None
    try:
        with path.open("rb") as file:
            read = npy.read_array_header_1_0 if npy.read_magic(file) == (1, 0) else npy.read_array_header_2_0
            shape, _, dtype = read(file)
    except (OSError, ValueError):
        return None
    kind = _WORDS.get(dtype.kind, "")
    bits = "" if kind == "i1" else str(dtype.itemsize * 8)
    return Declared(tuple(int(size) for size in shape), f"{kind}{bits}" if kind else "")


def _signless(element: str) -> str:
    """Return a type without signedness: the runtime accepts `i32` for `si32`."""
    return re.sub(r"^[su](?=i\d)", "", element)


def _shown(one: Declared) -> str:
    return clean_line("x".join([*("?" if size is None else str(size) for size in one.shape), one.type or "a value"]))


_CHECK_S: Final = 60.0
_ASK: Final = """
import importlib.metadata, json, sys
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""


def environment_lines(python: str, device: str, *, known: bool) -> Iterator[tuple[str, str]]:
    """Yield versions of the program's (or our) Python, the device's requirements, and causes of unreliable times."""
    facts = [wheels(_versions(python), True), load(os.getloadavg()[0], cores())]
    if device.startswith("vulkan"):
        facts += [vulkan(os.environ, True), devices(lambda: hardware_of(python, device))]
    facts += [one for one in (clocks(Path("/")),) if not one.value.startswith("not readable")]
    for fact in facts:
        fix = f". To fix it: {fact.remedy}" if fact.remedy else ""
        if fact.name != "load" or not fact.ok:
            where = " (of the wheels beside livedbg: CMD is no program of a wheel)" if fact.name == "IREE" else ""
            yield "environment", f"{fact.name}: {fact.value}{'' if known else where}{fix}"


def _versions(python: str) -> dict[str, str]:
    names = (*COMPILERS, *RUNTIMES)
    if python == sys.executable:
        return versions(names)
    try:
        done = subprocess.run(
            [python, "-c", _ASK, *names], capture_output=True, text=True, check=True, timeout=_CHECK_S
        )
        found: dict[str, str] = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return {}
    return found


_SIMPLEST: Final = "local-sync"
_SIGNALS: Final = 128  # exit codes above are signals
_ONLY_ITS_END: Final = {
    "other": "CMD is none of IREE's programs and no Python: only its end is looked at.",
    "check": "The functions of iree-check-module need its own module `check`, which iree.runtime has not: only its end "
    "is looked at. For the steps, give a source without it: --source FILE --function NAME.",
}


def sanity(ground: Ground) -> None:
    book = ground.book
    book.doing("checking versions and drivers")
    book.note.lines += environment_lines(ground.program.python, ground.device, known=ground.program.known)
    if ground.program.kind in _ONLY_ITS_END:
        book.say("program", _ONLY_ITS_END[ground.program.kind])
    if ground.program.kind != "python":  # it may compile the source as it runs
        book.note.lacks = _missing_source(ground)
    module, function = _module(ground)
    wrong = _inputs(ground, module, function) if module is not None and function else []
    book.doing(f"running {Path(ground.ask.argv[0]).name} as it was given")
    given = run_as_given(ground)
    _as_given(ground, given, wrong)
    _unreadable(ground, given)
    if ground.source is None and ground.program.kind == "python":
        _of_python(ground)
        module, function = _module(ground)
    if module is not None and function and not book.note.cause:
        _simplest(ground, module, function)
    if not any(label == "found" for label, _ in book.note.lines):
        book.say("found", "Nothing wrong in what was checked here.")
    if ground.program.kind == "python" or book.note.cause:
        book.note.lacks = {} if book.note.cause else _missing_source(ground)
    book.write()


def _missing_source(ground: Ground) -> dict[str, str]:
    """Return what the other steps need to compile the module again, unless it has traces."""
    return {"source": "FILE.mlir"} if ground.source is None and ground.traced is None else {}


def _module(ground: Ground) -> tuple[Path | None, str]:
    """Return a compiled module, and the function to run."""
    book = ground.book
    try:
        if ground.source is not None:
            module = ground.folder / "plain.vmfb"
            book.doing(f"compiling {ground.source.name}")
            ground.build(ground.side(), module)
        elif ground.module is not None and ground.program.kind != "check":
            module = ground.module
        else:
            return None, ""
        if len(ground.program.modules) > 1:
            before = ", ".join(Path(one).name for one in ground.program.modules[:-1])
            book.say("modules", f"The steps look at the last one; loaded before it: {before}.")
        return module, ground.function(module)
    except LivedbgError as error:
        book.say("module", _first_lines(error))
        return None, ""


def _unreadable(ground: Ground, given: AsGiven) -> None:
    """Mark an unreadable module as the cause if CMD fails too."""
    book = ground.book
    if any(label == "module" for label, _ in book.note.lines) and ground.program.kind != "python":
        book.note.cause = bool(given.code)
        book.note.failed = True


def _first_lines(error: LivedbgError) -> str:
    lines = [line.strip() for line in str(error).split("\n") if line.strip()]
    return " ".join(lines[:2])


def _inputs(ground: Ground, module: Path, function: str) -> list[str]:
    """Return sentences on mismatched inputs."""
    book = ground.book
    try:
        declared = declared_inputs(functions_of(ground.python, module).get(function, ""))
    except LivedbgError as error:
        book.say("module", _first_lines(error))
        return []
    if declared is None:
        book.say("inputs", f"{function} does not declare its inputs: they could not be checked.")
        return []
    if ground.random:
        book.say("inputs", f"{function} takes {shown(declared)}. None is given: these steps use random ones (--input).")
        return []
    wrong = list(misfits(declared, ground.inputs, function))
    if not wrong:
        book.say("inputs", f"They fit: {function} takes {shown(declared)}.")
    return wrong


def _as_given(ground: Ground, given: AsGiven, wrong: list[str]) -> None:
    book, limit_s = ground.book, ground.ask.limit_s
    if given.code is None:
        book.note.hung = True
        book.note.hands["fault"] = "hang"
        book.say("found", f"It did not end within {limit_s:g} s (--timeout).")
        if given.state:
            book.say("it was", given.state)
    elif given.code:
        book.note.failed = True
        if wrong:
            book.note.cause = True
            for sentence in wrong:
                book.say("found", sentence)
            book.say("it said", f"{given.error}.")
            return
        if given.unexpected:
            book.note.wrong_value = True
            book.note.hands["fault"] = EXPECTED
            book.say("found", f"A result is not the expected one: {given.unexpected}.")
            return
        book.note.hands["fault"] = "fails"
        book.note.cause = ground.program.kind == "run" and given.code < _SIGNALS and not given.called
        how = f"failed with exit code {given.code}"
        how = f"died of signal {given.code - _SIGNALS}" if given.code > _SIGNALS else how
        book.say("found", f"It {how}{f': {given.error}' if given.error else ''}.")
        if book.note.cause:
            book.say("when", "Before the function was called: no dispatch has to do with it.")
    else:
        book.say("as given", "It ended with exit code 0.")
    for number, count in given.nans:
        book.note.wrong_value = True
        book.note.hands["fault"] = "nan"
        book.say("found", f"Its result {number} (counted from 0) has NaN ({many(count, 'element')}).")
    for sentence in wrong:
        book.say("inputs", f"{sentence} The runtime did not refuse it.")


def _of_python(ground: Ground) -> None:
    found = saved_source(ground)
    if found is None:
        return
    source, flags = found
    known = {"source": source, "flags": shlex.join(flags)}
    ground.handed |= known
    ground.book.note.hands |= known
    ground.book.say("source", f"The program compiled {Path(source).name} with {shlex.join(flags) or 'no flags'}.")


def _simplest(ground: Ground, module: Path, function: str) -> None:
    """Run it once on a synchronous device."""
    book = ground.book
    book.doing(f"running {function} on {_SIMPLEST}")
    try:
        if ground.source is not None and not ground.device.startswith("local"):
            module = ground.folder / "simplest.vmfb"
            side = ground.side(device=_SIMPLEST, flags=())
            ground.build(side, module)
        else:
            side = ground.side(device=_SIMPLEST)
        trace = ground.run(side, module, "simplest", function)
    except LivedbgError as error:
        book.say(_SIMPLEST, f"It could not be run there: {_first_lines(error)}")
        return
    _judged(ground, trace)


def _judged(ground: Ground, trace: Trace) -> None:
    book = ground.book
    if trace.failure:
        if "no end" in trace.failure:
            book.note.hands["fault"] = "hang"
            book.note.hung = True
        elif not ground.device.startswith("local") and ground.source is None:
            return book.say(_SIMPLEST, f"The module is for another device ({trace.failure}).")
        else:
            book.note.hands.setdefault("fault", "fails")
            book.note.failed = True
        return book.say("found", f"On {_SIMPLEST}: {trace.failure}.")
    made_up = ", for random inputs" if ground.random else ""
    book.say(_SIMPLEST, f"It ends with {many(len(trace.results[-1]), 'result')}{made_up}.")
    bad = [f"result {number}" for number, one in enumerate(trace.results[-1]) if has_nan(trace, one)]
    for label, sentence in tensors_told(trace, "result", trace.results[-1]):
        book.say(label, sentence)
        if label in bad and ground.random:
            book.say("found", f"With random inputs, {label} has NaN: the program may never have such inputs (--input).")
        elif label in bad:
            book.note.wrong_value = True
            if "fault" not in book.note.hands:
                book.note.hands["fault"] = "nan"
                book.say("found", f"On {_SIMPLEST}, {label} has NaN.")
    for number in bad_inputs(trace):
        book.say("found", f"Input {number} (counted from 0) has NaN before anything is computed.")
    return None
