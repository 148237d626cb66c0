"""The adapter that contributes the decoder of all signatures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from livedbg.session.adapter import Request
from livedbg.session.log_adapter import LogsAdapter

if TYPE_CHECKING:
    from livedbg.logs.decoder import LogDecoder


class SignaturesAdapter(LogsAdapter):
    """Failure texts in logs, as files of signatures describe them."""

    name = "signatures"
    title = "Failure texts in logs"
    sees = "failure texts of launchers, schedulers, kernels, compilers, runtimes and your own (`livedbg signatures`)"

    def decoders(self, request: Request) -> Sequence[LogDecoder]:
        """The decoder of the logs."""
        from livedbg.session.signatures import book
        from livedbg.signatures.decoder import SignatureDecoder

        return (SignatureDecoder(lambda: book(request.signatures)[0]),)
