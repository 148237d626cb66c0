"""An adapter that contributes decoders of logs, and does nothing else."""

from __future__ import annotations

from livedbg.session.adapter import Adapter, Context, Request


class LogsAdapter(Adapter):
    """Gives its `decoders` to the adapter that reads logs."""

    cost = "reads log lines that are read anyway"

    @classmethod
    def applies(cls, request: Request) -> bool:
        """Any session that reads logs."""
        return bool(request.processes or request.logs)

    async def run(self, context: Context) -> None:
        """Nothing to do: the decoders do it all."""
        context.settled()
