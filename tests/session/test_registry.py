"""Which adapters a session has, and which of them it imports."""

from __future__ import annotations

import json
import os
import subprocess
import sys

PROGRAM = """
import json, os, sys
from livedbg.session.adapter import Request, TargetProcess
from livedbg.session.live import adapters_for
found = {}
for once in (True, False):
    request = Request(host="box", processes=(TargetProcess(os.getpid()),), once=once)
    running, sleeping = adapters_for(request)
    names = sorted(type(one).name for one in (*running, *filter(None, (one.make() for one in sleeping))))
    imported = [name for name in ("exceptions", "launches", "values", "cuda.cudagdb")
                if f"livedbg.adapters.{name}.adapter" in sys.modules]
    found[str(once)] = [names, imported]
print(json.dumps(found))
"""


def test_what_waits_for_a_request_is_not_imported_by_a_session_that_samples_once() -> None:
    found = json.loads(subprocess.check_output([sys.executable, "-c", PROGRAM], env=dict(os.environ)))
    once, lasting = found["True"], found["False"]
    assert once[1] == []
    assert lasting[1] == ["exceptions", "launches", "values", "cuda.cudagdb"]
    assert {"proc", "python", "logs"} <= set(once[0])
    assert set(lasting[0]) - set(once[0]) == {"exceptions", "stopping", "launches", "values", "glance", "cudagdb"}
