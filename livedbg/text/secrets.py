"""Masking of passwords, tokens and keys in command lines, environments and texts of a target.

A value is a secret because of its name (`--api-key`, `HF_TOKEN`, `password=`; livedbg.text.secret_names), its place
(`scheme://user:password@host`, `Authorization: Bearer …`, `mysql -pWORD`; livedbg.text.secret_names) or its shape (the
prefixes of issued tokens; livedbg.text.issued_tokens).

Invariants:
    secrets.K1. Masking is idempotent, and takes time linear in the length of the text.
    secrets.K2. Only the value is replaced, by at most its first four characters, at most a quarter of it, and MASK:
        names, options and the text around it stay.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Final

from ahocorasick_rs import BytesAhoCorasick, Implementation

from livedbg.text.issued_tokens import CASED, ISSUED, continues, issued
from livedbg.text.patterns import lazy_re
from livedbg.text.secret_names import PROGRAMS, Options, Secrecy, options_of, program_segments, secrecy, takes_value

MASK: Final = "***"
_SHOWN: Final = 4
"""At most so many characters of a secret are shown, so that people can tell which one it is."""
_MASKED: Final = lazy_re(r"[\w+/=-]{0,4}\*{3}", re.ASCII)

_ASSIGNED: Final = lazy_re(
    r"(?i:token|pass|secret|key|auth|pwd|cred)[\w.-]{0,40}(?P<quote>\\?[\"']?|%22)"
    r"(?P<sign>[ \t]{0,3}(?:=>|[:=])[ \t]{0,3}|[ \t]{1,3}|%3[AD])"
)
"""The end of a name, and the sign or the blanks between it and its value."""
_ASSIGNED_VALUE: Final = lazy_re(r"%22[^%\s]*+(?:%22)?|\\\"[^\"\\\n]*\\\"|\"[^\"\n]*\"?|'[^'\n]*'?|[^\s,;&\"'<>]+")
_OPTION_VALUE: Final = lazy_re(r"\"[^\"\n]*\"?|'[^'\n]*'?|[^\s\"'-][^\s\"';&|]*")
_LONGEST_NAME: Final = 100
_HEADER: Final = lazy_re(
    r"(?i)\b(?P<name>(?:proxy-)?authorization\\?[\"']?[ \t]{0,3}[:=][ \t]{0,3}(?:b?\\?[\"'])?)"
    r"(?P<scheme>(?:bearer|basic|token|digest|negotiate|apikey)[ \t]{1,3})?(?P<value>[^\s\"'\\,]+)"
)
_BEARER: Final = lazy_re(r"(?i)\b(?P<name>bearer[ \t]{1,3})(?P<value>[A-Za-z0-9._~+/=-]{8,})")
_COOKIE: Final = lazy_re(
    r"(?i)\b(?P<name>(?:set-)?cookie\\?[\"']?:[ \t]{0,3}\\?[\"']?)(?P<pairs>[^\s\"'=]{1,200}=[^\n\"']*)"
)
_PAIR: Final = lazy_re(r"(?<==)[^;\s]+")
_URL: Final = lazy_re(r"(?P<scheme>://)(?P<user>[^\s:/@\"'<>]*+)(?P<sign>:?+)(?P<password>[^\s/\"'<>]*)@")
_PARAMETER: Final = lazy_re(r"[?&](?P<name>[\w.-]{1,60})=(?P<value>[^\s&\"'<>#]{8,})")
_SIGNED: Final = frozenset(("sig", "signature", "key", "code"))
"""Parameters of addresses that are secrets whatever they look like."""
_KEY_BEGINS: Final = lazy_re(r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----")
_KEY_ENDS: Final = lazy_re(r"-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----")
_BASE64_WORD: Final = lazy_re(r"[0-9A-Za-z+/]+={0,2}", re.ASCII)
_KEY_LINES: Final = 200
_BASIC_VALUE: Final = lazy_re(r"(?:\\?[\"'])?(?P<value>[0-9A-Za-z+/]{8,500}+={0,2})(?![\w+/-])")
_BASIC: Final = lazy_re(r"(?i)\bbasic[ \t]{1,3}(?P<value>[0-9A-Za-z+/]{8,500}+={0,2})")
_NETRC: Final = lazy_re(r"\b(?:login|account)\s{1,4}\S{1,200}\s{1,4}password\s{1,4}(?P<value>\S+)")
_PASS_FILE: Final = lazy_re(
    r"(?<![^\s'\"=])[\w.*-]{1,100}:(?:5432|5433|6432|\*):[\w*-]{1,60}:[\w*.@-]{1,60}:(?P<value>[^\s:'\"]{3,})"
)
_ORACLE: Final = lazy_re(r"jdbc:oracle:\w{1,10}:[\w.-]{0,60}/(?P<value>[^\s@/\"']{1,200})@")
_ELEMENT: Final = lazy_re(r"<(?P<name>[\w:.-]{1,60})>(?P<value>[^<>\n]+)</")
_AUTH_COMMAND: Final = lazy_re(r"(?i)(?<!\w)auth\"? \"(?:[^\"\n]{1,100}\" \")?(?P<value>[^\"\n]{1,200})\"")
_HEX_KEY: Final = lazy_re(r"(?<![0-9A-Za-z_])[0-9a-f]{40}(?![0-9A-Za-z_])")
_LOGIN: Final = lazy_re(r"(?i)log(?:ged|ging)?[ _-]?in|api[ _-]?key")
_NO_SECRET: Final = lazy_re(
    r"(?i)(?:true|false|none|null|nil|yes|no|on|off|auto|required|0|1|\*+|\$\w+|\$\{.*|\$\(.*|<.*|\[.*|\{\}|%s|\.\.\.|…)?\Z"
)
_PATH: Final = lazy_re(r"(?:~|\.{1,2})?/|[\w./-]+\.(?:pem|key|json|crt|ya?ml|txt|toml)\Z")


def mask_command(words: Sequence[str]) -> tuple[str, ...]:
    """Mask the secrets in a command line: values of options, `NAME=value` words, URLs, and text in a word."""
    options: Options | None = None  # of the newest program that takes secrets by options of its own
    masked: list[str] = []
    before = ""  # the option whose value a word is
    for number, word in enumerate(words):
        program = word.rpartition("/")[2]
        if program in PROGRAMS:
            options = options_of(program, list(words[number + 1 : number + 4]))
        if before and not word.startswith("--"):
            masked.append(_of_option(options, before, word))
            before = ""
            continue
        name, sign, value = word.partition("=")
        option = number > 0 and word.startswith("-")
        own = _attached(options, word) if option else ""
        if own:
            masked.append(own)
        elif sign and (_NAME.fullmatch(name) or (option and "://" not in name)):
            masked.append(name + sign + _value(name, value))
        elif options is not None and options.words is not None and options.words.fullmatch(word):
            masked.append(_masked(word))
        else:
            masked.append(mask_text(word))
        before = word if _awaits(options, word, option=option and not sign) else ""
    return tuple(masked)


_NAME: Final = lazy_re(r"[\w.:/\[\]@+-]{1,200}")


def _awaits(options: Options | None, word: str, *, option: bool) -> bool:
    """Return whether the next word is a secret: the word is an option, or a header with a secret name, `X-Api-Key:`."""
    if option and options is not None and (word in options.next_word or word in options.pairs):
        return True
    header = word.endswith(":") and _NAME.fullmatch(word) is not None
    return (option or header) and secrecy(word.rstrip(":")) is not Secrecy.NONE and takes_value(word)


def _attached(options: Options | None, word: str) -> str:
    for start in options.attached if options is not None else ():
        if word.startswith(start) and len(word) > len(start):
            value = word[len(start) :]
            pair = options is not None and start in options.pairs
            return start + (_pair(value) if pair else _masked(value))
    return ""


def _of_option(options: Options | None, option: str, value: str) -> str:
    if options is not None and option in options.pairs:
        return _pair(value)
    if options is not None and option in options.next_word:
        source, sign, secret = value.partition(":")  # openssl: pass:WORD, env:NAME, file:PATH
        if sign and source in ("env", "file", "fd"):
            return value
        return f"pass:{_masked(secret)}" if sign and source == "pass" else _masked(value)
    return _value(option.rstrip(":"), value)


def _pair(value: str) -> str:
    user, sign, password = value.partition(":" if ":" in value else "%")
    return user + sign + _masked(password) if sign else value


def mask_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Mask the values of secret variables."""
    return {name: _value(name, value) for name, value in environment.items()}


def mask_variable(text: str) -> str:
    """Mask a local variable, `name=value`; one with a secret name only if it is a string."""
    name, sign, value = text.partition("=")
    quoted = value[:1] in ("'", '"') or value[:2] in ("b'", 'b"')
    return name + sign + (_value(name, value) if quoted else mask_text(value))


def mask_text(text: str) -> str:
    """Mask the secrets in a text, such as a log record."""
    raw = (text.encode() if text.isascii() else text.encode("utf-8", "surrogatepass")).lower()
    hits = _LITERALS.find_matches_as_indexes(raw, overlapping=True)
    if not hits:
        return text
    signs = {_SIGNS[number] for number, _, _ in hits}
    before = text
    if not signs.isdisjoint(_PLACES):
        for sign, mask in _BY_PLACE:
            if sign in signs:
                text = mask(text)
    if not signs.isdisjoint(_OF_NAMES):
        text = _mask_assigned(text)
    for sign in sorted(signs & ISSUED.keys(), key=len, reverse=True):
        if CASED.get(sign, "") in text:
            text = _mask_issued(issued(sign), text)
    return before if text == before else text


class TextMasker:
    """Masks consecutive texts, such as the records of a log: a key or a token may continue in the next one."""

    def __init__(self) -> None:
        self._key_lines = 0  # so many more may be lines of a private key
        self._token = False  # the text before ended with a token

    def mask(self, text: str) -> str:
        masked = mask_text(text)
        if self._key_lines:
            masked = self._in_key(masked)
        elif self._token and (rest := continues(masked)) is not None:
            masked = masked[: rest.start("rest")] + MASK + masked[rest.end("rest") :]
        self._token = masked.endswith(MASK) and masked is not text
        if "-----" in text:
            begins = max((match.end() for match in _KEY_BEGINS.finditer(text)), default=-1)
            if begins >= 0:
                self._key_lines = 0 if _KEY_ENDS.search(text, begins) else _KEY_LINES
            elif _KEY_ENDS.search(text):
                self._key_lines = 0
        return masked

    def _in_key(self, text: str) -> str:
        self._key_lines -= 1
        return "\n".join(map(_masked_key_line, text.split("\n")))


def mask_texts(texts: Sequence[str]) -> list[str]:
    """Mask consecutive lines of a log; they may begin within a private key."""
    masker = TextMasker()
    masked = list(map(masker.mask, texts))
    begun = next((n for n, text in enumerate(texts) if "-----" in text and _KEY_BEGINS.search(text)), len(texts))
    for number in range(begun):
        if "-----" in texts[number] and _KEY_ENDS.search(texts[number]):
            for before in range(number - 1, -1, -1):
                line = _masked_key_line(masked[before])
                if line == masked[before]:
                    break
                masked[before] = line
    whole = [_WHOLE_KEY_LINE.search(text) is not None for text in masked[:begun]]
    for number, is_whole in enumerate(whole):
        if is_whole and sum(whole[max(number - 2, 0) : number + 3]) > 2:
            masked[number] = _masked_key_line(masked[number])
    return masked


_WHOLE_KEY_LINE: Final = lazy_re(
    r"(?<![0-9A-Za-z+/])(?=[0-9a-z+/]{0,63}[A-Z])(?=[0-9A-Z+/]{0,63}[a-z])(?:[0-9A-Za-z+/]{64}|[0-9A-Za-z+/]{70})\Z",
    re.ASCII,
)
"""What a line in the middle of a key ends with; those of a hash have letters of one case."""


def _masked_key_line(line: str) -> str:
    """Mask a line of a private key; another line stays as it is."""
    stem, blank, word = line.rstrip().rpartition(" ")
    return stem + blank + MASK if len(word) >= (16 if blank else 1) and _BASE64_WORD.fullmatch(word) else line


def _masked(value: str) -> str:
    if _MASKED.fullmatch(value):
        return value
    start = value[: min(_SHOWN, len(value) // 4)]
    return "".join(takewhile(lambda c: c.isascii() and (c.isalnum() or c in "-_"), start)) + MASK


def _value(name: str, value: str) -> str:
    kind, bare = secrecy(name), value.strip("\"'")
    if kind is Secrecy.NONE or (kind is Secrecy.IF_RANDOM and not _random(bare)):
        return mask_text(value)
    if _NO_SECRET.match(bare) or (kind is Secrecy.KEY and _PATH.match(bare)):
        return value
    return _masked(bare)


def _random(value: str) -> bool:
    """Return whether a value looks like a token: one long run of letters and digits, or of both cases."""
    if value.startswith(("/", "./", "~")) or any(sign in value for sign in " \t\n"):
        return False
    run = max(re.split(r"[._:/-]", value), key=len, default="")
    letters = any(c.isalpha() for c in run)
    mixed = run.lower() != run and run.upper() != run
    return letters and ((len(run) >= 12 and any(c.isdigit() for c in run)) or (len(run) >= 24 and mixed))


def _mask_assigned(text: str) -> str:
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
        if kind is Secrecy.NONE or name.lower().endswith("authorization"):
            continue  # a header has a rule of its own
        if kind is Secrecy.IF_RANDOM and not _is_basic(_BASIC_VALUE.match(text, match.end())):
            continue
        value = (_OPTION_VALUE if sign.isspace() else _ASSIGNED_VALUE).match(text, match.end())
        if value is None:
            continue
        quoted = match["quote"] != "" and text[:begin].endswith(match["quote"])
        tight = sign == "=" or quoted or (sign.isspace() and option)
        parts += [text[done : match.end()], _assigned(name, kind, value[0], tight=tight)]
        done = value.end()
    return "".join([*parts, text[done:]])


def _name_start(text: str, begin: int, least: int) -> int:
    least = max(least, begin - _LONGEST_NAME)
    while begin > least and (text[begin - 1].isalnum() or text[begin - 1] in "_.-"):
        begin -= 1
    return begin


def _assigned(name: str, kind: Secrecy, value: str, *, tight: bool) -> str:
    """Mask a value in a text if it is a secret.

    Args:
        name: as in the text, with its dashes.
        value: with its quotes, and the text up to the next blank.
        tight: written as programs do, `name=value` or `"name": value`, and not as people do, `name: value`.
    """
    quote = next((sign for sign in ("%22", '\\"', '"', "'") if value.startswith(sign)), "")
    bare = value.removeprefix("%22").removesuffix("%22").strip("\\\"'")
    kept = "" if quote else bare[len(bare.rstrip(")]}:.")) :]
    bare = bare.removesuffix(kept)
    if _NO_SECRET.match(bare) or bare.rpartition(".")[2].lower() == name.strip("-").lower():  # token=self.token
        return value
    if kind is Secrecy.KEY and _PATH.match(bare):
        return value
    if kind is Secrecy.TOKEN and not _random(bare) and (not tight or bare.isdigit()):
        return value  # a parser's "unexpected token: NAME", a language model's number
    ends = quote if len(value) > len(quote) and value.endswith(quote) else ""
    return f"{quote}{_masked(bare)}{ends}{kept}"


def _mask_urls(text: str) -> str:
    return _PARAMETER.sub(_in_parameter, _URL.sub(_in_url, text))


def _in_url(match: re.Match[str]) -> str:
    user, password = match["user"], match["password"]
    if match["sign"]:
        return f"://{user}:{_masked(password)}@" if password else match[0]
    return f"://{_masked(user + password)}@" if _random(user + password) else match[0]


def _in_parameter(match: re.Match[str]) -> str:
    name, value = match["name"], match["value"]
    kind = secrecy(name)
    secret = name.lower() in _SIGNED or kind in (Secrecy.SECRET, Secrecy.TOKEN, Secrecy.KEY)
    if not secret and (kind is Secrecy.NONE or not _random(value)):
        return match[0]
    return match[0][: -len(value)] + _masked(value)


def _in_header(match: re.Match[str]) -> str:
    scheme, value = match["scheme"] or "", match["value"]
    return f"{match['name']}{scheme}{_masked(value)}" if scheme or _random(value) else match[0]


def _after_bearer(match: re.Match[str]) -> str:
    value = match["value"]
    secret = len(value) >= 24 or any(c.isdigit() for c in value)
    return f"{match['name']}{_masked(value)}" if secret else match[0]


def _is_basic(match: re.Match[str] | None) -> bool:
    """Return whether a value is the base64 of `user:password`."""
    if match is None:
        return False
    value = match["value"]
    try:
        user, sign, password = base64.b64decode(value + "=" * (-len(value) % 4)).decode().partition(":")
    except (binascii.Error, ValueError):
        return False
    return sign != "" and (user + password).isprintable() and user.isascii() and len(password) > 1


def _mask_keys(text: str) -> str:
    parts: list[str] = []
    done = 0
    for match in _KEY_BEGINS.finditer(text):
        if match.start() < done:
            continue
        end = text.find("-----END", match.end())
        end = len(text) if end < 0 else end
        if body := text[match.end() : end].strip():
            parts += [text[done : match.end()], _masked(body)]
            done = end
    return "".join([*parts, text[done:]])


def _mask_logins(text: str) -> str:
    """Mask keys of `wandb`, which are bare hexadecimal digits."""
    return _HEX_KEY.sub(lambda match: _masked(match[0]), text) if _LOGIN.search(text) else text


def _but(match: re.Match[str], value: str) -> str:
    begin, end = (place - match.start() for place in match.span("value"))
    return match[0][:begin] + value + match[0][end:]


def _by(pattern: re.Pattern[str], replace: Callable[[re.Match[str]], str]) -> Callable[[str], str]:
    return lambda text: pattern.sub(replace, text)


def _by_value(pattern: re.Pattern[str]) -> Callable[[str], str]:
    return _by(pattern, lambda match: _but(match, _masked(match["value"])))


def _mask_programs(text: str) -> str:
    parts: list[str] = []
    done = 0
    for begin, end, options in program_segments(text):
        before = ""
        for match in _SHELL_WORD.finditer(text, begin, end):
            word, changed = match[0], ""
            bare = word.strip("\"'")
            if before and not word.startswith("--"):
                changed, before = _of_option(options, before, bare), ""
            elif word.startswith("-"):
                changed = _attached(options, word)
                before = word if word in options.next_word or word in options.pairs else ""
            elif options.words is not None and options.words.fullmatch(word):
                changed = _masked(word)
            if changed and changed != bare:
                parts += [text[done : match.start()], word.replace(bare, changed, 1)]
                done = match.end()
    return "".join([*parts, text[done:]])


_SHELL_WORD: Final = lazy_re(r"\"[^\"\n]*+\"|'[^'\n]*+'|[^\s\"']++|[\"']")


def _is_long(value: str) -> bool:
    return max(map(len, re.split("[_.-]", value))) >= _LONGER_THAN_A_WORD


_LONGER_THAN_A_WORD: Final = 30


def _mask_issued(pattern: re.Pattern[str], text: str) -> str:
    if pattern.search(text) is None:
        return text
    parts: list[str] = []
    done = 0
    for match in pattern.finditer(text):
        value = match[0]
        if value.lower() == value and not any(c.isdigit() for c in value) and not _is_long(value):
            continue  # words
        parts += [text[done : match.start()], _masked(value)]
        done = match.end()
        joint = 1 if text.startswith("\n", done) else 2 if text.startswith("\\n", done) else 0  # "\\n": of a repr
        if joint and (rest := continues(text, done + joint)) is not None:
            parts += [text[done : rest.start("rest")], MASK]
            done = rest.end()
    return "".join([*parts, text[done:]])


_BY_PLACE: Final[tuple[tuple[str, Callable[[str], str]], ...]] = (
    ("://", _mask_urls),
    ("private key", _mask_keys),
    ("authorization", _by(_HEADER, _in_header)),
    ("bearer", _by(_BEARER, _after_bearer)),
    ("basic ", _by(_BASIC, lambda match: _but(match, _masked(match["value"])) if _is_basic(match) else match[0])),
    ("cookie", _by(_COOKIE, lambda match: match["name"] + _PAIR.sub(lambda pair: _masked(pair[0]), match["pairs"]))),
    ("password", _by_value(_NETRC)),
    ("jdbc:oracle", _by_value(_ORACLE)),
    ("</", _by(_ELEMENT, lambda match: _but(match, _value(match["name"], match["value"])))),
    ('auth" "', _by_value(_AUTH_COMMAND)),
    ("wandb", _mask_logins),
    *((f":{port}:", _by_value(_PASS_FILE)) for port in ("5432", "5433", "6432", "*")),
    *((f"{program} ", _mask_programs) for program in PROGRAMS),
)
"""What masks a text, by a literal that it needs, in lower case."""
_PLACES: Final = frozenset(sign for sign, _ in _BY_PLACE)
_OF_NAMES: Final = frozenset(("key", "token", "pass", "secret", "auth", "pwd", "cred"))
_SIGNS: Final = (*dict.fromkeys((*_OF_NAMES, *(sign for sign, _ in _BY_PLACE), *ISSUED)),)
_LITERALS: Final = BytesAhoCorasick([sign.encode() for sign in _SIGNS], implementation=Implementation.DFA)
