"""Which Debian package a file is of."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from livedbg.unwind.missing_symbols import package_with_symbols, packages_of


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with dpkg's lists."""
    lists = tmp_path / "var/lib/dpkg/info"
    lists.mkdir(parents=True)
    (lists / "libpq5:amd64.list").write_text("/.\n/usr\n/usr/lib/x86_64-linux-gnu/libpq.so.5.15\n")
    (lists / "libc6:amd64.list").write_text("/.\n/lib/x86_64-linux-gnu/libc.so.6\n")
    (lists / "coreutils.list").write_text("/.\n/bin/cat\n")
    (lists / "coreutils.md5sums").write_text("/usr/bin/other\n")
    return tmp_path


def test_files_have_packages_also_from_before_usr_was_merged(root: Path) -> None:
    pq, libc = "/usr/lib/x86_64-linux-gnu/libpq.so.5.15", "/usr/lib/x86_64-linux-gnu/libc.so.6"
    found = packages_of([pq, libc, "/usr/bin/cat", "/usr/bin/other", "/lib/x86_64-linux-gnu/libpq"], root)
    assert found == {pq: "libpq5", libc: "libc6", "/usr/bin/cat": "coreutils"}


def test_a_host_without_dpkg_has_none(tmp_path: Path) -> None:
    assert packages_of(["/usr/bin/cat"], tmp_path) == {}


def test_what_is_no_list_is_not_read(root: Path) -> None:
    lists = root / "var/lib/dpkg/info"
    os.mkfifo(lists / "a.list")
    (lists / "b.list").symlink_to("/dev/zero")
    (lists / "c.list").mkdir()
    assert packages_of(["/usr/bin/cat", "/no"], root) == {"/usr/bin/cat": "coreutils"}


@pytest.mark.parametrize(
    ("package", "symbols"),
    [
        ("libpq5", "libpq5-dbgsym"),
        ("libc6", "libc6-dbg"),
        ("python3.11-minimal", "python3.11-dbg"),
        ("libpython3.12", "python3.12-dbg"),
        ("python3-numpy", "python3-numpy-dbgsym"),
    ],
)
def test_packages_with_symbols(package: str, symbols: str) -> None:
    assert package_with_symbols(package) == symbols
