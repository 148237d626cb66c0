"""The rank that a launcher gave a process, by its environment, and which other ranks are of the same job."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Final, NamedTuple

from livedbg.linux.lines import number

RANKS: Final = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
"""RANK, and those that Open MPI, PMIx, PMI and Slurm set."""

_MEETING: Final[tuple[str, ...]] = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE")
_STEP: Final[tuple[str, ...]] = (
    "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_JOB_ID", "SLURM_STEP_ID",
    "SLURM_NTASKS",
)  # fmt: skip


class Place(NamedTuple):
    """A rank's place in its job.

    Attributes:
        variable: what names its rank: a launcher within a launcher has another one.
        meeting: where the ranks of its job meet, and how many they are; the same for all of them, () where not known.
    """

    rank: int
    variable: str
    meeting: tuple[tuple[str, str], ...]


def rank_of(environment: Mapping[str, str]) -> int | None:
    """The rank; None where no variable holds a number."""
    place = place_of(environment)
    return place.rank if place is not None else None


def place_of(environment: Mapping[str, str]) -> Place | None:
    """The rank and its job; None where no variable holds a number."""
    for name in RANKS:
        with contextlib.suppress(ValueError):
            own = number(environment.get(name, ""))
            names = _MEETING if name == RANKS[0] else _STEP
            return Place(own, name, tuple((one, environment[one]) for one in names if environment.get(one)))
    return None
