"""Options of programs whose values are secrets, though their names do not say so."""

from __future__ import annotations

import re
from typing import Final

from livedbg.text.patterns import lazy_re


class Options:
    """How a program is given secrets.

    Attributes:
        next_word: options whose next word is the secret.
        attached: options that have it attached: `-pWORD`.
        pairs: of these, it is the part behind the first colon or `%`: `-u USER:PASSWORD`.
        words: what a word of its own must be, to be a secret.
    """

    def __init__(self, next_word: str = "", attached: str = "", pairs: str = "", words: str = "") -> None:
        self.next_word = frozenset(next_word.split())
        self.attached = tuple(attached.split())
        self.pairs = frozenset(pairs.split())
        self.words = re.compile(words) if words else None


_MYSQL: Final = Options(attached="-p --password=")
_DOCKER: Final = Options("-p --password", "-p")
PROGRAMS: Final = {
    "curl": Options(pairs="-u --user -U --proxy-user", attached="-u"),
    "wget": Options("--http-password --ftp-password --proxy-password", pairs="--user"),
    "http": Options(pairs="-a --auth"),
    "https": Options(pairs="-a --auth"),
    "sshpass": Options("-p", "-p"),
    "redis-cli": Options("-a --pass"),
    "mysql": _MYSQL, "mysqldump": _MYSQL, "mysqladmin": _MYSQL, "mariadb": _MYSQL, "mysqlimport": _MYSQL,
    "docker": _DOCKER, "podman": _DOCKER,
    "helm": Options("--password"),
    "mongo": Options("-p", "-p"), "mongosh": Options("-p", "-p"), "mongodump": Options("-p", "-p"),
    "ldapsearch": Options("-w"), "ldapadd": Options("-w"), "ldapmodify": Options("-w"),
    "smbclient": Options(pairs="-U"),
    "sqlcmd": Options("-P", "-P"), "bcp": Options("-P", "-P"),
    "cqlsh": Options("-p", "-p"),
    "influx": Options("-t"),
    "openssl": Options("-passin -passout -pass -k -K"),
    "unzip": Options("-P"), "zip": Options("-P"), "7z": Options(attached="-p"),
    "ipmitool": Options("-P"),
    "vncpasswd": Options("-f"),
    "htpasswd": Options("-b"),
    "kinit": Options("--password"),
    "wandb": Options(words="[0-9a-f]{40}|[0-9A-Za-z_-]{60,}"),
    "ngc": Options("--apikey"),
}  # fmt: skip
_LOGIN: Final = frozenset(("docker", "podman"))  # -p is a port elsewhere

_PROGRAM: Final = lazy_re(
    rf"(?<![\w.-])(?P<program>{'|'.join(sorted(PROGRAMS, key=len, reverse=True))})(?=[ \t])(?P<rest>[^\n;&|]{{0,500}})"
)


def options_of(program: str, words: list[str]) -> Options | None:
    """How the program of a command is given secrets, by its file name and its first words."""
    if program in _LOGIN and "login" not in words[:3]:
        return None
    return PROGRAMS.get(program)


def program_segments(text: str) -> list[tuple[int, int, Options]]:
    """Where in a text the words of such programs stand: begin and end of their words."""
    found = []
    for match in _PROGRAM.finditer(text):
        options = options_of(match["program"], match["rest"].split(None, 4))
        if options is not None:
            found.append((*match.span("rest"), options))
    return found
