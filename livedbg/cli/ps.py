"""`livedbg ps`: the GPU, NPU and ML processes of this host."""

from __future__ import annotations

import click
from msgspec.structs import replace

from livedbg.cli.target_options import redact_option
from livedbg.session.hostinfo import Candidate, list_candidates
from livedbg.text.json_text import json_line
from livedbg.text.quantities import short_age
from livedbg.text.secrets import mask_command


@click.command("ps")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@redact_option
def command(as_json: bool, redact: bool) -> int:
    """List the GPU, NPU and ML processes of this host that are visible to you, oldest first."""
    found = list_candidates()
    if redact:
        found = [replace(candidate, command=mask_command(candidate.command)) for candidate in found]
    if as_json:
        for candidate in found:
            click.echo(json_line(candidate))
        return 0
    if not found:
        click.echo("No process uses a GPU, an NPU or an ML runtime. `livedbg attach PID` works with any process.")
        return 0
    rows = [("PID", "RANK", "USER", "AGE", "CPU", "THREADS", "STATE", "USES", "COMMAND"), *map(_row, found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    for row in rows:
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, _RIGHT, strict=False)
        ]
        click.echo("  ".join([*cells, row[-1]])[:200])
    return 0


_RIGHT = (True, True, False, True, True, True, False, False)


def _row(candidate: Candidate) -> tuple[str, ...]:
    return (
        str(candidate.pid),
        "-" if candidate.rank is None else str(candidate.rank),
        candidate.user,
        short_age(candidate.age_s),
        f"{candidate.cpu_share:.0%}",
        str(candidate.threads),
        candidate.state.value,
        ",".join(candidate.uses),
        " ".join(candidate.command),
    )
