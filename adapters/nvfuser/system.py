"""The definition of the nvFuser system."""

from __future__ import annotations

from typing import Final

from livedbg.session.systems import Command, Framework, Lazy, MarkerPair, Signs, System

SYSTEM: Final = System(
    name="nvfuser",
    title="nvFuser",
    about="segments with their schedulers, which one compiles, runs or failed, and scripts that reproduce a failure",
    rank=20,
    signs=Signs(
        files=(r"/libnvfuser|/nvfuser(?:_direct)?/|libnvfuser_codegen",),
        arguments=(r"(?i:nvfuser)",),
        formats=("nvfuser",),
        modules=("(?:lib)?nvfuser",),
    ),
    framework=Framework(  # of the packages alone: whoever works on nvFuser has its C++ as code of their own
        files=(
            r"/nvfuser(?:_direct|_common)?/(?:__init__|\w{0,40}utils)\.py$",
            r"/thunder/(?:core|dynamo|executors|extend|transforms)/|/thunder/__init__\.py$",
        ),
    ),
    on_signs=True,
    adapters={"nvfuser": Lazy("livedbg.adapters.nvfuser.adapter:NvfuserAdapter")},
    rules=Lazy("livedbg.adapters.nvfuser.rules:rules"),
    judges_diagnostics=("(?!segmenter).*",),
    signatures="livedbg.adapters.nvfuser.signatures",
    judges_tasks=True,
    explains=Lazy("livedbg.adapters.nvfuser.facts:explains"),
    recipes="livedbg.adapters.nvfuser.recipes",
    shared_recipes=dict.fromkeys(("asan-clang", "asan-gcc", "cpu-profile", "heap-profile"), ""),
    markers=(
        MarkerPair(  # csrc/instrumentation.cpp
            "nvFuser's trace",
            r'"name": "(?P<what>[^"]{1,1000})", "ph": "B", .{0,1000}"tid": (?P<lane>[^,]+),',
            r'"name": "(?P<what>[^"]{1,1000})", "ph": "E", .{0,1000}"tid": (?P<lane>[^,]+),',
        ),
    ),
    examples={
        "recipes": (
            ("livedbg recipes nvfuser-dump", "what it sets, costs and shows"),
            ("livedbg launch --recipe nvfuser-trace -- python bench.py", "launch with a recipe"),
        )
    },
    presets=Lazy("livedbg.adapters.nvfuser.facts:PRESETS"),
    text_exceptions=("nvfuser::nvfError",),  # csrc/exceptions.h
    environment=("NVFUSER_",),
    commands=(
        Command(
            "repro",
            Lazy("livedbg.adapters.nvfuser.commands.repro:command"),
            "Extract a script that reproduces an nvFuser failure.",
            (
                ("livedbg repro train.log -o repro.py", "the script in the error text"),
                ("livedbg repro train.log --segment 3 -o repro.py", "reduce it to segment 3"),
                ("livedbg repro train.log --segment 3 --run --python nvf/bin/python", "run it: same failure?"),
            ),
            (0, 11, 2, 3, 4),
            "With --run: 11 if the script fails, 4 if it is still running at --timeout.",
            after="launches",
        ),
    ),
    page="systems/nvfuser.md",
)
