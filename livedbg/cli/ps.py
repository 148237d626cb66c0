"""`livedbg ps`: what could be attached to."""

from __future__ import annotations

import click
import msgspec

from livedbg.session.hostinfo import Candidate, list_candidates

__all__ = ["command"]


@click.command("ps")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def command(as_json: bool) -> int:
    """List the GPU, NPU and ML processes of this host that you may see, oldest first."""
    found = list_candidates()
    if as_json:
        for candidate in found:
            click.echo(msgspec.json.encode(candidate).decode())
        return 0
    if not found:
        click.echo("No process here uses a GPU, an NPU or an ML runtime. Any process can be attached to by its pid.")
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
        _age(candidate.age_s),
        f"{candidate.cpu_share:.0%}",
        str(candidate.threads),
        candidate.state.value,
        ",".join(candidate.uses),
        " ".join(candidate.command),
    )


def _age(seconds: float) -> str:
    """Short: `43s`, `12m`, `5h`, `3d`."""
    for size, sign in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds / size:.0f}{sign}"
    return f"{seconds:.0f}s"
