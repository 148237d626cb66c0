"""One query of NCCL's RAS service, over TCP (docs: RAS, wire-level protocol).

Invariants:
    ras_client.Q1. A query ends within its time limit, and takes no more than `_MOST_BYTES`, whatever answers.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from livedbg.adapters.pytorch.ras.reply import RasReply, UnreadableReply, read_json, read_text
from livedbg.text.sanitize import clean_line

__all__ = ["PORT", "NoAnswer", "ask_ras"]

PORT: Final = 28028
_MOST_BYTES: Final = 16 << 20
_LEG_S: Final = 5  # how long RAS waits for other ranks
_LIMIT_S: Final = 30.0


class NoAnswer(Exception):
    """Nobody answers, or not with a status; the text says why, for users."""


async def ask_ras(host: str, port: int, *, json: bool, limit_s: float = _LIMIT_S) -> RasReply:
    """Ask for the verbose status.

    Args:
        host: where a RAS thread listens.
        port: its port.
        json: ask for JSON: NCCL 2.28.7 and newer.
        limit_s: time limit of the query.

    Raises:
        NoAnswer: there is none that can be read.
    """
    where = clean_line(f"{host}:{port}")
    try:
        async with asyncio.timeout(limit_s):
            data = await _asked(host, port, json)
    except TimeoutError:
        raise NoAnswer(f"{where} has not answered within {limit_s:g} s") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise NoAnswer(f"{where} can't be asked: {clean_line(reason, 200)}") from None
    text = data.decode("utf-8", "replace")
    if len(data) > _MOST_BYTES:
        raise NoAnswer(f"{where} answers with more than {_MOST_BYTES >> 20} MiB")
    refused = next((line for line in text.splitlines()[:4] if line.startswith("ERROR:")), "")
    if refused:
        raise NoAnswer(f"{where} refuses: {clean_line(refused, 200)}")
    try:
        return read_json(text) if json else read_text(text)
    except UnreadableReply as error:
        raise NoAnswer(f"the answer of {where} can't be read: {error}") from None


async def _asked(host: str, port: int, json: bool) -> bytes:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        lines = [f"timeout {_LEG_S}", *["set format json"][:json], "verbose status"]
        writer.write("".join(f"{line}\n" for line in lines).encode())
        await writer.drain()
        pieces: list[bytes] = []
        size = 0
        while size <= _MOST_BYTES and (piece := await reader.read(1 << 16)):
            pieces.append(piece)
            size += len(piece)
        return b"".join(pieces)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
