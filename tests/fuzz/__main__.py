"""Feed damaged and hostile inputs to every reader of foreign data.

    python -m tests.fuzz [CASES] [--seed N] [--reader NAME] [--case N]

Prints a table; exits with 1 if a reader failed. `--case` reads one input again and shows the traceback.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.loop import CPU_S, MEMORY, case, run
from tests.fuzz.readers import READERS


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="?", type=int, default=50_000, help="inputs in all (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--reader", action="append", choices=sorted(READERS), help="only this one; repeatable")
    parser.add_argument("--case", type=int, help="read one input of one reader here, without limits")
    options = parser.parse_args()
    names = options.reader or list(READERS)
    if options.case is not None:
        data = case(names[0], options.case, options.seed)
        sys.stdout.buffer.write(data[:2000] + b"\n")
        sys.stdout.flush()
        with tempfile.TemporaryDirectory() as folder:
            READERS[names[0]].read(data, Path(folder))
        return 0
    each = -(-options.cases // len(names))
    begun, total, failed = time.monotonic(), 0, 0
    print("| reader | inputs | slowest | most memory | failures |\n| --- | ---: | ---: | ---: | ---: |")
    for name in names:
        result = run(name, each, options.seed)
        total += result.cases
        failed += len(result.failures)
        print(
            f"| {name} | {result.cases} | {result.slowest_s:.2f} s | {result.peak >> 20} MB | {len(result.failures)} |",
            flush=True,
        )
        for number, why in result.failures.items():
            print(f"    --reader '{name}' --seed {options.seed} --case {number}: {why}", file=sys.stderr, flush=True)
    took_s = time.monotonic() - begun
    print(f"\n{total} inputs, {failed} failures, {took_s:.0f} s; limits {CPU_S:g} s and {MEMORY >> 20} MB each")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
