"""A real gdb that says it is cuda-gdb: what a session answers is answered by that, everything else by gdb.

proxy.py SESSION gdb's arguments…
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO, Final

_WRITING: Final = threading.Lock()


def main(session: str, arguments: list[str]) -> None:
    answers: list[tuple[re.Pattern[str], list[str]]] = []
    for line in Path(session).read_text(encoding="utf-8").splitlines():
        if line.startswith(">>> "):
            answers.append((re.compile(".*".join(map(re.escape, line[4:].split("*")))), []))
        else:
            answers[-1][1].append(line)
    gdb = subprocess.Popen(["gdb", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    assert gdb.stdin is not None and gdb.stdout is not None
    passing = threading.Thread(target=pass_on, args=(gdb.stdout,))
    passing.start()
    for told in sys.stdin:
        asked = re.match(r"(\d*)(.*)\n", told)
        found = next((said for wanted, said in answers if asked and wanted.fullmatch(asked[2])), None)
        if found is None or asked is None:
            gdb.stdin.write(told.encode())
            continue
        if found[-1] == "!die":
            gdb.kill()
            gdb.wait()
            os._exit(0)  # a gdb that is killed as it attaches leaves a stopped child, which holds its output
        for line in found:
            write((f"{asked[1]}{line}" if line.startswith("^") else line).encode() + b"\n")
    gdb.stdin.close()
    gdb.wait()
    passing.join()


def pass_on(output: IO[bytes]) -> None:
    """Pass on gdb's output by whole lines: it writes a line in several pieces, between which no answer may come."""
    for line in io.BufferedReader(output):  # type: ignore[type-var] # unbuffered, so raw
        write(line)


def write(line: bytes) -> None:
    """Write one line, at once."""
    with _WRITING:
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
