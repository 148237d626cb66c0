"""How busy the machine is: read here, and from what other kernels say."""

from __future__ import annotations

import os

import pytest

from livedbg.linux import last_ran
from livedbg.linux.last_ran import Load, read_load


def test_this_machine() -> None:
    found = read_load()
    assert found is not None
    assert found.minute >= 0
    assert found.runnable >= 1  # this thread
    assert found.processors == os.cpu_count()
    assert found.waiting is None or 0 <= found.waiting <= 1


def reading(monkeypatch: pytest.MonkeyPatch, **files: bytes | None) -> Load | None:
    def read(path: str) -> bytes:
        data = files[path.rpartition("/")[2]]
        if data is None:
            raise FileNotFoundError(path)
        return data

    monkeypatch.setattr(last_ran, "read_file", read)
    return read_load()


def test_words_and_crowding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 16)
    pressure = b"some avg10=81.40 avg60=70.00 avg300=1.0 total=12\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
    found = reading(monkeypatch, loadavg=b"37.20 20.1 3.0 41/900 1234\n", cpu=pressure)
    assert found is not None
    assert (found.minute, found.runnable, found.processors) == (37.2, 41, 16)
    assert found.words() == "load 37.2 on 16 CPUs, some thread waited for one 81 % of the time"
    assert found.crowded
    assert not Load(4.0, 2, 16).crowded
    assert Load(0.1, 1, 1).words() == "load 0.1 on 1 CPU"


def test_a_kernel_without_pressure(monkeypatch: pytest.MonkeyPatch) -> None:
    found = reading(monkeypatch, loadavg=b"1.0 1.0 1.0 1/2 3\n", cpu=None)
    assert found is not None
    assert found.waiting is None


@pytest.mark.parametrize("text", [b"", b"x y z 1/2", b"1.0 2.0", None])
def test_damage_is_no_load(monkeypatch: pytest.MonkeyPatch, text: bytes | None) -> None:
    assert reading(monkeypatch, loadavg=text, cpu=None) is None


def test_damaged_pressure_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    found = reading(monkeypatch, loadavg=b"1.0 1.0 1.0 1/2 3\n", cpu=b"some\n")
    assert found is not None
    assert found.waiting is None
