"""Servers and who waits for them, one situation per word: in some of them nobody answers any more."""

from __future__ import annotations

import fcntl
import os
import select
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

REQUEST = 20_000


def listener() -> socket.socket:
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen()
    return server


def ask(server: socket.socket) -> None:
    """A client that waits for an answer."""
    client = socket.create_connection(server.getsockname())
    server.close()
    client.sendall(b"x" * REQUEST)
    print("READY", flush=True)
    client.recv(1)


def reads_once(server: socket.socket) -> None:
    """Told only once that there is something to read, and reads a part of it."""
    edges = select.epoll()
    edges.register(server, select.EPOLLIN)
    client = None
    while True:
        for number, _ in edges.poll():
            if number == server.fileno():
                client, _ = server.accept()
                time.sleep(0.3)
                edges.register(client, select.EPOLLIN | select.EPOLLET)
            elif client is not None:
                client.recv(4096)


def handler_ends(server: socket.socket) -> None:
    """The thread that should answer ends without an answer."""
    kept = []

    def handle(client: socket.socket) -> None:
        left = REQUEST
        while left:
            left -= len(client.recv(left))

    while True:
        client, _ = server.accept()
        kept.append(client)
        threading.Thread(target=handle, args=(client,)).start()


def pushes(server: socket.socket) -> None:
    """Healthy: takes all that comes, and tells each client what is new."""
    descriptors = select.epoll()
    descriptors.register(server, select.EPOLLIN)
    clients: dict[int, socket.socket] = {}
    while True:
        for number, _ in descriptors.poll():
            if number == server.fileno():
                client, _ = server.accept()
                clients[client.fileno()] = client
                descriptors.register(client, select.EPOLLIN)
            else:
                clients[number].recv(REQUEST)


def with_client(serve: object) -> None:
    server = listener()
    if os.fork() == 0:
        serve(server)  # type: ignore[operator]
    ask(server)


def asked_from_elsewhere(serve: Callable[[socket.socket], None]) -> None:
    """A server, and a client that is no child of it: it waits for an answer until the server ends."""
    server = listener()
    if os.fork() == 0:
        if os.fork() == 0:
            client = socket.create_connection(server.getsockname())
            server.close()
            client.sendall(b"x")
            client.recv(1)
        os._exit(0)
    os.wait()
    serve(server)


def a_thread_each(server: socket.socket, *, answers: bool) -> None:
    """A thread for each client waits for its next request, or for what nobody gives it."""
    price = threading.Event()
    threading.Thread(target=threading.Event().wait, daemon=True).start()  # as one that shall end with the program

    def answer(client: socket.socket) -> None:
        while client.recv(1):
            print("READY", flush=True)
            if not answers:
                price.wait()  # @request-waits

    while True:
        client, _ = server.accept()
        threading.Thread(target=answer, args=(client,)).start()


def asks_again(*, of_a_child: bool) -> None:
    """Asks a child whether a job is done, which never is: the main thread, or one beside the main one."""
    here, there = socket.socketpair()
    if os.fork() == 0:
        here.close()
        while there.recv(1):
            there.sendall(b"n")
    there.close()

    def asks() -> None:
        while here.recv(1) != b"y":
            time.sleep(0.1)
            here.sendall(b"?")

    here.sendall(b"?")
    print("READY", flush=True)
    if of_a_child:
        asks()  # @asks
    threading.Thread(target=asks, daemon=True).start()
    results, _kept = os.pipe()
    os.read(results, 1)  # @waits-beside


def streams() -> None:
    """Awaits the rest of an answer of which it reads nothing more, beside a timer; its child waits for more clients."""
    server = listener()
    if os.fork() == 0:
        client, _ = server.accept()
        client.setblocking(False)
        loop = select.epoll()
        loop.register(server, select.EPOLLIN)
        loop.register(client, select.EPOLLIN)
        loop.poll()
    asks = socket.create_connection(server.getsockname())
    server.close()
    timer = select.epoll()
    print("READY", flush=True)
    while not timer.poll(60.0):
        pass


def talks_to_itself(server: socket.socket) -> None:
    """Waits for clients, and does not read the answer to what it asked itself."""
    loop = select.epoll()
    asks = socket.create_connection(server.getsockname())
    client, _ = server.accept()
    client.sendall(b"x" * REQUEST)
    for one in (server, client):
        loop.register(one, select.EPOLLIN)
    print("READY", flush=True)
    while loop.poll():
        asks.recv(REQUEST)


def prefork(*, leaves_lock: bool) -> None:
    """Two servers take turns by a lock; one of them may leave another lock behind after a request."""
    folder = Path(tempfile.mkdtemp())
    server = listener()

    def answer(client: socket.socket) -> None:
        log = (folder / "log").open("w")
        fcntl.flock(log, fcntl.LOCK_EX)
        kept.append(log)
        client.close()

    def work() -> None:
        turn = (folder / "turn").open("w")
        while True:
            if not leaves_lock:
                fcntl.flock(turn, fcntl.LOCK_EX)
            client, _ = server.accept()
            if leaves_lock:
                answer(client)
            fcntl.flock(turn, fcntl.LOCK_UN)

    kept: list[object] = []
    for _ in range(2):
        if os.fork() == 0:
            work()
    time.sleep(0.3)
    for _ in range(2 if leaves_lock else 0):
        socket.create_connection(server.getsockname())
        time.sleep(0.3)
    print("READY", flush=True)
    os.wait()


if __name__ == "__main__":
    match sys.argv[1]:
        case "edge":
            with_client(reads_once)
        case "handler-ends":
            with_client(handler_ends)
        case "pushes":
            with_client(pushes)
        case "request-waits":
            asked_from_elsewhere(partial(a_thread_each, answers=False))
        case "keeps-alive":
            asked_from_elsewhere(partial(a_thread_each, answers=True))
        case "asks-a-child":
            asks_again(of_a_child=True)
        case "asks-beside":
            asks_again(of_a_child=False)
        case "streams":
            streams()
        case "talks-to-itself":
            talks_to_itself(listener())
        case "turns":
            prefork(leaves_lock=False)
        case "left-behind":
            prefork(leaves_lock=True)
