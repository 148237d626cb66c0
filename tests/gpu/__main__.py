"""Tries livedbg's device screens on a real GPU, and writes down what cuda-gdb says there (`make gpu-check`).

    python -m tests.gpu [--into FOLDER] [--no-attach] [CASE]…

Exit codes: 0 all as it should be, 1 something contradicts what livedbg expects, 77 this box can't do it (no GPU, no
compiler, no cuda-gdb): what is missing is printed.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from livedbg.adapters.cuda.cudagdb.engine import find_cuda_gdb
from livedbg.model.errors import ToolMissing
from tests.gpu import torch_cases
from tests.gpu.cases import CASES, build, check, missing

UNABLE = 77
HERE = Path(__file__).parent


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gpu", description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", help="; ".join([*(case.program for case in CASES), *torch_cases.CASES]))
    parser.add_argument("--into", type=Path, default=Path("build/gpu-check"), help="folder for recordings and sessions")
    parser.add_argument("--no-attach", action="store_true", help="leave out what attaches cuda-gdb")
    parser.add_argument("--devices", type=Path, default=Path("/dev"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    lacks = missing(options.devices)
    try:
        gdb = find_cuda_gdb()
    except ToolMissing as error:
        lacks.append(f"cuda-gdb: {error.remedy}")
    if lacks:
        print("gpu-check: nothing was tried. This box lacks:", *(f"  - {lack}" for lack in lacks), sep="\n")
        return UNABLE
    return run(options.cases, options.into.resolve(), gdb, attach=not options.no_attach)


def run(names: list[str], folder: Path, gdb: str, *, attach: bool) -> int:
    """Try the cases."""
    from shutil import which

    folder.mkdir(parents=True)
    outcome: dict[str, list[str]] = {}
    for case in CASES:
        if names and case.program not in names:
            continue
        recorded = folder / f"{case.program}-gdb"
        session = folder / f"{case.program}.mi.txt"
        recorded.write_text(f'#!/bin/sh\nexec {sys.executable} {HERE / "tee.py"} {session} {gdb} "$@"\n')
        recorded.chmod(0o755)
        check(case, build(case, folder, which("nvcc")), str(recorded), folder, attach=attach)
        outcome[case.program] = case.troubles
        print(f"{case.program}: {'; '.join(case.troubles) or 'as it should be'}", flush=True)
    outcome |= torch_cases.try_torch(names, folder)
    (folder / "outcome.json").write_text(json.dumps(outcome, indent=2), encoding="utf-8")
    print(f"Sessions, recordings and what was printed: {folder}")
    return 1 if any(outcome.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
