"""Rules for nvFuser: failed segments, current activity, passes in which a traced thread stopped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from livedbg.adapters.nvfuser.facts import PassFacts, fusion_facts
from livedbg.analysis.diagnosis import Finding, VerdictState
from livedbg.analysis.postmortem.survived import unless_survived
from livedbg.analysis.rules.base import Rule, RuleInput
from livedbg.analysis.rules.said import finding_about, thrown_at
from livedbg.analysis.rules.words import duration, many
from livedbg.logs.writers import rank_of
from livedbg.model import Diagnostic, Process, Severity, ThreadState
from livedbg.model.facts import read_facts
from livedbg.text.shell import shell_word
from livedbg.text.wording import sentence_case, sentences

_COMPUTES: Final = 0.1  # of a core: on a busy machine a compiler gets no more
_STARVES: Final = 0.01  # of a core, that one which is ready to run gets on an overloaded machine
_LATELY_NS: Final = 3_000_000_000
_LONG_NS: Final = 1_000_000_000


def _said(code: str, state: RuleInput) -> Iterator[Diagnostic]:
    return (d for d in state.snapshot.diagnostics.values() if d.system == "nvfuser" and d.code == code)


def _computes(said: Diagnostic, state: RuleInput) -> bool:
    """Return whether the traced process is seen using CPU time: a long pass, and no stall."""
    process = state.snapshot.processes.get(read_facts(said, PassFacts).process)
    if process is None or process.exited:
        return False
    lately_ns = state.snapshot.now(process.host).mono_ns - _LATELY_NS
    of_process = f"thread:{process.id.partition(':')[2]}/"
    threads = state.snapshot.threads

    def runs(name: str) -> bool:
        return name in threads and threads[name].state is ThreadState.RUNNING

    return any(
        a.changed_mono_ns >= lately_ns
        and a.window_ns
        and a.cpu_ns >= (_STARVES if runs(name) else _COMPUTES) * a.window_ns
        for name, a in state.snapshot.activity.items()
        if name.startswith(of_process)
    )


def _any_alive(state: RuleInput) -> bool:
    """Return whether a process of the session is alive: it may have caught the exception."""
    return any(process.target and not process.exited for process in state.snapshot.processes.values())


class Failed:
    """A segment, or nvFuser itself, failed."""

    name = "nvfuser-failed"
    doc = (
        "nvFuser threw: a segmentation group was not compiled or failed as it ran, or a fusion failed as a whole. "
        "The group is the one that the error text names. If it names none, the group is the only one that was in "
        "progress (inferred). If several groups failed at once, each is a finding. It decides the verdict unless a "
        "process continues, which may have caught the error."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield one finding for each failed group, and each error without a group."""
        alive = _any_alive(state)
        for said in (*_said("group-failed", state), *_said("failed", state)):
            line = next((proof.line for proof in said.evidence if proof.line), 0)
            yield unless_survived(self._finding(said, alive, thrown_at(said, state, line)), state.snapshot)

    def _finding(self, said: Diagnostic, alive: bool, place: str) -> Finding:
        about = fusion_facts(said)
        behind = about.behind
        who = f"{sentence_case(said.writer)}: " if rank_of(said.writer) is not None else ""
        sentence = sentences(
            f"{who}{said.sentence}{place}",
            f"{many(behind, 'group')} behind it never ran" if behind else "",
            "The process continues" if alive else "",
        )
        steps, inferred = tuple(_steps(said)), bool(about.inferred)
        return _thrown(self.name, said, alive, sentence=sentence, claim=said.sentence, next=steps, inferred=inferred)


def _thrown(rule: str, said: Diagnostic, alive: bool, **more: Any) -> Finding:
    """Return the finding for what nvFuser threw: a crash, unless a process continues."""
    severity, verdict = (Severity.ERROR, None) if alive else (Severity.CRITICAL, VerdictState.CRASHED)
    return finding_about(rule, said, severity, state=verdict, **more)


def _steps(said: Diagnostic) -> Iterator[str]:
    about = fusion_facts(said)
    log = about.log
    cut = f" --segment {about.group}" if about.group is not None and about.dump else ""
    if log and (about.script or cut):
        yield f"livedbg repro {shell_word(log)}{cut} -o repro.py --run"
    if not about.dump:
        yield "livedbg launch --recipe nvfuser-dump=segmented_fusion -- CMD   shows the segments"
    if about.when == "compile":
        yield "livedbg launch --recipe nvfuser-dump=cuda_to_file -- CMD   keeps the kernel's source"
    elif about.when == "run":
        yield "livedbg launch --recipe nvfuser-dump=kernel_args --recipe cuda-blocking -- CMD   pins the launch down"
    if not about.script:
        yield "print(fd.repro_script_for(inputs)) where the error is caught gives a script to reproduce it"
    yield "livedbg launch --recipe nvfuser-errors -- CMD   catches it with the stack of the throw"


class BadOption:
    """An option unknown to this version."""

    name = "nvfuser-bad-option"
    doc = (
        "NVFUSER_DUMP, NVFUSER_ENABLE, NVFUSER_DISABLE or NVFUSER_PROF contains an option that this version of "
        "nvFuser does not know. nvFuser throws when it first reads its options. `python_definition_segments` was "
        "removed in February 2026."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        for said in _said("bad-option", state):
            about = fusion_facts(said)
            alike = [word for word in about.available if word[:5] == about.option[:5]]
            steps = [f"take {about.option} out of NVFUSER_{about.variable}"]
            if alike:
                steps.append(f"did you mean {' or '.join(alike[:4])}?")
            steps.append("livedbg recipes nvfuser-dump   lists the options")
            yield unless_survived(_thrown(self.name, said, _any_alive(state), next=tuple(steps)), state.snapshot)


class TraceStopped:
    """A traced thread that is in a pass and makes no progress."""

    name = "nvfuser-trace-stopped"
    doc = (
        "The file of NVFUSER_TRACE shows a pass that a thread began and did not end, and the thread is no longer "
        "active: its process has ended, or nothing was written for longer than the threshold (10 s), or no process "
        "of that number runs here. The thread stopped in the innermost such pass. A pass that an exception leaves "
        "is ended too, so an open pass means a death or a hang, unless the process is seen computing (a kernel "
        "that takes long to compile). Without the process, the file alone does not distinguish a crash from a "
        "hang. Inferred, unless the process is seen to have ended."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        now_ns = state.snapshot.now().wall_ns
        for said in _said("trace-open", state):
            about = read_facts(said, PassFacts)
            process = state.snapshot.processes.get(about.process)
            quiet_ns = now_ns - (about.last_wall_ns or now_ns)
            gone = process is not None and process.exited
            nobody = not about.alive and not state.snapshot.processes
            stands = gone or nobody or about.ended or quiet_ns >= state.settings.task_stall_ns
            if stands and not _computes(said, state):
                yield self._finding(said, process, quiet_ns)

    def _finding(self, said: Diagnostic, process: Process | None, quiet_ns: int) -> Finding:
        about = read_facts(said, PassFacts)
        within = f" (in {about.within})" if about.within else ""
        gone = process is not None and process.exited
        if gone or about.ended:
            end = f"Process {about.pid} ended in the midst of it"
            if process is not None and process.exit_status is not None:
                status = process.exit_status
                end += f", by signal {-status}" if status < 0 else f", with status {status}"
        elif process is not None:
            end = f"It has been there for {duration(quiet_ns)} without beginning another pass, and its process is alive"
        elif about.alive:
            end = f"Nothing was written for {duration(quiet_ns)} since"
        else:
            end = (
                f"Nothing was written for {duration(quiet_ns)} since, and no process {about.pid} runs here: it was "
                "killed in the midst of it, or it hangs there on another machine"
            )
        return finding_about(
            self.name,
            said,
            Severity.CRITICAL if gone else Severity.ERROR,
            sentence=f"Thread …{about.thread} of process {about.pid} stopped in nvFuser's pass {about.name}"
            f"{within}. {end}.",
            next=(
                f"livedbg stacks {about.pid} --native   shows the line"
                if process is not None and not gone
                else "livedbg launch --recipe nvfuser-trace -- CMD   shows whether it stops there again",
                "livedbg launch --recipe nvfuser-dump=cuda_to_file -- CMD   the last kernel is the one in question",
            ),
            inferred=not gone,
            since_wall_ns=about.last_wall_ns or None,
            state=VerdictState.CRASHED if gone or about.ended else VerdictState.STALLED,
        )


class UnderWay:
    """Activity of the newest fusion."""

    name = "nvfuser-under-way"
    doc = (
        "Names the group of the newest fusion that is being compiled or executed, as the last log line says, and "
        "the pass that a traced thread of a living process has been in for a second or longer. Kernels run "
        "asynchronously: the kernel that was launched last need not be the one that hangs."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        """Yield one finding for each job and thread."""
        for said in _said("trace-open", state):
            process = state.snapshot.processes.get(read_facts(said, PassFacts).process)
            for_ns = state.snapshot.now().wall_ns - (said.at_wall_ns or 0)
            if process is not None and not process.exited and said.at_wall_ns and for_ns >= _LONG_NS:
                about = read_facts(said, PassFacts)
                within = f" (in {about.within})" if about.within else ""
                computes = ", and its process is computing" if _computes(said, state) else ""
                where = f"Thread …{about.thread} of process {about.pid} has been in nvFuser's pass {about.name}{within}"
                sentence = f"{where} for {duration(for_ns)}{computes}."
                yield finding_about(self.name, said, Severity.INFO, sentence=sentence)
        for said in _said("under-way", state):
            if fusion_facts(said).active:
                yield finding_about(self.name, said, Severity.INFO)


class Versions:
    """Versions at a failure."""

    name = "nvfuser-versions"
    doc = (
        "Names the bindings of nvFuser (nvfuser_direct, or nvfuser up to 2025), the versions and the GPUs from the "
        "head of a reproduction script, if something failed."
    )

    def apply(self, state: RuleInput) -> Iterable[Finding]:
        failed = {fusion_facts(d).scope for code in ("group-failed", "failed") for d in _said(code, state)}
        for said in _said("versions", state):
            if fusion_facts(said).scope in failed:
                yield Finding(rule=self.name, severity=Severity.INFO, sentence=said.sentence, evidence=said.evidence)


def rules() -> Sequence[Rule]:
    """Return the rules of this module."""
    return (Failed(), BadOption(), TraceStopped(), UnderWay(), Versions())
