"""`livedbg signatures`, and signatures of one's own in a report: the example of docs/signatures.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from livedbg.cli.group import livedbg
from livedbg.model.errors import LivedbgError
from tests.cli.zygote import run_livedbg

PAGE = Path(__file__).parents[2] / "docs" / "signatures.md"
LOG = "step 1\nstep 2\n2026-03-01T09:00:00Z agent: the pump of n7 stopped (no water)\n"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    found = re.search(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    path = tmp_path / "site" / "mine.toml"
    path.parent.mkdir()
    path.write_text(found[1])
    return path


def ran(*arguments: object, standard_input: str = "") -> tuple[int, str]:
    words = list(map(str, arguments))
    done = CliRunner().invoke(livedbg, words, input=standard_input, standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.return_value, done.output


def reported(*arguments: object) -> tuple[int, str]:
    """In a process of its own: a time limit counts from when that began."""
    done = run_livedbg(["report", *arguments], text=True)
    return done.returncode, done.stdout + done.stderr


def test_the_page_s_example_is_right_and_a_report_says_it(mine: Path, tmp_path: Path) -> None:
    assert ran("signatures", "--check", mine) == (0, f"{mine}: 1 signatures and 3 examples are right.\n")
    (tmp_path / "train.log").write_text(LOG)
    code, said = reported("--logs", tmp_path / "train.log", "--signatures", mine.parent)
    assert code == 11 and "The cooling pump of n7 stopped: no water." in said
    assert "scontrol update node=n7 state=drain reason=pump" in said
    assert "cooling pump" not in reported("--logs", tmp_path / "train.log")[1]
    (tmp_path / "train.log").write_text(LOG.replace("no water", "maintenance"))
    assert reported("--logs", tmp_path / "train.log", "--signatures", mine.parent)[0] == 5


def test_which_match_a_text_and_why(mine: Path) -> None:
    code, said = ran("signatures", "--signatures", mine.parent, "--match", "-", standard_input=LOG)
    assert code == 0
    assert said.splitlines() == [
        "line 3: signatures/agent-pump: The cooling pump of n7 stopped: no water.",
        "    class host, ends job, kind agent-pump",
        "    word 'agent: the pump of ', in",
        "        2026-03-01T09:00:00Z agent: the pump of n7 stopped (no water)",
    ]
    assert ran("signatures", "--match", "-", standard_input=LOG) == (0, "No signature matches.\n")


def test_the_list_and_one_of_it() -> None:
    assert "hosts/slurm-node" in ran("signatures")[1]
    assert "srun: error: Node failure on n9  ->  Node n9 failed" in ran("signatures", "slurm-node")[1]
    with pytest.raises(LivedbgError, match="no signature 'none'"):
        ran("signatures", "none")


def test_a_file_that_is_wrong(mine: Path, tmp_path: Path) -> None:
    mine.write_text(
        mine.read_text().replace('says = "The cooling pump of n7 stopped: no water"', 'says = "It stopped"')
    )
    code, said = ran("signatures", "--check", mine)
    assert code == 12 and "not 'It stopped'" in said
    mine.write_text("[[signature]]\nid = 3\n")
    with pytest.raises(LivedbgError, match=r"mine\.toml"):
        ran("signatures", "--check", mine)
    (tmp_path / "a.log").write_text(LOG)
    assert "mine.toml" in reported("--logs", tmp_path / "a.log", "--signatures", mine.parent)[1]
