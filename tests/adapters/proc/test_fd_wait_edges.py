"""What a wait for a descriptor becomes, from tables: who has the other end, who could end it, what can't be seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from livedbg.adapters.proc import fd_waits
from livedbg.adapters.proc.fd_waits import FdWaits
from livedbg.adapters.proc.scene import Scene
from livedbg.adapters.proc.view import ProcessView
from livedbg.adapters.proc.waits import Waited, Wakers
from livedbg.linux.descriptors import Descriptor, DescriptorIndex, Holder
from livedbg.linux.sockets import Socket, SocketTable
from tests.adapters.proc.test_lock_wait_edges import ABI, GLIBC, Numbers

PID = 7
PIPE = Descriptor(3, "pipe", "pipe:[90]", "pipe:[90]", 90)
FIFO = Descriptor(3, "pipe", "/tmp/fifo", "/tmp/fifo", 90)
SOCKET = Descriptor(5, "socket", "socket:[50]", "socket:[50]", 50)
EVENT = Descriptor(6, "eventfd", "anon_inode:[eventfd]", "eventfd:60", 60)
TCP = Socket(50, "tcp", "10.0.0.1:80", "10.0.0.2:99", "established", False)


class Index(DescriptorIndex):
    """Who has what open, as a test says."""

    def __init__(self, on: Machine) -> None:
        self.on = on

    def holders(self, descriptor: Descriptor) -> list[Holder]:
        return [Holder(*row) for row in self.on.holders.get(descriptor.key, ())]

    def sockets(self, inode: int) -> list[int]:
        return list(self.on.users.get(inode, ()))

    def epolls(self, fd: int) -> list[int]:
        return list(self.on.epolls.get(fd, ()))


class Table(SocketTable):
    def __init__(self, on: Machine) -> None:
        self.on = on

    def get(self, inode: int) -> Socket | None:
        return self.on.sockets.get(inode)

    def peer(self, end: Socket) -> int | None:
        return self.on.peers.get(end.inode)

    def accepting(self, end: Socket) -> list[int]:
        return list(self.on.accepting.get(end.inode, ()))

    def accepted(self, listening: Socket) -> list[Socket]:
        return [one for one in self.on.sockets.values() if one.local == listening.local and not one.listening]


class Tables(Scene):
    def __init__(self, on: Machine) -> None:
        super().__init__("box")
        self.on = on

    def index(self) -> DescriptorIndex:
        return Index(self.on)

    def sockets(self, pid: int) -> SocketTable:
        assert pid == PID
        return Table(self.on)


@dataclass
class Machine:
    """What a test says of a machine; `reasons` are those of processes that handle signals and the like."""

    descriptors: Mapping[int, Descriptor] = field(default_factory=dict)
    holders: Mapping[str, Sequence[tuple[int, int, str]]] = field(default_factory=dict)
    users: Mapping[int, Sequence[int]] = field(default_factory=dict)
    sockets: Mapping[int, Socket] = field(default_factory=dict)
    peers: Mapping[int, int] = field(default_factory=dict)
    accepting: Mapping[int, Sequence[int]] = field(default_factory=dict)
    epolls: Mapping[int, Sequence[int]] = field(default_factory=dict)
    info: Mapping[int, Sequence[tuple[str, str]]] = field(default_factory=dict)
    reasons: Mapping[int, str] = field(default_factory=dict)
    unix: Mapping[int, int] = field(default_factory=dict)
    same: bool | None = True

    def waits(self, monkeypatch: pytest.MonkeyPatch) -> FdWaits:
        """The waits of process 7 on it."""

        def fdinfo(pid: int, fd: int) -> list[tuple[str, str]]:
            if fd not in self.info:
                raise FileNotFoundError
            return list(self.info[fd])

        monkeypatch.setattr(fd_waits, "describe", lambda _, fd: self.descriptors.get(fd))
        monkeypatch.setattr(fd_waits, "fdinfo", fdinfo)
        monkeypatch.setattr(fd_waits, "unix_peer", self.unix.get)
        monkeypatch.setattr(fd_waits, "same_network", lambda _: True)
        monkeypatch.setattr(fd_waits, "same_file", lambda *_: self.same)
        monkeypatch.setattr("livedbg.adapters.proc.wakers.wakers", lambda pid: self.reasons.get(pid, ""))
        monkeypatch.setattr("livedbg.adapters.proc.wakers.driven", lambda _: "")
        monkeypatch.setattr(fd_waits, "awaited_idly", lambda *words: f"{words[0]} {words[2]}")
        return FdWaits(ProcessView(Tables(self), PID, ABI, GLIBC, Numbers(), []))

    def one(self, fd: int, direction: str, monkeypatch: pytest.MonkeyPatch, *, polled: bool = False) -> Waited:
        """The only thing that a wait for a descriptor waits for."""
        [waited] = self.waits(monkeypatch).waited(fd, direction, polled=polled)
        return waited


def entities(waited: Waited) -> list[str]:
    return [holding.entity.rpartition("/")[2] for holding in waited.holders]


def attributes(waited: Waited) -> dict[str, str]:
    assert waited.resource is not None
    return waited.resource.shown()


def pipe(*holders: tuple[int, int, str], found: Descriptor = PIPE, **more: Mapping[int, str]) -> Machine:
    return Machine({3: found}, {found.key: holders}, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("direction", "held_by", "end", "state"), [("r", ["8", "9"], "write", "empty"), ("w", ["7", "8"], "read", "full")]
)
def test_a_pipe_is_served_by_those_who_have_its_other_end(
    direction: str, held_by: list[str], end: str, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited = pipe((9, 4, "w"), (8, 3, "r"), (8, 4, "w"), (7, 3, "r")).one(3, direction, monkeypatch)
    assert entities(waited) == held_by
    assert waited.holders[0].evidence == f"has the {end} end of pipe:[90] open (pid {held_by[0]})"
    assert waited.resource is not None
    assert (waited.target, waited.resource.state) == ("pipe:box/90", state)
    assert waited.resource.name == "pipe 3 of 7"
    assert attributes(waited) == {"readers": "7 8", "writers": "8 9"}
    assert waited.wakers == Wakers(frozenset(map(int, held_by)))
    assert waited.evidence == f"fd 3 -> pipe:[90], waits until it is not {state}"


def test_an_end_for_both_serves_it_and_may_be_a_way_to_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = pipe((7, 3, "rw"), (8, 3, "r"))
    for direction, expected in (("r", ["7"]), ("w", ["7", "8"])):
        waited = machine.one(3, direction, monkeypatch)
        assert entities(waited) == expected
        assert attributes(waited)["outside"] == "process 7 has it open for reading and writing"
        assert waited.wakers.outside == "process 7 has it open for reading and writing"


def test_a_fifo_can_be_opened_by_anybody(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = pipe((7, 3, "r"), (8, 3, "w"), found=FIFO).one(3, "r", monkeypatch)
    assert attributes(waited)["outside"] == "any process that may open /tmp/fifo can serve it"
    assert waited.wakers.outside == "any process that may open /tmp/fifo can serve it"
    assert waited.resource is not None and waited.resource.name == "/tmp/fifo"


def test_what_the_holder_of_an_end_handles_ends_the_wait_too(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = pipe((7, 3, "r"), (8, 3, "w"), reasons={8: "handles SIGTERM", 7: "has a timer"})
    waited = machine.one(3, "r", monkeypatch)
    assert attributes(waited)["outside"] == "process 8 handles SIGTERM"
    assert waited.wakers == Wakers(frozenset({8}))  # what its process handles is told of the process


def test_a_pipe_whose_other_end_nobody_is_seen_to_have(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = pipe((7, 3, "r"), reasons={7: "has a timer"}).one(3, "r", monkeypatch)
    assert waited.holders == ()
    assert attributes(waited) == {"readers": "7", "writers": ""}
    assert waited.wakers == Wakers(outside="no process that can be seen has the other end of pipe 3")


@pytest.mark.parametrize(("polled", "holders"), [(True, []), (False, ["7"])])
def test_an_own_other_end_that_is_polled_is_a_way_to_wake_up(
    polled: bool, holders: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = pipe((7, 3, "r"), (7, 4, "w"), reasons={7: "has a timer"})
    waited = machine.one(3, "r", monkeypatch, polled=polled)
    assert entities(waited) == holders
    assert attributes(waited).get("wake-up") == ("other end in the same process" if polled else None)
    assert attributes(waited).get("outside") == (None if polled else "process 7 has a timer")
    assert waited.wakers == Wakers(frozenset({7}))
    shared = pipe((7, 3, "r"), (7, 4, "w"), (8, 4, "w"))
    assert entities(shared.one(3, "r", monkeypatch, polled=True)) == ["7", "8"]


def test_a_socket_is_served_by_its_other_end_and_could_be_shut_down_by_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine({5: SOCKET}, users={50: [6, 7], 51: [9, 8]}, sockets={50: TCP}, peers={50: 51})
    waited = machine.one(5, "r", monkeypatch)
    assert entities(waited) == ["8", "9"]
    assert waited.holders[0].evidence == "has the other end open, socket:[51] (pid 8)"
    assert waited.wakers == Wakers(frozenset({6, 7, 8, 9}))
    assert waited.evidence == "fd 5 -> socket:[50] 10.0.0.1:80 - 10.0.0.2:99 established, waits for data"
    assert attributes(waited) == {"protocol": "tcp", "local": "10.0.0.1:80", "peer": "process 8 process 9"}
    assert waited.resource is not None
    assert (waited.resource.name, waited.resource.state) == ("tcp socket 5 of 7", "established")
    assert machine.one(5, "w", monkeypatch).evidence.endswith(", waits for room")
    handles = Machine({5: SOCKET}, users=machine.users, sockets={50: TCP}, peers={50: 51}, reasons={9: "has a timer"})
    assert attributes(handles.one(5, "r", monkeypatch))["outside"] == "process 9 has a timer"


def test_a_connection_that_nobody_has_accepted_is_served_by_who_may_accept_it(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine({5: SOCKET}, users={50: [7], 60: [8], 61: [9]}, sockets={50: TCP}, accepting={50: [60, 61]})
    waited = machine.one(5, "r", monkeypatch)
    assert entities(waited) == ["8", "9"] and waited.wakers == Wakers(frozenset({7, 8, 9}))
    assert waited.holders[0].evidence == "has not accepted the connection, in the queue of socket:[60] (pid 8)"


def test_a_socket_counts_the_process_that_waits_even_if_the_index_is_older(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine({5: SOCKET}, users={51: [8]}, sockets={50: TCP}, peers={50: 51})
    assert machine.one(5, "r", monkeypatch).wakers == Wakers(frozenset({7, 8}))


@pytest.mark.parametrize(
    ("socket", "peers", "outside", "wants"),
    [
        (TCP, {}, "no process that can be seen has the other end of socket 5", "data"),
        (TCP._replace(datagram=True), {50: 51}, "a datagram that anyone sends to socket 5", "data"),
        (TCP._replace(listening=True), {50: 51}, "a connection to socket 5", "a connection"),
        (TCP._replace(listening=True, datagram=True), {}, "a connection to socket 5", "a connection"),
    ],
)
def test_a_socket_that_others_may_serve(
    socket: Socket, peers: Mapping[int, int], outside: str, wants: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine({5: SOCKET}, users={50: [7], 51: [8]}, sockets={50: socket}, peers=peers)
    waited = machine.one(5, "r", monkeypatch)
    assert waited.wakers == Wakers(outside=outside)
    assert waited.evidence.endswith(f", waits for {wants}")
    assert (attributes(waited).get("listening") == "yes") == socket.listening
    assert entities(waited) == (["8"] if peers and not socket.listening else [])
    assert attributes(waited)["peer"] == ("process 8" if peers and not socket.listening else "10.0.0.2:99")


def test_the_other_end_of_a_unix_socket_is_asked_of_the_kernel_in_our_own_network_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unix = Socket(50, "unix", "", "", "established", False)
    machine = Machine({5: SOCKET}, users={51: [8], 52: [9]}, sockets={50: unix}, peers={50: 52}, unix={50: 51})
    waited = machine.one(5, "r", monkeypatch)
    assert entities(waited) == ["8"]
    assert attributes(waited) == {"protocol": "unix", "peer": "process 8"}
    assert waited.evidence == "fd 5 -> socket:[50] established, waits for data"
    elsewhere = machine.waits(monkeypatch)
    monkeypatch.setattr(fd_waits, "same_network", lambda _: False)
    [waited] = elsewhere.waited(5, "r", polled=False)
    assert waited.wakers == Wakers(outside="no process that can be seen has the other end of socket 5")


def test_a_socket_of_no_table_has_an_end_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = Machine({5: SOCKET}).one(5, "r", monkeypatch)
    assert waited.wakers == Wakers(outside="socket 5 has an end outside (netlink, or another network)")
    assert waited.resource is not None and waited.resource.state is None
    assert waited.holders == ()


@pytest.mark.parametrize(("polled", "holders"), [(False, ["7"]), (True, [])])
def test_an_eventfd_of_one_process(polled: bool, holders: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    waited = Machine({6: EVENT}, reasons={7: "has a timer"}).one(6, "r", monkeypatch, polled=polled)
    assert entities(waited) == holders
    assert (waited.target, waited.wakers) == ("eventfd:box/60", Wakers(frozenset({7})))
    assert attributes(waited).get("outside") == (None if polled else "process 7 has a timer")


def test_an_eventfd_of_two_processes_and_one_that_the_kernel_does_not_number(monkeypatch: pytest.MonkeyPatch) -> None:
    two = Machine({6: EVENT}, {"eventfd:60": [(8, 4, "rw")]}).one(6, "r", monkeypatch, polled=True)
    assert (entities(two), two.wakers) == (["7", "8"], Wakers(frozenset({7, 8})))
    assert two.holders[0].evidence == "has eventfd:60 open (pid 7)"
    unnumbered = Machine({6: EVENT._replace(key="", number=0)}).one(6, "r", monkeypatch)
    assert unnumbered.target == "eventfd:box/7.6"
    assert unnumbered.wakers == Wakers(frozenset({7}), outside="this kernel does not say who has eventfd 6 open")
    assert unnumbered.evidence == "fd 6 -> anon_inode:[eventfd] id 7.6"


def epoll(fd: int) -> Descriptor:
    return Descriptor(fd, "epoll", "anon_inode:[eventpoll]", "", 0)


def member(fd: int, events: int, inode: int | None = None) -> tuple[str, str]:
    """A row of fdinfo; the numbers are hexadecimal but for the descriptor (fs/eventpoll.c, ep_show_fdinfo)."""
    return "tfd", f"{fd:>8} events: {events:>8x} data: 5" + (f"  pos:0 ino:{inode:x} sdev:8" if inode else "")


@pytest.mark.parametrize(
    ("events", "way"), [(0x19, "r"), (0x1C, "w"), (0x1D, "r"), (0x80000004, "w"), (0x18, "r"), (0x2, "r"), (0x8, "r")]
)
def test_a_member_of_an_epoll_set_is_written_to_if_it_is_not_read(
    events: int, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Machine({3: PIPE}, info={4: [("pos", "0"), member(3, events, 90)]}).waits(monkeypatch)
    assert found.epoll_set(4) == [(3, way)]
    assert found.gap == ""


def test_rows_that_are_no_members_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("tfd", "3 events:"), ("tfd", "3 other: 1 x"), ("flags", "3 events: 1"), ("tfd", "3 events: 1")]
    assert Machine({3: PIPE}, info={4: rows}).waits(monkeypatch).epoll_set(4) == [(3, "r")]
    assert Machine({3: PIPE}).waits(monkeypatch).epoll_set(4) == []


CLOSED = "its epoll set has a file that was closed as descriptor 3"


@pytest.mark.parametrize(
    ("found", "inode", "gap"),
    [
        (PIPE, 90, ""),
        (PIPE, 91, CLOSED),
        (PIPE, None, ""),  # before Linux 4.14
        (None, 90, CLOSED),
        (SOCKET._replace(fd=3), 91, CLOSED),
        (Descriptor(3, "file", "/tmp/f", "", 90), 91, CLOSED),
        (Descriptor(3, "eventfd", "anon_inode:[eventfd]", "eventfd:1", 1), 91, ""),  # all have one inode
    ],
)
def test_a_member_may_have_been_closed_under_its_number(
    found: Descriptor | None, inode: int | None, gap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = Machine({3: found} if found else {}, info={4: [member(3, 1, inode)]}).waits(monkeypatch)
    waits.epoll_set(4)
    assert waits.gap == gap


def test_the_members_of_a_set_are_polled_and_sets_in_sets_are_followed_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    sets = {fd: epoll(fd) for fd in (10, 11, 12, 13)}
    info = {
        10: [member(11, 1), member(3, 1)],
        11: [member(12, 1), member(5, 4)],
        12: [member(13, 1), member(6, 1)],
        13: [member(7, 1)],
    }
    machine = Machine(
        {3: PIPE, 5: SOCKET, 6: EVENT, 7: EVENT._replace(number=70), **sets},
        {PIPE.key: [(7, 3, "r"), (7, 4, "w")]},
        sockets={50: TCP},
        info=info,
    )
    waits = machine.waits(monkeypatch)
    found = waits.epoll_members(10)
    assert [waited.target for waited in found] == ["eventfd:box/60", "socket:box/50", "pipe:box/90"]
    assert all(waited.holders == () for waited in found)  # its own other ends, polled
    assert waits.gap == "an epoll set lies in another one"
    nested = machine.waits(monkeypatch).waited(11, "r", polled=True)  # itself one set in another
    assert [waited.target for waited in nested] == ["eventfd:box/60", "socket:box/50"]
    deeper = machine.waits(monkeypatch)
    assert deeper.waited(13, "r", polled=True, depth=2) == []
    assert deeper.gap == "an epoll set lies in another one"
    assert [w.target for w in machine.waits(monkeypatch).waited(12, "r", polled=True, depth=1)] == ["eventfd:box/60"]


@pytest.mark.parametrize(("same", "found"), [(True, {8, 9}), (None, {8, 9}), (False, set())])
def test_an_epoll_set_is_shared_unless_the_kernel_says_that_it_is_another_one(
    same: bool | None, found: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = Machine(epolls={4: [7, 8, 9], 5: [6]}, same=same).waits(monkeypatch)
    assert waits.sharers(4) == found


@pytest.mark.parametrize(
    ("rows", "pid"),
    [
        ([("pos", "0"), ("Pid", "12"), ("NSpid", "1")], 12),
        ([("Pid", "-1")], None),  # it has ended and was waited for
        ([("Pid", "0")], None),  # of another PID namespace
        ([("Pid", "1")], 1),
        ([("NSpid", "12")], None),
    ],
)
def test_a_pidfd_waits_for_the_end_of_a_process(
    rows: list[tuple[str, str]], pid: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = Machine({4: Descriptor(4, "pidfd", "anon_inode:[pidfd]", "", 0)}, info={4: rows}).waits(monkeypatch)
    found = waits.waited(4, "r", polled=True)
    assert [(w.target, w.wakers) for w in found] == (
        [] if pid is None else [(f"process:box/{pid}", Wakers(frozenset({pid})))]
    )
    assert waits.gap == ("" if pid else "pidfd 4 names no process that can be seen")


def test_a_timer_that_will_fire_is_seen_whatever_comes_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    timers = {fd: Descriptor(fd, "timerfd", "anon_inode:[timerfd]", "", 0) for fd in (4, 5, 6)}
    info = {4: [("it_value", "(0, 0)"), ("ticks", "(1, 1)")], 5: [("it_value", "(0, 1)")]}
    waits = Machine(timers, info=info).waits(monkeypatch)
    for fd, armed in ((4, False), (6, False), (5, True), (4, True)):
        assert waits.waited(fd, "r", polled=True) == []
        assert waits.armed_timer is armed


def test_a_descriptor_that_can_t_be_seen_is_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = Machine().waits(monkeypatch)
    assert (waits.waited(4, "r", polled=False), waits.gap) == ([], "descriptor 4 can't be seen")
    assert (waits.name(4), waits.socket_address(4), waits.time_limit(4, "r")) == ("descriptor 4", None, None)


@pytest.mark.parametrize(
    ("kind", "link", "source"),
    [
        ("tty", "/dev/pts/3", "a key of /dev/pts/3"),
        ("signalfd", "anon_inode:[signalfd]", "a signal"),
        ("inotify", "anon_inode:inotify", "inotify 4"),
        ("other", "/dev/fuse", "/dev/fuse"),
    ],
)
def test_a_file_is_served_from_outside(kind: str, link: str, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    waited = Machine({4: Descriptor(4, kind, link, "", 9)}).one(4, "r", monkeypatch)
    assert waited.wakers == Wakers(outside=source)
    assert waited.target == "file:box/7.4"
    assert (attributes(waited)["what"], attributes(waited)["idle"]) == (kind, "7 r")


def test_descriptors_are_named_by_their_kind_or_path(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = ("pipe", "socket", "eventfd", "epoll", "timerfd", "signalfd", "pidfd", "inotify")
    found = {fd: Descriptor(fd, kind, "x", "", 0) for fd, kind in enumerate(kinds)}
    waits = Machine(found | {20: Descriptor(20, "tty", "/dev/pts/0", "", 0)}).waits(monkeypatch)
    assert [waits.name(fd) for fd in found] == [f"{kind} {fd}" for fd, kind in enumerate(kinds)]
    assert waits.name(20) == "/dev/pts/0"


@pytest.mark.parametrize(("length", "shown"), [(200, "/" + 199 * "x"), (201, "/" + 198 * "x" + "…")])
def test_a_long_path_is_cut(length: int, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = "/" + (length - 1) * "x"
    machine = Machine({4: Descriptor(4, "tty", path, "", 9), 3: FIFO._replace(link=path)})
    waits = machine.waits(monkeypatch)
    assert waits.name(4) == shown
    tty, pipe = waits.waited(4, "r", polled=False)[0], waits.waited(3, "r", polled=False)[0]
    assert (tty.wakers.outside, attributes(tty)["path"]) == (f"a key of {shown}", shown)
    assert pipe.resource is not None and pipe.resource.name == shown
    address = Machine({5: SOCKET}, sockets={50: TCP._replace(local=path)}).waits(monkeypatch)
    assert address.socket_address(5) == shown


def test_only_a_socket_has_an_address_and_a_time_limit_is_of_the_socket_that_was_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = Machine({5: SOCKET, 6: PIPE._replace(number=50)}, sockets={50: TCP}).waits(monkeypatch)
    assert (there.socket_address(5), there.socket_address(6)) == ("10.0.0.1:80", None)
    nameless = Machine({5: SOCKET}, sockets={50: TCP._replace(local="")}).waits(monkeypatch)
    assert nameless.socket_address(5) is None
    assert Machine({5: SOCKET}).waits(monkeypatch).socket_address(5) is None
    monkeypatch.setattr(fd_waits, "time_limit_s", lambda *asked: asked)
    assert there.time_limit(5, "w") == (PID, 5, 50, "w")  # type: ignore[comparison-overlap]
