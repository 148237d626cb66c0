"""How much of livedbg a look at a process loads of which nothing is told: no log, no runtime, no lock."""

import json
import subprocess
import sys
from pathlib import Path
from subprocess import DEVNULL

from tests.conftest import eventually

MODULES = 210
PATTERNS = 50
COUNTED = """
import json, re, sys
from unittest import mock

made, compiled = {}, re.compile
def noted(*given):
    made[given] = sys._getframe(1).f_globals["__name__"]
    return compiled(*given)

with mock.patch.object(re, "compile", noted):
    from livedbg.cli import main
    sys.argv = ["livedbg", "report", sys.argv[1], "--json"]
    code = main()
own = [name for name in sys.modules if name.partition(".")[0] == "livedbg"]
compiling = [name for name in made.values() if name.partition(".")[0] == "livedbg"]
print(json.dumps([code, len(own), len(compiling)]), file=sys.stderr)
"""


def test_a_look_at_a_sleeping_program_loads_little() -> None:
    """A bound on both, which may only fall: users pay for each of them on every look."""
    with subprocess.Popen(["sleep", "300"], stdin=DEVNULL, stdout=DEVNULL, stderr=DEVNULL) as target:
        try:
            eventually(lambda: b"sleep" in Path(f"/proc/{target.pid}/cmdline").read_bytes())
            looked = subprocess.run(
                [sys.executable, "-c", COUNTED, str(target.pid)], capture_output=True, text=True, check=True
            )
        finally:
            target.kill()
    _, modules, made = json.loads(looked.stderr.splitlines()[-1])
    assert 100 < modules <= MODULES
    assert 10 < made <= PATTERNS
