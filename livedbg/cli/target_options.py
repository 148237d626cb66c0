"""Options that say which processes and logs to inspect, and option types for durations and sizes.

Durations and sizes: `90`, `30s`, `10m`, `2h`; `1048576`, `64k`, `500M`, `2G`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from msgspec import Struct, field, structs

from livedbg.commands.output import warn
from livedbg.linux.target_files import is_closed
from livedbg.model.errors import SourceError, UsageError
from livedbg.model.intents import SAMPLES
from livedbg.session.adapter import Request
from livedbg.session.hostinfo import host_name
from livedbg.session.systems import systems
from livedbg.session.targets import Targets, resolve
from livedbg.text.sanitize import clean_line

FILE: Final = click.Path(path_type=Path, dir_okay=False)
PATH: Final = click.Path(path_type=Path)

Command = TypeVar("Command", bound=Callable[..., Any])


class TargetOptions(Struct, frozen=True):
    """The values of `target_options`."""

    targets: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()
    tree: bool = True
    all_ranks: bool = False
    interval: float = 0.5
    local_variables: bool = False
    native: bool = True
    samples: bool = True
    ask: tuple[str, ...] = ()
    read_only: bool = False
    signatures: tuple[str, ...] = ()
    redact: bool = True
    gdb: str | None = None
    found: Targets = field(default=Targets(()))

    def resolved(self) -> TargetOptions:
        """Return the options with their targets looked up.

        Raises:
            UsageError: nothing to inspect, or an invalid target.
            TargetError: a target that can't be inspected.
            SourceError: a log does not exist.
        """
        if not self.targets and not self.logs:
            raise UsageError("Missing a TARGET or --logs PATH.", "livedbg ps")
        for path in self.logs:
            if not any(sign in path for sign in "*?[") and not (is_closed(Path(path)) or Path(path).exists()):
                raise SourceError(f"{path} does not exist.", "give a log file, a directory or a quoted glob")
        _known_services(self.ask)
        known_signatures(self.signatures)
        return structs.replace(self, found=resolve(self.targets, all_ranks=self.all_ranks))

    def request(self, *, once: bool = False, stacks: str | None = None) -> Request:
        """Return the request of a session."""
        return Request(
            host=host_name(),
            processes=self.found.processes,
            logs=tuple(str(Path(path).expanduser()) for path in self.logs),
            tree=self.tree,
            interval_s=self.interval,
            stacks=stacks or ("native" if self.native else "python"),
            local_variables=self.local_variables,
            once=once,
            read_only=self.read_only,
            signatures=self.signatures,
            redact=self.redact,
            gdb=self.gdb,
            options={**({} if self.samples else {SAMPLES: "no"}), **Request.ask(self.ask)},
        )


def _known_services(asked: Iterable[str]) -> None:
    known = sorted({name for system in systems() for name in system.services}) if asked else []
    for name in (service.partition("=")[0] for service in asked):
        if name not in known:
            raise UsageError(f"There is no service {clean_line(name)!r} to ask.", f"--ask {' or '.join(known)}")


def known_signatures(folders: Sequence[str]) -> None:
    """Print which files of signatures in the folders can't be used.

    Raises:
        SourceError: a path is no folder.
    """
    from livedbg.session.signatures import book, own_folder

    for folder in folders:
        if not Path(folder).is_dir():
            raise SourceError(f"{clean_line(folder)} is no folder.", "give a folder of *.toml files")
    if folders or own_folder().is_dir():
        for sentence in book(folders)[1]:
            warn(sentence)


def signatures_option(command: Command) -> Command:
    """Add the option `signatures`, for the user's own signatures."""
    return click.option(
        "--signatures",
        multiple=True,
        metavar="DIR",
        help="More failure texts: a folder of *.toml files (livedbg signatures); repeatable.",
    )(command)


def redact_option(command: Command) -> Command:
    """Add the option `redact`, which shows secrets."""
    return click.option(
        "--no-redact", "redact", flag_value=False, default=True, help="Show passwords, tokens and keys instead of ***."
    )(command)


def target_options(command: Command) -> Callable[..., Any]:
    """Add the options that choose targets; the command gets them as one `options` argument."""

    @click.argument("targets", nargs=-1, metavar="[TARGET]...")
    @click.option("--logs", multiple=True, metavar="PATH", help="Log file, directory or quoted glob; repeatable.")
    @click.option("--tree/--no-tree", default=True, show_default=True, help="Include child processes.")
    @click.option("--all-ranks", is_flag=True, help="Include all ranks on this host of the job of each TARGET.")
    @click.option(
        "--interval",
        type=click.FloatRange(0.05, 60),
        default=0.5,
        show_default=True,
        metavar="SECONDS",
        help="Shortest time between two scans.",
    )
    @click.option("--locals", "local_variables", is_flag=True, help="Show local variables in stacks.")
    @click.option("--native/--no-native", default=True, show_default=True, help="Show native frames in stacks.")
    @click.option(
        "--samples/--no-samples",
        default=True,
        show_default=True,
        help="Sample running threads by the kernel's clock, without a stop.",
    )
    @click.option(
        "--ask",
        multiple=True,
        metavar="SERVICE[=ADDRESS]",
        help="Query a service of the target's runtime (an intrusive action; a wrong name lists them); repeatable.",
    )
    @click.option("--read-only", is_flag=True, help="Forbid intrusive actions.")
    @signatures_option
    @redact_option
    @click.option("--gdb", metavar="PATH", help="Unwind stack copies with this gdb, not with drgn; it is not attached.")
    @functools.wraps(command)
    def wrapped(**given: Any) -> Any:
        fields = {name: given.pop(name) for name in TargetOptions.__struct_fields__ if name in given}
        return command(options=TargetOptions(**fields), **given)

    return wrapped


class _Unit(click.ParamType[float]):
    """A number with a unit."""

    def __init__(self, name: str, units: dict[str, float], example: str) -> None:
        self.name = name
        self._units = units
        self._example = example

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"(\d{1,12}(?:\.\d{1,6})?)\s?([A-Za-z]*)", str(value))
        unit = self._units.get(match[2].lower().removesuffix("ib").removesuffix("b")) if match is not None else None
        if match is None or unit is None or float(match[1]) <= 0:
            self.fail(f"{value!r} is no {self.name}, such as {self._example}.", param, ctx)
        return float(match[1]) * unit


DURATION: Final = _Unit("duration", {"": 1, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}, "30s, 10m or 2h")
"""Seconds."""

SIZE: Final = _Unit("size", {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}, "500M or 2G")
"""Bytes."""
