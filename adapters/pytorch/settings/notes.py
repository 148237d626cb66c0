"""Explain which settings of torch.distributed have no effect in a process.

Invariants:
    torch_settings.E1. Unreadable libraries or recorders never make a setting count as without effect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from livedbg.linux import target_files

SETTING: Final = "setting"
PREFIXES: Final = ("TORCH_NCCL_", "TORCH_FR_")
_SIZE: Final = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
_FILE: Final = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
_CPP: Final = ("TORCH_FR_CPP_STACK", "TORCH_NCCL_TRACE_CPP_STACK")
_PAIRS: Final = (_SIZE, _FILE, _CPP)
"""A name, and an older one that means the same: the first one counts where both are set."""

_REPLACED: Final = {
    "TORCH_NCCL_TRACE_BUFFER_SIZE": "TORCH_FR_BUFFER_SIZE",
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "TORCH_FR_DUMP_TEMP_FILE",
    "TORCH_NCCL_TRACE_CPP_STACK": "TORCH_FR_CPP_STACK",
}
_WAITS: Final = ("TORCH_NCCL_BLOCKING_WAIT", "TORCH_NCCL_ASYNC_ERROR_HANDLING")
_NCCL: Final = "libtorch_cuda.so"
_ON: Final = ("1", "true", "yes", "on", "y", "t")


class Known(Struct, frozen=True, kw_only=True):
    """State of a process that decides about settings.

    Attributes:
        version: of torch; "" if not known.
        libraries: the searched libraries of torch, such as `libtorch_cpu.so`; () if none could be read.
        names: the settings of the environment that they contain.
        size: capacity of its Flight Recorder; None if not known.
    """

    version: str
    libraries: tuple[str, ...]
    names: frozenset[str]
    size: int | None


def notes(
    environment: Mapping[str, str], known: Known, folder: Callable[[str], str | None]
) -> Iterator[tuple[str, str]]:
    """Yield the name of each setting without effect, and a sentence; `folder` is `folder_problem` for the process."""
    asked = sorted(name for name in environment if name.startswith(PREFIXES))
    unknown = {name for name in asked if known.libraries and name not in known.names}
    for name in asked:
        if name in unknown:
            yield name, _unknown(name, known)
    for name, older in _PAIRS:
        if {name, older} <= set(asked) - unknown and environment[name] != environment[older]:
            yield older, f"{older} does nothing: {name} is set, too, and counts."
    yield from _size(environment, known, unknown)
    for name in _FILE:
        if name in asked and name not in unknown:
            wrong = folder(environment[name])
            if wrong is not None:
                yield name, f"No dumps can be written where {name} says: {wrong}."
            break
    both = all(environment.get(name, "").lower() in _ON for name in _WAITS) and not unknown.intersection(_WAITS)
    if both and _NCCL in known.libraries:
        yield _WAITS[1], f"{_WAITS[1]} does nothing: {_WAITS[0]} is set, too, and switches it off."


def _unknown(name: str, known: Known) -> str:
    if name.startswith("TORCH_NCCL_") and _NCCL not in known.libraries and name not in _REPLACED:
        return f"{name} does nothing: it acts on NCCL, and this process has no library of torch with NCCL."
    version = f"torch {known.version}" if known.version else "the loaded torch"
    instead = f" Instead: {_REPLACED[name]}." if name in _REPLACED else ""
    return f"{name} is not known to {version}, and does nothing.{instead}"


def _size(environment: Mapping[str, str], known: Known, unknown: set[str]) -> Iterator[tuple[str, str]]:
    name = next((one for one in _SIZE if one in environment and one not in unknown), None)
    if name is None or not environment[name].isdecimal():
        return
    wanted = int(environment[name])
    if wanted == 0:
        yield name, f"{name}=0 switches the Flight Recorder off: collectives are not recorded."
    elif known.size is not None and known.size != wanted:
        yield (
            name,
            f"{name}={environment[name]} has no effect: the Flight Recorder has room for {known.size} operations.",
        )


def folder_problem(pid: int, path: str) -> str | None:
    """Return the problem of a folder, as the process names it; None if it exists and some user may write to it."""
    name = path.rpartition("/")[0]
    here = f"/proc/{pid}/root{name}" if path.startswith("/") else f"/proc/{pid}/cwd/{name}"
    try:
        mode = target_files.status(here).st_mode
    except FileNotFoundError:
        return f"the folder {name} does not exist"
    except OSError:
        return None
    return None if mode & 0o222 else f"the folder {name} can't be written"
