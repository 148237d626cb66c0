"""Fixtures for tests that catch things in real programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.adapters.exceptions.catching import Ear
from tests.conftest import Target


@pytest.fixture
def listen() -> Iterator[Callable[..., Ear]]:
    """Begin to catch in a process; ended with the test."""
    ears: list[Ear] = []

    def start(pid: int, *, read_only: bool = False) -> Ear:
        ears.append(Ear(pid, read_only=read_only))
        return ears[-1]

    yield start
    for ear in ears:
        ear.stop()


@pytest.fixture
def thrower(build_target: Callable[..., Path], spawn: Callable[..., Target]) -> Target:
    """A program that throws what it is told to."""
    return spawn([build_target("throws")])
