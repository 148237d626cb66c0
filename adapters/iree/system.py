"""The definition of the IREE system."""

from __future__ import annotations

from typing import Final

from livedbg.session.systems import Command, Demo, Guide, Lazy, Signs, System

SYSTEM: Final = System(
    name="iree",
    title="IREE",
    about="dispatches that run or wait, semaphores that nobody signals, failed statuses as catch presets",
    rank=20,
    signs=Signs(
        files=(r"/(?:lib)?iree\w*[.-]|_iree_|/iree/",),
        arguments=(r"(?:^|/)iree-",),
        modules=("(?:lib)?iree",),
    ),
    on_signs=True,
    adapters={
        "iree": Lazy("livedbg.adapters.iree.adapter:IreeAdapter"),
    },
    signatures="livedbg.adapters.iree.signatures",
    judges_diagnostics=("made-nan", "vulkan-.*"),
    rules=Lazy("livedbg.adapters.iree.rules:rules"),
    judges_tasks=True,
    recipes="livedbg.adapters.iree.recipes",
    presets=Lazy("livedbg.adapters.iree.known_calls:PRESETS"),
    known_calls=Lazy("livedbg.adapters.iree.known_calls:KNOWN_CALLS"),
    name_code=Lazy("livedbg.adapters.iree.live.libraries:dispatch_code"),
    environment=("IREE_",),
    commands=(
        Command(
            "diff-run",
            Lazy("livedbg.adapters.iree.commands.diff_run:command"),
            "Find the first dispatch of an IREE module that differs between two devices, flags or compilers.",
            (
                ("livedbg diff-run m.mlir --device local-task --device vulkan", "two devices"),
                ("livedbg diff-run m.mlir --flags -O0 --flags -O3", "two sets of compiler flags"),
                ("livedbg diff-run m.mlir --input @x.npy --runs 20", "is it deterministic?"),
            ),
            (0, 10, 11, 12, 2, 3),
            "10 if a side does not end, 11 if it fails, 12 if a dispatch or a result differs.",
            after="repro",
        ),
    ),
    guides=(
        Guide(
            name="iree",
            summary="Debug an IREE module in four steps: sanity, isolate, compare, reduce.",
            about=(
                "Take CMD through IREE's debugging playbook. CMD is iree-run-module, iree-benchmark-module, "
                "iree-compile, or a Python program with iree.runtime. Steps 2 to 4 compile the module again: they need "
                "its source."
            ),
            steps=Lazy("livedbg.adapters.iree.flow.steps:STEPS"),
            read=Lazy("livedbg.adapters.iree.flow.steps:read"),
            plan=Lazy("livedbg.adapters.iree.flow.steps:plan"),
            options=Lazy("livedbg.adapters.iree.flow.steps:OPTIONS"),
            limit_s=60.0,
            example=(
                ("livedbg iree --source m.mlir -- iree-run-module --module=m.vmfb", "in the app; ^n goes on"),
                ("livedbg iree --headless -- iree-compile m.mlir -o m.vmfb", "all steps"),
                ("livedbg iree --against vulkan -- iree-compile m.mlir -o m.vmfb", "compare with Vulkan"),
            ),
        ),
    ),
    demos=(
        Demo(
            "iree",
            "an IREE module whose second dispatch never ends (needs the wheels of IREE)",
            "livedbg.adapters.iree.demo.hang",
        ),
    ),
    page="systems/iree.md",
    graph_readers=Lazy("livedbg.adapters.iree.dispatch_graph:READERS"),
    checks=Lazy("livedbg.adapters.iree.checks:checks"),
    no_logs=(".vmfb", ".ireeprof", ".ireereplay"),
)
