"""The rules of the PyTorch system."""

from __future__ import annotations

from collections.abc import Sequence

from livedbg.adapters.pytorch.aoti.rules import InKernel, PrintedValues
from livedbg.adapters.pytorch.rules.apart import MessagesUnderWay, NotJoined, StoreKeys
from livedbg.adapters.pytorch.rules.collectives import CollectiveDiffers, CollectiveMissing, CollectiveOrder
from livedbg.adapters.pytorch.rules.compile_logs import (
    CompileFailed,
    CompileTimes,
    Compiling,
    GraphBreaks,
    LeftUncompiled,
    LostWorkers,
    Recompiled,
)
from livedbg.adapters.pytorch.rules.ended import CollectiveEnded, RankKilled
from livedbg.adapters.pytorch.rules.loaders import LoaderWorker
from livedbg.adapters.pytorch.rules.notes import RasStatus, RecorderDumps, SettingWithoutEffect
from livedbg.adapters.pytorch.rules.progress import CollectiveProgress, LateRank, RanksAsleep
from livedbg.adapters.pytorch.rules.restarts import RendezvousWait, WorkerRestarts
from livedbg.adapters.pytorch.rules.rpc import RpcRequests, RpcShutdown
from livedbg.adapters.pytorch.rules.timeouts import CollectiveTimeouts, ElasticLogged, PeersClosed, RanksMissing
from livedbg.analysis.rules.base import Rule


def rules() -> Sequence[Rule]:
    """Return the rules of this room."""
    return (
        *(CollectiveMissing(), CollectiveOrder(), CollectiveDiffers(), StoreKeys(), NotJoined(), MessagesUnderWay()),
        *(RpcRequests(), RpcShutdown(), RendezvousWait(), WorkerRestarts(), CollectiveEnded(), RankKilled()),
        *(LateRank(), LoaderWorker(), SettingWithoutEffect(), RasStatus(), CollectiveProgress(), RanksAsleep()),
        *(RecorderDumps(), Compiling(), Recompiled(), GraphBreaks(), CompileFailed(), CompileTimes(), LostWorkers()),
        *(LeftUncompiled(), InKernel(), PrintedValues(), CollectiveTimeouts(), RanksMissing(), PeersClosed()),
        ElasticLogged(),
    )
