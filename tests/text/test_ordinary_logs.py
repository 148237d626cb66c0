"""Ordinary logs are shown as they are: at most one line of 10,000 is masked, however random its words look."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from livedbg.text.secrets import TextMasker
from tests.text.secret_shapes import Maker

FIXTURES: Final = Path(__file__).parents[1] / "fixtures"
LINES: Final = 30_000
ONE_OF: Final = 10_000

_MADE: Final[tuple[Callable[[Maker, int], str], ...]] = (
    lambda m, n: f"2026-01-02 03:04:05,{n % 1000:03d} INFO train: step {n} loss=0.{n} tokens/s=4000 sha {m.hexa(40)}",
    lambda m, n: f"request {uuid.UUID(int=m.getrandbits(128))} took {n} ms key={m.hexa(16)} cache_key: {m.hexa(64)}",
    lambda m, _: f"tensor([[{m.random():.4f}, -{m.random():.4f}]], device='cuda:0', grad_fn=<MulBackward0>)",
    lambda m, n: (
        f"#{n % 30} 0x{m.hexa(12)} in at::native::{m.word(12)}(at::Tensor const&) from /lib/lib{m.word(8)}.so.1"
    ),
    lambda m, _: m.b64(57),
    lambda m, n: f"digest sha256:{m.hexa(64)} pulled from registry.io/team/image:v{n % 9}",
    lambda m, n: f"Cijk_Ailk_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x{n % 256}x64_MI16x16x1_{m.word(20)} took {n} us",
    lambda m, n: f"_ZN{n % 40}{m.word(30)}EPNS_6{m.word(10)}ERKSt6vectorIlSaIlEE",
    lambda m, n: f"auth ok, pass {n % 9} of 9, key exchange done, token {n} of 4096, secret sharing, basic {m.word(9)}",
    lambda m, _: f"  adding x-1.0-py3-none-any.whl sha256={base64.urlsafe_b64encode(m.randbytes(32)).decode()}",
    lambda m, n: f'GET /v1/models?limit={n}&after={uuid.UUID(int=m.getrandbits(128))} HTTP/1.1 200 etag "{m.hexa(32)}"',
    lambda m, n: f"[rank{n % 8}]: NCCL INFO comm 0x{m.hexa(12)} commId 0x{m.hexa(16)} - Init COMPLETE key {m.hexa(8)}",
    lambda m, n: f"wandb: Run data is saved locally in /wandb/run-20260102_030405-{m.word(8).lower()}, step {n}",
    lambda m, n: f"ascend/{m.hexa(4)}.cpp:{n % 900}:12: error: expected token, curl -s http://h:80/{m.word(12)}",
)


def _fixtures() -> Iterator[list[str]]:
    for path in sorted(FIXTURES.rglob("*")):
        if path.suffix in (".log", ".txt", ".json", ".jsonl", ".cpp") and path.is_file():
            yield path.read_text(errors="replace").split("\n")


def _masked(lines: list[str]) -> list[str]:
    masker = TextMasker()
    return [line for line in lines if masker.mask(line) != line]


def test_of_the_logs_of_real_programs_no_line_of_ten_thousand_is_masked() -> None:
    count, masked = 0, []
    for lines in _fixtures():
        count += len(lines)
        masked += _masked(lines)
    assert count > 2 * ONE_OF
    assert len(masked) <= count / ONE_OF, masked


def test_of_lines_full_of_hashes_no_line_of_ten_thousand_is_masked() -> None:
    maker = Maker(7)
    lines = [_MADE[number % len(_MADE)](maker, number) for number in range(LINES)]
    masked = _masked(lines)
    assert len(masked) <= LINES / ONE_OF, masked
