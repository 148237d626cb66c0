#!/usr/bin/env python3
"""A gdb that answers from a recorded MI session: `>>> COMMAND` lines are what it was told, the others what it said.

    player.py SESSION --interpreter=mi4           every command must be the recorded one, in its order
    player.py --any SESSION --interpreter=mi4     commands come in any order, as often as one likes

A command is answered by what came until the next, with the asker's token. With `--any`, `*` in a recorded command
stands for anything, lines that begin with `#` are remarks, what is not recorded is an undefined command, and three
words instead of an answer make trouble: `!die` ends at once, `!hang` answers never, `!half` breaks off in the midst of
the last line before it and ends.
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


def serve(session: str) -> None:
    """Answer by command."""
    answers: list[tuple[re.Pattern[str], list[str]]] = []
    for line in Path(session).read_text(encoding="utf-8").splitlines():
        if line.startswith(">>> "):
            wanted = ".*".join(map(re.escape, line[4:].split("*")))
            answers.append((re.compile(wanted), []))
        elif not line.startswith("#") and answers:
            answers[-1][1].append(line)
    print("(gdb) ", flush=True)
    for told in sys.stdin:
        asked = re.match(r"(\d*)(.*)\n", told)
        if asked is None:
            return
        found = next((said for wanted, said in answers if wanted.fullmatch(asked[2])), None)
        if found is None:
            name = asked[2].split()[0]
            found = [f'^error,msg="Undefined MI command: {name[1:]}",code="undefined-command"']
            if name == "-interpreter-exec":
                found = ['^error,msg="Undefined command: \\"\\".  Try \\"help\\"."']
        if not speak(found, asked[1]):
            return


def speak(lines: list[str], token: str) -> bool:
    """Say an answer; False when it was the last."""
    for number, line in enumerate(lines):
        if line == "!hang":
            return True
        if line == "!die":
            return False
        said = f"{token}{line}" if line.startswith("^") else line
        if number + 1 < len(lines) and lines[number + 1] == "!half":
            sys.stdout.write(said[: len(said) // 2])
            sys.stdout.flush()
            return False
        print(said, flush=True)
    print("(gdb) ", flush=True)
    return True


if __name__ == "__main__":
    if sys.argv[1] == "--any":
        serve(sys.argv[2])
        sys.exit()
    main(sys.argv[-1] if not sys.argv[-1].startswith("-") else next(a for a in sys.argv[1:] if not a.startswith("-")))
