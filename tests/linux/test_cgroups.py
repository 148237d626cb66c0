"""Control groups: where their files are, and what they say, on texts, on a made-up tree and on real groups."""

from __future__ import annotations

from pathlib import Path

import pytest

from livedbg.adapters.proc.scene import Groups
from livedbg.linux import cgroups
from livedbg.linux.cgroups import Group, Membership, Mount, directories, parse_memberships, parse_mounts

V2 = Mount(frozenset(), "/", "/sys/fs/cgroup")
FREEZER = Mount(frozenset({"rw", "freezer"}), "/", "/cg/freezer")


def test_the_groups_of_a_process_are_read_also_with_colons_and_blanks_in_their_names() -> None:
    text = b"4:cpu,cpuacct:/a:b c\n1:name=systemd:/\nnonsense\n0::/x/../y\n"
    assert parse_memberships(text) == [
        Membership(frozenset({"cpu", "cpuacct"}), "/a:b c"),
        Membership(frozenset({"name=systemd"}), "/"),
        Membership(frozenset(), "/x/../y"),
    ]


def test_the_mounts_of_hierarchies_are_read_with_blanks_in_their_paths() -> None:
    text = (
        b"31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
        b"32 31 0:29 /docker/a\\040b /cg\\040x rw shared:3 master:1 - cgroup cgroup rw,cpu,cpuacct\n"
        b"garbage\n"
        b"41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
    )
    assert parse_mounts(text) == [Mount(frozenset({"rw", "cpu", "cpuacct"}), "/docker/a b", "/cg x"), V2]


@pytest.mark.parametrize(
    ("path", "root", "found"),
    [
        ("/a/b", "/", ("/m/a/b", "/m/a", "/m")),
        ("/", "/", ("/m",)),
        ("/docker/a", "/docker/a", ("/m",)),  # a container without a cgroup namespace
        ("/docker/a/x", "/docker/a", ("/m/x", "/m")),
        ("/docker/ab", "/docker/a", ()),  # its neighbour
        ("/../b", "/", ()),  # out of our namespace
        ("/../b/c", "/../b", ("/m/c", "/m")),  # by the mounts of the process itself
    ],
)
def test_a_group_is_found_below_what_is_mounted_and_nowhere_else(path: str, root: str, found: tuple[str, ...]) -> None:
    group = Membership(frozenset({"cpu"}), path)
    assert directories(group, [V2, Mount(frozenset({"rw", "cpu"}), root, "/m")]) == found
    inside = [Mount(frozenset({"cpu"}), root, "/m")]
    assert directories(group, inside, "/proc/7/root") == tuple(f"/proc/7/root{place}" for place in found)
    assert directories(group, [V2]) == ()


def test_what_our_own_mounts_do_not_reach_is_read_by_the_mounts_of_the_process(tmp_path: Path) -> None:
    inner = tmp_path / "0" / "root" / "cg"
    inner.mkdir(parents=True)
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "mountinfo").write_text("41 31 0:38 / /nowhere-at-all rw - cgroup2 cgroup2 rw\n")
    (tmp_path / "0" / "mountinfo").write_text("41 31 0:38 /../b /cg rw - cgroup2 cgroup2 rw\n")
    (tmp_path / "0" / "cgroup").write_text("0::/../b\n")
    group = cgroups.view_of(0, str(tmp_path))
    assert group is not None
    assert group.unified == (str(inner),)
    assert group.readable


@pytest.mark.invariant("cgroups.C1")
def test_C1_what_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    assert cgroups.view_of(0, str(tmp_path)) is None
    unseen = Group("/x", (str(tmp_path / "gone"),), ())
    assert not unseen.readable
    assert cgroups.read_memory(unseen) is None
    assert not Group("/x", (), ()).readable


def made_up(place: Path, **files: str) -> str:
    """A directory of a group, with files whose dots are written as two underscores."""
    place.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (place / name.replace("__", ".")).write_text(f"{text}\n")
    return str(place)


@pytest.mark.invariant("cgroups.C2")
def test_C2_limits_and_freezes_of_ancestors_count(tmp_path: Path) -> None:
    top = made_up(tmp_path, cpu__max="50000 100000", cpu__stat="nr_periods 9\nnr_throttled 4", memory__max="100")
    made_up(tmp_path, memory__current="99", memory__events="oom_kill 2", cgroup__freeze="1")
    own = made_up(tmp_path / "a", cpu__max="max 100000", cgroup__events="populated 1\nfrozen 1", cgroup__freeze="0")
    made_up(tmp_path / "a", memory__max="max", memory__current="98", memory__pressure="full avg10=41.00 total=3")
    group = Group("/a", (own, top), ())
    assert cgroups.read_frozen(group) == f"{top}/cgroup.freeze"
    (limit,) = cgroups.read_cpu(group)
    assert (limit.cores, limit.periods, limit.throttled, limit.control) == (0.5, 9, 4, f"{top}/cpu.max")
    memory = cgroups.read_memory(group)
    assert memory is not None
    assert (memory.used, memory.limit, memory.kills, memory.stalled) == (99, 100, 2, 0.41)


def test_version_1_says_the_same_in_other_files(tmp_path: Path) -> None:
    frozen = made_up(tmp_path / "f", freezer__state="FROZEN", freezer__self_freezing="0")
    top = made_up(tmp_path / "F", freezer__state="FROZEN", freezer__self_freezing="1")
    cpu = made_up(tmp_path / "c", cpu__cfs_quota_us="20000", cpu__cfs_period_us="100000", cpu__stat="nr_periods 5")
    free = made_up(tmp_path / "C", cpu__cfs_quota_us="-1", cpu__cfs_period_us="100000", cpu__stat="nr_periods 5")
    full = made_up(tmp_path / "m", memory__limit_in_bytes="9223372036854771712", memory__usage_in_bytes="7")
    made_up(tmp_path / "m", memory__oom_control="oom_kill_disable 1\nunder_oom 1\noom_kill 0")
    group = Group("/x", (), (("freezer", (frozen, top)), ("cpu", (cpu, free)), ("memory", (full,))))
    assert cgroups.read_frozen(group) == f"{top}/freezer.state"
    assert [limit.cores for limit in cgroups.read_cpu(group)] == [0.2]
    memory = cgroups.read_memory(group)
    assert memory is not None
    assert (memory.limit, memory.under_oom) == (None, True)


def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: Group) -> Groups:
    """Groups that see one made-up group, whatever the process, and read it each time."""
    del tmp_path
    monkeypatch.setattr("livedbg.adapters.proc.scene.view_of", lambda _: group)
    monkeypatch.setattr("livedbg.adapters.proc.scene._GROUPS_FRESH_S", 0.0)
    return Groups("box")


def state_of(groups: Groups) -> str | None:
    resource = groups.resource(1)
    return resource.state if resource is not None else None


@pytest.mark.invariant("groups.G1")
def test_G1_only_what_rises_while_it_is_watched_is_a_throttled_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = made_up(tmp_path, cpu__max="50000 100000", cpu__stat="nr_periods 1000\nnr_throttled 900")
    made_up(tmp_path, memory__current="1", memory__max="9", memory__events="oom_kill 3")
    groups = watched(tmp_path, monkeypatch, Group("/pod", (own,), ()))
    assert state_of(groups) is None
    made_up(tmp_path, cpu__stat="nr_periods 1001\nnr_throttled 901")
    assert state_of(groups) is None  # one period says nothing
    made_up(tmp_path, cpu__stat="nr_periods 1020\nnr_throttled 905")
    assert state_of(groups) is None  # throttled now and then, as any pod is
    made_up(tmp_path, cpu__stat="nr_periods 1100\nnr_throttled 990")
    assert state_of(groups) == "throttled"
    made_up(tmp_path, cpu__stat="nr_periods 9100\nnr_throttled 991", memory__events="oom_kill 4")
    assert state_of(groups) == "tasks killed for memory"


@pytest.mark.invariant("groups.G2")
def test_G2_a_full_group_is_no_trouble_unless_its_tasks_wait_for_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = made_up(tmp_path, memory__current="100", memory__max="100", memory__events="max 5000\noom_kill 0")
    made_up(tmp_path, memory__pressure="some avg10=30.00 total=1\nfull avg10=3.00 total=1")
    groups = watched(tmp_path, monkeypatch, Group("/pod", (own,), ()))
    assert state_of(groups) is None
    made_up(tmp_path, memory__pressure="some avg10=90.00 total=1\nfull avg10=63.00 total=1")
    assert state_of(groups) == "short of memory"
    made_up(tmp_path, memory__pressure="full avg10=nonsense")
    assert state_of(groups) is None
