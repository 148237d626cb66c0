"""Findings of each step of AOTInductor's guide, as text.

Covers errors of AOTInductor models: mismatched inputs, NaN, failed calls of the generated code.

Sources: torch/_inductor/codegen/cpp_wrapper_cpu.py (checks of inputs), torch/csrc/inductor/aoti_runtime/utils.h
(AOTI_TORCH_ERROR_CODE_CHECK), torch/csrc/inductor/aoti_torch/shim_common.cpp of torch 2.13; c10/core/ScalarType.h and
DeviceType.h for the numbers.

Invariants:
    aoti_reading.W1. A setting that shows no effect is reported, with the moment at which it acts.
    aoti_reading.W2. A kernel is said to have made a NaN only if its inputs were seen without one. Weights are not
        printed; they are named.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from msgspec import Struct, structs

from livedbg.adapters.pytorch.aoti.generated import Call
from livedbg.adapters.pytorch.aoti.printed import lines_of, open_kernel, values
from livedbg.adapters.pytorch.aoti.provenance import rows_of
from livedbg.adapters.pytorch.aoti.settings import unknown_settings
from livedbg.adapters.pytorch.aoti.sources import Model, compiled_here, model_of, models
from livedbg.adapters.pytorch.aoti.tasks import called_by, compiling, crashed_at, in_model, model_threads
from livedbg.adapters.pytorch.aoti.tracing import Trail, first_bad, written
from livedbg.analysis.place_names import place_text
from livedbg.analysis.user_code import NO_FRAMEWORKS, Inside
from livedbg.model import Frame
from livedbg.model.catchpoints import Moment
from livedbg.model.snapshot import EMPTY, Snapshot
from livedbg.session.guide import StepFound, StepRun
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
_RAISED: Final = lazy_re(r"^Exception raised from (\w+) at \S+:\d+")
_NAN: Final = lazy_re(r"At least one (NaN|INF) in (\S+)")
_ASSERT: Final = lazy_re(r"^\s+assert not (\w+)\.is(nan|inf)\(\)\.any\(\)\.item\(\)$")
_CALL: Final = lazy_re(r"^Error: (.+) API call failed at (\S+), line (\d+)")
_NUMBER_NAN: Final = lazy_re(r"(?<![\w.-])-?nan(?![\w.(-])", re.IGNORECASE)
_CALLERS: Final = 2
_FRAMES: Final = 40
_BOUND: Final = lazy_re(r" {2}(/[^()\n]{1,400}\.py)\((\d{1,9})\): ([\w<>]{1,200})$")
"""A frame of Python in the message of an exception that C++ got from it (pybind11 detail/type_caster_base.h)."""
_THROWN: Final = lazy_re(r"^(?:RuntimeError: |  what\(\):  |Error: )(.+)$")

_OF_DEVICE: Final = lazy_re(r"\b(?:CUDA|HIP|XPU) |[Cc]u(?:da|DNN|BLAS)")
_GPU: Final = lazy_re(r"/dev/(?:nvidia(?:\d+|-uvm)|nvhost-gpu|nvmap|dxg)$")
"""What a process has open that runs kernels on a GPU; the libraries alone come with torch's package."""
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
        number: of the input.
        name: of the tensor in the generated code; for an index, of the kernel.
        file: of the generated code, for a call.
        raised: the frames of Python below the error of a custom operator (pybind11), the innermost first.
    """

    kind: str
    sentence: str = ""
    number: int | None = None
    name: str = ""
    file: str = ""
    line: int = 0
    message: str = ""
    raised: tuple[Frame, ...] = ()


def failures(lines: Iterable[str]) -> list[Failure]:
    """Return the errors in a text, each once."""
    found: dict[Failure, None] = {}
    call: re.Match[str] | None = None
    message = ""
    raised: list[Frame] = []
    for line in lines:
        if match := _BOUND.match(line):
            raised.append(Frame(function=match[3], file=match[1], line=int(match[2]), language="python"))
        if match := _GUARD.search(line):
            found[_of_guard(match)] = None
        elif match := _NAN.search(line):
            found[_of_value(match[1], clean_line(match[2], 100))] = None
        elif match := _ASSERT.match(line):
            found[_assertion_failure(match[1], "NaN" if match[2] == "nan" else "INF")] = None
        elif match := _COUNT.search(line):
            wanted = f"{match[1]} input{'' if match[1] == '1' else 's'} (tensors)"
            sentence = f"The model was compiled for {wanted}, and gets {match[2]}."
            found[Failure(kind="input", sentence=sentence)] = None
        elif match := _INDEX.search(line):
            text = clean_line(match[1], 300)
            sentence = f"A kernel that looks up by index (an embedding, a gather) got one that is out of range: {text}."
            index = Failure(kind="index", sentence=sentence, message=text)
            if index.sentence not in {failure.sentence for failure in found}:
                found[index] = None
        elif match := _RAISED.search(line):
            last = next(reversed(found), None)
            if last is not None and last.kind == "index" and not last.name:
                del found[last]
                found[structs.replace(last, name=clean_line(match[1], 200))] = None
        if (match := _CALL.match(line)) and call is None:
            call = match
        elif (match := _THROWN.match(line)) and not _CALL.match(line):
            message = message or clean_line(match[1], 300)
    if call is not None and not found:
        file, frames = clean_line(call[2], 500), tuple(raised[:_FRAMES])
        return [Failure(kind="call", file=file, line=int(call[3]), message=message, raised=frames)]
    return list(found)


def last_error(lines: Iterable[str]) -> str:
    """Return the last line that names an exception of Python or C++, or ""."""
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


def _assertion_failure(name: str, kind: str) -> Failure:
    """Return the failure of an assertion in torch.compile's Python code; `var` is a graph's result."""
    failure = _of_value(kind, "what the compiled graph returns" if name == "var" else name)
    if name != "var" or failure.kind != "nan":
        return failure
    told = "It was compiled by torch.compile: which kernel made it is not known here."
    return structs.replace(failure, sentence=f"{failure.sentence} {told}", kind="result")


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
    """Return torch's type name for `6(at::kFloat)` or `7`."""
    number = re.match(r"\d+", text)
    return _TYPES[int(number[0])] if number and int(number[0]) < len(_TYPES) else text


def _device(text: str) -> str:
    """Return the device name for `00(cpu)` (torch writes the number twice) or `1`."""
    named = re.search(r"\((\w+)\)", text)
    if named is not None:
        return named[1]
    return _DEVICES.get(int(text), f"device type {text}") if text.isdigit() else text


_Lines = list[tuple[str, str]]
_SHOWN: Final = 8  # values


def read(run: StepRun) -> StepFound:
    """Return the findings of a step."""
    code = models(run)
    lines: _Lines = [("settings", sentence) for sentence in unknown_settings(run.environment, run.loaded)]
    if not code and not any("/libtorch_cpu" in name for name in run.loaded) and not any(_printed_by_a_model(run)):
        nothing = "Neither PyTorch nor a model of AOTInductor was seen in it: nothing could be checked."
        return StepFound(lines=(*lines, *_ended(run, code, ()), ("found", nothing)), cause=_end_is_told(run, code))
    step = (_sanity, _pinned, _inputs)[run.number - 1]
    return step(run, code, lines)


def _printed_by_a_model(run: StepRun) -> Iterator[object]:
    """Yield output that only a model prints."""
    yield from failures(_output(run))
    yield from values(run.output)
    yield open_kernel(_printed(run))[1]


def _sanity(run: StepRun, code: Sequence[Model], lines: _Lines) -> StepFound:
    """Step 1: input checks and NaN checks."""
    checked = sum(len(model.code.expected) for model in code)
    when = "AOTI_RUNTIME_CHECK_INPUTS acts at run time"
    checks = f"checks {checked} of them" if checked else "has no checks of inputs"
    lines.append(("inputs", f"{when}: the generated code {checks}." if code else _no_code(when)))
    lines.append(("NaN", _nan_checks(run, code)))
    found = failures(_output(run))
    told = [*_error_rows(found, code, run.snapshot), *_ended(run, code, found)]
    blind = not told and _is_blind(run, code)
    nothing = "No check failed." if code else "No model of AOTInductor was seen: nothing could be checked."
    lines += told or (_blind_rows(run) if blind else [("found", nothing)])
    hands = next((hand for failure in found if (hand := _hand(failure, code))), {})
    return StepFound(
        lines=tuple(lines),
        hands=hands,
        cause=any(_is_cause(failure, code) for failure in found) or _end_is_told(run, code),
        wrong_value=any(failure.kind in ("nan", "result") for failure in found),
        undone=blind,
        futile=blind,
    )


def _is_blind(run: StepRun, code: Sequence[Model]) -> bool:
    """Return whether nothing of a model's values can be seen: it was compiled before, without checks and printers."""
    seen = any(model.code.checks_nan or model.code.printers for model in code)
    return bool(code) and run.code == 0 and not seen and not compiled_here(run)


def _blind_rows(run: StepRun) -> _Lines:
    """Return what that means, the output's own NaN, and the one step that would tell."""
    unseen = "Its values can't be seen: the model was compiled before, without the checks and printers of these steps."
    lines: _Lines = [("found", unseen)]
    for path in run.output:
        bad = next(((at, line) for at, line in enumerate(lines_of(path), 1) if _NUMBER_NAN.search(line)), None)
        if bad is not None:
            text = clean_line(bad[1].strip(), 200)
            lines.append(("printed", f"It printed NaN, at {path.stem}:{bad[0]}: {text}"))
            break
    lines.append(("next", "livedbg aoti -- COMMAND   with the command that compiles the model and runs it"))
    return lines


def _is_cause(failure: Failure, code: Sequence[Model]) -> bool:
    """Return whether an error needs no further step.

    Nor does what an operator of the program raises, unless it is an error of the device, which an earlier kernel made.
    """
    if failure.kind != "call":
        return failure.kind in ("input", "nan", "index")
    at = _call_at(code, failure.file, failure.line)
    return bool(at is not None and at[0].operator and failure.message) and not _OF_DEVICE.search(failure.message)


def _call_at(code: Sequence[Model], file: str, line: int) -> tuple[Call, Model] | None:
    """Return the call at a line of generated code, if known."""
    model = model_of(code, file) if file else None
    call = model.code.at_line(line) if model is not None else None
    return (call, model) if call is not None and model is not None else None


def _nan_checks(run: StepRun, code: Sequence[Model]) -> str:
    when = "TORCHINDUCTOR_NAN_ASSERTS acts at compile time"
    if not code:
        return _no_code(when)
    if any(model.code.checks_nan for model in code):
        return f"{when}: the generated code has the checks. On the CPU these are of the model's inputs only."
    if compiled_here(run):
        return f"{when}; the model was compiled with it, and this version of torch put no such check into its code."
    return f"{when}, and the generated code has no such check: compile the model again with it."


def _no_code(when: str) -> str:
    return f"{when}; no generated code was found, so that it is not known whether it acted."


def _pinned(run: StepRun, code: Sequence[Model], lines: _Lines) -> StepFound:
    """Step 2: the last launched kernel that did not return."""
    opened = "none was opened, so they did nothing" if run.opened else "whether one was opened was not seen"
    if device := _device_of(run):
        opened = f"{clean_line(device)} was opened"
    acts = "CUDA_LAUNCH_BLOCKING and PYTORCH_NO_CUDA_MEMORY_CACHING act at run time, on a GPU"
    lines.append(("blocking", f"{acts}: {opened}."))
    kernel, launched, returned = open_kernel(_printed(run))
    if launched:
        lines.append(("printer", f"The printer (compile time) acted: {launched} launches, {returned} returned."))
    else:
        lines.append(("printer", "The printer acts at compile time, and printed nothing: compile the model with it."))
    found = failures(_output(run))
    told = [*_error_rows(found, code), *_ended(run, code, found)]
    hand = next((hand for failure in found if (hand := _hand(failure, code))), {}) or _stuck(run, code)
    if kernel:
        at = next(((call, model) for model in code for call in model.code.named(kernel)), None)
        where = _described(*at) if at is not None else kernel
        told.append(("kernel", f"Launched last and not returned: {where}."))
        hand = hand or (_handed(*at) if at is not None else {"kernel": kernel})
    elif not hand and run.code != 0 and launched:
        after = _next_silent(returned, code)
        if after is not None:
            described = f"Next in the code: {_described(*after)}, which prints nothing."
            told += [("kernel", f"All that were launched returned. {described}"), *_places(*after)]
    elif not hand and launched:
        told.append(("kernel", "All that were launched returned: step 3 looks at the values of all kernels."))
    return StepFound(lines=(*lines, *told), hands=hand, cause=_end_is_told(run, code))


def _inputs(run: StepRun, code: Sequence[Model], lines: _Lines) -> StepFound:
    """Step 3: values, and the maker of the first bad one."""
    printed = list(values(run.output))
    if not printed:
        lines.append(("printer", "The printer acts at compile time, and printed no value: compile the model with it."))
        return StepFound(lines=(*lines, *_error_rows(failures(_output(run)), code)))
    lines.append(("printer", f"The printer (compile time) acted: {len(printed)} values of arguments."))
    trail = first_bad(printed, code)
    if trail is None:
        lines.append(("found", "No printed value is NaN or infinity."))
        lines += [("value", value.told) for value in [*written(printed, code)][:_SHOWN]]
        return StepFound(lines=(*lines, *_error_rows(failures(_output(run)), code)))
    lines += _of_trail(trail)
    if trail.value.bad == "NaN":
        return StepFound(lines=tuple(lines), hands=trail.hands, cause=trail.made, wrong_value=True)
    last = [*written(printed, code)][-1:]
    if any(value.most == math.inf for value in last):  # a mask's is negative
        lines.append(("result", f"The last value that was written has infinity, too: {last[0].told}"))
        return StepFound(lines=tuple(lines), hands=trail.hands, cause=trail.made, wrong_value=True)
    lines.append(("meant?", "No printed value is NaN. Infinity is no error where the model means it, as in a mask."))
    return StepFound(lines=tuple(lines), hands=trail.hands)


def _of_trail(trail: Trail) -> Iterator[tuple[str, str]]:
    yield "found", trail.sentence
    if trail.call is not None and trail.model is not None:
        about = f"{trail.value.bad} of infinity" if trail.infinite else trail.value.bad
        yield from _places(trail.call, trail.model, about=about)
        if trail.source is not None and (line := trail.model.model_line(trail.source[0])):
            yield "infinity", f"{line} ({trail.source[0].shown})"
    yield "value", trail.value.told
    for read in trail.reads:
        yield "read", read.told


def _error_rows(found: Sequence[Failure], code: Sequence[Model], snapshot: Snapshot = EMPTY) -> list[tuple[str, str]]:
    """Return errors as text, with details from the generated code, and from what was seen to be thrown."""
    lines: _Lines = []
    for failure in found:
        if failure.kind == "call":
            lines += _of_call(failure, code, snapshot)
            continue
        given = _as_input(failure, code)
        lines.append(("found", given or f"{failure.sentence}{_expected(failure, code)}"))
        if failure.kind == "index" and failure.name:
            made = [(call, model) for model in code for call in model.code.named(failure.name)]
            lines += (
                _places(*made[0], about="index", text=failure.message) if len(made) == 1 else [("kernel", failure.name)]
            )
    return lines


def _as_input(failure: Failure, code: Sequence[Model]) -> str:
    """Return that a bad value came in with an input of the model; "" if it was not in one."""
    if failure.kind not in ("nan", "infinity"):
        return ""
    known = [(model, n) for model in code for n, name in model.code.inputs.items() if name == failure.name]
    if not known:
        return ""
    model, number = known[0]
    given = f"{theirs}, " if (theirs := model.input_name(number)) else ""
    what = "NaN" if failure.kind == "nan" else "infinity"
    which = f"An input ({failure.name} of the generated code)"
    if len(known) == 1:
        which = f"Input {number} (counted from 0; {given}{failure.name} of the generated code)"
    meant = "" if what == "NaN" else " If it is meant (a mask of -inf), only this check ended the run."
    return f"{which} comes with {what}: the model did not make it.{meant}"


def _expected(failure: Failure, code: Sequence[Model]) -> str:
    if failure.number is None:
        return ""
    known = [model for model in code if failure.number in model.code.expected]
    if len(known) != 1:
        return ""
    name, given = known[0].code.inputs.get(failure.number, ""), known[0].input_name(failure.number)
    theirs = f"{given} of the model's signature, " if given else ""
    return f" It expects {known[0].code.expected[failure.number]} there ({theirs}{name} of the generated code)."


def _of_call(failure: Failure, code: Sequence[Model], snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    at = _call_at(code, failure.file, failure.line)
    thrown = _thrown(failure.message, snapshot) or _by_frames("", failure.raised)
    why = f"{thrown}: {failure.message}" if failure.message else ""
    if at is None:
        yield "found", f"A call of the generated code failed at {Path(failure.file).name}:{failure.line}{why}"
        return
    yield "found", f"{_described(*at)} failed{why}"
    yield from _places(*at)


def _thrown(message: str, snapshot: Snapshot) -> str:
    """Return ` by std::length_error in check (ops.cpp:11), called by prune (ops.cpp:14)`, by the throw of a message."""
    for hit in snapshot.exceptions.values():
        point = snapshot.catchpoints.get(hit.catchpoint or "")
        if point is None or point.moment is not Moment.THROW or not hit.message or not message.startswith(hit.message):
            continue
        if told := _by_frames(f" by {hit.type}", hit.stack):
            return told
    return ""


def _by_frames(by: str, frames: Iterable[Frame]) -> str:
    own = [frame for frame in frames if NO_FRAMEWORKS.inside(frame) is Inside.USER]
    return f"{by} in {', called by '.join(place_text(frame) for frame in own[:_CALLERS])}" if own else ""


def _ended(run: StepRun, code: Sequence[Model], found: Sequence[Failure]) -> Iterator[tuple[str, str]]:
    """Yield how the run ended, if no error tells."""
    for frame, at in _calls_now(run, code):
        where = _described(*at) if at is not None else f"a model, at {Path(frame.file or '').name}:{frame.line}"
        how = "died" if run.crash else "hangs" if run.hang else "has not ended: a thread is"
        told = "" if run.crash or run.hang else _by_frames("; it was seen", called_by(frame, run.snapshot))
        yield "found", f"It {how} in {where}{told}. {run.crash or run.hang}".rstrip()
        yield from _places(*at) if at is not None else ()
    if run.code is None and not any(model_threads(run.snapshot)):
        if place := compiling(run.snapshot):
            yield "found", f"It has not ended: it is still being compiled, in {place}. Give it more time (--timeout)."
        elif inside := in_model(run.snapshot):
            yield "found", f"It has not ended: a thread is in a call of a model{inside}."
        elif run.hang:
            yield "found", f"It hangs, in no call of a model. {run.hang}"
        else:
            yield "found", "It has not ended, and no thread was seen in a call of a model."
    if not run.code or found or any(_calls_now(run, code)):
        return
    if run.crash:
        yield "found", run.crash
        return
    how = f"died of signal {run.code - 128}" if run.code > 128 else f"ended with exit code {run.code}"
    error = last_error(_output(run))
    yield "found", f"It {how}{': ' + error if error else ''}."


def _calls_now(run: StepRun, code: Sequence[Model]) -> Iterator[tuple[Frame, tuple[Call, Model] | None]]:
    """Yield the frame of each thread that is in a model, or crashed in one, and its call there, if known."""
    crashed = crashed_at(run.snapshot) if run.crash else None
    frames = [frame for _, frame in model_threads(run.snapshot)] if run.code is None else [crashed] if crashed else []
    yield from ((frame, _call_at(code, frame.file or "", frame.line or 0)) for frame in frames)


def _end_is_told(run: StepRun, code: Sequence[Model]) -> bool:
    """Return whether it hangs or crashed where no other step would tell more.

    It hangs in no model, or crashed without one, or is in known calls without a GPU: on one, an earlier kernel may have
    gone wrong. What a kernel that crashed has read is looked at.
    """
    calls = [call for _, call in _calls_now(run, code)]
    if calls and (run.hang or run.crash):
        known = all(call is not None and (run.hang or call[0].operator) for call in calls)
        return known and bool(run.opened) and not _device_of(run)
    if run.crash:
        return not code and not any(_printed_by_a_model(run))
    return bool(run.hang) and not compiling(run.snapshot) and not in_model(run.snapshot)


def _device_of(run: StepRun) -> str:
    """Return the device file of a GPU that it opened, or ""."""
    return min((name for name in run.opened if _GPU.match(name)), default="")


def _stuck(run: StepRun, code: Sequence[Model]) -> dict[str, str]:
    return next((_handed(*call) for _, call in _calls_now(run, code) if call is not None), {})


def _hand(failure: Failure, code: Sequence[Model]) -> dict[str, str]:
    at = _call_at(code, failure.file, failure.line)
    return _handed(*at) if at is not None else {}


def _handed(call: Call, model: Model) -> dict[str, str]:
    """Return the kernels to print next: a call's own and the makers of its inputs.

    Extern kernels and custom operators do not print their inputs.
    """
    names = [model.code.calls[index] for _, index in call.makers]
    if not call.operator:
        names.insert(0, call)
    kernels = dict.fromkeys(one.name for one in names if not one.operator and "," not in one.name)
    return {"kernel": ",".join(kernels)} if kernels else {}


def _next_silent(returned: int, code: Sequence[Model]) -> tuple[Call, Model] | None:
    """Return the custom operator that follows the given number of launches, if there is only one model."""
    if len(code) != 1 or not code[0].code.calls:
        return None
    calls = code[0].code.calls
    printing = [call.index for call in calls if not call.operator]
    if not printing:
        return None
    last = printing[(returned - 1) % len(printing)]
    following = calls[last + 1] if last + 1 < len(calls) else None
    return (following, code[0]) if following is not None and following.operator else None


def _described(call: Call, model: Model) -> str:
    return f"{call.shown} (call {call.index + 1} of {len(model.code.calls)}, {Path(model.code.path).name}:{call.line})"


def _places(call: Call, model: Model, about: str = "", text: str = "") -> Iterator[tuple[str, str]]:
    """Yield the model lines and the generated source of a call.

    Args:
        about: as for `rows_of`.
        text: in the line of the kernel that is meant; the head of the kernel without.
    """
    own = model.model_lines(call)
    yield from rows_of(own, about)
    if module := model.module_of(call):
        yield "module", module
    if source := model.source_of(call, text):
        yield "source", source
    if call.aten:
        yield "operators", call.aten


def _output(run: StepRun) -> Iterator[str]:
    return chain.from_iterable(map(lines_of, reversed(run.output)))  # standard error first


def _printed(run: StepRun) -> Iterator[str]:
    return chain.from_iterable(map(lines_of, run.output))
