"""Compiles an AOTInductor model and runs it. Arguments: what is wrong with it, the folder of its files, the device."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

KIND, FOLDER = sys.argv[1], Path(sys.argv[2])
DEVICE = (sys.argv[3:] or ["cpu"])[0]

if KIND in ("hang", "throw"):
    torch.ops.load_library(str(FOLDER / "libops.so"))
    torch.library.register_fake(f"guide::{KIND}")(torch.empty_like)


class Model(torch.nn.Module):
    """Two layers, with something between them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = torch.nn.Linear(32, 64), torch.nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.first(x)) * 2
        if KIND == "nan":
            y = torch.log(y - 1)
        if KIND in ("hang", "throw"):
            y = getattr(torch.ops.guide, KIND)(y)
        return torch.softmax(self.second(y), -1)


x = torch.randn(4, 32, device=DEVICE)
with torch.no_grad():
    exported = torch.export.export(Model().eval().to(DEVICE), (x,))
    package = torch._inductor.aoti_compile_and_package(exported, package_path=str(FOLDER / f"{KIND}.pt2"))
run = torch._inductor.aoti_load_package(package)
wrong = {"shape": torch.randn(5, 32, device=DEVICE), "dtype": x.double()}
print("sum", float(run(wrong.get(KIND, x)).sum()))
