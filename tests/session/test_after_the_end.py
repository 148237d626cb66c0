"""What was known last of a target stays on the screen and in the report after its end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from livedbg.panels.draw_context import DrawContext
from livedbg.panels.threads import ThreadsPanel
from livedbg.report.build import build
from livedbg.report.text import to_text
from livedbg.session.adapter import Request, TargetProcess
from livedbg.session.live import LiveView
from tests.conftest import eventually

THREADS = """
import sys, threading
never = threading.Event()
for number in range(2):
    threading.Thread(target=never.wait, name=f"worker-{number}", daemon=True).start()
print("ready", flush=True)
never.wait()
"""


def test_threads_and_stacks_stay_after_the_end(tmp_path: Path) -> None:
    with (
        (tmp_path / "err.txt").open("wb") as err,
        subprocess.Popen([sys.executable, "-c", THREADS], stdout=subprocess.PIPE, stderr=err) as target,
    ):
        assert target.stdout is not None
        target.stdout.readline()
        view = LiveView(Request(host="box", processes=(TargetProcess(target.pid),)))
        view.start()
        try:
            eventually(lambda: len(view.latest().snapshot.stacks) == 3)
            target.kill()
            assert view.wait_ended(120)
            update = view.latest()
        finally:
            target.kill()
            view.stop()
    report = build(update)
    entities = report.entities
    threads = [known for known in entities.values() if known.kind == "thread"]
    assert len(threads) == 3 and {known.state for known in threads} == {"exited"}
    assert all(entities[known.stack_of].stack if known.stack_of else known.stack for known in threads)
    assert report.verdict.state != "running"
    assert f"box:{target.pid} " in to_text(report)
    assert len(ThreadsPanel().make_rows(DrawContext(update), "", "state").order) == 3
