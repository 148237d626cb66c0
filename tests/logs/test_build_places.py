"""An installer runs a package's build from a string: no line of that is a place."""

from __future__ import annotations

import pytest

from tests.logs.reading import verdict

RUN = 'Traceback (most recent call last):\n  File "<string>", line 2, in <module>\n'
BUILT = '  File "/b/lib/python3.11/site-packages/torch/utils/cpp_ext.py", line 9, in run\n    raise Bad(said)\n'
FAILED = "RuntimeError: Error compiling objects for extension\n"
NVCC = "nvcc fatal   : Unsupported gpu architecture 'compute_777'\nninja: build stopped: subcommand failed.\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{NVCC}{RUN}{BUILT}{FAILED}", "nvcc failed: Unsupported gpu architecture 'compute_777'"),
        (
            f'{NVCC}{RUN}  File "/w/ops/setup.py", line 210, in <module>\n    setup(\n{BUILT}{FAILED}',
            "nvcc failed: Unsupported gpu architecture 'compute_777', at setup.py:210",
        ),
        (
            f"{RUN}ModuleNotFoundError: No module named 'torch'\n",
            "Crashed: ModuleNotFoundError: No module named 'torch'",
        ),
        (
            f'{RUN}  File "<string>", line 88, in version\nOSError: no compiler is set\n',
            "Crashed in version (<string>:88): OSError: no compiler is set",
        ),
    ],
)
def test_a_line_of_a_string_is_no_place(text: str, said: str) -> None:
    assert f"{verdict(text).sentence} ".startswith(f"{said}.")
