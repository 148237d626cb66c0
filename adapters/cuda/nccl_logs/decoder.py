"""The decoder of what NCCL itself logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from livedbg.adapters.cuda.nccl_logs import ras, warnings
from livedbg.logs.said import Form, SaidDecoder, words_of

__all__ = ["NcclDecoder"]

_FORMS = (*warnings.FORMS, *ras.FORMS)


class NcclDecoder(SaidDecoder):
    """Makes a diagnostic of each of NCCL's messages that say why a job fails."""

    name = "cuda"
    forms: ClassVar[Sequence[Form]] = _FORMS
    triggers: ClassVar[tuple[bytes, ...]] = (*words_of(_FORMS), *ras.BLOCK)
    together: ClassVar[int] = 16
    near: ClassVar[int] = 40
