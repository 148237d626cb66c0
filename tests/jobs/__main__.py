"""`make jobs`: real jobs of torch.distributed, hung and healthy, each looked at by `livedbg report`.

    python -m tests.jobs [WORD…]

A WORD picks the cases that have it in their name. A hung job is looked at until what is true of it is said, for as long
as LIMIT_S; a healthy one, for HEALTHY_S, and nothing else may be said of it at any look. Nothing may stop a target.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.jobs.cases import CASES, Case

TARGETS: Final = Path(__file__).parents[1] / "targets"
LIMIT_S: Final = 120.0
HEALTHY_S: Final = 30.0
_CODES: Final = {"stalled": 10, "deadlock": 10, "crashed": 11, "running": 0, "unknown": 5}
_OVER: Final = 4  # the report's own time limit, on a busy machine
_TORCHRUN: Final = (
    "-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", "2",
    "--monitor-interval", "0.1", "--log-dir", "logs", "--redirects", "3",
)  # fmt: skip


_NODES: Final = ("--nnodes", "2", "--rdzv-backend", "c10d", "--local-addr", "127.0.0.1", "--rdzv-endpoint")
_LAUNCHERS: Final = {"torchrun": "gloo", "torchrun-nodes": "gloo", "torchrun-again": "again", "mp.spawn": "spawned"}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        number: int = server.getsockname()[1]
        return number


class Jobs:
    """The program that starts jobs, and the launchers beside it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._program: subprocess.Popen[str] | None = None

    @contextmanager
    def started(self, case: Case) -> Iterator[int]:
        """A job, by the pid of what launched its ranks; it is ended afterwards."""
        launcher = _LAUNCHERS.get(case.name)
        if launcher is None:
            pid = self._case(case)
            try:
                yield pid
            finally:
                os.killpg(pid, signal.SIGKILL)
            return
        program = [str(TARGETS / "torch_launchers.py"), launcher]
        argv = [*_TORCHRUN, "--max-restarts", "99", *program]
        if launcher == "spawned":
            argv = [*program, str(self._folder)]
        elif case.name == "torchrun-nodes":
            argv = [*_TORCHRUN[:2], *_NODES, f"127.0.0.1:{_free_port()}", *program]
        with subprocess.Popen(
            [sys.executable, *argv], cwd=self._folder, start_new_session=True, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:  # fmt: skip
            try:
                yield process.pid
            finally:
                process.terminate()  # torchrun ends its workers, which are sessions of their own
                try:
                    process.wait(60)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)

    def _case(self, case: Case) -> int:
        if self._program is None:
            environment = {**os.environ, "TMPDIR": str(self._folder), "TORCH_TRACE": str(self._folder)}
            self._program = subprocess.Popen(
                [sys.executable, str(TARGETS / "torch_jobs.py")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                bufsize=1,
                env=environment,
            )
            assert self._program.stdout is not None
            assert self._program.stdout.readline().strip() == "READY"
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        print(case.name, case.ranks, file=self._program.stdin, flush=True)
        return int(self._program.stdout.readline())

    def close(self) -> None:
        """End the program."""
        if self._program is not None and self._program.stdin is not None:
            self._program.stdin.close()
            self._program.wait(60)


def look(pid: int) -> dict[str, Any]:
    """What one report says."""
    argv = [sys.executable, "-m", "livedbg", "report", str(pid), "--json", "--timeout", "90"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=200, check=False)
    if not done.stdout:
        return {"verdict": {"state": "failed", "sentence": done.stderr.strip()[-200:]}, "findings": [], "exit": -1}
    said: dict[str, Any] = json.loads(done.stdout)
    return said | {"exit": done.returncode}


def _says(said: dict[str, Any], case: Case) -> bool:
    text = "\n".join([said["verdict"]["sentence"], *(one["sentence"] for one in said["findings"])])
    return said["verdict"]["state"] in case.right and all(words in text for words in case.said)


def check(pid: int, case: Case) -> tuple[str, str]:
    """The grade of a case (right, unknown, wrong), and the sentence."""
    begun = time.monotonic()
    healthy = "running" in case.right
    grade = "unknown"
    while True:
        said = look(pid)
        state, sentence = said["verdict"]["state"], said["verdict"]["sentence"]
        if said.get("intrusions", {}).get("stops", 0) or said["exit"] not in (_CODES.get(state), 3, _OVER):
            return "wrong", f"exit code {said['exit']}, {said.get('intrusions')}: {sentence}"
        if state not in (*case.right, "unknown") and said["exit"] != _OVER and (healthy or state != "running"):
            return "wrong", f"{state}: {sentence}"
        grade = "right" if _says(said, case) else grade
        passed = time.monotonic() - begun
        if (grade == "right" and (not healthy or passed > HEALTHY_S)) or passed > LIMIT_S:
            return grade, f"{state}: {sentence}"
        time.sleep(2)


def main() -> int:
    """Run the cases; the exit code is 1 where one is not right."""
    wanted = sys.argv[1:]
    counts = {"right": 0, "unknown": 0, "wrong": 0}
    with tempfile.TemporaryDirectory(prefix="livedbg-jobs-") as name:
        jobs = Jobs(Path(name))
        try:
            for case in CASES:
                if not wanted or any(word in case.name for word in wanted):
                    with jobs.started(case) as pid:
                        grade, sentence = check(pid, case)
                    counts[grade] += 1
                    print(f"{grade:7} {case.name}: {sentence}", flush=True)
        finally:
            jobs.close()
    print(", ".join(f"{number} {grade}" for grade, number in counts.items()))
    return int(counts["right"] < sum(counts.values()))


if __name__ == "__main__":
    sys.exit(main())
