"""The definition of the Ascend system."""

from __future__ import annotations

from typing import Final

from livedbg.model import CauseClass
from livedbg.session.systems import Demo, DeviceVariable, Framework, Lazy, LogPlaces, Signs, System

SYSTEM: Final = System(
    name="ascend",
    title="Ascend",
    about="tasks, cores, dependencies, stalls, watchdogs and error codes of the simpler runtime and CANN",
    rank=10,
    signs=Signs(
        files=(
            r"/lib(?:ascendcl|hccl|torch_npu|host_runtime|aicpu_kernel|runtime|runtime_v[\w.]*)\.so",
            r"/simpler/",
            r"/pypto",
        ),
        devices=("/dev/davinci",),
        arguments=(r"pypto|simpler_setup", r"^a[235]a?3?sim$|^a2a3$"),
        formats=("simpler", "cann"),
        modules=("lib(?:host_runtime|ascendcl|aicpu_kernel)",),
    ),
    framework=Framework(
        modules=(r"lib(?:ascend\w*|hccl\w*|torch_npu|aicpu_kernel|runtime|runtime_v\w*)\.",),
        files=(
            r"/(?:site|dist)-packages/(?:torch_npu|mindspore)/",
            r"/golden/(?:runner|validation|spec)\.py$",
            r"/python/(?:pypto|simpler)/",
            r"/simpler_setup/",
        ),
    ),
    on_signs=True,
    adapters={"ascend": Lazy("livedbg.adapters.ascend.adapter:AscendAdapter")},
    rules=Lazy("livedbg.adapters.ascend.rules:rules"),
    shapes=Lazy("livedbg.adapters.ascend.logs:SHAPES"),
    continuations=(
        *(r"\[The Ascend", r"E[0-9A-Z]\d{4}(?:: |\[PID)", "TraceBack", "The error may"),
        *(r"///-{3,40}\[ERROR\]", r"\[\w{1,60}\] encounters error:"),  # Triton's compiler for NPUs
    ),
    judges_diagnostics=("(?!golden-|host-).*",),
    explains=Lazy("livedbg.adapters.ascend.reports:explains"),
    log_places=LogPlaces(
        ("ASCEND_PROCESS_LOG_PATH", "ASCEND_WORK_PATH", "HOME"), Lazy("livedbg.adapters.ascend.logs:paths")
    ),
    judges_tasks=True,
    causes=(  # they pass on a code; what happened stands above
        (r"\bfailed with code (?:50\d{4}|-1)\b", CauseClass.SUMMARY),
        (r"\bMooncake transfer failed, ret: -?\d", CauseClass.SUMMARY),
    ),
    label_code=Lazy("livedbg.adapters.ascend.names:kernel_label"),
    dump_readers=Lazy("livedbg.adapters.ascend.dumps.values:READERS"),
    graph_readers=Lazy("livedbg.adapters.ascend.dumps.graphs:READERS"),
    device_variables=(DeviceVariable("ASCEND_RT_VISIBLE_DEVICES"),),  # CANN documentation, environment variables
    demos=(
        Demo(
            "ascend",
            "a recorded hang of an Ascend kernel, replayed in real time",
            "livedbg.adapters.ascend.demo.player",
        ),
    ),
    recipes="livedbg.adapters.ascend.recipes",
    signatures="livedbg.adapters.ascend.signatures",
    environment=("ASCEND_", "HCCL_", "PTO2_", "SIMPLER_"),
    watchdogs=("ascend",),
    examples={
        "attach": (("livedbg attach --logs ./ascend-log", "logs of a run whose process is gone"),),
        "report": (("livedbg report --logs ./ascend-log --json", "diagnose a run from its logs"),),
        "demo": (("livedbg demo ascend", "a recorded Ascend hang"),),
    },
    page="systems/ascend.md",
)
