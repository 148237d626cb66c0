"""Mutation testing: change the sources that decide verdicts, one small change at a time; the tests should notice each.

    python -m tests.mutants [GROUP|FILE]... [--one-of N] [--seed N] [--least PERCENT] [-j N] [-o FILE]

Prints the survivors and a table; exits with 1 if fewer than `--least` per cent died. docs/mutants.md has the figures.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from tests.mutants.run import Result, run
from tests.mutants.sources import GROUPS


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [group.name for group in GROUPS]
    parser.add_argument("what", nargs="*", help=f"{', '.join(names)}, or source files (default: all)")
    parser.add_argument("--one-of", type=int, default=1, metavar="N", help="run one of N mutants (default: all)")
    parser.add_argument("--seed", type=int, default=1, help="of that draw")
    parser.add_argument("--least", type=float, default=85.0, metavar="PERCENT", help="default: %(default)s")
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count() or 1, help="default: %(default)s")
    parser.add_argument("-o", type=Path, metavar="FILE", help="write each result, one JSON object a line")
    options = parser.parse_args()
    known = {*names, *(file for group in GROUPS for file in group.sources)}
    if wrong := set(options.what) - known:
        parser.error(f"neither a group nor a file of one: {', '.join(sorted(wrong))}")
    begun, results = time.monotonic(), []
    for group in GROUPS:
        files = [f for f in group.sources if not options.what or group.name in options.what or f in options.what]
        if not files:
            continue
        for result in run(group, files, options.one_of, options.seed, options.jobs):
            if isinstance(result, str):
                print(f"fails without a mutant: {result}", file=sys.stderr, flush=True)
                continue
            results.append(result)
            if options.o:
                with options.o.open("a") as file:
                    file.write(json.dumps(asdict(result)) + "\n")
            if not result.died:
                print(f"{result.file}:{result.line}: {result.operator} ({result.end})")
                print(f"    - {result.before}\n    + {result.after}", flush=True)
    died = sum(result.died for result in results)
    print(_table(results))
    share = 100 * died / len(results) if results else 0.0
    print(f"\n{died} of {len(results)} died ({share:.1f} %), {time.monotonic() - begun:.0f} s")
    return 0 if share >= options.least else 1


def _table(results: list[Result]) -> str:
    lines = ["| file | mutants | died | of these by a time limit | |", "| --- | ---: | ---: | ---: | ---: |"]
    for file, number in Counter(result.file for result in results).items():
        ends = Counter(result.end for result in results if result.file == file)
        died = ends["killed"] + ends["time limit"]
        lines.append(f"| `{file}` | {number} | {died} | {ends['time limit']} | {100 * died / number:.0f} % |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
