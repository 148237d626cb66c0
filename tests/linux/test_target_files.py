"""What a target names is opened with the target's rights: `nobody` against root (target_files, fs_identity)."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from livedbg.linux import beneath, fs_identity, target_files
from livedbg.linux.fs_identity import FsIdentity, acting_as, identity_of
from livedbg.linux.target_files import open_fd, read_bytes, register, vouch
from tests.cli.zygote import run_livedbg

NOBODY, DAEMON, TEAM = 65534, 1, 54321
SECRET = 'Traceback (most recent call last):\n  File "/srv/key.py", line 1, in <module>\nRuntimeError: SESAME\n'
PUBLIC = "12:00:00 ERROR step 7 failed\n"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights that the target lacks")


@pytest.fixture(autouse=True)
def _nobody_known() -> Iterator[None]:
    target_files.forget()
    yield
    target_files.forget()


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that everybody may look into, with files of every kind."""
    folder = Path(tempfile.mkdtemp(prefix="livedbg-names-"))
    folder.chmod(0o755)
    for name, text, mode in (("secret", SECRET, 0o600), ("public", PUBLIC, 0o644), ("team", PUBLIC, 0o640)):
        (folder / name).write_text(text)
        (folder / name).chmod(mode)
    os.chown(folder / "team", 0, TEAM)
    (folder / "own").write_text(PUBLIC)
    (folder / "own").chmod(0o600)
    os.chown(folder / "own", NOBODY, NOBODY)
    (folder / "link").symlink_to(folder / "secret")
    (folder / "good").symlink_to("public")
    (folder / "zero").symlink_to("/dev/zero")
    (folder / "magic").symlink_to("/proc/self/fd/0")
    (folder / "ours").symlink_to("/proc/self/maps")
    os.mkfifo(folder / "pipe", 0o666)
    (folder / "closed").mkdir(mode=0o700)
    (folder / "closed" / "log").write_text(SECRET)
    (folder / "closed" / "log").chmod(0o644)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def as_user() -> Iterator[Callable[..., int]]:
    """Starts a program as somebody, and gives its pid."""
    started: list[subprocess.Popen[bytes]] = []

    def run(uid: int = NOBODY, groups: tuple[int, ...] = (), **options: object) -> int:
        argv = ["/bin/sleep", "1000"]
        streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL} | options
        stdout, stderr = streams.pop("stdout"), streams.pop("stderr")
        process = subprocess.Popen(  # type: ignore[call-overload]
            argv, user=uid, group=uid, extra_groups=groups, stdout=stdout, stderr=stderr, **streams
        )
        started.append(process)
        return started[-1].pid

    yield run
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture(params=["openat2", "by hand"])
def _both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "by hand":
        monkeypatch.setattr(beneath, "_has_openat2", lambda: False)


def refused(path: Path | str) -> int:
    """Why a file is not opened."""
    with pytest.raises(OSError) as caught:
        os.close(open_fd(path))
    return caught.value.errno or 0


def paths(pid: int, path: Path) -> tuple[Path, Path, Path]:
    """A path as it is, from the root folder of a process, and from its working folder."""
    return path, Path(f"/proc/{pid}/root{path}"), Path(f"/proc/{pid}/cwd") / path.name


@pytest.mark.invariant("target_files.T1")
@pytest.mark.invariant("target_files.T2")
@pytest.mark.usefixtures("_both_ways")
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("secret", errno.EACCES),
        ("link", errno.EACCES),
        ("closed/log", errno.EACCES),
        ("team", errno.EACCES),
        ("pipe", errno.EINVAL),
        ("zero", errno.EINVAL),
        ("closed", errno.EINVAL),
    ],
)
def test_what_the_target_may_not_read_is_not_read_and_what_is_no_file_is_not_opened(
    place: Path, as_user: Callable[..., int], name: str, why: int
) -> None:
    """target_files.T1, T2: by every way to it."""
    pid = as_user(cwd=place)
    register(pid)
    for path in paths(pid, place / name)[: 2 if "/" in name else 3]:
        assert refused(path) == why


@pytest.mark.invariant("target_files.T3")
@pytest.mark.usefixtures("_both_ways")
@pytest.mark.parametrize("name", ["magic", "ours"])
def test_no_magic_link_is_followed_and_nothing_of_the_kernel_is_read(
    place: Path, as_user: Callable[..., int], name: str
) -> None:
    """target_files.T3: /proc/self would be livedbg's own."""
    pid = as_user(cwd=place)
    register(pid)
    for path in paths(pid, place / name):
        assert refused(path) in (errno.EACCES, errno.ELOOP, errno.EINVAL)


@pytest.mark.invariant("target_files.T2")
@pytest.mark.usefixtures("_both_ways")
def test_what_the_target_may_read_is_read(place: Path, as_user: Callable[..., int]) -> None:
    """target_files.T2: its own files, those of all, and those of its groups."""
    pid = as_user(groups=(TEAM,), cwd=place)
    register(pid)
    for name in ("public", "good", "own", "team"):
        assert {read_bytes(path).decode() for path in paths(pid, place / name)} == {PUBLIC}


@pytest.mark.invariant("target_files.T1")
def test_a_device_is_looked_at_and_not_opened(place: Path, as_user: Callable[..., int]) -> None:
    """target_files.T1: opening this one would say ENXIO or ENODEV, since no driver has it."""
    register(as_user())
    try:
        os.mknod(place / "device", stat.S_IFCHR | 0o666, os.makedev(10, 254))
    except PermissionError:
        pytest.skip("this container makes no devices")
    assert refused(place / "device") == errno.EINVAL
    target_files.forget()
    assert refused(place / "device") == errno.EINVAL


@pytest.mark.invariant("target_files.T2")
def test_folders_are_listed_as_the_target(place: Path, as_user: Callable[..., int]) -> None:
    """target_files.T2: a closed folder has nothing in it."""
    assert target_files.glob(place / "closed/*") == [place / "closed/log"]
    register(as_user())
    assert target_files.glob(place / "closed/*") == []
    assert target_files.matching(place / "closed", "*") == []
    assert [names for folder, _, names in target_files.walk(place) if folder.endswith("closed")] == []
    assert target_files.glob(f"{place}/p*") == [place / "pipe", place / "public"]
    with pytest.raises(PermissionError):
        target_files.entries(place / "closed")
    with pytest.raises(PermissionError):
        target_files.status(place / "closed/log")


@pytest.mark.usefixtures("_both_ways")
def test_a_link_is_no_file_where_none_is_wanted(place: Path, as_user: Callable[..., int]) -> None:
    """target_files: whoever looks at it, and by whichever way."""
    pid = as_user(cwd=place)
    for known in (False, True):
        if known:
            register(pid)
        for path in paths(pid, place / "good"):
            with pytest.raises(OSError, match="not a regular file"):
                open_fd(path, links=False)
        os.close(open_fd(place / "public", links=False))


def test_two_stars_are_all_folders_below(place: Path) -> None:
    """target_files: as pathlib has them."""
    (place / "a" / "b").mkdir(parents=True)
    for name in ("a/x.py", "a/b/x.py", "x.py"):
        (place / name).touch()
    assert target_files.matching(place, "**/*.py") == sorted(place.glob("**/*.py"))
    assert target_files.matching(place, "a/**/x.py") == sorted(place.glob("a/**/x.py"))


def test_walking_is_as_os_walk_does(place: Path) -> None:
    """With the rights of the user."""
    (place / "closed" / "to-a-folder").symlink_to(place)

    def seen(
        walk: Callable[[str], Iterator[tuple[str, list[str], list[str]]]],
    ) -> list[tuple[str, list[str], list[str]]]:
        return sorted((top, sorted(below), sorted(names)) for top, below, names in walk(str(place)))

    assert seen(target_files.walk) == seen(os.walk)


def test_walking_is_bounded_and_leaves_hidden_folders_out(tmp_path: Path) -> None:
    """In order, with a named file as the only one of its folder."""
    for name in ("b/c/d/file", "b/one", "a/two", ".hidden/three"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    named = [tmp_path / "b" / "one", tmp_path]
    seen = [folder / name for folder, _, files in target_files.walk_some(named, depth=2) for name in files]
    assert seen == [tmp_path / name for name in ("b/one", "a/two", "b/one")]
    assert len(list(target_files.walk_some([tmp_path], most=4))) == 2


@pytest.mark.parametrize("pattern", ["/logs/run*/rank0.log", "/logs/*", "/logs"])
def test_what_a_pattern_has_before_its_wildcards_is_a_path(pattern: str) -> None:
    assert target_files.without_wildcards(pattern) == Path("/logs")


@pytest.mark.invariant("target_files.T2")
def test_what_the_user_named_is_opened_as_the_user(place: Path, as_user: Callable[..., int]) -> None:
    """target_files.T2: also where a target named it too."""
    pid = as_user()
    register(pid)
    target_files.claim(place / "secret", pid)
    vouch(place / "closed")
    assert read_bytes(place / "closed/log").decode() == SECRET
    assert refused(place / "secret") == errno.EACCES
    vouch(place / "secret")
    assert read_bytes(place / "secret").decode() == SECRET


@pytest.mark.invariant("target_files.T2")
def test_of_two_users_nobody_reads_what_is_the_others(place: Path, as_user: Callable[..., int]) -> None:
    """target_files.T2: a path of which nobody knows who named it is open to both, or not read."""
    first, second = as_user(), as_user(DAEMON)
    register(first)
    register(second)
    assert refused(place / "own") == errno.EACCES
    assert read_bytes(place / "public").decode() == PUBLIC
    target_files.claim(place / "own", second)
    assert refused(place / "own") == errno.EACCES
    target_files.claim(place / "own", first)
    assert read_bytes(place / "own").decode() == PUBLIC


@pytest.mark.invariant("target_files.T2")
def test_a_target_that_has_ended_keeps_its_rights(place: Path, as_user: Callable[..., int]) -> None:
    """target_files.T2: its logs are read after its death as they were before."""
    pid = as_user()
    register(pid)
    os.kill(pid, 9)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert refused(place / "secret") == errno.EACCES
    assert read_bytes(place / "own").decode() == PUBLIC


@pytest.mark.invariant("target_files.T2")
def test_a_descriptor_that_may_only_be_written_is_not_read(place: Path, as_user: Callable[..., int]) -> None:
    """target_files.T2: standard output that root opened."""
    with (place / "secret").open("ab") as out, (place / "public").open("ab") as errors:
        pid = as_user(stdout=out, stderr=errors)
    assert refused(f"/proc/{pid}/fd/1") == errno.EACCES
    assert read_bytes(f"/proc/{pid}/fd/2").decode() == PUBLIC


@pytest.mark.invariant("target_files.T3")
@pytest.mark.usefixtures("_both_ways")
def test_no_path_leads_out_of_the_root_folder(place: Path) -> None:
    """target_files.T3: absolute links and `..` end there."""
    root = place / "root"
    (root / "srv").mkdir(parents=True)
    (root / "inside").write_text(PUBLIC)
    (root / "absolute").symlink_to("/inside")
    (root / "srv" / "up").symlink_to("../../../../../../inside")
    (root / "srv" / "out").symlink_to(place / "public")
    (root / "folder").symlink_to("/srv")
    code = "import os, sys, time\nos.chroot(sys.argv[1]); os.chdir('/srv'); os.setgroups([])\n"
    code += "os.setgid(65534); os.setuid(65534); print('READY', flush=True); time.sleep(1000)\n"
    with subprocess.Popen(
        [sys.executable, "-c", code, root], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "READY\n"
            for name in ("inside", "absolute", "srv/up", "folder/up", "../inside"):
                assert read_bytes(f"/proc/{process.pid}/root/{name}").decode() == PUBLIC
            assert read_bytes(f"/proc/{process.pid}/cwd/../inside").decode() == PUBLIC
            assert read_bytes(target_files.reached(process.pid, "/inside")).decode() == PUBLIC
            for name in ("srv/out", f"..{place}/public"):
                assert refused(f"/proc/{process.pid}/root/{name}") == errno.ENOENT
            assert refused(f"/proc/{process.pid}/cwd/out") == errno.ENOENT
        finally:
            process.kill()


@pytest.mark.invariant("target_files.T3")
@pytest.mark.usefixtures("_both_ways")
def test_a_link_of_a_third_user_where_everybody_writes_is_not_followed(
    place: Path, as_user: Callable[..., int]
) -> None:
    """target_files.T3: the target's own is, as those of glog are."""
    register(as_user())
    shared = place / "shared"
    shared.mkdir()
    for name, owner in (("own", NOBODY), ("strange", DAEMON), ("folder", 0)):
        (shared / name).symlink_to(place / "public")
        os.chown(shared / name, owner, owner, follow_symlinks=False)
    assert read_bytes(shared / "strange").decode() == PUBLIC
    shared.chmod(0o1777)
    assert read_bytes(shared / "own").decode() == PUBLIC
    assert read_bytes(shared / "folder").decode() == PUBLIC
    assert refused(shared / "strange") == errno.EACCES


@pytest.mark.invariant("target_files.T1")
@pytest.mark.parametrize("other", ["secret", "link", "pipe", "zero"])
def test_what_is_exchanged_between_the_look_and_the_opening_is_not_opened(
    place: Path, as_user: Callable[..., int], monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    """target_files.T1: what was looked at is opened, whatever has its name now."""
    register(as_user())
    place.chmod(0o777)
    shutil.copy(place / "public", place / "log")
    (place / "new").symlink_to(place / other)
    found = target_files.named_below

    def and_exchanged(root: int, path: str, uid: int, *, links: bool) -> int:
        fd = found(root, path, uid, links=links)
        (place / "new").replace(place / "log")
        return fd

    monkeypatch.setattr(target_files, "named_below", and_exchanged)
    assert read_bytes(place / "log").decode() == PUBLIC
    assert (place / "log").is_symlink()


@pytest.mark.invariant("target_files.T1")
@pytest.mark.invariant("target_files.T2")
def test_a_race_gives_nothing_away(place: Path, as_user: Callable[..., int]) -> None:
    """target_files.T1, T2: a file is exchanged for others as fast as can be, while it is opened again and again."""
    register(as_user())
    stop = threading.Event()

    def exchange() -> None:
        while not stop.is_set():
            for name in ("public", "secret", "zero", "pipe"):
                (place / "new").symlink_to(place / name)
                (place / "new").replace(place / "log")

    (place / "log").symlink_to(place / "public")
    racing = threading.Thread(target=exchange)
    racing.start()
    seen: dict[str, int] = {}
    try:
        for _ in range(1000):
            try:
                what = read_bytes(place / "log", 64).decode()
            except OSError as error:
                what = errno.errorcode[error.errno or 0]
            seen[what] = seen.get(what, 0) + 1
    finally:
        stop.set()
        racing.join()
    assert set(seen) <= {PUBLIC, "EACCES", "EINVAL", "ENOENT"}
    assert PUBLIC in seen


@pytest.mark.invariant("fs_identity.U1")
def test_the_rights_are_those_of_one_thread_for_a_moment() -> None:
    """fs_identity.U1: no other thread has them, the main thread never, and they are given back."""

    def seen() -> dict[int, tuple[str, str, str]]:
        found = {}
        for task in Path("/proc/self/task").iterdir():
            with contextlib.suppress(OSError):  # it has just ended
                fields = dict(line.split(":", 1) for line in (task / "status").read_text().splitlines())
                found[int(task.name)] = fields["Uid"].split()[3], fields["Gid"].split()[3], fields["Groups"].strip()
        return found

    before = seen()
    during = acting_as(FsIdentity(NOBODY, DAEMON, (TEAM,)), seen)
    assert [rights for rights in during.values() if rights == (str(NOBODY), str(DAEMON), str(TEAM))] != []
    assert during[os.getpid()] == before[os.getpid()]
    assert sum(rights not in before.values() for rights in during.values()) == 1
    assert set(seen().values()) == set(before.values())
    given: list[object] = []

    def fail() -> None:
        raise KeyError

    def elsewhere() -> None:
        own = threading.get_native_id()
        given.append(seen()[own])
        with pytest.raises(KeyError):
            acting_as(FsIdentity(NOBODY, NOBODY), fail)
        given.append(seen()[own])
        given.append(os.access("/proc/1/environ", os.R_OK, effective_ids=True))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert given == [before[os.getpid()], before[os.getpid()], True]


@pytest.mark.invariant("fs_identity.U2")
def test_without_the_right_to_act_as_another_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """fs_identity.U2: a container may have taken CAP_SETUID away; setfsuid(2) says nothing of it."""

    class Deaf:
        """The C library, whose setfsuid does nothing."""

        def __getattr__(self, name: str) -> object:
            return (lambda _: 0) if name == "setfsuid" else getattr(real, name)

    real, done = fs_identity._libc, []
    monkeypatch.setattr(fs_identity, "_libc", Deaf())
    with pytest.raises(PermissionError):
        acting_as(FsIdentity(NOBODY, NOBODY), lambda: done.append(1))
    assert done == []


def test_the_words_of_a_set_user_id_program_are_those_of_who_started_it() -> None:
    """fs_identity: its environment comes from there."""
    code = "import os, time\nos.setresuid(65534, 0, 0); print('READY', flush=True); time.sleep(1000)\n"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "READY\n"
            assert identity_of(process.pid).uid == NOBODY
        finally:
            process.kill()


VARIABLES = ("CUDA_LOG_FILE", "NCCL_DEBUG_FILE")


def livedbg(*words: object) -> str:
    """What a command prints."""
    done = run_livedbg(words, text=True)
    return str(done.stdout + done.stderr)


@pytest.fixture(params=["secret", "link", "closed/log", "pipe", "zero"])
def named(request: pytest.FixtureRequest, place: Path, as_user: Callable[..., int]) -> int:
    """A process of nobody that names a file that it can't read, and writes one that it can."""
    with (place / "own").open("w") as out:
        out.write('Traceback (most recent call last):\n  File "/x.py", line 1, in <module>\nRuntimeError: ALLOWED\n')
        out.flush()
        os.utime(out.fileno(), (time.time() - 60,) * 2)  # nothing more will come: its last record is complete
        return as_user(env={name: str(place / request.param) for name in VARIABLES}, stdout=out, cwd=place)


@pytest.mark.invariant("target_files.T2")
def test_a_report_by_root_has_only_what_the_target_can_read(named: int) -> None:
    """target_files.T2, end to end."""
    said = livedbg("report", named, "--json")
    assert "SESAME" not in said
    assert "ALLOWED" in said


@pytest.mark.invariant("target_files.T2")
def test_a_log_that_is_not_read_is_named_with_what_to_do(place: Path, as_user: Callable[..., int]) -> None:
    """target_files.T2: the standard output of a service, which root opened."""
    with (place / "secret").open("ab") as out:
        found = json.loads(livedbg("report", as_user(stdout=out, stderr=subprocess.DEVNULL), "--json"))
    (limit,) = [limit for limit in found["limits"] if limit["source"] == "logs"]
    assert limit["sentence"] == f"{place}/secret is not read: a target names it, and its user may not read it"
    assert limit["remedy"] == f"to read it as root: --logs {place}/secret"


@pytest.mark.invariant("target_files.T2")
def test_a_recording_by_root_has_only_what_the_target_can_read(named: int, tmp_path: Path) -> None:
    """target_files.T2, end to end."""
    livedbg("record", named, "-o", tmp_path / "r.livedbg", "--for", "1")
    said = livedbg("report", tmp_path / "r.livedbg", "--json")
    assert "SESAME" not in said
    assert "ALLOWED" in said


@pytest.mark.invariant("target_files.T2")
def test_what_root_names_beside_is_read(place: Path, as_user: Callable[..., int]) -> None:
    """target_files.T2: `--logs` is the user's word."""
    said = json.loads(livedbg("report", as_user(), "--logs", place / "secret", "--json"))
    assert "SESAME" in json.dumps(said["exceptions"])
