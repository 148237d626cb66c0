"""A DataLoader: `healthy` goes on for ever; `hung`: a worker never gives its item."""

import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Items(Dataset):
    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: int) -> torch.Tensor:
        if sys.argv[1] == "hung" and index == 40:
            time.sleep(100_000)
        return torch.ones(10) * index


if __name__ == "__main__":
    print("READY", flush=True)
    for _batch in DataLoader(Items(), batch_size=4, num_workers=2):
        time.sleep(0.01)
