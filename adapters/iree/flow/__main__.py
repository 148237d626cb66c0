"""One step of the guide as a program: `python -m livedbg.adapters.iree.flow STEP.json`; it writes its findings."""

from __future__ import annotations

import sys
from pathlib import Path

from livedbg.adapters.iree.flow.ground import Ground
from livedbg.adapters.iree.flow.steps import Notebook, read_ask
from livedbg.model.errors import LivedbgError


def main(path: str) -> int:
    from livedbg.adapters.iree.flow.compare import compare, reduce
    from livedbg.adapters.iree.flow.isolate import isolate
    from livedbg.adapters.iree.flow.sanity import sanity

    ask = read_ask(Path(path))
    book = Notebook(ask.folder)
    try:
        (sanity, isolate, compare, reduce)[ask.number - 1](Ground(ask, book))
    except LivedbgError as error:
        book.note.failed = True
        book.say("found", " ".join(error.message.split("\n")))
        if error.remedy:
            book.say("next", error.remedy)
    book.doing("")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
