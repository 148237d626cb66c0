"""Rule for torchrun agents that wait for other nodes and have started no worker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from livedbg.adapters.pytorch.rules.calls import lived_ns
from livedbg.adapters.pytorch.rules.threads import main_thread
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.rules.base import RuleInput
from livedbg.analysis.rules.words import name_of, thread_evidence
from livedbg.model import Process, Severity
from livedbg.text.patterns import lazy_re
from livedbg.text.wording import sentence_case

_INSIDE: Final = "/torch/distributed/elastic/rendezvous/"
_OPTION: Final = lazy_re(r"--(nnodes|rdzv[-_]endpoint|master[-_]addr)(?:=(.+))?")


class RendezvousWait:
    """An agent that waits for other nodes."""

    name = "rendezvous-wait"
    doc = (
        "The main thread of an agent of torchrun is in its rendezvous, the process has been there for the threshold "
        "(10 s) and longer, and it has no child: it waits for the agents of other nodes, which may be on hosts that "
        "are not seen, and polls meanwhile. It is `unknown`. Rests on the Python stack."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        parents = {process.ppid for process in state.snapshot.processes.values() if not process.exited}
        for process in state.snapshot.processes.values():
            if process.target and not process.exited and process.pid not in parents:
                yield from self._finding(process, state)

    def _finding(self, process: Process, state: RuleInput) -> Iterable[Finding]:
        main = main_thread(process.id, state)
        stack = state.snapshot.stacks.get(main.id) if main is not None else None
        if main is None or stack is None or not any(_INSIDE in (frame.file or "") for frame in stack.frames):
            return
        if lived_ns([process.id], state) < state.settings.thread_stall_ns:
            return
        said = ", ".join(_options(process.command))
        yield Finding(
            rule=self.name,
            severity=Severity.WARNING,
            sentence=(
                f"{sentence_case(name_of(process.id, state.snapshot))} waits in torchrun's rendezvous for other nodes "
                f"to join{f' ({said})' if said else ''}; it has started no worker."
            ),
            entities=(process.id, main.id),
            evidence=(thread_evidence(main, state),),
            next=("livedbg report on the other nodes, or compare --nnodes and --rdzv-endpoint there",),
            state=VerdictState.UNKNOWN,
            roots=(process.id,),
            decides=True,
        )


def _options(command: Sequence[str]) -> Iterable[str]:
    """Yield the options on node count and rendezvous: `--nnodes 2`, `--rdzv-endpoint 10.0.0.1:29500`."""
    for at, word in enumerate(command):
        found = _OPTION.fullmatch(word)
        value = found[2] or (command[at + 1] if at + 1 < len(command) else "") if found is not None else ""
        if found is not None and value:
            yield f"--{found[1].replace('_', '-')} {value}"
