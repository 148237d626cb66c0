"""Makes events of GPU samples: only for what has changed."""

from __future__ import annotations

from livedbg.adapters.cuda.facts import GpuFacts
from livedbg.adapters.cuda.nvml.samples import GpuSample, Sample
from livedbg.model import Edge, EdgeKind, Resource, ids
from livedbg.model.events import CounterSeen, EdgesReplaced, Event, ResourcesSeen, Stamp
from livedbg.text.quantities import byte_size

__all__ = ["GpuEvents"]


class GpuEvents:
    """Makes events of what changed between two samples.

    Args:
        host: name of this host.
    """

    def __init__(self, host: str) -> None:
        self._host = host
        self._resources: dict[str, Resource] = {}
        self._counters: dict[tuple[str, str], float] = {}
        self._edges: tuple[Edge, ...] = ()

    def changes(self, sample: Sample, pids: frozenset[int], stamp: Stamp) -> list[Event]:
        """The events of one sample.

        Args:
            sample: of all GPUs.
            pids: the observed processes.
            stamp: of now.
        """
        events: list[Event] = []
        changed = []
        edges = []
        for gpu in sample.gpus:
            resource = self._resource(gpu)
            if self._resources.get(resource.id) != resource:
                self._resources[resource.id] = resource
                changed.append(resource)
            events += self._counted(resource.id, gpu.counters, stamp)
            for pid in sorted(pids & gpu.processes.keys()):
                edges.append(self._edge(pid, resource, gpu))
                share = {f"gpu{gpu.gpu.index}_busy_percent": float(gpu.busy[pid])} if pid in gpu.busy else {}
                events += self._counted(ids.process(self._host, pid), share, stamp)
        if changed:
            events.insert(0, ResourcesSeen(resources=tuple(changed), **stamp))
        if tuple(edges) != self._edges:
            self._edges = tuple(edges)
            events.append(EdgesReplaced(scope="nvml/processes", edges=self._edges, **stamp))
        return events

    def _resource(self, sample: GpuSample) -> Resource:
        gpu = sample.gpu
        facts = GpuFacts(
            uuid=gpu.uuid,
            bus=gpu.bus,
            driver=gpu.driver,
            memory_bytes=gpu.memory_bytes,
            held_down=tuple(sample.held_down),
            lost=sample.lost,
            processes=len(sample.processes),
        )
        busy = sample.counters.get("utilisation_percent")
        state = "lost" if sample.lost else None if busy is None else "busy" if busy else "idle"
        return Resource(
            id=f"gpu:{self._host}/{gpu.index}",
            kind="gpu",
            name=f"GPU {gpu.index}" + (f" ({gpu.name})" if gpu.name else ""),
            state=state,
            facts=facts,
        )

    def _counted(self, entity: str, counters: dict[str, float], stamp: Stamp) -> list[Event]:
        events: list[Event] = []
        for name, value in counters.items():
            if self._counters.get((entity, name)) != value:
                self._counters[entity, name] = value
                events.append(CounterSeen(entity=entity, name=name, value=value, **stamp))
        return events

    def _edge(self, pid: int, resource: Resource, sample: GpuSample) -> Edge:
        used = sample.processes[pid]
        memory = f", {byte_size(used)} of its memory" if used is not None else ""
        return Edge(
            kind=EdgeKind.RUNS_ON,
            source=ids.process(self._host, pid),
            target=resource.id,
            evidence=f"NVML lists process {pid} on GPU {sample.gpu.index}{memory}",
        )
