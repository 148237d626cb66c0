#!/usr/bin/env python3
"""A gdb that answers from a recorded MI session: `>>> COMMAND` lines are what it was told, the others what it said.

    player.py SESSION --interpreter=mi4

Every command must be the recorded one; it is answered by what came until the next, with the asker's token.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path


def main(session: str) -> None:
    """Play."""
    tokens: dict[str, str] = {}
    print("(gdb) ", flush=True)
    for line in Path(session).read_text(encoding="utf-8").splitlines():
        told = re.match(r">>> (\d*)(.*)", line)
        if told is None:
            said = re.sub(r"^(\d+)(?=\^)", lambda match: tokens.get(match[1], match[1]), line)
            print(said, flush=True)
            continue
        asked = re.match(r"(\d*)(.*)\n", sys.stdin.readline())
        if asked is None:
            return
        if asked[2] != told[2]:
            print(f'{asked[1]}^error,msg="the recorded command is {told[2]}"', flush=True)
            return
        tokens[told[1]] = asked[1]
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[-1] if not sys.argv[-1].startswith("-") else next(a for a in sys.argv[1:] if not a.startswith("-")))
