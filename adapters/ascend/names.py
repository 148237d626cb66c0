"""Identifiers of Ascend entities, and names of kernels: what files call them, and what a simulator's deleted files are.

The `simpler` runtime writes each kernel to /tmp/kernel_<func id>_XXXXXX, loads and unlinks it (simpler
src/common/sim_context, August 2026). Whoever knows the kernels' names passes them to `name_kernels`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from livedbg.model import ids
from livedbg.text.patterns import lazy_re
from livedbg.text.sanitize import clean_line

_ID_DIGITS: Final = 10  # of a func id: 32 bits
LOCAL_BITS: Final = 32
"""A task id is `(ring << LOCAL_BITS) | local`."""

_UNSAFE: Final = lazy_re(r"[^\w.+-]+")
_CORE_TYPES: Final = {"aic": "AIC", "aiv0": "AIV0", "aiv1": "AIV1", "aiv": "AIV"}
_FILE: Final = lazy_re(r"^kernel_(-?\d+)_\w{6}$")
_MOST: Final = 64

_known: OrderedDict[int, dict[int, str]] = OrderedDict()


class NameMap(Struct):
    """A `name_map*.json`."""

    callable_id_to_name: dict[str, str] = {}


def by_func_id(names: Mapping[str, str]) -> dict[int, str]:
    """Names of kernels by func id, of a JSON object; what is no id is left out."""
    return {int(func): name for func, name in names.items() if func.isdecimal() and len(func) <= _ID_DIGITS}


def raw_id(ring: int, local: int) -> int:
    """The runtime's 64-bit task id."""
    return (ring << LOCAL_BITS) | local


def ring_of(raw: int) -> int:
    """The ring of a task id."""
    return (raw >> LOCAL_BITS) & 0xFF


def local_of(raw: int) -> int:
    """The number of a task inside its ring."""
    return raw & ((1 << LOCAL_BITS) - 1)


def task_name(raw: int) -> str:
    """`r1t2`: task 2 of ring 1."""
    return f"r{ring_of(raw)}t{local_of(raw)}"


def core_type(subslot: str) -> str:
    """`AIC`, `AIV0` or `AIV1` for a subslot as logs spell it; "" where it is unknown."""
    return _CORE_TYPES.get(subslot.lower(), "")


class Names:
    """The identifiers of one run's entities.

    Args:
        label: "" for the only (or first) run that is looked at; for the others a word that tells
            them apart: `task:ascend/dev1/r0t3`.
    """

    def __init__(self, label: str = "") -> None:
        self.label = _UNSAFE.sub(".", clean_line(label, 80)).strip(".")

    def _path(self, name: str) -> str:
        return f"ascend/{self.label}/{name}" if self.label else f"ascend/{name}"

    @property
    def scope(self) -> str:
        """The scope of the run's edges."""
        return f"ascend/{self.label}" if self.label else "ascend"

    @property
    def run(self) -> str:
        """The run as a whole, which counters hang on: `run:ascend/main`."""
        return f"run:ascend/{self.label or 'main'}"

    @property
    def orchestrator(self) -> str:
        """The thread that submits tasks, as a task of its own: `task:ascend/orchestrator`."""
        return f"task:{self._path('orchestrator')}"

    def task(self, raw: int) -> str:
        """`task:ascend/r1t2`."""
        return f"task:{self._path(task_name(raw))}"

    def core(self, number: int) -> str:
        """`core:ascend/8`."""
        return ids.core("ascend", number) if not self.label else f"core:{self._path(str(number))}"

    def ring(self, number: int) -> str:
        """`ring:ascend/1`."""
        return f"ring:{self._path(str(number))}"

    def diagnostic(self, code: str, detail: object = "") -> str:
        """Identifier of a diagnostic: one per run, code and detail."""
        tail = f"/{detail}" if detail != "" else ""
        return f"{self.scope}/{code}{tail}"


class KernelNames(Struct):
    """Names of kernels by func id, from `name_map*.json` or what a launcher printed."""

    by_id: dict[int, str] = field(default_factory=dict)

    def learn(self, names: dict[int, str]) -> bool:
        """Take in names; says whether anything changed."""
        fresh = {func: clean_line(name, 200) for func, name in names.items()}
        changed = any(self.by_id.get(func) != name for func, name in fresh.items())
        self.by_id.update(fresh)
        return changed

    def of(self, kernels: tuple[int, ...]) -> str | None:
        """What a task with these func ids (-1: none) runs: `MUL`, `func 2`, `GEMM+ADD`; None if unknown."""
        funcs = list(dict.fromkeys(func for func in kernels if func >= 0))
        if not funcs:
            return None
        return "+".join(self.by_id.get(func, f"func {func}") for func in funcs)


def name_kernels(pid: int, names: Mapping[int, str]) -> None:
    """Keep the kernels' names of a process, by func id."""
    _known[pid] = dict(names)
    _known.move_to_end(pid)
    while len(_known) > _MOST:
        _known.popitem(last=False)


def is_kernel(module: str | None) -> bool:
    """Whether code is a kernel's, by what stacks show for its file (`kernel_label`)."""
    return (module or "").startswith("kernel func ")


def kernel_label(pid: int, file: str) -> str | None:
    """`kernel func 2 (MUL)` for the base name of a kernel's file; None for any other file."""
    match = _FILE.match(file)
    if match is None:
        return None
    name = _known.get(pid, {}).get(int(match[1]))
    return f"kernel func {match[1]} ({name})" if name else f"kernel func {match[1]}"
