"""Report compiler settings that the installed torch does not know, with their replacements.

A name is known if the installed torch's Python code that reads such settings contains it. Torch's folder is that of a
library mapped by the command.

Invariants:
    aoti_settings.N1. If torch's files can't be read, nothing is reported as unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from livedbg.linux import target_files

_PREFIXES: Final = ("AOT_INDUCTOR_", "AOTI_", "TORCHINDUCTOR_", "AOTINDUCTOR_")
_READERS: Final = ("_inductor/**/*.py", "_dynamo/config.py", "_logging/*.py", "compiler/*.py", "_functorch/config.py")
_REPLACED: Final = {
    "AOT_INDUCTOR_COMPILE_WRAPPER_WITH_O0": "AOT_INDUCTOR_COMPILE_WRAPPER_OPT_LEVEL=O0",
    "TORCHINDUCTOR_ABI_COMPATIBLE": "nothing: the generated code is always so",
}
"""What replaced names that torch once knew."""


def unknown_settings(environment: Mapping[str, str], loaded: Iterable[str]) -> Iterator[str]:
    """Yield a sentence for each variable in a command's environment that the installed (loaded) torch does not know."""
    asked = sorted(name for name in environment if name.startswith(_PREFIXES))
    folder = next((Path(name).parents[1] for name in loaded if name.endswith("/torch/lib/libtorch_cpu.so")), None)
    if not asked or folder is None:
        return
    known = names_in(folder, asked, _READERS)
    if known is None:
        return
    version = torch_version(folder)
    for name in asked:
        if name not in known:
            instead = f" Instead: {_REPLACED[name]}." if name in _REPLACED else ""
            yield f"{name} is not known to torch {version}, and does nothing.{instead}"


def names_in(folder: Path, asked: Iterable[str], readers: Iterable[str]) -> set[str] | None:
    """Return the names in torch's files (globs below its folder); None if no file can be read."""
    left, found, any_read = set(asked), set[str](), False
    for pattern in readers:
        for path in target_files.matching(folder, pattern):
            if not left:
                return found
            try:
                text = target_files.read_text(path)
            except OSError:
                continue
            any_read = True
            for name in [name for name in left if re.search(rf"\b{name}\b", text)]:
                left.discard(name)
                found.add(name)
    return found if any_read else None


def torch_version(folder: Path) -> str:
    """Return the version of torch in a folder; `as installed` if it can't be read."""
    try:
        text = target_files.read_text(folder / "version.py")
        match = re.search(r"""^__version__\s*=\s*['"]([\w.+]+)['"]""", text, re.MULTILINE)
    except OSError:
        match = None
    return match[1] if match else "as installed"
