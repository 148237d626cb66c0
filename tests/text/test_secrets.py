"""Secrets in command lines, environments and texts are masked, and what only looks like one is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from livedbg.text.issued_tokens import ISSUED, issued
from livedbg.text.secrets import MASK, mask_command, mask_environment, mask_text, mask_variable

SECRETS = [
    ("--api-key X", "--api-key ***"),
    ("--token=X", "--token=***"),
    ("--token s3cr3t", "--token s***"),
    ("--hf_token abc", "--hf_token ***"),
    ("-Dspring.datasource.password=pw", "-Dspring.datasource.password=***"),
    ("--wandb-api-key=1", "--wandb-api-key=1"),  # a switch's value
    ("--wandb-api-key=12", "--wandb-api-key=***"),
    ("env FOO_SECRET=x train", "env FOO_SECRET=*** train"),
    ("model.apiKey=abc", "model.apiKey=***"),
    ("--clientSecret abc", "--clientSecret ***"),
    ("--dsn postgres://user:pw@host/db", "--dsn postgres://user:***@host/db"),
    ("redis://:p@ss:w0rd@host:6379/0", "redis://:p***@host:6379/0"),
    ("https://ghs16charsXYZ01234567@github.com/x", "https://ghs1***@github.com/x"),
    ("--password 12345", "--password 1***"),
    ("--db-pass hunter2", "--db-pass h***"),
    ("--auth-key 9f8a7b6c5d4e3f2a", "--auth-key 9f8a***"),
    ("--signing_cookie 9f8a7b6c5d4e3f2a1", "--signing_cookie 9f8a***"),
]
NO_SECRETS = [
    "--max-tokens 4096",
    "--max-new-tokens=128",
    "--tokenizer llama",
    "--tokenizer-path /models/tok",
    "--pad-token <pad>",
    "--eos-token-id 2",
    "--stop-token END",
    "--token-budget 4096",
    "KEY_DIM=64",
    "--key-dim 64",
    "--num-keys 8",
    "--key-cache-dtype fp8",
    "--sort-key loss",
    "--label-key text_label_01",
    "PYTHONHASHSEED=0",
    "--password-file /run/secrets/pw",
    "--no-password host",
    "--use-token train.py",
    "--private-key ~/.ssh/id_ed25519",
    "--author alice",
    "--keyboard us",
    "--monkey 3",
    "--attention flash",
    "--passes 3",
    "--master-addr 10.0.0.1",
    "tcp://10.0.0.1:29500",
    "ssh://git@github.com/x/y.git",
    "http://host:80/path?mail=a@b.c",
    "--secret",
    "--token --verbose",
    "--compass north",
    "PWD=/root",
    "--pattern x1234567890abcdef",
]


@pytest.mark.invariant("secrets.K2")
@pytest.mark.parametrize(("line", "masked"), SECRETS)
def test_a_secret_of_a_command_line_is_masked(line: str, masked: str) -> None:
    assert " ".join(mask_command(["train", *line.split(" ")])[1:]) == masked


@pytest.mark.parametrize("line", NO_SECRETS)
def test_what_only_looks_like_a_secret_stays(line: str) -> None:
    assert " ".join(mask_command(["train", *line.split(" ")])[1:]) == line
    assert mask_text(line) == line


def test_options_of_programs_that_do_not_name_their_secret() -> None:
    assert mask_command(["/usr/bin/curl", "-u", "me:pw", "http://x"]) == ("/usr/bin/curl", "-u", "me:***", "http://x")
    assert mask_command(["mysql", "-uroot", "-phunter2", "db"]) == ("mysql", "-uroot", "-ph***", "db")
    assert mask_command(["sshpass", "-p", "pw", "ssh", "h"]) == ("sshpass", "-p", MASK, "ssh", "h")
    assert mask_command(["docker", "login", "-p", "pw"]) == ("docker", "login", "-p", MASK)
    assert mask_command(["docker", "run", "-p", "80:80"]) == ("docker", "run", "-p", "80:80")


def test_a_script_or_json_in_a_word_is_masked_inside() -> None:
    words = mask_command(["sh", "-c", "train --api-key abc; curl -H 'Authorization: Bearer a1b2c3d4' http://u:pw@h"])
    assert words[2] == "train --api-key ***; curl -H 'Authorization: Bearer a1***' http://u:***@h"
    assert mask_command(["x", "--config", '{"api_key": "abc", "max_tokens": 4096}'])[2] == (
        '{"api_key": "***", "max_tokens": 4096}'
    )


def test_an_environment_is_masked_by_its_names() -> None:
    names = [
        "HF_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "PGPASSWORD",
        "MYSQL_PWD",
        "FOO_SECRET",
        "DB_PASSWORD_2",
    ]
    assert mask_environment(dict.fromkeys(names, "abcd")) == dict.fromkeys(names, "a***")
    harmless = {
        "PATH": "/bin", "KEY_DIM": "64", "PYTHONHASHSEED": "0", "PWD": "/root", "OLDPWD": "/",
        "TOKENIZERS_PARALLELISM": "false",
        "SSH_AUTH_SOCK": "/tmp/agent.1", "XDG_SESSION_ID": "5", "GOOGLE_APPLICATION_CREDENTIALS": "/etc/gcp.json",
        "PASSWORD_STORE_DIR": "/x", "HF_TOKEN": "",
    }  # fmt: skip
    assert mask_environment(harmless) == harmless
    assert mask_environment({"http_proxy": "http://u:pw@h:1"}) == {"http_proxy": "http://u:***@h:1"}


@pytest.mark.parametrize(
    ("line", "masked"),
    [
        ("GET / Authorization: Bearer abc.def-123", "GET / Authorization: Bearer ab***"),
        ("headers={'Authorization': 'Basic dXNlcjpwdw=='}", "headers={'Authorization': 'Basic dXN***'}"),
        ("sent bearer 0123456789abcdef", "sent bearer 0123***"),
        ("X-Api-Key: 0123456789", "X-Api-Key: 01***"),
        ("Cookie: session=abc; id=2", "Cookie: session=***; id=***"),
        ("connect(host='h', password='p w', port=1)", "connect(host='h', password='***', port=1)"),
        ("config: hf_token=abc)", "config: hf_token=***)"),
        ("api_key: abc", "api_key: ***"),
        ('{"client_secret": "x y", "key": 3}', '{"client_secret": "***", "key": 3}'),
        ('"{\\"api_key\\": \\"abc\\"}"', '"{\\"api_key\\": \\"***\\"}"'),
        ("login with hf_AbCdEfGhIjKlMnOpQrStUvWx failed", "login with hf_A*** failed"),
        ("AKIAABCDEFGHIJKLMNOP is not authorised", "AKIA*** is not authorised"),
        ("GET https://x.blob.net/f?sv=1&sig=abcdefghij%3D", "GET https://x.blob.net/f?sv=1&sig=abc***"),
        ("AccountName=me;AccountKey=abc==;", "AccountName=me;AccountKey=a***;"),
        ("-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
         "-----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY-----"),
    ],
)  # fmt: skip
def test_a_secret_in_a_log_record_is_masked(line: str, masked: str) -> None:
    assert mask_text(line) == masked


@pytest.mark.parametrize(
    "line",
    [
        "SyntaxError: unexpected token: identifier",
        "next token = 42, max_tokens=4096, num_tokens: 17",
        "KeyError: 'layer.12.attention'",
        "missing key: model.layers.12.self_attn.weight",
        "cache key=f0a1b2c3d4e5f6a7b8c9",
        "def f(token=token, password=args.password): ...",
        "authorization: denied",
        "the bearer certificates",
        "sk-learn-style-estimator-names are fine",
        "tokens/s: 1234, key_dim=64",
        "sorted(rows, key=lambda row: row.name)",
        "12 passed, pass=3",
        "nccl://0 bootstrap key 0x1234",
    ],
)
def test_a_log_record_without_a_secret_stays(line: str) -> None:
    assert mask_text(line) == line


def test_local_variables_that_are_strings_are_masked_by_their_names() -> None:
    assert mask_variable("hf_token='abc'") == "hf_token=***"
    assert mask_variable("token=42") == "token=42"
    assert mask_variable("token=<Token kind=3>") == "token=<Token kind=3>"
    assert mask_variable("url='http://u:pw@h'") == "url='http://u:***@h'"


@pytest.mark.invariant("secrets.K1")
@given(
    st.lists(
        st.sampled_from([*"=:\"' \\@/-_a9", "token", "password", "://", "--api-key", "bearer ", "key"]), max_size=30
    )
)
def test_masking_is_idempotent(parts: list[str]) -> None:
    text = "".join(parts)
    once = mask_text(text)
    assert mask_text(once) == once
    words = mask_command(text.split(" "))
    assert mask_command(words) == words


@pytest.mark.invariant("issued_tokens.J1")
def test_tokens_of_issuers_are_found_by_a_literal_that_each_has_and_in_linear_time() -> None:
    """A quadratic pattern would take minutes of one of these texts."""
    for sign, pattern in ((sign, issued(sign)) for sign in ISSUED):
        assert sign == sign.lower() and len(sign) > 1
        assert pattern.search("") is None
        for unit in (sign, sign.upper(), sign + "aB3", sign + "aB3" * 30 + "!"):
            pattern.sub("", unit * (100_000 // len(unit)))


@pytest.mark.invariant("secrets.K1")
@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "token",
        "://",
        "-",
        "key=",
        "--key ",
        '"key',
        "bearer ",
        "cookie:",
        "-----BEGIN PRIVATE KEY-----",
        "eyJ",
        "x.",
        "curl -u ",
        "mysql -p",
        "wandb login ",
        "<password>",
        'auth" "',
        ":5432:",
        "login a password ",
        "hf_",
        "basic ",
        "%22",
        "?a=",
        "AKIA",
        "jdbc:oracle:a:",
    ],
)
def test_long_hostile_texts_take_linear_time(unit: str) -> None:
    """Quadratic matching of such a text would run into the time limit of the suite."""
    mask_text("password" + unit * (300_000 // len(unit)))
