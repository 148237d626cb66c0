"""What loggers, containers, launchers and terminals put around the lines of a program."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from typing import Final

__all__ = ["RANKED", "WRAPPINGS", "encoded", "has_ranks", "wrapped"]

Wrap = Callable[[int, str], str]

_START: Final = 1_772_618_400  # 2026-03-04 10:00:00 UTC
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
    "kubectl-t": lambda n, line: f"[pod/train-worker-1/main] 2026-03-04T{_clock(n)}.{_part(n)}000000Z {line}",
    "journal-precise": lambda n, line: f"Mar 04 {_clock(n)}.{_part(n)}000 node07 python3[4242]: {line}",
    "journal-iso-precise": lambda n, line: f"2026-03-04T{_clock(n)}.{_part(n)}000+00:00 node07 python3[4242]: {line}",
    "journal-unix": lambda n, line: f"{_START + n // 50}.{_part(n)}000 node07 python3[4242]: {line}",
    "journal-monotonic": lambda n, line: f"[{812 + n // 50:5}.{_part(n)}000] node07 python3[4242]: {line}",
    "journal-unit": lambda n, line: f"Wed 2026-03-04 {_clock(n)} UTC node07 train@1.service[4242]: {line}",
    "gh": lambda n, line: f"train (a100, 2)\tRun the job\t2026-03-04T{_clock(n)}.{_part(n)}0000Z {line}",
    "dmesg-t": lambda n, line: f"[Wed Mar  4 {_clock(n)} 2026] {line}",
    "srun-2": lambda _, line: f" 3: {line}",
    "mpich": lambda _, line: f"[3] {line}",
    "sagemaker": lambda _, line: f"[1,mpirank:3,algo-2]<stderr>:{line}",
    "sky": lambda _, line: f"(worker1, rank=3, pid=4242, ip=10.0.3.7) {line}",
    "determined": lambda n, line: f"[2026-03-04T{_clock(n)}.{_part(n)}000Z] 5c902731 [rank=3] || {line}",
    "vertex": lambda n, line: f"ERROR\t2026-03-04 {_clock(n)} +0000\tworkerpool0-0\t{line}",
    "teamcity": lambda n, line: f"[{_clock(n)}]W:\t [Step 1/5] {line}",
    "buildkite": lambda n, line: f"\x1b_bk;t={_START * 1000 + n * 20}\x07{line}",
    "parallel": lambda _, line: f"node07\t{line}",
    "swarm": lambda _, line: f"train_worker.1.k3j2h4g5f6d7@node07    | {line}",
    "cloudbuild": lambda _, line: f'Step #4 - "train": {line}',
    "aws-tail": lambda n, line: f"2026-03-04T{_clock(n)}.{_part(n)}000+00:00 job-7/algo-1-17726 {line}",
    "hydra": lambda n, line: f"[2026-03-04 {_clock(n)},{_part(n)}][train][INFO] - {line}",
    "fairseq": lambda n, line: f"2026-03-04 {_clock(n)} | INFO | fairseq_cli.train | {line}",
    "ansi": lambda _, line: f"\x1b[36m{line}\x1b[0m",
    "crlf": lambda _, line: f"{line}\r",
    "quote": lambda _, line: f"> {line}",
    "indent": lambda _, line: f"    {line}",
}


def _gcloud(lines: list[str]) -> str:
    entries = [
        {
            "insertId": f"x{n}",
            "severity": "ERROR",
            "textPayload": line,
            "timestamp": f"2026-03-04T{_clock(n)}.{_part(n)}Z",
        }
        for n, line in enumerate(lines)
    ]
    return json.dumps(entries[::-1], indent=2, ensure_ascii=False) + "\n"


def _events(lines: list[str]) -> str:
    entries = [
        {"timestamp": _START * 1000 + n * 20, "message": line, "ingestionTime": 1} for n, line in enumerate(lines)
    ]
    return json.dumps({"events": entries, "nextForwardToken": "f/3"}, indent=4) + "\n"


def _kaggle(lines: list[str]) -> str:
    entries = [
        json.dumps({"stream_name": "stderr", "time": n / 50, "data": line + "\n"}) for n, line in enumerate(lines)
    ]
    return "[" + "\n,".join(entries) + "\n]\n"


def _journal(lines: list[str]) -> list[dict[str, str]]:
    return [
        {
            "__CURSOR": f"s=1;i={n}", "__REALTIME_TIMESTAMP": str((_START * 50 + n) * 20_000), "_PID": "4242",
            "_HOSTNAME": "node07", "SYSLOG_IDENTIFIER": "python3", "_TRANSPORT": "stdout", "MESSAGE": line,
        }
        for n, line in enumerate(lines)
    ]  # fmt: skip


def _cast(lines: list[str]) -> str:
    head = json.dumps({"version": 2, "width": 120, "height": 40, "timestamp": _START})
    return "".join(
        f"{one}\n" for one in [head, *(json.dumps([n / 50, "o", f"{line}\r\n"]) for n, line in enumerate(lines))]
    )


def _blocks(lines: list[str]) -> str:
    rule = "-" * 16
    return "\n".join([rule, "node07", rule, *lines, rule, "node08", rule, "step 1", ""])


def _cut(lines: list[str], width: int) -> str:
    return "".join(f"{line[at : at + width]}\n" for line in lines for at in range(0, max(len(line), 1), width))


_WHOLE: Final[dict[str, Callable[[list[str]], str]]] = {
    "gcloud": _gcloud,
    "events": _events,
    "kaggle": _kaggle,
    "journal-pretty": lambda lines: "".join(f"{json.dumps(one, indent=8)}\n" for one in _journal(lines)),
    "journal-json": lambda lines: "".join(f"{json.dumps(one)}\n" for one in _journal(lines)),
    "export": lambda lines: "\n".join("".join(f"{k}={v}\n" for k, v in one.items()) for one in _journal(lines)),
    "dshbak": _blocks,
    "cast": _cast,
    "typescript": lambda lines: (
        'Script started on 2026-03-04 10:00:00+00:00 [TERM="xterm" TTY="/dev/pts/0" COLUMNS="120" LINES="40"]\n'
        + "".join(f"{line}\r\n" for line in lines)
        + '\nScript done on 2026-03-04 11:00:00+00:00 [COMMAND_EXIT_CODE="1"]\n'
    ),
    "html": lambda lines: "".join(f"{html.escape(line)}\n" for line in lines),
    "terminal-80": lambda lines: _cut(lines, 80),
    "terminal-120": lambda lines: _cut(lines, 120),
    "utf16": lambda lines: "".join(f"{line}\r\n" for line in lines),
}
WRAPPINGS: Final = (*_LINE, *_WHOLE, "interleaved", "tqdm")
"""Their names."""
RANKED: Final = {"rank", "default", "lightning", "nested", "srun", "mpirun", "ray", "vllm", "interleaved"} | {
    *("srun-2", "mpich", "sagemaker", "sky", "determined")
}
"""Those that name a rank or a process: not put around texts that do."""


def has_ranks(text: str) -> bool:
    """Whether a text names ranks at the start of its lines."""
    return _RANKS.search(text) is not None


def wrapped(name: str, text: str) -> str:
    """A text in one of the wrappings."""
    if name == "tqdm":
        return f"\r{_BAR}\r{_BAR}{text}\r{_BAR}\n"
    lines = text.removesuffix("\n").split("\n")
    if name in _WHOLE:
        return _WHOLE[name](lines)
    if name == "interleaved":  # with the lines of two ranks that train until the job ends
        return "".join(
            f"[rank{number % 2}]: step {number} loss {3 - number / 999:.3f}\n[rank3]: {line}\n"
            for number, line in enumerate(lines)
        )
    return "".join(f"{_LINE[name](number, line)}\n" for number, line in enumerate(lines))


def encoded(name: str, text: str) -> bytes:
    """The bytes of a text in one of the wrappings."""
    data = wrapped(name, text)
    return data.encode("utf-16" if name == "utf16" else "utf-8", "replace")
