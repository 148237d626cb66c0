"""One process with a DataLoader: its workers hang, poll, are slow or asleep, by the word on the command line."""

import multiprocessing
import queue
import sys
import threading
import time
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

HANGS_AT = 40
lock = threading.Lock()
filled_by_nobody: "queue.Queue[torch.Tensor]" = queue.Queue()
shared_by_all = multiprocessing.get_context("fork").Queue()


class Rows(Dataset):
    def __init__(self, word: str) -> None:
        self._get = getattr(self, word)

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: int) -> torch.Tensor:
        self._get(index)
        return torch.zeros(4)

    def takes_nothing(self, index: int) -> None:
        if index == HANGS_AT:
            filled_by_nobody.get()

    def locks(self, index: int) -> None:
        if index == HANGS_AT:
            lock.acquire()

    def takes_of_all(self, index: int) -> None:
        if index == HANGS_AT:
            shared_by_all.get()

    def sleeps_on(self, index: int) -> None:
        if index == HANGS_AT:
            time.sleep(100_000)

    def polls(self, index: int) -> None:
        while index >= HANGS_AT and not Path("/nowhere/rows").exists():
            self.pause()

    def pause(self) -> None:
        time.sleep(0.2)

    def naps(self, index: int) -> None:
        time.sleep(0.6)

    def naps_for_long(self, index: int) -> None:
        time.sleep(25 if index >= HANGS_AT else 0)

    naps_out_of_order = naps_for_long

    def computes(self, index: int) -> None:
        until = time.process_time() + 0.5
        while time.process_time() < until:
            torch.rand(100, 100).sum().item()


def hold() -> None:
    with lock:
        time.sleep(3)


def train(word: str) -> None:
    if word == "locks":
        threading.Thread(target=hold).start()
        while not lock.locked():
            time.sleep(0.01)
    in_order = word != "naps_out_of_order"
    for batch in DataLoader(Rows(word), batch_size=4, num_workers=2, in_order=in_order, multiprocessing_context="fork"):
        batch.sum()


if __name__ == "__main__":
    print("READY", flush=True)
    train(sys.argv[1])
