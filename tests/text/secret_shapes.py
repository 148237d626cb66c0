"""Shapes in which secrets occur, made from a seed: no secret of anybody, and none that stands in a file.

Sixty were there while the masking was written (`SHAPES`); forty were written before it, and tried only after it
(`UNSEEN`).
"""

from __future__ import annotations

import base64
import random
import string
from collections.abc import Callable
from typing import Final
from urllib.parse import quote

__all__ = ["ALL", "SHAPES", "UNSEEN", "Shape", "leaks"]

Made = tuple[str, tuple[str, ...]]
Shape = tuple[str, Callable[["Maker"], Made]]
_LEAK: Final = 8  # as many characters of a secret in a row
_LETTERS: Final = string.ascii_letters + string.digits


class Maker(random.Random):
    """Makes parts of secrets."""

    def hexa(self, count: int) -> str:
        """Lower hexadecimal digits."""
        return "".join(self.choices("0123456789abcdef", k=count))

    def word(self, count: int) -> str:
        """Letters of both cases and digits; the first four have all three."""
        return "".join([*"kQ7v", *self.choices(_LETTERS, k=count - 4)])

    def upper(self, count: int) -> str:
        """Upper letters and digits."""
        return "".join(self.choices(string.ascii_uppercase + "234567", k=count))

    def digits(self, count: int) -> str:
        """Decimal digits, no zero first."""
        return self.choice("123456789") + "".join(self.choices(string.digits, k=count - 1))

    def password(self) -> str:
        """As people choose them."""
        stem = self.choice(["Winter", "horse", "correct", "Blaubeere", "dragon"])
        return stem + self.choice(["!", "_", ""]) + self.digits(4) + self.choice(["x", "", "Q"])

    def b64(self, count: int) -> str:
        """Base64 of `count` random bytes."""
        return base64.b64encode(self.randbytes(count)).decode()

    def url64(self, count: int) -> str:
        """Base64 for URLs, without padding."""
        return base64.urlsafe_b64encode(self.randbytes(count)).decode().rstrip("=")

    def uuid(self) -> str:
        """Eight, four, four, four, twelve."""
        return "-".join(self.hexa(count) for count in (8, 4, 4, 4, 12))

    def jwt(self) -> str:
        """Header, payload, signature."""
        head = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').decode().rstrip("=")
        body = base64.urlsafe_b64encode(b'{"sub":"%s"}' % self.hexa(12).encode()).decode().rstrip("=")
        return f"{head}.{body}.{self.url64(32)}"

    def pem_body(self, lines: int = 4) -> list[str]:
        """Lines of 64 characters."""
        return [self.b64(48) for _ in range(lines)]


def _in(before: str, make: Callable[[Maker], str], after: str = "") -> Callable[[Maker], Made]:
    def made(maker: Maker) -> Made:
        secret = make(maker)
        return before + secret + after, (secret,)

    return made


def _pem(kind: str, joint: str = "\n", before: str = "", after: str = "") -> Callable[[Maker], Made]:
    def made(maker: Maker) -> Made:
        body = maker.pem_body()
        text = joint.join([f"-----BEGIN {kind}-----", *body, f"-----END {kind}-----"])
        return before + text + after, tuple(body)

    return made


def _basic(before: str, after: str = "") -> Callable[[Maker], Made]:
    def made(maker: Maker) -> Made:
        secret = base64.b64encode(f"admin:{maker.password()}{maker.word(6)}".encode()).decode()
        return before + secret + after, (secret,)

    return made


def _wrapped(maker: Maker) -> Made:
    token = "hf_" + maker.word(34)
    return f"using the token {token[:20]}\n    {token[20:]} for the hub", (token[:20], token[20:])


def _base64_of_pem(maker: Maker) -> Made:
    secret = base64.b64encode(
        f"-----BEGIN RSA PRIVATE KEY-----\n{maker.b64(48)}\n-----END RSA PRIVATE KEY-----".encode()
    )
    return f"TLS_BUNDLE={secret.decode()}", (secret.decode()[40:],)


SHAPES: Final[tuple[Shape, ...]] = (
    ("mysql -p", _in("mysql -u root -p", Maker.password, " -h db1 train")),
    ("PEM RSA", _pem("RSA PRIVATE KEY")),
    ("PEM in JSON", _pem("PRIVATE KEY", "\\n", '{"type": "service_account", "private_key": "', '\\n"}')),
    ("PEM OpenSSH", _pem("OPENSSH PRIVATE KEY")),
    ("wandb", _in("wandb: logging in with ", lambda m: m.hexa(40))),
    ("JSON body", _in('POST /login {"user": "me", "password": "', Maker.password, '"}')),
    ("Cookie", _in("Cookie: sessionid=", lambda m: m.word(32), "; lang=en")),
    ("Set-Cookie", _in("Set-Cookie: sid=", lambda m: m.hexa(32), "; HttpOnly")),
    ("X-Api-Key", _in("X-Api-Key: ", lambda m: m.word(24))),
    ("X-Auth-Token", _in("> X-Auth-Token: ", lambda m: m.hexa(32))),
    ("JWT", _in("session started with ", Maker.jwt)),
    ("URL token", _in("GET https://api.x.io/v1/jobs?token=", lambda m: m.word(20), "&n=3")),
    ("URL api_key", _in("GET https://api.x.io/v1/jobs?n=3&api_key=", lambda m: m.hexa(32))),
    ("URL access_token", _in("https://graph.x.com/me?access_token=", lambda m: m.word(40), " 200")),
    ("postgres", _in("postgres://app:", Maker.password, "@db1:5432/app")),
    ("mongodb+srv", _in("mongodb+srv://app:", Maker.password, "@c0.ab1cd.mongodb.net/x?retryWrites=true")),
    ("AccountKey", _in("AccountName=st1;AccountKey=", lambda m: m.b64(64), ";EndpointSuffix=core.windows.net")),
    ("Server Password", _in("Server=db1;Database=app;User Id=sa;Password=", Maker.password, ";Encrypt=true")),
    ("Basic", _basic("Authorization: Basic ")),
    ("docker auth", _basic('{"auths": {"reg.io": {"auth": "', '"}}}')),
    ("wrapped", _wrapped),
    ("AWS id", _in("using ", lambda m: "AKIA" + m.upper(16), " in eu-west-1")),
    ("AWS secret", _in("aws_secret_access_key = ", lambda m: m.b64(30))),
    ("AWS session", _in("AWS_SESSION_TOKEN=", lambda m: "IQoJ" + m.b64(90))),
    ("Google API", _in("maps key is ", lambda m: "AIza" + m.word(35))),
    ("Google OAuth", _in("refreshed: ", lambda m: "ya29." + m.url64(60))),
    ("GitHub", _in("cloning with ", lambda m: "ghp_" + m.word(36))),
    ("GitHub fine", _in("cloning with ", lambda m: f"github_pat_{m.word(22)}_{m.word(59)}")),
    ("GitLab", _in("cloning with ", lambda m: "glpat-" + m.word(20))),
    ("Slack", _in("notify with ", lambda m: f"xoxb-{m.digits(12)}-{m.digits(12)}-{m.word(24)}")),
    (
        "Slack hook",
        _in("notify https://hooks.slack.com/services/T0AB12CD34/B0AB12CD34/", lambda m: m.word(24)),
    ),
    ("Stripe", _in("charge by ", lambda m: "sk_live_" + m.word(24))),
    ("OpenAI", _in("Incorrect API key provided: ", lambda m: "sk-proj-" + m.word(48))),
    ("Anthropic", _in("client uses ", lambda m: "sk-ant-api03-" + m.url64(70) + "AA")),
    ("Hugging Face", _in("hub: ", lambda m: "hf_" + m.word(34))),
    ("NVIDIA", _in("nim: ", lambda m: "nvapi-" + m.url64(48))),
    ("NGC", _in("NGC_API_KEY=", lambda m: m.b64(63))),
    ("PyPI", _in("upload by ", lambda m: "pypi-AgEIcHlwaS5vcmc" + m.url64(100))),
    ("npm", _in("publish by ", lambda m: "npm_" + m.word(36))),
    ("npmrc", _in("//registry.npmjs.org/:_authToken=", Maker.uuid)),
    ("kube key", _in("    client-key-data: ", lambda m: "LS0tLS1CRUdJTiBSU0Eg" + m.b64(90))),
    ("kube token", _in("    token: ", lambda m: m.url64(60))),
    ("netrc", _in("machine git.x.io login me password ", Maker.password)),
    ("pgpass", _in("db1.x.io:5432:app:me:", Maker.password)),
    ("Telegram", _in("https://api.telegram.org/bot", lambda m: m.digits(9) + ":AA" + m.word(33), "/sendMessage")),
    ("SendGrid", _in("mail by ", lambda m: f"SG.{m.word(22)}.{m.word(43)}")),
    ("Twilio", _in("twilio auth_token=", lambda m: m.hexa(32))),
    ("Mailgun", _in("mail by ", lambda m: "key-" + m.hexa(32))),
    ("Azure SAS", _in("https://s.blob.core.windows.net/c/f?sv=2022&se=2026&sr=b&sig=", lambda m: quote(m.b64(32), ""))),
    ("Azure client", _in("tenant uses ", lambda m: m.word(7)[4:] + "8Q~" + m.word(34))),
    ("Heroku", _in("HEROKU_API_KEY=", Maker.uuid)),
    ("DigitalOcean", _in("droplet by ", lambda m: "dop_v1_" + m.hexa(64))),
    ("Vault", _in("unsealed, ", lambda m: "hvs." + m.word(24 + 66))),
    ("Databricks", _in("cluster by ", lambda m: "dapi" + m.hexa(32))),
    ("curl -u", _in("curl -s -u me:", Maker.password, " https://x.io/a")),
    ("Password:", _in("Password: ", Maker.password)),
    ("redis", _in("redis-cli -h r1 -a ", Maker.password, " ping")),
    ("dict", _in("config {'host': 'db1', 'password': '", Maker.password, "', 'port': 5432}")),
    ("sshpass", _in("sshpass -p ", Maker.password, " ssh me@h1")),
    ("secret option", _in("train.py --wandb-api-key ", lambda m: m.hexa(40), " --epochs 3")),
)  # fmt: skip

UNSEEN: Final[tuple[Shape, ...]] = (
    ("GitLab runner", _in("registered ", lambda m: "glrt-" + m.word(20))),
    ("Shopify", _in("shop by ", lambda m: "shpat_" + m.hexa(32))),
    ("Square", _in("pay by ", lambda m: "sq0csp-" + m.word(43))),
    ("Grafana", _in("dashboards by ", lambda m: f"glsa_{m.word(32)}_{m.hexa(8)}")),
    ("Linear", _in("issues by ", lambda m: "lin_api_" + m.word(40))),
    ("Notion", _in("pages by ", lambda m: "secret_" + m.word(43))),
    ("Discord bot", _in("bot ", lambda m: f"MTA{m.word(21)}.{m.word(6)}.{m.word(38)}")),
    (
        "Discord hook",
        _in("https://discord.com/api/webhooks/261778445014349789/", lambda m: m.url64(51)),
    ),
    ("Doppler", _in("config by ", lambda m: "dp.pt." + m.word(43))),
    ("Postman", _in("run by ", lambda m: f"PMAK-{m.hexa(24)}-{m.hexa(34)}")),
    ("New Relic", _in("metrics by ", lambda m: "NRAK-" + m.upper(27))),
    ("Sentry", _in("SENTRY_DSN=https://", lambda m: m.hexa(32), "@o1.ingest.sentry.io/42")),
    ("Terraform", _in("apply by ", lambda m: f"{m.word(14)}.atlasv1.{m.word(67)}")),
    ("age", _in("decrypt by ", lambda m: "AGE-SECRET-KEY-1" + m.upper(58))),
    ("PGP", _pem("PGP PRIVATE KEY BLOCK")),
    ("Google client", _in("oauth by ", lambda m: "GOCSPX-" + m.word(28))),
    ("Replicate", _in("predict by ", lambda m: "r8_" + m.word(37))),
    ("Groq", _in("infer by ", lambda m: "gsk_" + m.word(52))),
    ("wandb login", _in("wandb login --relogin ", lambda m: m.hexa(40))),
    ("docker login", _in("docker login -u me -p ", Maker.password, " reg.io")),
    ("git clone", _in("git clone https://x-access-token:", lambda m: "ghs_" + m.word(36), "@github.com/x/y")),
    ("ftp", _in("ftp://me:", Maker.password, "@ftp.x.io/f")),
    ("amqp", _in("amqps://me:", Maker.password, "@mq1:5671/v")),
    ("JDBC", _in("jdbc:mysql://db1/app?user=me&password=", Maker.password, "&ssl=true")),
    ("JDBC Oracle", _in("jdbc:oracle:thin:scott/", Maker.password, "@db1:1521:x")),
    ("mount", _in("mount -t cifs //s/x /mnt -o username=me,password=", Maker.password, ",vers=3")),
    ("openssl", _in("openssl rsa -in k.pem -passin pass:", Maker.password, " -out k")),
    ("gpg", _in("gpg --batch --passphrase ", Maker.password, " -d f.gpg")),
    ("XML", _in("<user>me</user><password>", Maker.password, "</password>")),
    ("YAML", _in("  db_password: ", Maker.password)),
    ("TOML", _in('secret_key = "', lambda m: m.word(30), '"')),
    ("export", _in("+ export DB_PASSWORD=", Maker.password)),
    ("form", _in("grant_type=password&username=me&client_secret=", lambda m: m.word(24), "&scope=a")),
    ("URL-coded JSON", _in("body=%7B%22password%22%3A%22", Maker.password, "%22%7D")),
    ("S3 signed", _in("https://b.s3.amazonaws.com/k?X-Amz-Expires=60&X-Amz-Signature=", lambda m: m.hexa(64))),
    ("header pairs", _in("[(b'host', b'x.io'), (b'authorization', b'Bearer ", lambda m: m.word(32), "')]")),
    ("WireGuard", _in("PrivateKey = ", lambda m: m.b64(32))),
    ("Atlassian", _in("jira by ", lambda m: "ATATT3xFfGF0" + m.url64(130))),
    ("PEM in base64", _base64_of_pem),
    ("Redis AUTH", _in('1700000000.1 [0 10.0.0.1:5] "AUTH" "', Maker.password, '"')),
)  # fmt: skip

ALL: Final = SHAPES + UNSEEN


def made(shape: Shape, seed: int = 1) -> Made:
    """The text of a shape, and the secrets in it."""
    return shape[1](Maker(f"{shape[0]} {seed}"))


def leaks(text: str, secrets: tuple[str, ...]) -> bool:
    """Whether a text shows a secret, or eight characters of it in a row."""
    return any(secret[at : at + _LEAK] in text for secret in secrets for at in range(max(len(secret) - _LEAK, 0) + 1))
