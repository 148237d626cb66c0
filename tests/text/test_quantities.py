"""Numbers, sizes and times, above all where the unit changes."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livedbg.text.quantities import (
    byte_size,
    clock,
    clock_ms,
    count,
    duration,
    elapsed,
    milliseconds,
    percent,
    rate,
    short_age,
    stopwatch,
    timestamp,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0.0 ms"),
        (0, "0.0 ms"),
        (0.000_4, "0.4 ms"),
        (0.099_4, "99.4 ms"),
        (0.099_6, "0.1 s"),
        (0.3, "0.3 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (43.1, "43 s"),
        (59.9, "60 s"),
        (60, "60 s"),
        (119.4, "119 s"),
        (119.6, "2 min"),
        (720, "12 min"),
        (3599, "60 min"),
        (7169, "119 min"),
        (7171, "2.0 h"),
        (12_600, "3.5 h"),
        (172_000, "47.8 h"),
        (172_800, "2.0 d"),
        (181_440, "2.1 d"),
        (100_000_000, "1,157.4 d"),
    ],
)
def test_a_duration_in_a_sentence(seconds: float, text: str) -> None:
    assert duration(seconds * 1e9) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0004, "0.4 ms"),
        (0.5, "0.5 s"),
        (43.1, "43.1 s"),
        (59.96, "60.0 s"),
        (99.94, "99.9 s"),
        (99.96, "1 m 39 s"),
        (302, "5 m 02 s"),
        (3599.9, "59 m 59 s"),
        (3600, "1 h 00 m"),
        (11_220, "3 h 07 m"),
        (86_399, "23 h 59 m"),
        (187_200, "2 d 04 h"),
        (-5, "0.0 ms"),
    ],
)
def test_a_duration_in_a_column(seconds: float, text: str) -> None:
    assert elapsed(seconds * 1e9) == text
    assert elapsed(None) == ""


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0s"), (0.9, "0s"), (59.9, "59s"), (60, "1m"), (3599, "59m"), (3600, "1h"), (86_399, "23h"), (86_400, "1d")],
)
def test_an_age_in_a_narrow_column_is_never_more_than_it_was(seconds: float, text: str) -> None:
    assert short_age(seconds) == text


@pytest.mark.parametrize(
    ("octets", "text"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (99.94 * 1024, "99.9 KiB"),
        (99.96 * 1024, "100 KiB"),
        (1023.4 * 1024, "1,023 KiB"),
        (1023.6 * 1024, "1.0 MiB"),
        (1 << 20, "1.0 MiB"),
        (79.2 * (1 << 30), "79.2 GiB"),
        (512 << 30, "512 GiB"),
        (3 << 40, "3.0 TiB"),
        (5000 << 50, "5,000 PiB"),
    ],
)
def test_a_size(octets: float, text: str) -> None:
    assert byte_size(octets) == text


@given(st.floats(0, 1e20))
def test_a_unit_is_never_too_small_for_the_rounded_number(value: float) -> None:
    number, unit = byte_size(value).split()
    assert float(number.replace(",", "")) < 1024 or unit == "PiB"
    number, unit = duration(value).split()
    assert float(number.replace(",", "")) < {"ms": 100, "s": 120, "min": 120, "h": 48, "d": float("inf")}[unit]


def test_a_stopwatch() -> None:
    assert [stopwatch(n * 1_000_000_000) for n in (0, 43, 3599, 3729, 359_999, 360_000)] == [
        "00:00", "00:43", "59:59", "1:02:09", "99:59:59", "4 d 04 h",
    ]  # fmt: skip
    assert stopwatch(None) == ""


def test_rates_counts_and_shares() -> None:
    assert [rate(n) for n in (0, 3, 1234, 9999, 12_100, 999_940, 999_960, 2_500_000)] == [
        "0", "3", "1,234", "9,999", "12.1k", "999.9k", "1.0M", "2.5M",
    ]  # fmt: skip
    assert count(4201) == "4,201"
    assert [percent(n) for n in (None, 0, 0.123, 1)] == ["", "0 %", "12 %", "100 %"]
    assert [milliseconds(n) for n in (0, 400_000, 1_234_500_000)] == ["0.0 ms", "0.4 ms", "1,234.5 ms"]


def test_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    wall_ns = 1_767_225_600_211_999_999
    assert (clock(wall_ns), clock_ms(wall_ns)) == ("00:00:00", "00:00:00.211")
    assert (clock(None), clock_ms(None), clock(0)) == ("--:--:--", "", "--:--:--")
    assert timestamp(wall_ns) == "2026-01-01T00:00:00.211Z"
    monkeypatch.undo()
    time.tzset()
