"""The definition of the system of hosts, which jobs run on."""

from __future__ import annotations

from typing import Final

from livedbg.model import CauseClass
from livedbg.session.systems import Lazy, System

SYSTEM: Final = System(
    name="hosts",
    title="Hosts and launchers",
    about="how a job ended, as the kernel, a scheduler (Slurm, Kubernetes), a launcher (mpirun) or a shell logged it",
    rank=40,
    on_signs=True,
    signatures="livedbg.adapters.hosts.signatures",
    rules=Lazy("livedbg.adapters.hosts.rules:rules"),
    continuations=(r"The exit codes? of the workers? (?:are|is) \{",),  # loky, behind an empty line
    judges_diagnostics=("cause|aborted|killed|worker|lost|summary|cancelled|stack",),
    explains=Lazy("livedbg.adapters.hosts.rules:explains"),
    causes=(
        (r"\b(?:RayActor|ActorDied|ActorUnavailable|WorkerCrashed|NodeDied|OwnerDied)Error:", CauseClass.SUMMARY),
        (r"\b[Oo]ne or more processes exited with non-zero status\b", CauseClass.SUMMARY),
        (r"\b(?:TerminatedWorkerError|KilledWorker):", CauseClass.PEER),
    ),
)
