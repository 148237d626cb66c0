"""The name of an RPC worker: `torch::distributed::rpc::RpcAgent::currentRpcAgent_` in its memory.

An agent begins with a table of functions and its `workerInfo_`: a table of functions, two counts of references, the
name (std::string of libstdc++) and the number (int16) (torch/csrc/distributed/rpc/rpc_agent.h).

Invariants:
    rpc_worker_name.N1. A name is given only if it is printable and the number beside it is the process's rank, or may
        be one where the rank is not known otherwise: `init_rpc` alone leaves it nowhere else.
"""

from __future__ import annotations

import struct
from typing import Final

from livedbg.linux import memory
from livedbg.linux.elf import ElfFile
from livedbg.linux.elf_symbols import defined_symbols
from livedbg.linux.mapped_files import ReadOnce
from livedbg.linux.maps import parse_maps

_LIBRARY: Final = "/libtorch_cpu.so"
_AGENT: Final = "_ZN5torch11distributed3rpc8RpcAgent16currentRpcAgent_E"
_NAME_AT: Final = 8 + 16
_NUMBER_AT: Final = _NAME_AT + 32
_MOST: Final = 128  # WorkerInfo::MAX_NAME_LEN

_symbols: ReadOnce[int | None] = ReadOnce()


def agent_pointer(pid: int) -> int | None:
    """Where a process keeps the pointer to its agent; None where it has no such library, or one without the symbol.

    Raises:
        OSError: gone, or not allowed.
    """
    mappings = [mapping for mapping in parse_maps(pid) if mapping.path.endswith(_LIBRARY)]
    if not mappings:
        return None
    bias, value = _symbols.of(pid, mappings, _agent_at) or (0, None)
    return None if value is None else bias + value


def _agent_at(elf: ElfFile) -> int | None:
    one = defined_symbols(elf, [_AGENT]).get(_AGENT)
    return one.address if one is not None else None


def agent_worker(pid: int, pointer: int, rank: int | None) -> tuple[str, int] | None:
    """The name and the number of the worker that a process is; None where it is none (N1).

    Args:
        pid: the process.
        pointer: where it keeps the pointer to its agent.
        rank: its rank; None where it is not known.
    """
    try:
        (agent,) = struct.unpack("<Q", memory.read(pid, pointer, 8))
        if not agent:
            return None
        text, size, number = struct.unpack("<QQ16xh", memory.read(pid, agent + _NAME_AT, 34))
        if number < 0 or rank not in (None, number) or not 0 < size <= _MOST:
            return None
        name = memory.read(pid, text, size).decode("ascii")
    except (OSError, OverflowError, UnicodeDecodeError):
        return None
    return (name, number) if name.isprintable() else None
