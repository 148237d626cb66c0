"""Recipes: the built-in ones, a user's own, several at once, and what they do to a real command."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from livedbg.adapters.cuda import checks as cuda_checks
from livedbg.adapters.cuda.checks import checks
from livedbg.linux import procfs
from livedbg.model.errors import UsageError
from livedbg.recipes import Effect, Ended, Part, Preload, Recipe, chosen, plan, recipes, without_effect
from livedbg.recipes.model import After, each_option, parse
from livedbg.recipes.plan import possible
from livedbg.recipes.watching import summaries
from livedbg.session.tools import find_tool
from tests.cli.conftest import livedbg
from tests.cli.test_launch_and_demo import children_in
from tests.cli.zygote import Livedbg
from tests.conftest import eventually

PRINT = "import os; print({name: os.environ.get(name) for name in ('NVFUSER_DUMP', 'NVFUSER_TRACE', 'MINE')})"


def made(name: str = "mine", **fields: object) -> Recipe:
    return Recipe(name=name, question="?", systems=("c++",), acts="run", cost="none", source="here", **fields)  # type: ignore[arg-type]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment with folders of its own."""
    folders = {name: str(tmp_path / name) for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")}
    for name, folder in folders.items():
        monkeypatch.setenv(name, folder)
    return folders


def own(home: dict[str, str], name: str, text: str) -> None:
    folder = Path(home["XDG_CONFIG_HOME"]) / "livedbg" / "recipes"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.toml").write_text(text)


MINE = 'question = "Mine?"\nsystems = ["c++"]\nacts = "run"\ncost = "none"\nsource = "me"\n'


def test_a_recipe_that_needs_what_is_not_here_leaves_the_question_to_the_next_one() -> None:
    absent = made("absent", wrapper=("not-a-profiler",), remedy="get it")
    second = made("second", preload=(Preload(("libnot-there.so",), remedy="get it"),), otherwise=("third",))
    third = made("third", beside=("profile", "{pid}"))
    first = made(
        "first", preload=(Preload(("libnot-there.so",), remedy="get it"),), otherwise=("absent", "second", "third")
    )
    known = {one.name: one for one in (first, absent, second, third)}
    assert possible(first, known) == (
        third,
        "Recipe first needs libnot-there.so, which is not installed. Recipe third is used instead.",
    )
    assert possible(third, known) == (third, "")
    assert possible(absent, known) == (absent, "")  # which is then refused with its remedy


def test_what_runs_beside_a_command_is_told_its_process_and_says_its_piece_at_the_end(home: dict[str, str]) -> None:
    shell = 'beside = ["sh", "-c", "echo watches {pid}; tail --pid={pid} -f /dev/null; seq 40"]'
    effect = '[[effect]]\nfile = "{folder}/*.txt"\n'
    own(home, "mine", f"{MINE}{shell}\n{effect}")
    said = livedbg("launch", "--recipe", "mine", "--", "sh", "-c", "echo $$", env=home)
    assert said.code == 0, said.everything
    lines = [line for line in said.err.splitlines() if line.startswith(("livedbg: mine", "livedbg:     "))]
    assert lines[0] == f"livedbg: mine: watches {said.out.strip()}" and lines[19] == "livedbg:     19"
    assert lines[20].startswith("livedbg:     (21 more lines: ")


def test_nothing_stays_beside_a_command_that_is_left_running(home: dict[str, str], tmp_path: Path) -> None:
    own(home, "mine", f'{MINE}beside = ["tail", "--pid={{pid}}", "-f", "/dev/null"]\n[[effect]]\nfile = "x"\n')
    mark = {"LIVEDBG_TEST_MARK": str(tmp_path)}
    line = ["launch", "--headless", "--detach", "--recipe", "mine", "--", "sleep", "300"]
    child = Livedbg(line, env={**os.environ, **home, **mark}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def running() -> set[str]:
        return {procfs.command_line(pid)[0] for pid in children_in(str(tmp_path)) if procfs.command_line(pid)}

    try:
        eventually(lambda: {"sleep", "tail"} <= running())
        child.send_signal(signal.SIGTERM)
        child.wait(200)
        assert running() == {"sleep"}
    finally:
        for pid in children_in(str(tmp_path)):
            os.kill(pid, signal.SIGKILL)


def test_every_built_in_recipe_says_what_it_is(home: dict[str, str], tmp_path: Path) -> None:
    known, wrong = recipes()
    assert wrong == [] and len(known) >= 15
    for recipe in known.values():
        assert recipe.question.endswith("?") and recipe.cost and recipe.source and recipe.systems
        assert (
            recipe.environment or recipe.preload or recipe.wrapper or recipe.catch or recipe.arguments or recipe.beside
        )
        assert all(known[name] is not recipe for name in recipe.otherwise)
        assert set(recipe.lists) | set(recipe.unless_set) <= set(recipe.environment)
        assert recipe.effect and all(bool(e.says or e.file) != bool(e.loaded) for e in recipe.effect)
        given = (*recipe.environment.values(), *recipe.wrapper, *recipe.arguments)
        assert any("{option}" in text for text in given) == bool(recipe.options or recipe.value)
        assert {name for way in recipe.effect for name in way.only} <= set(recipe.options)
        assert not (recipe.options and recipe.value) and (recipe.value or not recipe.default)
        assert not recipe.wrapper or recipe.remedy
        assert all(library.remedy for library in recipe.preload)


def test_options_are_chosen_by_name(home: dict[str, str]) -> None:
    known, _ = recipes()
    assert chosen("nvfuser-dump=cuda_kernel", known) == (known["nvfuser-dump"], "cuda_kernel")
    for wanted, said in (
        ("no-such", "There is no recipe"),
        ("nvfuser-dump", "needs an option"),
        ("nvfuser-dump=nothing", "has no option"),
        ("cuda-blocking=1", "takes no option"),
    ):
        with pytest.raises(UsageError, match=said):
            chosen(wanted, known)


def test_several_options_of_one_recipe_can_be_listed() -> None:
    known, _ = recipes()
    assert [*each_option("nvfuser-dump=cuda_kernel,fusion_ir", known)] == [
        "nvfuser-dump=cuda_kernel",
        "nvfuser-dump=fusion_ir",
    ]
    assert [*each_option("cuda-blocking", known)] == ["cuda-blocking"]
    assert [*each_option("ascend-golden-data=a,b", known)] == ["ascend-golden-data=a,b"]  # a folder's name
    assert [*each_option("none=a,b", known)] == ["none=a,b"]


@pytest.mark.invariant("model.E1")
def test_E1_a_file_with_an_unknown_key_or_a_broken_expression_is_refused() -> None:
    for name, text in (
        ("mine", MINE + 'enviroment = "x"\n'),
        ("mine", MINE + '[[effect]]\nsays = "("\n'),
        ("mine", MINE.replace('"run"', '"sometimes"')),
        ("mine", "question ="),
        ("mine", ""),
        ("Bad Name", MINE),
    ):
        with pytest.raises(UsageError):
            parse(name, text.encode())


@pytest.mark.invariant("model.E2")
def test_E2_a_users_own_recipe_wins_and_a_broken_one_is_named(home: dict[str, str]) -> None:
    own(home, "cuda-blocking", MINE)
    own(home, "broken", "question =\x1b[31m")
    known, (wrong,) = recipes()
    assert known["cuda-blocking"].question == "Mine?"
    assert "broken.toml" in wrong and "\x1b" not in wrong and "broken" not in known
    said = livedbg("recipes", env=home)
    assert said.code == 0 and "Mine?" in said.out and "broken.toml" in said.err


def test_lists_are_joined_and_keep_what_is_there(tmp_path: Path) -> None:
    dump = made(environment={"D": "{option}"}, lists=("D",))
    joined = plan([(dump, "a"), (dump, "b"), (dump, "a")], tmp_path, {"D": "c"})
    assert joined.environment == {"D": "c,a,b"} and joined.notes == ()


@pytest.mark.invariant("plan.E3")
def test_E3_different_values_of_one_variable_are_refused(tmp_path: Path) -> None:
    one, same, other = (made(name, environment={"V": value}) for name, value in (("a", "1"), ("b", "1"), ("c", "2")))
    assert plan([(one, ""), (same, "")], tmp_path, {}).environment == {"V": "1"}
    with pytest.raises(UsageError, match="Recipes a and c set V to different values: 1 and 2"):
        plan([(one, ""), (other, "")], tmp_path, {})


def test_what_the_user_has_set_is_said_or_left_alone(tmp_path: Path) -> None:
    loud = plan([(made(environment={"V": "1"}), "")], tmp_path, {"V": "7"})
    assert loud.environment == {"V": "1"} and loud.notes == ("mine: V=7 is replaced by 1 for this run",)
    shy = plan([(made(environment={"V": "1"}, unless_set=("V",)), "")], tmp_path, {"V": "7"})
    assert shy.environment == {} and shy.notes == ("mine: V=7 is kept, because your environment sets it",)


def test_tools_are_found_where_doctor_finds_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for home in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(home, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    monkeypatch.setattr(cuda_checks, "_ROOTS", (tmp_path,))
    systems, compute = (f"nvidia/nsight-{name}" for name in ("systems", "compute"))
    sanitizer = "cuda-12.9/bin/compute-sanitizer"  # of a toolkit without the link `cuda`
    for place in (sanitizer, f"{systems}/2024.5.1/bin/nsys", f"{compute}/2024.9.0/ncu", f"{compute}/2024.10.0/ncu"):
        program = tmp_path / place
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh\necho summed up\n")
        program.chmod(0o755)
    for name, place in (
        ("compute-sanitizer", sanitizer),
        ("nsys", f"{systems}/2024.5.1/bin/nsys"),
        ("ncu", f"{compute}/2024.10.0/ncu"),
    ):
        assert plan([(made(wrapper=(name,)), "")], tmp_path, {}, find=find_tool).wrapper == (str(tmp_path / place),)
        told = next(fact for fact in checks() if fact.name == "CUDA tools")
        assert f"{name} ({tmp_path / place})" in told.value
    (tmp_path / "made").write_text("x")
    end = After(file=str(tmp_path / "made"), command=("compute-sanitizer", "{file}"))
    assert list(summaries([Part("mine", after=(end,))], "CMD", find_tool))[1:] == ["    summed up"]


@pytest.mark.invariant("plan.E4")
def test_E4_programs_and_libraries_that_are_not_here_are_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs no-such-program") as refused:
        plan([(made(wrapper=("no-such-program",), remedy="get it"), "")], tmp_path, {})
    assert refused.value.remedy == "get it"
    with pytest.raises(UsageError, match=r"needs libnone\.so or libnada\.so"):
        plan([(made(preload=(Preload(("libnone.so", "libnada.so"), "gcc", "get it"),)), "")], tmp_path, {})


def test_libraries_are_found_by_the_compiler_and_by_the_linker(tmp_path: Path) -> None:
    by_gcc = made("a", preload=(Preload(("libasan.so",), "gcc"),))
    by_linker = made("b", preload=(Preload(("libstdc++.so.6",)),))
    found = (
        plan([(by_gcc, ""), (by_linker, "")], tmp_path, {"LD_PRELOAD": "/x.so"}).environment["LD_PRELOAD"].split(":")
    )
    assert [Path(path).name for path in found] == ["libasan.so", "libstdc++.so.6", "x.so"]  # asan must come first
    assert [Path(path).is_file() for path in found[:2]] == [True, True]


def test_the_same_wrapper_is_used_once(tmp_path: Path) -> None:
    one, other = made(wrapper=("env", "A={option}")), made(wrapper=("nice",))
    words = plan([(one, "1"), (one, "1"), (other, "")], tmp_path, {}).wrapper
    assert [Path(word).name for word in words] == ["env", "A=1", "nice"]


@pytest.mark.invariant("effects.E5")
def test_E5_what_had_no_effect_is_named(tmp_path: Path) -> None:
    output = tmp_path / "stdout.log"
    output.write_bytes(b"\xff first\nLaunch Parameters: 1\n")
    (tmp_path / "full").write_text("x")
    (tmp_path / "empty").touch()
    says = [
        Part("seen", effects=(Effect(says="^Launch"),)),
        Part("file", effects=(Effect(says="^nothing"), Effect(file=f"{tmp_path}/fu*"))),
        Part("none"),
        Part("unseen", effects=(Effect(says="^nothing", hint="Was it run?"),)),
        Part("empty", effects=(Effect(file=f"{tmp_path}/empty"),)),
    ]
    first, second = without_effect(says, Ended([output, tmp_path / "gone", tmp_path / "empty"]))
    assert first == "recipe unseen had no visible effect: no line matches /^nothing/. Was it run?"
    assert second.startswith(f"recipe empty had no visible effect: no file {tmp_path}/empty")


def test_a_command_is_launched_by_recipes(home: dict[str, str]) -> None:
    own(home, "mine", MINE + '[environment]\nMINE = "{folder}/mine"\n[[effect]]\nsays = "NVFUSER"\n')
    words = ["--recipe", "mine", "--recipe", "nvfuser-dump=ptx", "--recipe", "nvfuser-trace"]
    said = livedbg(
        "launch", "--headless", *words, "--", sys.executable, "-c", PRINT, env={**home, "NVFUSER_DUMP": "sass"}
    )
    assert said.code == 0 and "'NVFUSER_DUMP': 'sass,ptx'" in said.out
    folder = re.search(r"'MINE': '(.*)/mine'", said.out)
    assert folder is not None and f"'NVFUSER_TRACE': '{folder[1]}/nvfuser-trace.json'" in said.out
    assert "recipe nvfuser-trace had no visible effect" in said.err and "recipe mine" not in said.err


def test_a_recipe_that_can_not_be_used_starts_nothing(home: dict[str, str]) -> None:
    said = livedbg("launch", "--headless", "--recipe", "none", "--", sys.executable, "-c", "print('started')", env=home)
    assert said.code == 2 and "There is no recipe 'none'" in said.err and "started" not in said.out
    launches = Path(home["XDG_STATE_HOME"]) / "livedbg" / "launches"
    assert not launches.exists() or not any(launches.iterdir())


def test_recipes_are_listed_and_explained(home: dict[str, str]) -> None:
    every = livedbg("recipes", env=home)
    assert every.code == 0 and "nvfuser-dump" in every.out and "cuda-log" in every.out
    one = livedbg("recipes", "compute-sanitizer", env=home)
    assert "livedbg launch --recipe compute-sanitizer=OPTION -- CMD" in one.out and "=racecheck" in one.out
    assert livedbg("recipes", "none", env=home).code == 2
