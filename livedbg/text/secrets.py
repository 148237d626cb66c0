"""Masks passwords, tokens and keys in command lines, environments and texts of a target.

A value is a secret because of its name (`--api-key`, `HF_TOKEN`, `password=`; livedbg.text.secret_names), its place
(`scheme://user:password@host`, `Authorization: Bearer …`) or its shape (the prefixes that issuers give their tokens).

Invariants:
    secrets.K1. Masking is idempotent, and takes time linear in the length of the text.
    secrets.K2. Only the value is replaced, by MASK: names, options and the text around it stay.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from livedbg.text.secret_names import Secrecy, secrecy, takes_value

__all__ = ["MASK", "mask_command", "mask_environment", "mask_text", "mask_variable"]

MASK: Final = "***"

_SIGNS: Final = (
    "key", "token", "pass", "secret", "://", "auth", "pwd", "cred", "cookie", "bearer",
    "sk-", "sk_", "hf_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "b_pat", "glpat", "akia", "asia", "xox", "aiza",
    "npm_", "ya29", "eyj", "nvapi",
)  # fmt: skip
"""Each text with a secret has one of them, in lower case."""
_ASSIGNED: Final = re.compile(
    r"(?i:token|pass|secret|key|auth|pwd|cred)[\w.-]{0,40}(?P<quote>\\?[\"']?)"
    r"(?P<sign>[ \t]{0,3}(?:=>|[:=])[ \t]{0,3}|[ \t]{1,3})"
)
"""The end of a name, and the sign or the blanks between it and its value."""
_ASSIGNED_VALUE: Final = re.compile(r"\\\"[^\"\\\n]*\\\"|\"[^\"\n]*\"?|'[^'\n]*'?|[^\s,;&\"'<>]+")
_OPTION_VALUE: Final = re.compile(r"\"[^\"\n]*\"?|'[^'\n]*'?|[^\s\"'-][^\s\"';&|]*")
_LONGEST_NAME: Final = 100
_HEADER: Final = re.compile(
    r"(?i)\b(?P<name>(?:proxy-)?authorization\\?[\"']?[ \t]{0,3}[:=][ \t]{0,3}(?:b?\\?[\"'])?)"
    r"(?P<scheme>(?:bearer|basic|token|digest|negotiate|apikey)[ \t]{1,3})?(?P<value>[^\s\"'\\,]+)"
)
_BEARER: Final = re.compile(r"(?i)\b(?P<name>bearer[ \t]{1,3})(?P<value>[A-Za-z0-9._~+/=-]{8,})")
_COOKIE: Final = re.compile(r"(?i)\b(?P<name>(?:set-)?cookie[\"']?:[ \t]{0,3}[\"']?)[^\s\"'=]{1,200}=[^\n\"']*")
_URL: Final = re.compile(r"(?P<scheme>://)(?P<user>[^\s:/@\"'<>]*)(?P<sign>:?)(?P<password>[^\s/\"'<>]*)@")
_PARAMETER: Final = re.compile(
    r"(?i)(?P<name>[?&](?:sig|signature|x-amz-signature|x-amz-credential|key|code)=)[^\s&\"'<>#]{8,}"
)
_SHAPE: Final = re.compile(
    r"(?<![A-Za-z0-9_])(?:hf_[A-Za-z0-9]{20,}|sk-[A-Za-z0-9_-]{20,}|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"
    r"|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}|glpat-[A-Za-z0-9_-]{16,}|xox[abeoprs]-[A-Za-z0-9-]{10,}"
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Za-z])|AIza[0-9A-Za-z_-]{35}|npm_[A-Za-z0-9]{36}|ya29\.[\w-]{20,}"
    r"|nvapi-[\w-]{20,}|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*)"
)
_PRIVATE_KEY: Final = re.compile(r"(-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----)(?:(?!-----END).)*", re.DOTALL)
_NO_SECRET: Final = re.compile(
    r"(?i)(?:true|false|none|null|nil|yes|no|on|off|auto|required|0|1|\*+|\$\w+|\$\{.*|\$\(.*|<.*|\[.*|\{\}|%s|\.\.\.|…)?\Z"
)
_PATH: Final = re.compile(r"(?:~|\.{1,2})?/|[\w./-]+\.(?:pem|key|json|crt|ya?ml|txt|toml)\Z")

_PROGRAM_OPTIONS: Final = {
    "curl": ("-u", "--user", "--proxy-user", "-U"),
    "wget": ("--user",),
    "sshpass": ("-p",),
    "redis-cli": ("-a", "--pass"),
    "docker": ("-p",),
    "podman": ("-p",),
    "mongo": ("-p",),
    "mongosh": ("-p",),
    "ldapsearch": ("-w",),
    "smbclient": ("-U",),
}
"""Options with a secret whose names do not say so."""
_ATTACHED_PASSWORD: Final = frozenset(("mysql", "mysqldump", "mysqladmin", "mariadb", "sshpass"))
_LOGIN: Final = frozenset(("docker", "podman"))  # -p is a port elsewhere


def mask_command(words: Sequence[str]) -> tuple[str, ...]:
    """A command line with its secrets masked: values of options, `NAME=value` words, URLs, and text in a word."""
    program = words[0].rpartition("/")[2] if words else ""
    special = _PROGRAM_OPTIONS.get(program, ()) if program not in _LOGIN or "login" in words[1:3] else ()
    masked: list[str] = []
    before = ""  # the option whose value a word is
    for number, word in enumerate(words):
        if before and not word.startswith("--"):
            masked.append(MASK if before in special and word else _value(before, word))
            before = ""
            continue
        name, sign, value = word.partition("=")
        option = number > 0 and word.startswith("-")
        if sign and (option or not any(sign in name for sign in " \t\n\"'{")):
            masked.append(name + sign + _value(name, value))
        elif program in _ATTACHED_PASSWORD and option and word.startswith("-p") and len(word) > 2:
            masked.append("-p" + MASK)
        else:
            masked.append(mask_text(word))
        takes = option and not sign and (word in special or (secrecy(word) is not Secrecy.NONE and takes_value(word)))
        before = word if takes else ""
    return tuple(masked)


def mask_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables with the values of secrets masked."""
    return {name: _value(name, value) for name, value in environment.items()}


def mask_variable(text: str) -> str:
    """A local variable, `name=value`; of one that is named like a secret, only a string is masked."""
    name, sign, value = text.partition("=")
    quoted = value[:1] in ("'", '"') or value[:2] in ("b'", 'b"')
    return name + sign + (_value(name, value) if quoted else mask_text(value))


def mask_text(text: str) -> str:
    """A text, such as a log record, with the secrets in it masked."""
    lower = text.lower()
    for sign in _SIGNS:  # half the time of `any` of a generator, for each record of each log
        if sign in lower:
            break
    else:
        return text
    if "://" in text:
        text = _URL.sub(_in_url, text)
        text = _PARAMETER.sub(rf"\g<name>{MASK}", text)
    if "private key" in lower:
        text = _PRIVATE_KEY.sub(rf"\1{MASK}", text)
    if "authorization" in lower:
        text = _HEADER.sub(_in_header, text)
    if "bearer" in lower:
        text = _BEARER.sub(_after_bearer, text)
    if "cookie" in lower:
        text = _COOKIE.sub(rf"\g<name>{MASK}", text)
    text = _mask_assigned(text)
    return _SHAPE.sub(_by_shape, text)


def _value(name: str, value: str) -> str:
    """The value of an option or variable, masked if it is a secret."""
    kind, bare = secrecy(name), value.strip("\"'")
    if kind is Secrecy.NONE or (kind is Secrecy.IF_RANDOM and not _random(bare)):
        return mask_text(value)
    if _NO_SECRET.match(bare) or (kind is Secrecy.KEY and _PATH.match(bare)):
        return value
    return MASK


def _random(value: str) -> bool:
    """Whether a value looks like a token: one long run of letters and digits, or of both cases."""
    if value.startswith(("/", "./", "~")) or any(sign in value for sign in " \t\n"):
        return False
    run = max(re.split(r"[._:/-]", value), key=len, default="")
    letters = any(c.isalpha() for c in run)
    mixed = run.lower() != run and run.upper() != run
    return letters and ((len(run) >= 12 and any(c.isdigit() for c in run)) or (len(run) >= 24 and mixed))


def _mask_assigned(text: str) -> str:
    """Mask what follows names: `name=value`, `"name": "value"`, `--name value`."""
    parts: list[str] = []
    done = 0
    for match in _ASSIGNED.finditer(text):
        if match.start() < done:  # within a value
            continue
        begin = _name_start(text, match.start(), done)
        name, sign = text[begin : match.start("quote")], match["sign"]
        option = name.startswith("-")
        if sign.isspace() and not (option and takes_value(name) and not match["quote"]):
            continue
        kind = secrecy(name)
        if kind is Secrecy.NONE or kind is Secrecy.IF_RANDOM or name.lower().endswith("authorization"):
            continue  # a header has a rule of its own
        value = (_OPTION_VALUE if sign.isspace() else _ASSIGNED_VALUE).match(text, match.end())
        if value is None:
            continue
        quoted = match["quote"] != "" and text[:begin].endswith(match["quote"])
        tight = sign == "=" or quoted or (sign.isspace() and option)
        parts += [text[done : match.end()], _assigned(name, kind, value[0], tight=tight)]
        done = value.end()
    return "".join([*parts, text[done:]])


def _name_start(text: str, begin: int, least: int) -> int:
    """Where the name begins that goes on at `begin`."""
    least = max(least, begin - _LONGEST_NAME)
    while begin > least and (text[begin - 1].isalnum() or text[begin - 1] in "_.-"):
        begin -= 1
    return begin


def _assigned(name: str, kind: Secrecy, value: str, *, tight: bool) -> str:
    """A value in a text, masked if it is a secret.

    Args:
        name: as it stands there, with its dashes.
        kind: secrecy of the name.
        value: with its quotes, and with what follows up to the next blank.
        tight: written as programs do, `name=value` or `"name": value`, and not as people do, `name: value`.
    """
    quote = value[:2] if value[:2] == '\\"' else value[:1] if value[:1] in "\"'" else ""
    bare = value.strip("\\\"'")
    kept = "" if quote else bare[len(bare.rstrip(")]}:.")) :]
    bare = bare.removesuffix(kept)
    if _NO_SECRET.match(bare) or bare.rpartition(".")[2].lower() == name.strip("-").lower():  # token=self.token
        return value
    if kind is Secrecy.KEY and _PATH.match(bare):
        return value
    if kind is Secrecy.TOKEN and not _random(bare) and (not tight or bare.isdigit()):
        return value  # a parser's "unexpected token: NAME", a language model's number
    ends = quote if len(value) > len(quote) and value.endswith(quote) else ""
    return f"{quote}{MASK}{ends}{kept}"


def _in_url(match: re.Match[str]) -> str:
    user, password = match["user"], match["password"]
    if match["sign"]:
        return f"://{user}:{MASK}@" if password else match[0]
    return f"://{MASK}@" if _random(user + password) else match[0]


def _in_header(match: re.Match[str]) -> str:
    scheme, value = match["scheme"] or "", match["value"]
    return f"{match['name']}{scheme}{MASK}" if scheme or _random(value) else match[0]


def _after_bearer(match: re.Match[str]) -> str:
    value = match["value"]
    secret = len(value) >= 24 or any(c.isdigit() for c in value)
    return f"{match['name']}{MASK}" if secret else match[0]


def _by_shape(match: re.Match[str]) -> str:
    value = match[0]
    if value.startswith(("AKIA", "ASIA")):
        return MASK
    return MASK if any(c.isdigit() for c in value) or (value.lower() != value and value.upper() != value) else value
