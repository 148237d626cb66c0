"""Ids of Ascend entities, and names of kernels, including those of a simulator's deleted files.

The `simpler` runtime writes each kernel to /tmp/kernel_<func id>_XXXXXX, loads and unlinks it (simpler
src/common/sim_context, August 2026). `name_kernels` registers the kernels' names.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct, field

from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line
from livedbg.text.typed import ready

_ID_DIGITS: Final = 10  # of a func id: 32 bits
LOCAL_BITS: Final = 32
"""A task id is `(ring << LOCAL_BITS) | local`."""

_UNSAFE: Final = lazy_re(r"[^\w.+-]+")
_CORE_TYPES: Final = {"aic": "AIC", "aiv0": "AIV0", "aiv1": "AIV1", "aiv": "AIV"}
_FILE: Final = lazy_re(r"^kernel_(-?\d+)_\w{6}$")
_MOST: Final = 64

_known: OrderedDict[int, dict[int, str]] = OrderedDict()


class _NameMap(Struct):
    callable_id_to_name: dict[str, str] = {}


def read_names(data: bytes) -> dict[int, str]:
    """Return names of kernels by func id, from a `name_map*.json`; raise as `msgspec.json.decode`."""
    return by_func_id(msgspec.json.decode(data, type=ready(_NameMap)).callable_id_to_name)


def by_func_id(names: Mapping[str, str]) -> dict[int, str]:
    """Convert names of kernels to func id keys; invalid ids are dropped."""
    return {int(func): name for func, name in names.items() if func.isdecimal() and len(func) <= _ID_DIGITS}


def raw_id(ring: int, local: int) -> int:
    """Return the runtime's 64-bit task id."""
    return (ring << LOCAL_BITS) | local


def ring_of(raw: int) -> int:
    return (raw >> LOCAL_BITS) & 0xFF


def local_of(raw: int) -> int:
    return raw & ((1 << LOCAL_BITS) - 1)


def task_name(raw: int) -> str:
    """Return `r1t2` for task 2 of ring 1."""
    return f"r{ring_of(raw)}t{local_of(raw)}"


def core_name(number: int, subslot: str) -> str:
    """Return `core 8 (AIV0)`."""
    kind = core_type(subslot)
    return f"core {number} ({kind})" if kind else f"core {number}"


def core_type(subslot: str) -> str:
    """Return `AIC`, `AIV0` or `AIV1` for a subslot in a log; "" if unknown."""
    return _CORE_TYPES.get(subslot.lower(), "")


class Names:
    """Ids of one run's entities; `label` distinguishes runs (`task:ascend/dev1/r0t3`), "" for the first.

    Attributes:
        scope: of its edges.
        run: its own id, for counters: `run:ascend/main`.
        orchestrator: the task id of the submitting thread.
    """

    def __init__(self, label: str = "") -> None:
        self.label = _UNSAFE.sub(".", clean_line(label, 80)).strip(".")
        self.scope = f"ascend/{self.label}" if self.label else "ascend"
        self.run = f"run:ascend/{self.label or 'main'}"
        self.orchestrator = f"task:{self.scope}/orchestrator"

    def task(self, raw: int) -> str:
        """Return `task:ascend/r1t2`."""
        return f"task:{self.scope}/{task_name(raw)}"

    def core(self, number: int) -> str:
        """Return `core:ascend/8`."""
        return f"core:{self.scope}/{number}"

    def ring(self, number: int) -> str:
        """Return `ring:ascend/1`."""
        return f"ring:{self.scope}/{number}"

    def diagnostic(self, code: str, detail: object = "") -> str:
        """Return a diagnostic's id: one for each run, code and detail."""
        tail = f"/{detail}" if detail != "" else ""
        return f"{self.scope}/{code}{tail}"


class KernelNames(Struct):
    """Names of kernels by func id, from `name_map*.json` or a launcher's output."""

    by_id: dict[int, str] = field(default_factory=dict)

    def learn(self, names: dict[int, str]) -> bool:
        """Add names; return whether anything changed."""
        fresh = {func: clean_line(name, 200) for func, name in names.items()}
        changed = any(self.by_id.get(func) != name for func, name in fresh.items())
        self.by_id.update(fresh)
        return changed

    def of(self, kernels: tuple[int, ...]) -> str | None:
        """Return the kernel names of some func ids (-1: none): `MUL`, `func 2`, `GEMM+ADD`; None if unknown."""
        funcs = list(dict.fromkeys(func for func in kernels if func >= 0))
        if not funcs:
            return None
        return "+".join(self.by_id.get(func, f"func {func}") for func in funcs)


def name_kernels(pid: int, names: Mapping[int, str]) -> None:
    """Register the kernels' names of a process, by func id."""
    _known[pid] = dict(names)
    _known.move_to_end(pid)
    while len(_known) > _MOST:
        _known.popitem(last=False)


def is_kernel(module: str | None) -> bool:
    """Return whether a module name in a stack is that of a kernel (`kernel_label`)."""
    return (module or "").startswith("kernel func ")


def kernel_label(pid: int, file: str) -> str | None:
    """Return `kernel func 2 (MUL)` for the base name of a kernel's file; None for any other file."""
    match = _FILE.match(file)
    if match is None:
        return None
    name = _known.get(pid, {}).get(int(match[1]))
    return f"kernel func {match[1]} ({name})" if name else f"kernel func {match[1]}"
