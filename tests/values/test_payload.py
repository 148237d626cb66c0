"""The file beside a manifest that holds the values of a dump."""

from __future__ import annotations

from pathlib import Path

import pytest

from livedbg.model.errors import SourceError
from livedbg.values.tensor import open_regular


@pytest.mark.parametrize("name", ["a\0b", "gone"])
def test_a_name_that_no_file_has_is_a_clear_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(SourceError, match="can't be read") as error:
        open_regular(tmp_path / name)
    assert "\0" not in error.value.message
