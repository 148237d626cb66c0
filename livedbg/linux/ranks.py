"""The rank that a launcher gave a process, by its environment."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Final

from livedbg.linux.lines import number

__all__ = ["RANKS", "rank_of"]

RANKS: Final = ("RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
"""RANK, and those that Open MPI, PMIx, PMI and Slurm set."""


def rank_of(environment: Mapping[str, str]) -> int | None:
    """The rank; None where no variable holds a number."""
    for name in RANKS:
        with contextlib.suppress(ValueError):
            return number(environment.get(name, ""))
    return None
