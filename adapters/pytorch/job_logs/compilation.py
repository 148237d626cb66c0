"""Errors of torch.compile as it throws them: which part failed, at which operator, from which line of the program.

Sources: torch/_dynamo/exc.py (`BackendCompilerFailed`, `Unsupported`, `from user code:`), torch/_inductor/exc.py
(`LoweringException` with its target and arguments, `InductorError`, `CppCompileError`, `SubprocException`);
torch/csrc/inductor/aoti_torch/shim_common.cpp (`Exception in aoti_torch`).
"""

from __future__ import annotations

import re
from typing import Final

from livedbg.logs.said import Form, Said

__all__ = ["CODE", "FORMS"]

CODE: Final = "torch-compile-failed"

_DYNAMO = re.compile(
    r"torch\._dynamo\.exc\.(?P<name>\w{1,80})(?:: ?(?P<text>[^\n]{0,1000}))?(?:\n(?P<more>[^\n]{1,1000}))?"
)
_INDUCTOR = re.compile(
    r"torch\._inductor\.exc\.(?P<name>\w{1,80})(?:: ?(?P<text>[^\n]{0,1000}))?"
    r"(?:(?:\n[^\n]{0,500}){0,3}?\n +target: (?P<target>[\w.:]{1,200}))?"
)
_SHIM = re.compile(r"Exception in aoti_torch: (?P<text>[^\n]{1,1000})")
_USER = re.compile(
    r"(?:from user code:|Found from ?:)[ \t]*\n(?P<frames>(?:[ \t]+File \"[^\"\n]{1,400}\", line \d{1,9}[^\n]{0,200}\n?"
    r"(?:[ \t]{4,}(?!File \")[^\n]{0,400}\n?)?){1,40})"
)
_FRAME = re.compile(r"File \"(?P<file>[^\"\n]{1,400})\", line (?P<line>\d{1,9})(?:, in (?P<function>\S{1,200}))?")
_BACKEND = re.compile(r"backend='(?P<backend>[^'\n]{1,60})' raised:")

_EAGER: Final = "run the same without torch.compile, or with backend='aot_eager': tells which part of it fails"
_SUPPRESS: Final = "torch._dynamo.config.suppress_errors = True   (falls back to eager where it fails)"
_BREAK: Final = "without fullgraph=True it breaks the graph there; or rewrite that line"
_INPUTS: Final = "livedbg aoti -- COMMAND   (checks its inputs and values, kernel by kernel)"
_REPRO: Final = "TORCHDYNAMO_REPRO_AFTER=dynamo or aot   (writes a script that reproduces it)"


def _user(match: re.Match[str]) -> str:
    found = _USER.search(match.string, match.end())
    if found is None:
        return ""
    frames = list(_FRAME.finditer(found["frames"]))
    frame = next((one for one in reversed(frames) if "-packages/" not in one["file"]), frames[-1])
    return f", from {frame['function'] or '?'} ({frame['file'].rpartition('/')[2]}:{frame['line']})"


def _short(text: str | None, most: int = 140) -> str:
    line = (text or "").strip().partition("\n")[0].strip(" .:")
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _dynamo(match: re.Match[str]) -> Said | None:
    name, text = match["name"], match["text"] or ""
    backend = _BACKEND.search(text)
    steps: tuple[str, ...] = (_EAGER, _SUPPRESS)
    if backend is not None:
        said = f"torch.compile's backend {backend['backend']} failed: {_short(match['more']) or 'see below'}"
        steps = (_REPRO, *steps)
    elif name == "BackendCompilerFailed":
        said = f"torch.compile's backend failed: {_short(text)}"
    elif name == "Unsupported":
        said, steps = f"torch.compile can't trace this: {_short(text)}", (_BREAK, _EAGER)
    elif name == "TorchRuntimeError":
        said = f"torch.compile failed as it traced a call: {_short(text)}"
    elif name.endswith(("Error", "Exception", "Hit", "Failed")):
        said = f"torch.compile failed ({name}): {_short(text)}"
    else:
        return None
    said = said.removesuffix(": ")
    return Said(code=CODE, key=said, sentence=f"{said}{_user(match)}", steps=steps, attributes={"name": name})


def _inductor(match: re.Match[str]) -> Said | None:
    name, text, target = match["name"], match["text"] or "", match["target"]
    if not name.endswith(("Error", "Exception")):
        return None
    why = _short(text.removeprefix("LoweringException: "))
    if target or "LoweringException" in (name, text.partition(":")[0]):
        said = f"inductor could not lower {target or 'an operator'}: {why}"
    elif name == "CppCompileError" or text.startswith("CppCompileError"):
        said = "inductor's C++ code did not compile"
    else:
        said = f"inductor failed: {why or name}"
    return Said(
        code=CODE,
        key=said,
        sentence=f"{said.removesuffix(': ').rstrip()}{_user(match)}",
        steps=(_REPRO, _EAGER),
        attributes={"name": name, "target": target or ""},
    )


def _shim(match: re.Match[str]) -> Said:
    said = f"A model of AOTInductor failed: {_short(match['text'])}"
    return Said(code=CODE, key=said, sentence=said, steps=(_INPUTS,), attributes={"name": "aoti_torch"})


FORMS: Final = (
    Form(("Exception in aoti_torch: ",), _SHIM, _shim),
    Form(("torch._dynamo.exc.",), _DYNAMO, _dynamo),
    Form(("torch._inductor.exc.",), _INDUCTOR, _inductor),
)
