"""Write the Flight Recorders of running ranks as files, like torch's own dumps on a timeout."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from livedbg.adapters.pytorch.collectives.joined import Look
from livedbg.adapters.pytorch.collectives.ranks import RankReader
from livedbg.adapters.pytorch.collectives.recorder_entry import Entry
from livedbg.model.snapshot import Snapshot
from livedbg.text.private_files import write_private

_VERSION: Final = "2.10"
"""Of the format: torch/csrc/distributed/c10d/FlightRecorderDetail.hpp."""


def save(snapshot: Snapshot, folder: Path) -> None:
    """Write `flight_recorder_rank_N.json` for each readable rank of a session; raise OSError if that fails."""
    for process in snapshot.processes.values():
        if not process.target or process.exited:
            continue
        try:
            rank = RankReader(process).read(process)
        except OSError:
            continue  # gone, or not ours to look at
        if rank is not None and rank.look.rings:
            path = folder / f"flight_recorder_rank_{rank.look.rank}.json"
            write_private(path, msgspec.json.encode(_document(rank.look)))


def _document(look: Look) -> dict[str, Any]:
    described = {entry.group: entry.description for entry in look.entries}
    config = {
        name: {"name": name, "desc": described.get(name, ""), "ranks": str(list(ranks))}
        for name, ranks in look.groups.items()
    }
    return {"version": _VERSION, "pg_config": config, "entries": [_entry(entry) for entry in look.entries]}


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "record_id": entry.record,
        "pg_id": entry.instance,
        "process_group": [entry.group, entry.description],
        "profiling_name": f"{entry.backend}:{entry.name}" if entry.backend else entry.name,
        "time_created_ns": entry.created_wall_ns,
        "collective_seq_id": 0 if entry.is_p2p else entry.sequence,
        "p2p_seq_id": entry.sequence if entry.is_p2p else 0,
        "is_p2p": entry.is_p2p,
        "input_sizes": entry.shapes[:1],
        "output_sizes": entry.shapes[1:],
        "state": "completed" if entry.done else "scheduled",
        "retired": entry.done,
        "timeout_ms": entry.timeout_ms,
    }
