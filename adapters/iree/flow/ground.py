"""What the steps of the guide work on: the program, its module's source, function and inputs."""

from __future__ import annotations

import os
import shlex
import shutil
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

from livedbg.adapters.iree.differences.input_specs import absolute
from livedbg.adapters.iree.differences.side import Side, target_flags
from livedbg.adapters.iree.differences.toolchain import (
    compile_module,
    find_compiler,
    find_python,
    functions_of,
    hardware_of,
)
from livedbg.adapters.iree.differences.trace import Trace, run_module
from livedbg.adapters.iree.flow.notebook import Notebook
from livedbg.adapters.iree.flow.program import Program, device_of, is_traced, program_of
from livedbg.model.errors import LivedbgError, ToolMissing
from livedbg.recipes import Ended, plan, recipes, without_effect
from livedbg.session.guide import StepAsk
from livedbg.session.tools import find_tool

COMPILE_S: Final = 1800.0
_WATCHED_S: Final = 30.0
"""How long a run of the module may stay without a sign while somebody watches."""


class Ground:
    """What one step works on.

    Args:
        ask: the step.
        book: for what it finds.
    """

    def __init__(self, ask: StepAsk, book: Notebook) -> None:
        self.ask = ask
        self.handed = dict(ask.handed)
        self.book = book
        self.folder = ask.folder
        self.program: Program = program_of(ask.argv)
        self.limit_s = ask.limit_s or _WATCHED_S

    @cached_property
    def python(self) -> str:
        """A Python with the runtime: that of the program, else ours.

        Raises:
            ToolMissing: neither has it.
        """
        try:
            return find_python(self.program.python)
        except ToolMissing:
            return find_python(None)

    @cached_property
    def compiler(self) -> str:
        """The compiler: the one that CMD is, or beside it, or ours.

        Raises:
            ToolMissing: there is none.
        """
        found = shutil.which(self.ask.argv[0])
        beside = Path(found).with_name("iree-compile") if found else None  # or CMD itself
        return find_compiler(str(beside) if beside is not None and beside.exists() else None)

    @property
    def source(self) -> Path | None:
        """The module's source: given, or on the command line."""
        named = self.handed.get("source") or self.program.source
        return Path(named) if named else None

    @property
    def module(self) -> Path | None:
        """The compiled module that the program runs: the last one; those before it are loaded with it."""
        return Path(self.program.modules[-1]) if self.program.modules else None

    @property
    def traced(self) -> Path | None:
        """That module, if it traces its dispatches already."""
        return self.module if self.module is not None and is_traced(self.module) else None

    @property
    def flags(self) -> tuple[str, ...]:
        """The compiler's flags."""
        given = self.handed.get("flags")
        return tuple(shlex.split(given)) if given is not None else self.program.flags

    @property
    def device(self) -> str:
        """The device that the program uses, or that its module is compiled for."""
        if self.handed.get("device"):
            return self.handed["device"]
        return device_of(self.flags) if "flags" in self.handed else self.program.device

    @property
    def inputs(self) -> tuple[str, ...]:
        """The inputs, or none: then they are random."""
        given = self.handed.get("input", "")
        return tuple(absolute(one.strip()) for one in given.split(";")) if given else self.program.inputs

    @property
    def random(self) -> bool:
        """Whether the inputs are made up."""
        return not self.inputs

    def side(self, name: str = "A", device: str = "", flags: Sequence[str] | None = None) -> Side:
        """How the program's module is compiled and run; or another way.

        Raises:
            LivedbgError: a tool or the device is missing.
        """
        device = device or self.device
        own = self.flags if flags is None else tuple(flags)
        compiler = self.compiler if self.source is not None else ""
        made = target_flags(device, hardware_of(self.python, device), own) if compiler else []
        program = self.program
        before = tuple(str(Path(one).resolve()) for one in program.modules[:-1])
        return Side(
            name, compiler, self.python, device, (*made, *own), program.runtime_flags, program.parameters, before
        )

    def build(self, side: Side, out: Path, recipe: str = "", option: str = "", *more: str) -> list[str]:
        """Compile the source, with a recipe.

        Returns:
            What is said of the recipe if it had no effect.

        Raises:
            SourceError: it does not compile.
        """
        folder = out.with_suffix(".files")
        folder.mkdir(exist_ok=True)
        known, _ = recipes() if recipe else ({}, [])
        picked = [(known[recipe], option)] if recipe else []
        made = plan(picked, folder, os.environ, (side.compiler,), find_tool)
        began_s = time.time()
        command = [side.compiler, str(self.source), *side.flags, *made.arguments, *more, "-o", str(out)]
        compile_module(command, COMPILE_S)
        return list(without_effect(made.parts, Ended([], (), began_s, folder)))

    def function(self, module: Path | None = None) -> str:
        """The function that is run: named, or the only one.

        Args:
            module: compiled; made if there is none yet.

        Raises:
            LivedbgError: there are several, or the module can't be read.
        """
        named = self.handed.get("function") or self.program.function
        if named:
            return named
        module = module or self.traced
        if module is None:
            module = self.folder / "plain.vmfb"
            self.build(self.side(), module)
        there = functions_of(self.python, module)
        if len(there) == 1:
            return next(iter(there))
        raise LivedbgError(
            f"The module has {len(there)} functions: {', '.join(there)}.", "--function NAME", "which-function"
        )

    def run(
        self,
        side: Side,
        module: Path,
        name: str,
        function: str,
        inputs: Sequence[str] | None = None,
        *,
        show: bool = False,
    ) -> Trace:
        """Run a module, with the program's inputs or others; its tensors go into a folder below the step's.

        Args:
            side: how.
            module: compiled.
            name: of the folder.
            function: of the module.
            inputs: instead of the program's.
            show: print the dispatches: they become tasks on the screen.

        Raises:
            LivedbgError: the program uses several devices, or the function could not be called: what fails before
                that is no fault of a dispatch.
        """
        if self.program.devices > 1 and not self.handed.get("device"):
            raise LivedbgError(
                f"CMD uses {self.program.devices} devices, and a step runs the module on one.",
                "--device DEVICE, with a module that is compiled for it alone", "devices",
            )  # fmt: skip
        given = self.inputs if inputs is None else tuple(inputs)
        trace = run_module(
            side, module, self.folder / name, function, given, runs=1, limit_s=COMPILE_S, still_s=self.limit_s,
            show=show,
        )  # fmt: skip
        if trace.refused and not any(label == "flags" for label, _ in self.book.note.lines):
            self.book.say("flags", f"Not taken over, since iree.runtime has them not: {' '.join(trace.refused)}.")
        if trace.failure and not trace.called:
            raise LivedbgError(f"{function} could not be called on {side.device}: {trace.failure}.", "", "not-called")
        return trace
