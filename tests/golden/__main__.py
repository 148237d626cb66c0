"""Compare what livedbg says of all logs of the fixtures with tests/golden/sentences.txt.

python -m tests.golden [--write]: print what is new, and how many first sentences are long; --write takes it over.
"""

from __future__ import annotations

import difflib
import sys

from tests.golden.sentences import LONG, golden, logs, long_ones, texts, write, written
from tests.wild.judging import report


def main() -> int:
    """Run it."""
    said = {name: written(report(path)) for name, path in (texts() | logs()).items()}
    changed = {name: text for name, text in said.items() if golden().get(name) != text}
    for name, text in changed.items():
        before = golden().get(name, "").split("\n")
        print(name, *difflib.unified_diff(before, text.split("\n"), lineterm="", n=0), sep="\n")
    print(f"{len(changed)} of {len(said)} changed; {len(long_ones(said))} first sentences are of over {LONG} words")
    if "--write" in sys.argv:
        write(said)
    return 1 if changed and "--write" not in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
