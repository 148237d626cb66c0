"""Memory that is read twice."""

from __future__ import annotations

import ctypes
import os

import pytest

from livedbg.adapters.ascend.live.slots import Image


@pytest.mark.invariant("image.I1")
def test_I1_only_what_was_the_same_twice_is_steady() -> None:
    still, moving = ctypes.create_string_buffer(b"a" * 64), ctypes.create_string_buffer(b"b" * 64)
    image = Image(os.getpid())
    one, other, gone = image.take([(ctypes.addressof(still), 64), (ctypes.addressof(moving), 64), (8, 64)])
    assert one is not None and other is not None and gone is None
    assert not one.steady() and not other.steady()  # read once
    moving[40] = b"c"
    image.confirm()
    assert one.steady() and one.steady(40, 1)
    assert not other.steady() and not other.steady(40, 1) and not other.steady(32, 16)
    assert other.steady(0, 40) and other.steady(41, 23)
    assert other.data == b"b" * 64
