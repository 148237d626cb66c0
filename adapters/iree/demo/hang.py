"""Compiles a module of three dispatches and runs it with an input for which the second one never ends.

`python -m livedbg.adapters.iree.demo.hang DIRECTORY`
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from importlib.resources import as_file, files
from pathlib import Path

from livedbg.adapters.iree.differences.toolchain import target_flags
from livedbg.model.errors import UsageError

_INPUTS = ("--input=16x16xf32=1.0", "--input=16x16xf32=0.75", "--input=16x32xf32=0.1")


def main(folder: Path) -> None:
    """Compile, and become the program that runs it.

    Raises:
        UsageError: the compiler or the runtime is not installed.
    """
    runtime, compiler = importlib.util.find_spec("iree.runtime"), Path(sys.executable).with_name("iree-compile")
    if runtime is None or runtime.origin is None or not compiler.exists():
        raise UsageError(
            "This demo needs IREE's compiler and runtime.",
            "pip install iree-base-compiler iree-base-runtime",
            "missing",
        )
    module = folder / "gated.vmfb"
    with as_file(files("livedbg.adapters.iree.demo").joinpath("gated.mlir")) as source:
        command = [str(compiler), source.name, *target_flags("local-task", "", ()), "-o", str(module)]
        subprocess.run(command, check=True, cwd=source.parent)
    program = Path(runtime.origin).parents[1] / "_runtime_libs" / "iree-run-module"
    words = [f"--module={module}", "--device=local-task", "--function=main", "--task_topology_group_count=2", *_INPUTS]
    os.execv(program, [str(program), *words])


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]))
    except UsageError as error:
        sys.exit(str(error))
