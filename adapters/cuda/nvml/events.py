"""Makes events of GPU samples: only for what has changed."""

from __future__ import annotations

from livedbg.adapters.cuda.facts import GpuFacts
from livedbg.adapters.cuda.nvml.samples import GpuSample, Sample
from livedbg.model import Edge, EdgeKind, Resource, ids
from livedbg.model.events import Event, Stamp
from livedbg.session.publisher import Publisher
from livedbg.text.quantities import byte_size

__all__ = ["GpuEvents"]


class GpuEvents:
    """Makes events of what changed between two samples.

    Args:
        host: name of this host.
    """

    def __init__(self, host: str) -> None:
        self._host = host
        self._shown = Publisher("nvml/processes")

    def changes(self, sample: Sample, pids: frozenset[int], stamp: Stamp) -> list[Event]:
        """The events of one sample.

        Args:
            sample: of all GPUs.
            pids: the observed processes.
            stamp: of now.
        """
        resources, edges, counters = [], [], dict[tuple[str, str], tuple[float, float | None]]()
        for gpu in sample.gpus:
            resource = self._resource(gpu)
            resources.append(resource)
            counters |= {(resource.id, name): (value, None) for name, value in gpu.counters.items()}
            for pid in sorted(pids & gpu.processes.keys()):
                edges.append(self._edge(pid, resource, gpu))
                if pid in gpu.busy:
                    counters[ids.process(self._host, pid), f"gpu{gpu.gpu.index}_busy_percent"] = gpu.busy[pid], None
        return self._shown.show(stamp, resources=resources, edges=edges, counters=counters)

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

    def _edge(self, pid: int, resource: Resource, sample: GpuSample) -> Edge:
        used = sample.processes[pid]
        memory = f", {byte_size(used)} of its memory" if used is not None else ""
        return Edge(
            kind=EdgeKind.RUNS_ON,
            source=ids.process(self._host, pid),
            target=resource.id,
            evidence=f"NVML lists process {pid} on GPU {sample.gpu.index}{memory}",
        )
