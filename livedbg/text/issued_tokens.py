"""Tokens and keys that are known by their shape: the issuer's prefix, and the characters after it.

Issuers publish the prefixes and lengths, so that such tokens can be found; gitleaks
(https://github.com/gitleaks/gitleaks, `config/gitleaks.toml`) collects them.

Invariants:
    issued_tokens.J1. Each pattern begins with a literal, is bounded by a class of characters, and takes linear time.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from livedbg.text.patterns import lazy_re

_KINDS: Final = {
    "hex": "[0-9a-fA-F]",
    "upper": "[0-9A-Z]",
    "word": "[0-9A-Za-z]",
    "url": r"[\w-]",
    "dotted": r"[\w.=-]",
    "base64": "[0-9A-Za-z+/=]",
    "any": r"[\w+/=.-]",
}
_TABLE: Final = """
    hf_ word 16 | api_org_ word 30 | sk- url 20 | sk_live_ word 10 | sk_test_ word 10 | rk_live_ word 10
    rk_test_ word 10 | sk_prod_ word 10 | rk_prod_ word 10 | whsec_ base64 24 | ghp_ word 30 | gho_ word 30
    ghu_ word 30 | ghs_ word 16 | ghr_ word 30 | github_pat_ url 30 | glpat- dotted 16 | glrt- dotted 16
    gldt- url 16 | glcbt- url 16 | glft- url 16 | glptt- url 16 | glagent- url 30 | gloas- url 40 | glsoat- url 16
    glimt- url 20 | glffct- url 16 | gr1348941 url 16 | xoxa- url 10 | xoxb- url 10 | xoxe- url 10
    xoxe.xox dotted 20 | xoxo- url 10 | xoxp- url 10 | xoxr- url 10 | xoxs- url 10 | xapp- url 20 | akia upper 16 16
    asia upper 16 16 | abia upper 16 16 | acca upper 16 16 | absk base64 80 | bedrock-api-key- base64 20
    ltai word 17 24 | akid word 32 32 | aiza url 35 39 | ya29. url 20 | 1//0 url 30 | gocspx- url 20 | npm_ word 36
    pypi-ageichlwas5vcmc url 16 | pypi-agendgvzdc5wexbplm9yzw url 16 | rubygems_ hex 40 | clojars_ word 50
    nvapi- url 20 | dckr_pat_ url 20 | dckr_oat_ url 20 | r8_ word 30 | gsk_ word 40 | pplx- word 40 | xai- word 60
    pcsk_ url 40 | co_api_ word 30 | wandb_v1_ url 20 | ntn_ word 40 | lin_api_ word 30 | lin_oauth_ word 30
    figd_ url 30 | atatt3 dotted 60 | atctt3 dotted 60 | atbb word 28 40 | hvs. url 20 | hvb. url 60 | hvr. url 20
    dop_v1_ hex 60 | doo_v1_ hex 60 | dor_v1_ hex 60 | dapi hex 32 34 | dp.pt. word 40 | dp.st. dotted 40
    dt0c01. dotted 60 | dt0s01. dotted 60 | sg. dotted 50 | key- hex 32 32 | xkeysib- url 64 | ezak word 54
    eztk word 54 | shpat_ hex 32 | shpca_ hex 32 | shppa_ hex 32 | shpss_ hex 32 | sq0atp- url 20 | sq0csp- url 40
    eaaa url 60 | eaac word 100 | glc_ base64 32 | glsa_ url 32 | pmak- url 50 | nrak- upper 27 27 | nrii- url 30
    nrjs- url 19 | sntrys_ any 40 | sntryu_ hex 60 | phc_ word 40 | phx_ word 40 | pul- hex 40 | pnu_ word 36
    tk-us- url 48 | pscale_tkn_ dotted 32 | pscale_oauth_ dotted 32 | pscale_pw_ dotted 32 | rdme_ word 60
    fo1_ url 43 | fm1a_ base64 60 | fm1r_ base64 60 | fm2_ base64 60 | flwseck_test- url 12 | fio-u- dotted 60
    duffel_live_ dotted 40 | duffel_test_ dotted 40 | shippo_live_ hex 40 | shippo_test_ hex 40 | sm_aat_ word 16
    sm_pat_ word 16 | sm_sat_ word 16 | hrku-aa url 50 | sha256~ url 43 43 | ico- word 32 32 | p8e- word 32 32
    ops_eyj base64 60 | akcp word 60 | sgp_ url 40 | age-secret-key-1 upper 50 | api- upper 26 26 | sbp_ hex 40
    vercel_blob_rw_ url 20 | tskey- url 20 | ctx7sk- url 20 | tfp_ word 30 | secret_ word 43 43
    eyj url 8 2000 \\.eyJ[\\w-]{8,}(?:\\.[\\w-]*)? | eyjrijoi word 70 | zxlk base64 60 | ls0tls1crudjti base64 20
    cmvmd word 59 | _gitlab_session= word 20 | s-s4t2ud- hex 64 | s-s4t2af- hex 64 | 4b1d word 38 38
    eaam word 100
"""
"""What stands before it (in lower case, as all signs; the token itself is told from words by its own form), of which
characters the rest is, how many at least and at most, and what follows these."""
CASED: Final = {
    "akia": "AKIA", "asia": "ASIA", "abia": "ABIA", "acca": "ACCA", "absk": "ABSK", "ltai": "LTAI", "akid": "AKID",
    "aiza": "AIza", "gocspx-": "GOCSPX-", "pypi-ageichlwas5vcmc": "pypi-AgEIcHlwaS5vcmc", "gr1348941": "GR1348941",
    "pypi-agendgvzdc5wexbplm9yzw": "pypi-AgENdGVzdC5weXBpLm9yZw", "atatt3": "ATATT3", "atctt3": "ATCTT3",
    "atbb": "ATBB", "sg.": "SG.", "ezak": "EZAK", "eztk": "EZTK", "eaaa": "EAAA", "eaac": "EAAC", "pmak-": "PMAK-",
    "nrak-": "NRAK-", "nrii-": "NRII-", "nrjs-": "NRJS-", "flwseck_test-": "FLWSECK_TEST-", "hrku-aa": "HRKU-AA",
    "ops_eyj": "ops_eyJ", "akcp": "AKCp", "age-secret-key-1": "AGE-SECRET-KEY-1", "api-": "API-", "eyj": "eyJ",
    "eyjrijoi": "eyJrIjoi", "zxlk": "ZXlK", "ls0tls1crudjti": "LS0tLS1CRUdJTi", "cmvmd": "cmVmd",
    "eaam": "EAAM", "clojars_": "CLOJARS_",
}  # fmt: skip
"""Prefixes with capitals, by what they are in lower case."""
_SPECIAL: Final = {
    "q~": r"[\w.~]{3}\dQ~[\w.~-]{31,34}",  # Azure: client secrets
    "atlasv1": r"[0-9A-Za-z]{14}\.atlasv1\.[\w=-]{60,70}",  # Terraform
    "api/webhooks/": r"(?<=api/webhooks/)\d{15,20}/[\w-]{30,90}",  # Discord
    **dict.fromkeys(("mta", "mte", "mti", "mtm"), r"MT[AEIM]\w{21,25}\.[\w-]{6}\.[\w-]{27,40}"),  # Discord
    **dict.fromkeys(("pat.", "sat."), r"[ps]at\.[\w-]{22}\.[0-9A-Za-z]{24}\.[0-9A-Za-z]{20}"),  # Harness
    ".acc": r"(?:sc|ext|scauth|authress)_\w{5,30}\.\w{4,6}\.acc[_-][\w-]{10,32}\.[\w+/=-]{30,120}",  # Authress
    "v1.0-": r"v1\.0-[0-9a-f]{24}-[0-9a-f]{146}",  # Cloudflare
    "hooks.slack.com": r"(?<=hooks\.slack\.com/)[a-z]{8,9}/[\w/+-]{20,80}",
    "webhook.office.com": r"(?<=webhook\.office\.com/)webhookb2/[\w@/-]{30,200}",
    "api.telegram.org": r"(?<=api\.telegram\.org/bot)\d{6,12}:[\w-]{30,40}",
    ":aa": r"(?<![0-9:])\d{8,10}:AA[\w-]{33}(?![\w-])",  # Telegram
    "_mmk": r"[0-9A-Za-z]{6}_[0-9A-Za-z]{29}_mmk",  # MaxMind
    "a3-": r"A3-[0-9A-Z]{6}-[0-9A-Z]{6}-?[0-9A-Z]{5}(?:-[0-9A-Z]{5}){3}",  # 1Password
}
"""Shapes with a literal in the middle, by that literal."""


def _issued() -> dict[str, str]:
    patterns = {
        sign: pattern if pattern.startswith("(?<") else rf"(?<![0-9A-Za-z_]){pattern}"
        for sign, pattern in _SPECIAL.items()
    }
    for entry in re.split(r"\||\n", _TABLE):
        if entry.split():
            sign, kind, *rest = entry.split()
            counts = [word for word in rest if word.isdigit()]
            most = counts[1] if len(counts) > 1 else ""
            after = "".join(rest[len(counts) :]) or (f"(?!{_KINDS[kind]})" if most else "")
            prefix = re.escape(CASED.get(sign, sign))
            # the literal first, so that it is searched for quickly
            patterns[sign] = rf"{prefix}(?<![0-9A-Za-z_]{prefix}){_KINDS[kind]}{{{counts[0]},{most}}}+{after}"
    return patterns


ISSUED: Final = _issued()
"""Regular expressions of tokens, by a literal that each has, in lower case."""


@cache
def issued(sign: str) -> re.Pattern[str]:
    """Return the pattern for the tokens with a literal, compiled on demand."""
    return re.compile(ISSUED[sign], re.ASCII)


_REST: Final = lazy_re(r"[ \t]{0,40}(?P<rest>[\w.+/=-]{6,200})(?![\w.+/=-])", re.ASCII)


def continues(text: str, begin: int = 0) -> re.Match[str] | None:
    """Match the rest of a token that a terminal has wrapped: a word at `begin`, after blanks, of no language."""
    match = _REST.match(text, begin)
    rest = match["rest"] if match is not None else ""
    letters = rest.lower() != rest or rest.upper() != rest
    mixed = any(c.isdigit() for c in rest) or (rest.lower() != rest and rest[1:].lower() != rest[1:])
    return match if letters and mixed else None
