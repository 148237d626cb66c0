"""Which recipes fit a process, on the command line of the app's palette too."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from livedbg.app.overlays import SheetScreen
from livedbg.cli.recipes import command as recipes_command
from livedbg.model import Process
from livedbg.model.snapshot import EMPTY
from livedbg.recipes import recipes
from livedbg.recipes.fitting import chosen_process, fitting
from livedbg.session import recognition
from livedbg.session.recognition import by_files, by_snapshot
from tests.app.apps import make_app, offered, ready, until


@pytest.mark.parametrize(
    ("path", "systems"),
    [
        ("/usr/lib/x86_64-linux-gnu/libcuda.so.550.54", {"cuda"}),
        ("/v/lib/python3.12/site-packages/nvfuser_direct/_C_DIRECT.so", {"nvfuser"}),
        ("/v/lib/python3.12/site-packages/torch/lib/libtorch_cpu.so", {"pytorch"}),
        ("/opt/simpler/build/lib/a2a3/sim/tensormap_and_ringbuffer/libhost_runtime.so", {"ascend"}),
        ("/usr/lib/libstdc++.so.6.0.30", {"c++"}),
        ("/usr/bin/python3.11", {"python"}),
        ("/usr/bin/sleep", set()),
    ],
)
def test_systems_are_known_by_what_is_loaded(path: str, systems: set[str]) -> None:
    assert by_files([path, "/usr/lib/libc.so.6"]) == systems


def test_ps_and_recipes_know_a_process_by_the_same_signs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(recognition, "fd_links", lambda pid: {3: "/dev/davinci0", 4: "/dev/null"})
    assert "ascend" in recognition.of_running(os.getpid())
    assert {"ascend", "python"} <= recognition.of_running(os.getpid(), languages=True)
    recipes_command(["--for", str(os.getpid())], standalone_mode=False)
    said = capsys.readouterr()
    assert "uses: ascend" in said.err and "ascend-log: " in said.out


def test_systems_are_known_by_the_command() -> None:
    assert by_snapshot(EMPTY, None) == set() and chosen_process(EMPTY, "thread:x/1/1") is None
    python = Process(id="process:x/1", host="x", pid=1, command=("/usr/bin/python3", "train.py"))
    assert by_snapshot(EMPTY, python) == {"python"}


@pytest.mark.invariant("fitting.E9")
def test_the_closest_come_first_and_commands_are_quoted() -> None:
    known, _ = recipes()
    found = list(fitting(known, {"nvfuser", "cuda", "python"}, ("python", "a b.py", "$x"), "/a b"))
    assert "nvfuser" in found[0].because
    names = [again.recipe.name for again in found]
    assert names.index("nvfuser-dump") < names.index("cuda-log") < names.index("unbuffered")
    assert not any(name.startswith("ascend") for name in names)
    first = next(again for again in found if again.recipe.name == "nvfuser-dump")
    assert first.command == "cd '/a b' && livedbg launch --recipe nvfuser-dump=OPTION -- python 'a b.py' '$x'"
    assert not any("[" in again.command for again in found)  # `ncu[=REGEX]` would be a glob to the shell
    assert any(" --recipe ncu -- " in again.command for again in found)
    assert {again.recipe.name for again in fitting(known, set(), ("x",), None)} == {"unbuffered"}


def test_the_list_of_nvfusers_dumps_is_that_of_the_wheel_and_what_was_removed() -> None:
    """The wheel 0.2.36 lists its own in an error; the history of csrc/options.cpp has those that went."""
    log = (Path(__file__).parents[1] / "fixtures" / "nvfuser" / "bad_option.log").read_text()
    (words,) = set(re.findall(r"Available options: (.*)", log))
    options = recipes()[0]["nvfuser-dump"].options
    assert set(options) - set(words.split(", ")) == {
        *("python_definition_segments", "python_frontend_debug", "host_ir_lowering_logging", "loop_rotation"),
        *("debug_info", "dump_eff_bandwidth", "halo"),
    }
    assert set(words.split(", ")) <= set(options)


async def test_the_palette_offers_them_and_shows_the_command() -> None:
    app = make_app("ascend")
    async with app.run_test(size=(100, 40)) as pilot:
        await ready(pilot)
        snapshot = app.context.snapshot
        assert "ascend" in by_snapshot(snapshot, chosen_process(snapshot, None))
        await pilot.press("ctrl+p", *"ascend-deps")
        await offered(pilot, "ascend-deps")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, SheetScreen))
        assert isinstance(app.screen, SheetScreen)
        text = app.screen.panel.copy_text()
        assert "livedbg launch --recipe ascend-deps=OPTION -- " in text and "=enable-dep-gen" in text
        assert app.clipboard.rstrip() in text.replace("\n", " ")
