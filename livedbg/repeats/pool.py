"""Runs a command many times, several at once, each on a device of its own if devices are given.

A run is limited to one device by the variables that systems declare (`System.device_variables`): numbers or UUIDs, in a
list whose order counts.

Invariants:
    repeats_pool.P1. A device has at most ceil(K / devices) runs at a time, and each has one of the first; the others
        start in the order of their numbers.
    repeats_pool.P2. `stop` starts no further run and sets the event of the running ones; `results` ends when they have
        ended.
    repeats_pool.P4. A signal ends the wait for results, whichever thread the kernel gives it to: `results` wakes now
        and then (livedbg.session.live).
    repeats_pool.P3. A run that raises ends the pool: the error comes out of `results`, after the others were stopped.
    repeats_pool.V1. A run gets no device that the user's own variables hide: a number is an index into their lists.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, Generic, TypeVar

from livedbg.model.errors import UsageError
from livedbg.session.systems import systems
from livedbg.text.patterns import lazy_re
from livedbg.text.wording import many

Result = TypeVar("Result")
_MOST_DEVICES: Final = 1024
_SLICE_S: Final = 0.5
"""Longest wait before Python can run the handler of a signal that the kernel gave to another thread."""
_NUMBER: Final = lazy_re(r"[0-9]{1,6}")


class Pool(Generic[Result]):
    """Runs, at most `parallel` at a time.

    Args:
        devices: their names; () if runs have none.
        one: performs one run, given its number from 1, its device or "", and an event that stops it.
    """

    def __init__(
        self, count: int, parallel: int, devices: Sequence[str], one: Callable[[int, str, threading.Event], Result]
    ) -> None:
        self._count = count
        self._one = one
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._ended: queue.SimpleQueue[Result | BaseException] = queue.SimpleQueue()
        slots = [devices[number % len(devices)] if devices else "" for number in range(min(parallel, count))]
        self._numbers = iter(range(len(slots) + 1, count + 1))
        self._threads = [
            threading.Thread(target=self._work, args=(slot, number), name=f"livedbg-run-{number}")
            for number, slot in enumerate(slots, 1)
        ]
        self._living = len(self._threads)

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Start no further run, and end the running ones."""
        self._stop.set()

    def results(self) -> Iterator[Result]:
        """Yield each run's result as it ends."""
        while True:
            try:
                result = self._ended.get(timeout=_SLICE_S)
            except queue.Empty:
                continue
            if isinstance(result, _Last):
                self._living -= 1
                if self._living == 0:
                    return
            elif isinstance(result, BaseException):
                self.stop()
                for thread in self._threads:
                    thread.join()
                raise result
            else:
                yield result

    def join(self) -> None:
        """Wait until all have ended."""
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def _work(self, device: str, first: int) -> None:
        number: int | None = first
        try:
            while number is not None and not self._stop.is_set():
                self._ended.put(self._one(number, device, self._stop))
                with self._lock:
                    number = next(self._numbers, None)
        except BaseException as error:
            self._ended.put(error)
        self._ended.put(_Last())


class _Last(BaseException):
    """Sent by a thread that ends."""


def devices_of(text: str) -> tuple[str, ...]:
    """Return the devices of a list such as `0-3,5`.

    Raises:
        UsageError: the text is not such a list.
    """
    found: dict[str, None] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        first, dash, last = part.partition("-")
        if not _NUMBER.fullmatch(first) or (dash and not _NUMBER.fullmatch(last)):
            raise UsageError(f"--gpus: {part!r} is not a number or a range.", "--gpus 0-3 or --gpus 0,2")
        numbers = range(int(first), int(last or first) + 1)
        if not numbers or len(found) + len(numbers) > _MOST_DEVICES:
            raise UsageError(f"--gpus: {part!r} is not a range of devices.", "--gpus 0-3 or --gpus 0,2")
        found.update(dict.fromkeys(map(str, numbers)))
    if not found:
        raise UsageError("--gpus needs device numbers.", "--gpus 0-3 or --gpus 0,2")
    return tuple(found)


def visible(device: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that give a run one device; {} for all devices ("").

    Args:
        device: its number among the devices that the command sees.
        environment: the user's variables. An empty list stays empty.

    Raises:
        UsageError: a list has fewer devices.
    """
    found: dict[str, str] = {}
    for variable in (one for system in systems() for one in system.device_variables) if device else ():
        name = variable.name
        if name not in environment:
            if variable.always:
                found[name] = device
            continue
        allowed = [word.strip() for word in environment[name].split(",") if word.strip()]
        if allowed and int(device) >= len(allowed):
            raise UsageError(
                f"--gpus: no device {device}: {name}={environment[name]} lists {many(len(allowed), 'device')}.",
                f"--gpus 0-{len(allowed) - 1}, or unset {name}",
            )
        if allowed:
            found[name] = allowed[int(device)]
    return found


def check_visible(devices: Iterable[str], environment: Mapping[str, str]) -> None:
    """Check that such devices exist in the user's lists; raise UsageError if not."""
    for device in devices:
        visible(device, environment)
