"""The record of one run, dispatch by dispatch, as its worker wrote it; also for a run that hung or died."""

from __future__ import annotations

import math
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import ml_dtypes  # noqa: F401 (numpy knows bfloat16 and 8-bit floats then)
import msgspec
import numpy as np
from msgspec import Struct, field

from livedbg.adapters.iree.differences.toolchain import RUN_WORKER, Side
from livedbg.text.sanitize import clean_line
from livedbg.text.typed import ready
from livedbg.values.tensor import Held
from livedbg.values.tensor_files import load

_CALLS: Final = "calls.jsonl"
_SAID: Final = "said.log"
_LOOK_S: Final = 0.1


class Saved(Struct, frozen=True):
    """One tensor in a file.

    Attributes:
        file: name in the trace's folder; "" if its values could not be read.
        type: numpy's name of the element type.
        problem: why there are no values.
    """

    file: str = ""
    shape: tuple[int, ...] = ()
    type: str = ""
    problem: str = ""


class _Line(Struct):
    call: str = ""
    io: str = ""
    run: int = 0
    returned: int | None = None
    inputs: list[Saved] = field(default_factory=list)
    refused: tuple[str, ...] = ()
    uncalled: bool = False
    tensors: list[Saved] = field(default_factory=list)


class Call(Struct):
    """One execution of a dispatch.

    Attributes:
        name: `EXECUTABLE::FUNCTION`.
        run: index of the function's run, from 0.
        outputs: None while it has not returned.
        given: its inputs were written. They may be traced after the outputs, since no data orders the traces (seen with
            modules of 3.10).
    """

    name: str
    run: int
    inputs: list[Saved]
    outputs: list[Saved] | None = None
    given: bool = True


class Trace(Struct):
    """One run of a module.

    Attributes:
        results: of the function, a list for each run that returned.
        failure: how it failed: `no end after 60 s`, or its message; "" if it succeeded.
        called: the module was loaded, the inputs were made, and the function was called.
        refused: flags unknown to its runtime; it ran without them.
    """

    folder: Path
    inputs: list[Saved] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    results: list[list[Saved]] = field(default_factory=list)
    failure: str = ""
    called: bool = False
    refused: tuple[str, ...] = ()

    def tensor(self, saved: Saved) -> Held | None:
        """Return the values of a tensor; None if they could not be read."""
        if not saved.file:
            return None
        held = load(self.folder / saved.file, ())
        if saved.type in ("", str(held.array.dtype)):
            return held
        return Held(held.array.view(np.dtype(saved.type)))  # bfloat16 and the like are saved as their bits

    @property
    def open(self) -> Call | None:
        """Return the dispatch that began and did not return."""
        return next((call for call in reversed(self.calls) if call.outputs is None), None)


def run_module(
    side: Side,
    module: Path,
    folder: Path,
    function: str,
    inputs: Sequence[str],
    *,
    runs: int,
    limit_s: float,
    still_s: float = math.inf,
    show: bool = False,
) -> Trace:
    """Run a function of a compiled module.

    Args:
        folder: for its tensors; created here.
        inputs: as for `iree-run-module`, or none for random ones of the declared types, equal on each call.
        runs: how often, in one process.
        still_s: time limit without a dispatch beginning or returning, once the function was called.
        show: also print its dispatches on our standard output.
    """
    folder.mkdir(parents=True)
    request: dict[str, Any] = {
        "module": str(module), "device": side.device, "function": function, "inputs": list(inputs),
        "folder": str(folder), "runs": runs, "seed": 0, "flags": list(side.runtime_flags),
        "print": show, "parameters": list(side.parameters), "before": list(side.before),
    }  # fmt: skip
    path = folder / "request.json"
    path.write_bytes(msgspec.json.encode(request))
    command = [side.python, str(RUN_WORKER), "run", str(path)]
    with (folder / _SAID).open("wb") as said:
        out = None if show else subprocess.DEVNULL
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=said)
        try:
            failure = _waited(process, folder / _CALLS, limit_s, still_s)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
    if not failure and process.returncode:
        lines = [line for line in (folder / _SAID).read_text(errors="replace").splitlines() if line.strip()]
        ended = f"signal {-process.returncode}" if process.returncode < 0 else f"exit code {process.returncode}"
        failure = clean_line(lines[-1] if lines else ended)
    return read_trace(folder, failure)


def _waited(process: subprocess.Popen[bytes], calls: Path, limit_s: float, still_s: float) -> str:
    """Wait for the end; return the failure if it does not come."""
    begun = changed = time.monotonic()
    size = 0
    while True:
        try:
            process.wait(_LOOK_S)
            return ""
        except subprocess.TimeoutExpired:
            now = time.monotonic()
        grown = calls.stat().st_size if calls.exists() else 0
        if grown != size:
            size, changed = grown, now
        if now - begun > limit_s:
            return f"no end after {limit_s:g} s"
        if size and now - changed > still_s:
            return f"no end after {still_s:g} s"


def read_trace(folder: Path, failure: str) -> Trace:
    """Read the record of a run; `failure` says how it failed, or is ""."""
    trace = Trace(folder, failure=failure)
    decoder = msgspec.json.Decoder(ready(_Line))
    lines = (folder / _CALLS).read_bytes().splitlines() if (folder / _CALLS).exists() else []
    for line in lines:
        try:
            said = decoder.decode(line)
        except msgspec.DecodeError:
            continue  # the last line of one that was killed
        if said.call:
            _of_call(trace.calls, said)
        elif said.returned is not None:
            trace.results.append(said.tensors)
        elif said.uncalled:
            trace.called = False
        elif said.refused:
            trace.refused = said.refused
        else:
            trace.inputs, trace.called = said.inputs, True
    return trace


def _of_call(calls: list[Call], said: _Line) -> None:
    """Add inputs or outputs of a dispatch, in either order."""
    same = [one for one in calls if one.name == said.call and one.run == said.run]
    if said.io == "inputs":
        late = next((one for one in same if not one.given), None)
        if late is None:
            calls.append(Call(said.call, said.run, said.tensors))
        else:
            late.inputs, late.given = said.tensors, True
        return
    begun = next((one for one in reversed(same) if one.outputs is None), None)
    if begun is None:
        calls.append(Call(said.call, said.run, [], said.tensors, given=False))
    else:
        begun.outputs = said.tensors
