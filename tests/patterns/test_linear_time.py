"""Every pattern that sees foreign text takes time linear in it, also where it nearly matches."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.patterns.growth import superlinear

ROOT = Path(__file__).parents[2]
QUADRATIC = [
    r"\s*loc\(",
    r"\w+: \d",
    r"\[a .*?b",
    r"(?:[^,]*,)*x$",
    r"a\s*\n\s*b",
    r"(?:const )+$",
]
LINEAR = [
    r"\s{0,50}loc\(",
    r"(?<!\w)\w+: \d",
    r"\[a [^\[]*?b",
    r"a[^\S\n]*\n\s*b",
    r"^\d+-\d+",
    r"token=\S+",
    r'"(?:[^"\\]++|\\.)*+"',
]


@pytest.mark.parametrize("pattern", QUADRATIC)
def test_a_quadratic_pattern_is_found(pattern: str) -> None:
    assert superlinear(re.compile(pattern), "search") is not None


def test_an_exponential_pattern_is_found_without_waiting_for_it() -> None:
    assert superlinear(re.compile(r"perl(?:-?[\d.]+)*x"), "match") is not None
    assert superlinear(re.compile(rb"(?:a|b|ab)*c"), "search") is not None


@pytest.mark.parametrize("pattern", LINEAR)
def test_a_linear_pattern_is_not_accused(pattern: str) -> None:
    assert superlinear(re.compile(pattern), "search") is None


def test_how_a_pattern_is_used_is_what_counts() -> None:
    assert superlinear(re.compile(r"\w+: \d"), "match") is None
    assert superlinear(re.compile(r"\w+: \d"), "finditer") is not None


@pytest.mark.parametrize("part", ["1/4", "2/4", "3/4", "4/4"])
def test_every_pattern_of_the_product_takes_linear_time(part: str) -> None:
    """In a process of its own, which imports all modules and keeps what they compile."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.patterns.growth", "--part", part],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["patterns"] > 250
    assert said["superlinear"] == {}
