"""The steps of AOTInductor's guide, each made of recipes.

After https://docs.pytorch.org/docs/stable/torch.compiler_aot_inductor_debugging_guide.html. That page says that
AOTI_RUNTIME_CHECK_INPUTS acts as a model is compiled: in torch 2.13 it is read as the model runs.
"""

from __future__ import annotations

from typing import Final

from livedbg.session.guide import GuideStep

STEPS: Final = (
    GuideStep(title="check the inputs, and for NaN", recipes=("aoti-inputs", "aoti-nan"), catches=("any",)),
    GuideStep(title="find the kernel that does not return", recipes=("aoti-inputs", "aoti-last-kernel")),
    GuideStep(
        title="look at the kernel's inputs and outputs",
        recipes=("aoti-values={kernel}",),
        without=("aoti-first-nan",),
    ),
)
