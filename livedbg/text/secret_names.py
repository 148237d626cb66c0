"""Classification of options and variables by name: whether the value is a secret."""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache
from typing import Final

from livedbg.text.patterns import lazy_re


class Secrecy(Enum):
    """Treatment of a value by its name."""

    NONE = "none"
    IF_RANDOM = "if random"  # a secret if it looks like one
    TOKEN = "token"  # a secret; in running text also a word of parsers and language models
    KEY = "key"  # a secret, or the path of the file that has it
    SECRET = "secret"


_WORD: Final = lazy_re(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SECRET_ENDS: Final = (
    "password", "passwords", "passwd", "passphrase", "passcode", "secret", "secrets", "secretvalue", "secretkeybase",
    "authorization", "sshpass", "authtoken", "accesstoken", "bearertoken", "refreshtoken", "apitoken", "sessiontoken",
)  # fmt: skip
_KEY_ENDS: Final = (
    "apikey", "apikeys", "accesskey", "accesskeyid", "secretkey", "privatekey", "authkey", "accountkey", "masterkey",
    "encryptionkey", "decryptionkey", "signingkey", "subscriptionkey", "licensekey", "deploykey", "sharedkey",
    "credential", "credentials", "creds", "keydata",
)  # fmt: skip
_IF_RANDOM_ENDS: Final = frozenset(
    ("key", "auth", "cookie", "cookies", "sas", "sig", "signature", "pat", "jwt", "pass", "secretkeys")
)
_ABOUT_A_SECRET: Final = frozenset(
    (
        "file", "files", "path", "dir", "name", "names", "type", "len", "length", "size", "dim", "dims", "count", "num",
        "limit", "budget", "ttl", "url", "uri", "endpoint", "host", "port", "user", "username", "format", "index",
        "idx", "id", "ids", "mode", "sock", "provider", "method", "scheme", "header", "prefix", "suffix", "env", "var",
        "store", "policy", "required", "timeout", "expiry", "expires", "lifetime", "stdin", "dtype", "fd", "field",
    )
)  # fmt: skip
"""Last words of names whose value is not the secret itself: `--password-file`, `TOKEN_URL`, `KEY_DIM`."""
_OF_LANGUAGE_MODELS: Final = frozenset(
    (
        "pad", "eos", "bos", "sep", "cls", "mask", "unk", "stop", "start", "end", "special", "image", "video", "audio",
        "max", "min", "num", "n", "per", "new", "next", "first", "last", "prev", "prompt", "input", "output", "decoder",
        "encoder", "forced", "think", "thinking", "begin", "bot", "eot", "fim", "eod", "added", "placeholder", "speech",
        "single", "multi", "sub", "by", "word", "text", "draft", "target", "current", "cur", "this", "each", "total",
        "expected", "unexpected", "got",
    )
)  # fmt: skip
_PASS_OF: Final = frozenset(
    (
        "db",
        "database",
        "user",
        "smtp",
        "mail",
        "mysql",
        "pg",
        "postgres",
        "redis",
        "root",
        "admin",
        "http",
        "proxy",
        "ftp",
    )
)
_SWITCH: Final = frozenset(
    (
        "no", "use", "with", "without", "ask", "prompt", "require", "allow", "enable", "disable", "skip", "show", "has",
        "is", "check", "list", "get", "create", "rotate", "print",
    )
)  # fmt: skip


@lru_cache(4096)
def secrecy(name: str) -> Secrecy:
    """Return how to treat the value of an option or variable of this name."""
    words = [word.lower() for word in _WORD.findall(name[-100:])]
    while words and words[-1].isdigit():  # API_KEY_2
        words.pop()
    joined = "".join(words)
    if joined.endswith("accesskeyid"):
        return Secrecy.KEY
    if not words or words[-1] in _ABOUT_A_SECRET:
        return Secrecy.NONE
    if joined.endswith(_SECRET_ENDS):
        return Secrecy.SECRET
    if joined.endswith(_KEY_ENDS):
        return Secrecy.KEY
    return _by_last_word(words)


def _by_last_word(words: list[str]) -> Secrecy:
    *before, last = words
    if last == "token":
        return Secrecy.NONE if _OF_LANGUAGE_MODELS.intersection(before) else Secrecy.TOKEN
    if last == "pass" and before and before[-1] in _PASS_OF:
        return Secrecy.SECRET
    if last.endswith("pwd") and (before or last != "pwd"):  # MYSQL_PWD; PWD and OLDPWD are folders
        return Secrecy.NONE if last == "oldpwd" or before == ["old"] else Secrecy.SECRET
    if last in _IF_RANDOM_ENDS or (last.endswith("token") and last != "token") or "secret" in words:
        return Secrecy.IF_RANDOM
    return Secrecy.NONE


def takes_value(option: str) -> bool:
    """Return whether the word after an option is its value: `--use-token` and `--no-password` are switches."""
    words = _WORD.findall(option[-100:])
    return bool(words) and words[0].lower() not in _SWITCH


class Options:
    """Options by which a program takes secrets.

    Attributes:
        next_word: options whose next word is the secret.
        attached: options with the secret attached: `-pWORD`.
        pairs: options whose value has the secret after the first colon or `%`: `-u USER:PASSWORD`.
        words: pattern of separate words that are secrets.
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
    """Return the secret options of a command's program, by its file name and its first words, or None."""
    if program in _LOGIN and "login" not in words[:3]:
        return None
    return PROGRAMS.get(program)


def program_segments(text: str) -> list[tuple[int, int, Options]]:
    """Return begin and end of the words of such programs in a text, with their options."""
    found = []
    for match in _PROGRAM.finditer(text):
        options = options_of(match["program"], match["rest"].split(None, 4))
        if options is not None:
            found.append((*match.span("rest"), options))
    return found
