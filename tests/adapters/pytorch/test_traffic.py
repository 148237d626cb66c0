"""Connections between ranks, and where they meet, as the kernel lists them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

from livedbg.adapters.pytorch.collectives.tasks import meeting_of
from livedbg.adapters.pytorch.collectives.traffic import bytes_under_way
from tests.conftest import eventually

PID = os.getpid()


def test_bytes_that_nobody_has_read_are_under_way() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        with accepted:
            eventually(lambda: not bytes_under_way(PID, PID))
            client.sendall(b"half of a tensor")
            eventually(lambda: bytes_under_way(PID, PID))
            assert accepted.recv(64)
            eventually(lambda: not bytes_under_way(PID, PID))


def test_what_cant_be_seen_may_be_under_way() -> None:
    assert bytes_under_way(PID, 1 << 30)


def test_who_else_is_connected_where_ranks_meet() -> None:
    program = (
        "import socket, sys\n"
        "with socket.create_connection(('127.0.0.1', int(sys.argv[1]))):\n"
        "    print('up', flush=True); sys.stdin.read()"
    )
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        port = str(server.getsockname()[1])
        where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        accepted = [server.accept()[0]]
        pipe = subprocess.PIPE
        with subprocess.Popen(
            [sys.executable, "-c", program, port], stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL
        ) as other:
            accepted.append(server.accept()[0])
            assert other.stdout is not None and other.stdout.readline() == b"up\n"
            alone, both = meeting_of(PID, where), meeting_of(PID, where, [other.pid])
            other.stdin.close()  # type: ignore[union-attr]
        assert alone is not None and both is not None and (alone.others, both.others) == (1, 0)
        for one in accepted:
            one.close()


def test_where_ranks_meet_and_whether_somebody_listens_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
        port = str(server.getsockname()[1])
        place = meeting_of(PID, {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port})
        assert place is not None
        assert (place.address, place.deserted, place.hosts) == (f"127.0.0.1:{port}", False, ())
    gone = meeting_of(PID, {"MASTER_ADDR": "localhost", "MASTER_PORT": port})
    assert gone is not None and gone.deserted
    far = meeting_of(PID, {"MASTER_ADDR": "10.1.2.3", "MASTER_PORT": port})
    assert far is not None and not far.deserted
    assert meeting_of(PID, {"MASTER_ADDR": "10.1.2.3"}) is None is meeting_of(PID, {"MASTER_PORT": port})
