"""What loggers, containers, launchers and terminals put around the lines of a program."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final

__all__ = ["RANKED", "WRAPPINGS", "has_ranks", "wrapped"]

Wrap = Callable[[int, str], str]

_BAR: Final = " 12%|█▏        | 120/1000 [00:41<05:01,  2.92it/s]"
_RANKS: Final = re.compile(
    r"\[rank\d+\]|\[default\d+\]|^ ?\d+: |^\(\w+ (?:rank=\d+ )?pid=\d+|\[\d+,\d+\]<", re.MULTILINE
)


def _clock(number: int) -> str:
    """The time of a line: what a program prints as it ends comes within the same second or two."""
    second = number // 50
    return f"{10 + second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"


def _part(number: int) -> str:
    return f"{number % 50 * 20:03}"


def _docker(number: int, line: str) -> str:
    time = f"2026-03-04T{_clock(number)}.{_part(number)}000000Z"
    return json.dumps({"log": line + "\n", "stream": "stderr", "time": time}, ensure_ascii=False)


_LINE: Final[dict[str, Wrap]] = {
    "docker": _docker,
    "cri": lambda n, line: f"2026-03-04T{_clock(n)}.{_part(n)}000000Z stderr F {line}",
    "kubectl": lambda _, line: f"[pod/train-worker-1/main] {line}",
    "compose": lambda _, line: f"train-1  | {line}",
    "journal": lambda n, line: f"Mar 04 {_clock(n)} node07 python3[4242]: {line}",
    "journal-iso": lambda n, line: f"2026-03-04T{_clock(n)}+0000 node07 python3[4242]: {line}",
    "syslog": lambda n, line: f"<14>Mar  4 {_clock(n)} node07 train: {line}",
    "iso": lambda n, line: f"2026-03-04T{_clock(n)}.{_part(n)}000Z {line}",
    "logging": lambda n, line: f"2026-03-04 {_clock(n)},{_part(n)} - train - INFO - {line}",
    "loki": lambda n, line: json.dumps(
        {"labels": {"pod": "train-0"}, "line": line, "timestamp": f"2026-03-04T{_clock(n)}.{_part(n)}Z"}
    ),
    "cloud": lambda n, line: json.dumps(
        {"insertId": f"x{n}", "textPayload": line, "timestamp": f"2026-03-04T{_clock(n)}.{_part(n)}Z"}
    ),
    "fluentbit": lambda n, line: json.dumps({"date": 1772618400.0 + n / 50, "log": line + "\n", "stream": "stderr"}),
    "gitlab": lambda n, line: f"2026-03-04T{_clock(n)}.{_part(n)}000Z 01E {line}",
    "jenkins": lambda n, line: f"[2026-03-04T{_clock(n)}.{_part(n)}Z] {line}",
    "compose-t": lambda n, line: f"train-1  | 2026-03-04T{_clock(n)}.{_part(n)}000000Z {line}",
    "stern": lambda _, line: f"train-7f9c4-x2x4z worker {line}",
    "ts": lambda n, line: f"Mar 04 {_clock(n)} {line}",
    "rank": lambda _, line: f"[rank3]: {line}",
    "default": lambda _, line: f"[default3]:{line}",
    "lightning": lambda _, line: f"[rank: 3] {line}",
    "nested": lambda n, line: _docker(n, f"[default3]:2026-03-04 {_clock(n)},{_part(n)} - train - INFO - {line}"),
    "srun": lambda _, line: f"3: {line}",
    "mpirun": lambda _, line: f"[1,3]<stderr>:{line}",
    "pdsh": lambda _, line: f"node07: {line}",
    "ray": lambda _, line: f"(TrainWorker pid=4242, ip=10.0.3.7) {line}",
    "vllm": lambda _, line: f"(VllmWorker rank=2 pid=302) {line}",
    "ansi": lambda _, line: f"\x1b[36m{line}\x1b[0m",
    "crlf": lambda _, line: f"{line}\r",
    "quote": lambda _, line: f"> {line}",
    "indent": lambda _, line: f"    {line}",
}
WRAPPINGS: Final = (*_LINE, "interleaved", "tqdm")
"""Their names."""
RANKED: Final = {"rank", "default", "lightning", "nested", "srun", "mpirun", "ray", "vllm", "interleaved"}
"""Those that name a rank or a process: not put around texts that do."""


def has_ranks(text: str) -> bool:
    """Whether a text names ranks at the start of its lines."""
    return _RANKS.search(text) is not None


def wrapped(name: str, text: str) -> str:
    """A text in one of the wrappings."""
    if name == "tqdm":
        return f"\r{_BAR}\r{_BAR}{text}\r{_BAR}\n"
    lines = text.removesuffix("\n").split("\n")
    if name == "interleaved":  # with the lines of two ranks that train until the job ends
        return "".join(
            f"[rank{number % 2}]: step {number} loss {3 - number / 999:.3f}\n[rank3]: {line}\n"
            for number, line in enumerate(lines)
        )
    return "".join(f"{_LINE[name](number, line)}\n" for number, line in enumerate(lines))
