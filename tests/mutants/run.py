"""Runs the tests of a group against its mutants, each in a process forked from one that has collected the tests.

A mutant costs a fork and the tests that reach its line, those first that reach most of its file, until one fails. What
can't be changed in a process that has imported the original (`tests.mutants.swap`) is imported in one that has not.
"""

from __future__ import annotations

import ast
import gc
import importlib
import importlib.machinery
import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

import coverage
import pytest

from tests.mutants.child import adopt, output, side_by_side
from tests.mutants.operators import Mutant, mutants
from tests.mutants.sources import ROOT, SLOW_S, Group
from tests.mutants.swap import functions_of, swap

MORE_CPU_S = 10.0
"""CPU time that a mutant may take beyond three times that of its tests: one that loops for ever is killed then."""
SILENT_S = 120.0
"""A mutant that waits for ever is killed then; its tests use `TESTS_S` of CPU time at most."""
MEMORY = 4 << 30
"""Octets that a mutant may take: one that loops for ever may collect things for ever."""
TESTS_S = 12.0
"""CPU time of the tests that are run on one mutant: those of them that reach its line and most of its file."""
_OPTIONS = ("-q", "-p", "no:cacheprovider", "--assert=plain", "--tb=native")
_NO_LIMIT_S = 1e7
_Say = Callable[[bytes], object]


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a mutant.

    Attributes:
        file: the source file, relative to the repository.
        operator, line, before, after: see `Mutant`.
        end: `killed`, `time limit` (killed too), `survived`, `not reached` (a survivor whose line no test reaches), or
            `anew` (to be run by `_anew`).
        tests: the tests to run, of one that is `anew`.
    """

    file: str
    operator: str
    line: int
    before: str
    after: str
    end: str
    tests: tuple[str, ...] = ()

    @property
    def died(self) -> bool:
        """True if the tests noticed it."""
        return self.end in ("killed", "time limit")


def run(group: Group, files: Sequence[str], one_of: int, seed: int, jobs: int) -> Iterator[Result | str]:
    """Run the mutants of some files of a group.

    Args:
        group: the files' group.
        files: the files, relative to the repository.
        one_of: run one of so many mutants, drawn by `seed`; 1 runs all.
        seed: of that draw.
        jobs: how many to run at once.

    Yields:
        The result of each mutant; or the name of a test that fails without one (it is not run with one).
    """
    adopt()
    _third_parties()

    def warm(say: _Say) -> None:
        adopt()
        plugin = _Forks(files, one_of, seed, jobs, say)
        _hush(1)
        plugin.imports.start()
        code = pytest.main([*_OPTIONS, *(str(ROOT / test) for test in group.tests)], plugins=[plugin])
        if code != pytest.ExitCode.OK or not plugin.ran:
            raise RuntimeError(f"the tests of {group.name} can't be run here: {code!r}")

    left = []
    for line in output(warm, _NO_LIMIT_S, _NO_LIMIT_S):
        word = json.loads(line)
        if isinstance(word, str):
            yield word
        elif (result := Result(**word)).end == "anew":
            left.append(result)
        else:
            yield result

    def import_anew(number: int, say: _Say) -> None:
        for result in left[number::jobs]:
            found = {(m.operator, m.line, m.before, m.after): m for m in _mutants(result.file)}
            mutant = found[result.operator, result.line, result.before, result.after]
            end = _anew(ROOT / result.file, mutant.source, result.tests)
            say(json.dumps(asdict(replace(result, end=end, tests=()))).encode() + b"\n")

    for line in output(lambda say: side_by_side(import_anew, jobs, say), _NO_LIMIT_S, _NO_LIMIT_S):
        yield Result(**json.loads(line))


@cache
def _mutants(file: str) -> list[Mutant]:
    return mutants((ROOT / file).read_text())


class _Forks:
    """The plug-in that takes the place of pytest's loop over the tests.

    Attributes:
        imports: measures which lines run while modules are imported.
        ran: True once the loop was reached.
    """

    def __init__(self, files: Sequence[str], one_of: int, seed: int, jobs: int, say: _Say) -> None:
        self._files = files
        self._one_of, self._seed, self._jobs, self._say = one_of, seed, jobs, say
        self._killers: dict[str, list[str]] = {}
        self.imports = _coverage(files)
        self.ran = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Measure the tests, then run each mutant."""
        self.imports.stop()
        if session.testsfailed:
            return True
        self.ran = True
        self._cpu_s, self._reached = self._measured(session)
        self._functions = functions_of(str(ROOT / file) for file in self._files)
        gc.freeze()
        at_import = self.imports.get_data()
        imported = {os.path.realpath(name): set(at_import.lines(name) or ()) for name in at_import.measured_files()}
        tasks = [(file, mutant) for file in self._files for mutant in self._drawn(file)]

        def work(number: int, say: _Say) -> None:
            for file, mutant in tasks[number :: self._jobs]:
                original = compile((ROOT / file).read_text(), file, "exec", dont_inherit=True)
                if result := self._result(session, file, mutant, original, imported):
                    say(json.dumps(asdict(result)).encode() + b"\n")

        side_by_side(work, self._jobs, self._say)
        return True

    def _drawn(self, file: str) -> list[Mutant]:
        made = _mutants(file)
        if self._one_of > 1:
            made = random.Random(f"{self._seed} {file}").sample(made, -(-len(made) // self._one_of))
        return sorted(made, key=lambda mutant: mutant.line)

    def _result(
        self, session: pytest.Session, file: str, mutant: Mutant, original: CodeType, imported: Mapping[str, set[int]]
    ) -> Result | None:
        """What becomes of a mutant; None if it does not compile."""
        path = str(ROOT / file)
        try:
            code = compile(mutant.source, path, "exec", dont_inherit=True)
        except SyntaxError:
            return None
        reached = self._reached.get(path, {})
        lines, outside = _statements((ROOT / file).read_text()).get(mutant.line, ({mutant.line}, True))
        tests = {name for line in (reached if outside else lines) for name in reached.get(line, ())}
        killers = self._killers.setdefault(file, [])
        reaches = Counter(name for names in reached.values() for name in names)
        chosen = _chosen(tests, self._cpu_s, reaches, killers)
        if not chosen:
            end = "not reached"
        elif outside:
            end = "anew"
        else:
            items = {item.nodeid: item for item in session.items}
            end, killer = self._fork(session, [items[name] for name in chosen], path, original, code)
            killers[:] = [killer, *(k for k in killers if k != killer)] if killer else killers
            if end == "survived" and lines & imported.get(path, set()):
                end = "anew"  # what it did while the tests were imported was not the mutant's
        named = tuple(chosen) if end == "anew" else ()
        return Result(file, mutant.operator, mutant.line, mutant.before, mutant.after, end, named)

    def _tell(self, what: object) -> None:
        self._say(json.dumps(what).encode() + b"\n")

    def _measured(self, session: pytest.Session) -> tuple[dict[str, float], dict[str, dict[int, list[str]]]]:
        """Of each test that passes: its CPU time, and by file and line, which tests reach it."""

        def each(say: _Say) -> None:
            for item in session.items:
                measure = _coverage(self._files)
                begun = _cpu_s()
                measure.start()
                failed = bool(_failing(session, [item]))
                measure.stop()
                took = _cpu_s() - begun
                data = measure.get_data()
                lines = {os.path.realpath(name): data.lines(name) for name in data.measured_files()}
                say(json.dumps([item.nodeid, failed, took, lines]).encode() + b"\n")

        cpu_s: dict[str, float] = {}
        reached: dict[str, dict[int, list[str]]] = {}
        for line in output(each, _NO_LIMIT_S, _NO_LIMIT_S):
            name, failed, took, lines = json.loads(line)
            if failed:
                self._tell(name)
                continue
            cpu_s[name] = took
            for path, numbers in lines.items():
                for number in numbers:
                    reached.setdefault(path, {}).setdefault(number, []).append(name)
        return cpu_s, reached

    def _fork(
        self, session: pytest.Session, items: list[pytest.Item], path: str, original: CodeType, code: CodeType
    ) -> tuple[str, str]:
        """How a mutant ends, and the test that killed it, "" if none did."""

        def test(say: _Say) -> None:
            if not swap(self._functions[path], original, code):
                say(b"anew\n")
            elif killer := _failing(session, items):
                say(f"killed {killer}\n".encode())
            else:
                say(b"survived\n")

        end, _, killer = _end(test).partition(" ")
        return ("time limit", "") if end == "time" else (end, killer)


def _end(test: Callable[[_Say], None]) -> str:
    try:
        (said,) = output(test, 3 * TESTS_S + MORE_CPU_S, SILENT_S, MEMORY)
    except TimeoutError:
        return "time limit"
    except (RuntimeError, ValueError):  # it ended, or broke pytest
        return "killed"
    return said.decode()


def _anew(path: Path, source: str, tests: Sequence[str]) -> str:
    """Run tests on a mutant that is imported as if it lay in the file."""

    def test(say: _Say) -> None:
        get_code = importlib.machinery.SourceFileLoader.get_code

        def get(loader: importlib.machinery.SourceFileLoader, name: str) -> CodeType | None:
            if os.path.realpath(loader.path) == str(path):
                return compile(source, loader.path, "exec", dont_inherit=True)
            return get_code(loader, name)

        importlib.machinery.SourceFileLoader.get_code = get  # type: ignore[method-assign]
        _hush(1, 2)
        say(b"killed\n" if pytest.main([*_OPTIONS, "-x", *tests]) else b"survived\n")

    return _end(test)


def _failing(session: pytest.Session, items: Sequence[pytest.Item]) -> str:
    """The first of these tests that fails, "" if none does; those behind it are not run."""
    watcher = _Failures()
    session.config.pluginmanager.register(watcher)
    try:
        for number, item in enumerate(items):
            following = items[number + 1] if number + 1 < len(items) else None
            session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if watcher.failed:
                session._setupstate.teardown_exact(None)
                return item.nodeid
    finally:
        session.config.pluginmanager.unregister(watcher)
    return ""


class _Failures:
    def __init__(self) -> None:
        self.failed = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed = self.failed or report.failed


def _chosen(
    tests: set[str], cpu_s: Mapping[str, float], reaches: Mapping[str, int], killers: Sequence[str]
) -> list[str]:
    """The tests that are run, in this order: those that killed a mutant of the file before, then by what they reach.

    Args:
        tests: those that reach the mutant.
        cpu_s: CPU time of each.
        reaches: how many lines of the file each reaches: many tests reach a rule, and few what lies deep in it.
        killers: tests that killed mutants of the file, the last one first.
    """
    chosen, total = [], 0.0
    for name in sorted(tests, key=lambda name: (-reaches[name], cpu_s[name], name)):
        if cpu_s[name] > SLOW_S:
            continue
        total += cpu_s[name]
        if total > TESTS_S:
            break
        chosen.append(name)
    first = [name for name in killers if name in chosen]
    return first + [name for name in chosen if name not in first]


@cache
def _statements(source: str) -> dict[int, tuple[set[int], bool]]:
    """Of each line, the lines of the smallest statement it belongs to, and whether that is outside of functions."""
    found: dict[int, tuple[set[int], bool]] = {}

    def visit(node: ast.AST, outside: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
                first = getattr(child, "lineno", None) or child.pattern.lineno  # type: ignore[union-attr]
                body: Any = getattr(child, "body", None)
                last = max(body[0].lineno - 1, first) if body else child.end_lineno  # type: ignore[union-attr]
                lines = set(range(first, last + 1))
                for line in lines:
                    found[line] = (lines, outside)
            visit(child, outside and not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))

    visit(ast.parse(source), True)
    return found


def _coverage(files: Sequence[str]) -> coverage.Coverage:
    measure = coverage.Coverage(data_file=None, config_file=False, include=[str(ROOT / file) for file in files])
    measure.set_option("run:disable_warnings", ["no-data-collected"])
    return measure


def _hush(*descriptors: int) -> None:
    nothing = os.open(os.devnull, os.O_WRONLY)
    for descriptor in descriptors:
        os.dup2(nothing, descriptor)
    os.close(nothing)


def _cpu_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _third_parties() -> None:
    """Import what livedbg and its tests need of others, once for all mutants that are imported anew."""
    for name in ("click", "ml_dtypes", "msgspec", "numpy", "pygdbmi", "rich", "rustworkx", "zstandard"):
        importlib.import_module(name)
