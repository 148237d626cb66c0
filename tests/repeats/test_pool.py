"""Many runs side by side, each on its device."""

from __future__ import annotations

import signal
import threading
from collections import Counter

import pytest

from livedbg.model.errors import UsageError
from livedbg.repeats.pool import Pool, check_visible, devices_of, visible


def test_devices_are_a_list_with_ranges() -> None:
    assert devices_of("0-3,5,1") == ("0", "1", "2", "3", "5")
    for text in ("", "a", "3-1", "0-", "-1", "0-99999", "1..3", "²", f"0-{10**30}"):
        with pytest.raises(UsageError):
            devices_of(text)


@pytest.mark.invariant("repeats_pool.P1")
def test_P1_runs_are_side_by_side_on_devices_of_their_own() -> None:
    lock = threading.Lock()
    now: Counter[str] = Counter()
    most: Counter[str] = Counter()
    meet = threading.Barrier(4, timeout=60)

    def one(number: int, device: str, stop: threading.Event) -> int:
        with lock:
            now[device] += 1
            most[device] = max(most[device], now[device])
        meet.wait()  # four are under way at once, or this breaks
        with lock:
            now[device] -= 1
        return number

    pool = Pool(12, 4, ("0", "1", "2"), one)
    pool.start()
    assert sorted(pool.results()) == list(range(1, 13))
    assert set(most) == {"0", "1", "2"} and most["0"] <= 2 and most["1"] == most["2"] == 1


@pytest.mark.invariant("repeats_pool.P2")
def test_P2_stop_begins_no_more() -> None:
    begun: list[int] = []

    def one(number: int, device: str, stop: threading.Event) -> int:
        begun.append(number)
        assert stop.wait(60)
        return number

    pool = Pool(100, 2, (), one)
    pool.start()
    while len(begun) < 2:
        threading.Event().wait(0.01)
    pool.stop()
    assert sorted(pool.results()) == [1, 2] and sorted(begun) == [1, 2]


@pytest.mark.invariant("repeats_pool.P3")
def test_P3_an_error_comes_out() -> None:
    def one(number: int, device: str, stop: threading.Event) -> int:
        if number == 2:
            raise UsageError("no such program")
        stop.wait(60)
        return number

    pool = Pool(9, 2, (), one)
    pool.start()
    with pytest.raises(UsageError):
        list(pool.results())


@pytest.mark.invariant("repeats_pool.V1")
def test_V1_devices_count_within_what_the_user_may_use() -> None:
    assert visible("", {"CUDA_VISIBLE_DEVICES": "4"}) == {}
    assert visible("1", {}) == {"CUDA_VISIBLE_DEVICES": "1", "ASCEND_RT_VISIBLE_DEVICES": "1"}
    set_already = {"CUDA_VISIBLE_DEVICES": "4, GPU-8a3f", "HIP_VISIBLE_DEVICES": "6,7", "ASCEND_RT_VISIBLE_DEVICES": ""}
    assert visible("1", set_already) == {"CUDA_VISIBLE_DEVICES": "GPU-8a3f", "HIP_VISIBLE_DEVICES": "7"}
    with pytest.raises(UsageError, match="CUDA_VISIBLE_DEVICES=4, GPU-8a3f lists 2 devices"):
        check_visible(("0", "1", "2"), set_already)


@pytest.mark.invariant("repeats_pool.P4")
def test_P4_a_signal_that_another_thread_gets_ends_the_wait_for_results() -> None:
    class Signalled(Exception):
        pass

    def handle(number: int, frame: object) -> None:
        raise Signalled

    def signal_this_thread() -> None:
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handle)
    pool = Pool(1, 1, (), lambda number, device, stop: stop.wait())
    pool.start()
    try:
        with pytest.raises(Signalled):
            threading.Timer(0.2, signal_this_thread).start()
            list(pool.results())
    finally:
        pool.stop()
        pool.join()
        signal.signal(signal.SIGUSR1, before)
