"""The fixtures of the tests of values, for the readers of Ascend's dumps."""

from __future__ import annotations

from tests.values.conftest import inside

__all__ = ["inside"]
