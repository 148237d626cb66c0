"""Names of dispatches in native stacks: their code is an image in memory that no file backs and no symbol names."""

from __future__ import annotations

import time
from collections import OrderedDict
from typing import Final

from livedbg.adapters.iree.live.libraries import Dispatch, Libraries
from livedbg.linux.maps import parse_maps
from livedbg.unwind.labels import NamedCode

_AGAIN_S: Final = 2.0
_PROCESSES: Final = 64

_known: OrderedDict[int, tuple[Libraries, float]] = OrderedDict()


def dispatch_code(pid: int, address: int) -> NamedCode | None:
    """The dispatch whose code an address of a process is in."""
    libraries, looked_s = _known.get(pid) or (Libraries(pid), -_AGAIN_S)
    if time.monotonic() - looked_s >= _AGAIN_S:  # modules are unloaded, and process numbers are given again
        try:
            libraries.look(parse_maps(pid))
        except OSError:
            return None  # gone, or not ours to look at
        _known[pid] = (libraries, time.monotonic())
        _known.move_to_end(pid)
        if len(_known) > _PROCESSES:
            _known.popitem(last=False)
    found = libraries.at(address)
    return _named(found) if found is not None else None


def _named(dispatch: Dispatch) -> NamedCode:
    file, _, line = dispatch.source.rpartition(":")
    return NamedCode(dispatch.name, file, int(line)) if file and line.isdigit() else NamedCode(dispatch.name)
