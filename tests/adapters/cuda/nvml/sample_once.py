"""Samples a process with the NVML adapter, and prints what it found, as JSON. The tests run it in a process of
its own, because a library that was loaded once stays loaded.

    sample_once.py PID once|SECONDS [without-bindings|older-bindings]
"""

from __future__ import annotations

import json
import sys

from livedbg.adapters.cuda.nvml.adapter import NvmlAdapter
from livedbg.adapters.proc import ProcAdapter
from livedbg.session.adapter import Request, TargetProcess
from livedbg.session.live import LiveView


def main(pid: int, how: str, *more: str) -> None:
    if "without-bindings" in more:
        sys.modules["pynvml"] = None  # type: ignore[assignment]
    if "older-bindings" in more:
        import pynvml

        name = pynvml.nvmlDeviceGetName
        pynvml.nvmlDeviceGetName = lambda handle: name(handle).encode()  # as before 11.5
        del pynvml.nvmlDeviceGetCurrentClocksEventReasons, pynvml.nvmlDeviceGetRemappedRows
    once = how == "once"
    options = {} if once else {"nvml.interval_s": "0.05", "nvml.limit_s": "0.3"}
    request = Request(
        host="box", processes=(TargetProcess(pid=pid),), once=once, stacks="none", tree=False, options=options
    )
    view = LiveView(request, adapters=[ProcAdapter(), NvmlAdapter()])
    view.start()
    assert view.wait_settled(100)
    if once:
        print(json.dumps(told(view)))
    else:
        for _ in sys.stdin:  # a line asks for the state
            print(json.dumps(told(view)), flush=True)
    view.stop()


def told(view: LiveView) -> dict[str, object]:
    """The state, as far as it is of GPUs."""
    snapshot = view.latest().snapshot
    return {
        "bindings": sys.modules.get("pynvml") is not None,
        "counters": {
            f"{key.entity} {key.name}": [counter.value, counter.changes] for key, counter in snapshot.counters.items()
        },
        "resources": {
            resource.id: [resource.name, resource.state, resource.shown()]
            for resource in snapshot.resources.values()
            if resource.kind == "gpu"
        },
        "edges": [
            [edge.kind, edge.source, edge.target, edge.evidence]
            for edge in snapshot.edges.values()
            if edge.kind == "runs_on"
        ],
        "statuses": [
            [status.health, status.code, status.sentence, status.remedy]
            for status in snapshot.statuses.values()
            if status.source == "nvml"
        ],
    }


main(int(sys.argv[1]), *sys.argv[2:])
