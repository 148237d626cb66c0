"""Dumps as the runtime writes them, made for a test."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from livedbg.cli import main
from tests.cli.conftest import Said

FLOAT32 = "FLOAT32"


@dataclass
class Arg:
    """One argument of one task at one stage; `data` is its payload, None for a scalar or a lost one."""

    task: int
    arg: int
    role: str
    stage: str
    data: bytes | None = None
    dtype: str = FLOAT32
    shape: Sequence[int] = ()
    kernel: int = 0
    more: dict[str, Any] = field(default_factory=dict)


def tensor(
    task: int, arg: int, role: str, values: Any, *, kernel: int = 0, after: bool | None = None, **more: Any
) -> Arg:
    """A FLOAT32 tensor; outputs are after completion unless it is said otherwise."""
    array = np.asarray(values, np.float32)
    after = role == "output" if after is None else after
    stage = "after_completion" if after else "before_dispatch"
    return Arg(task, arg, role, stage, array.tobytes(), FLOAT32, array.shape, kernel, more)


def scalar(task: int, arg: int, value: Any, dtype: str = FLOAT32) -> Arg:
    """A scalar argument."""
    return Arg(task, arg, "input", "before_dispatch", None, dtype, (), 0, {"kind": "scalar", "value": value})


def write_dump(folder: Path, args: Iterable[Arg], *, june: bool = False, indent: bool = False, **head: Any) -> Path:
    """Write `args_dump/` (or June's `tensor_dump/`) into a run's folder; returns the manifest."""
    name, list_name, bin_name = (
        ("tensor_dump", "tensors", "tensor_dump.bin") if june else ("args_dump", "args", "args.bin")
    )
    target = folder / name
    target.mkdir(parents=True, exist_ok=True)
    payload, entries = b"", []
    for one in args:
        shape = list(one.shape)
        entry = {
            "task_id": f"0x{one.task:016x}",
            "func_id": [one.kernel],
            "arg_index": one.arg,
            "role": one.role,
            "stage": one.stage,
            "kind": "tensor",
            "dtype": one.dtype,
            "is_contiguous": True,
            "shape": shape,
            "strides": [int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))],
            "start_offset": 0,
            "numel": int(np.prod(shape)),
            "bin_offset": len(payload) if one.data is not None else 0,
            "bin_size": len(one.data or b""),
            "truncated": False,
            "overwritten": False,
        } | one.more
        if june:
            del entry["func_id"]
        payload += one.data or b""
        entries.append(entry)
    entries.sort(key=lambda e: (e["task_id"], e["stage"] != "before_dispatch", e["arg_index"]))
    document = {
        "run_dir": name,
        "bin_format": {"type": "logical_contiguous", "byte_order": "little_endian"},
        "dump_args_level": 2,
        f"total_{list_name}": len(entries),
        "dropped_records": 0,
        "dropped_overwrite": 0,
        "bin_file": bin_name,
    } | head
    if june:
        document.pop("dump_args_level", None)
    (target / bin_name).write_bytes(payload)
    path = target / f"{name}.json"
    if indent:
        path.write_text(json.dumps(document | {list_name: entries}, indent=1))
    else:
        lines = ",\n".join("    " + json.dumps(entry) for entry in entries)
        text = json.dumps(document, indent=2)[:-2]
        path.write_text(f'{text},\n  "{list_name}": [\n{lines}\n  ]\n}}\n')
    return path


def write_deps(
    folder: Path,
    tasks: Sequence[tuple[int, Sequence[tuple[str, int]]]],
    edges: Sequence[tuple[int, int, int]],
    count: int = 4,
) -> None:
    """Write a `deps.json`: tasks with the mode and tensor of each argument, edges as (pred, succ, arg)."""
    shape = {"dtype": FLOAT32, "shape": [count], "start_offset": "0", "strides": [1]}
    ids = sorted({tensor for _, args in tasks for _, tensor in args})
    document = {
        "tasks": [
            {
                "task_id": str(task),
                "scope": "auto",
                "kernel_ids": [-1, 0, -1],
                "block_num": 1,
                "args": [
                    {"idx": index, "type": mode, "tensor_id": str(tensor), **shape}
                    for index, (mode, tensor) in enumerate(args)
                ],
            }
            for task, args in tasks
        ],
        "tensors": [
            {
                "tensor_id": str(one),
                "buffer_addr": str(one << 20),
                "version": 0,
                "dtype": FLOAT32,
                "buffer_numel": str(count),
            }
            for one in ids
        ],
        "edges": [
            {"pred": str(pred), "succ": str(succ), "arg": arg, "source": "tensormap", "flags": ["wait"]}
            for pred, succ, arg in edges
        ],
    }
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "deps.json").write_text(json.dumps(document))


@pytest.fixture
def inside(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """`livedbg WORDS` without a process of its own, which costs half a second."""

    def run(*words: str | Path) -> Said:
        code = main(list(map(str, words)))
        printed = capsys.readouterr()
        return Said(code, printed.out, printed.err)

    return run
