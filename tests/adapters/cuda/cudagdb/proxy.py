"""A real gdb that says it is cuda-gdb: what a session answers is answered by that, everything else by gdb.

proxy.py SESSION gdb's arguments…
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path


def main(session: str, arguments: list[str]) -> None:
    answers: list[tuple[re.Pattern[str], list[str]]] = []
    for line in Path(session).read_text(encoding="utf-8").splitlines():
        if line.startswith(">>> "):
            answers.append((re.compile(".*".join(map(re.escape, line[4:].split("*")))), []))
        else:
            answers[-1][1].append(line)
    gdb = subprocess.Popen(["gdb", *arguments], stdin=subprocess.PIPE, bufsize=0)
    assert gdb.stdin is not None
    for told in sys.stdin:
        asked = re.match(r"(\d*)(.*)\n", told)
        found = next((said for wanted, said in answers if asked and wanted.fullmatch(asked[2])), None)
        if found is None or asked is None:
            gdb.stdin.write(told.encode())
            continue
        if found[-1] == "!die":
            gdb.kill()
            break
        for line in found:
            print(f"{asked[1]}{line}" if line.startswith("^") else line, flush=True)
    gdb.stdin.close()
    gdb.wait()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
