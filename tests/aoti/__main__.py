"""`make aoti`: compiles and runs models that are wrong, under the guide, and checks what it says of each.

Needs torch and g++. Takes half a minute a step, more on a busy machine.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

HERE: Final = Path(__file__).parent
LIMIT_S: Final = 900


class Case(NamedTuple):
    """A model, the guide's options for it, its exit code, and what must be said."""

    kind: str
    options: tuple[str, ...]
    code: int
    said: tuple[str, ...]


CASES: Final = (
    Case("shape", (), 11, ("dimension 0 is 5, and the model was compiled for 4", "expects float32 [4, 32]")),
    Case("dtype", (), 11, ("Input 0 (counted from 0) has type float64, and the model was compiled for float32",)),
    Case(
        "nan",
        (),
        12,
        ("4 launches, 4 returned", "cpp_fused_log_mul_relu_sub_0 (call 2) produced the first NaN", "torch.log(y - 1)"),
    ),
    Case("throw", ("--step", "1"), 11, ("guide::throw (call 3 of 5", "in fail (ops.cpp:", "table of rows is empty")),
    Case("hang", ("--step", "2", "--timeout", "240"), 10, ("guide::hang (call 3 of 5", "model.py:")),
)


def main() -> int:
    """Run the cases that are named, or all."""
    found = find_spec("torch")
    if found is None or found.origin is None:
        print("torch is not installed")
        return 77
    wanted = sys.argv[1:]
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _build(Path(found.origin).parent, folder)
        for case in CASES:
            if not wanted or case.kind in wanted:
                failed += _check(case, folder)
    return 1 if failed else 0


def _build(torch: Path, folder: Path) -> None:
    includes = [f"-I{torch / 'include'}", f"-I{torch / 'include/torch/csrc/api/include'}"]
    libraries = [f"-L{torch / 'lib'}", "-ltorch", "-ltorch_cpu", "-lc10"]
    argv = ["g++", "-std=c++20", "-O1", "-g", "-fPIC", "-shared", *includes, str(HERE / "ops.cpp")]
    subprocess.run([*argv, "-o", str(folder / "libops.so"), *libraries], check=True)


def _check(case: Case, folder: Path) -> int:
    state = {"XDG_STATE_HOME": str(folder / "state"), "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")}
    argv = [sys.executable, "-m", "livedbg", "aoti", "--headless", *case.options, "--", sys.executable]
    done = subprocess.run(
        [*argv, str(HERE / "model.py"), case.kind, str(folder)],
        env={**os.environ, **state},
        capture_output=True,
        text=True,
        timeout=LIMIT_S * 3,
        check=False,
    )
    missing = [text for text in case.said if text not in done.stdout]
    wrong = bool(missing) or done.returncode != case.code
    print(f"{case.kind:6} {'WRONG' if wrong else 'right'}  exit code {done.returncode}", flush=True)
    if wrong:
        print(f"not said: {missing}\n{done.stdout}\n{done.stderr}")
    return wrong


if __name__ == "__main__":
    raise SystemExit(main())
