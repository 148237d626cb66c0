"""The definition of the PyTorch system."""

from __future__ import annotations

from typing import Final

from livedbg.model import CauseClass
from livedbg.session.systems import Framework, Guide, Lazy, LogPlaces, MarkerPair, Signs, System, TensorFiles

SYSTEM: Final = System(
    name="pytorch",
    title="PyTorch",
    about="collectives of torch.distributed: which rank is missing, and where it is; errors as catch presets",
    rank=40,
    signs=Signs(
        files=(r"/libtorch(?:_cpu|_cuda|_python)?\.so|/libc10\.so",),
        modules=("lib(?:torch|c10)",),
    ),
    framework=Framework(
        modules=(r"lib(?:torch|c10|shm\.so|caffe2)", r"_C\.cpython-"),
        files=(
            r"/(?:site|dist)-packages/(?:torch\w*|functorch|triton)/",
            r"/torch/(?:_\w+|ao|autograd|cuda|distributed|export|fx|jit|multiprocessing|nn|optim|testing|utils)(?:/|\.py$)",
            r"/torchinductor_|/c[a-z2-7]{51}\.(?:main\.)?(?:py|cpp)$",  # what inductor wrote, by its digest
            # layers that all models call, which are the place
            r"/(?:vllm/model_executor/layers|sglang/srt/layers|vllm_ascend/ops)/(?:quantization/|(?:\w{1,20}_)?"
            r"(?:activation|attention|embedding|layernorm|linear|utils)\.py$)",
            r"/(?:triton/(?:compiler|language|runtime|backends)|helion/(?:_\w+|autotuner|language|runtime))(?:/|\.py$)",
        ),
        functions=(r"(?:at|c10d?|caffe2|torch)::",),
        workers=(("torch/utils/data/_utils/worker.py", "_worker_loop"),),
    ),
    on_signs=True,
    adapters={
        "collectives": Lazy("livedbg.adapters.pytorch.collectives.adapter:CollectivesAdapter"),
        "aoti": Lazy("livedbg.adapters.pytorch.aoti.adapter:ModelsAdapter"),
        "recorder-dumps": Lazy("livedbg.adapters.pytorch.recorder_dumps.adapter:RecorderDumpsAdapter"),
        "loaders": Lazy("livedbg.adapters.pytorch.loaders:LoadersAdapter"),
        "elastic-errors": Lazy("livedbg.adapters.pytorch.elastic:ElasticErrorsAdapter"),
        "compile-traces": Lazy("livedbg.adapters.pytorch.traces.adapter:CompileTracesAdapter"),
        "nccl-ras": Lazy("livedbg.adapters.pytorch.ras.adapter:NcclRasAdapter"),
        "settings": Lazy("livedbg.adapters.pytorch.settings:SettingsAdapter"),
    },
    services={"nccl-ras": "ranks that are behind or missing, by NCCL's RAS service (NCCL 2.27.3 and newer)"},
    signatures="livedbg.adapters.pytorch.signatures",
    judges_diagnostics=(
        *("dump-.*", "late-rank", "compile-.*", "worker-failed", "collective-(?:timeout|status)", "watchdog-ends"),
        *("ras-.*", "setting"),
        *("ranks-missing", "peer-closed", "elastic-(?:root|failed)", "aoti-.*"),
    ),
    rules=Lazy("livedbg.adapters.pytorch.rules:rules"),
    judges_tasks=True,
    recipes="livedbg.adapters.pytorch.recipes",
    guides=(
        Guide(
            name="aoti",
            summary="Debug an AOTInductor model in three steps: checks, the failing kernel, its values.",
            about=(
                "Run CMD, which compiles and runs an AOTInductor model, in the steps of PyTorch's guide, each with "
                "settings of its own. Settings of the compiler act as the model is compiled: CMD has to compile it."
            ),
            steps=Lazy("livedbg.adapters.pytorch.aoti.steps:STEPS"),
            read=Lazy("livedbg.adapters.pytorch.aoti.reading:read"),
            keep=Lazy("livedbg.adapters.pytorch.aoti.sources:keep"),
            example=(
                ("livedbg aoti -- python model.py", "in the app; ^n is the next step"),
                ("livedbg aoti --headless --timeout 120 -- ./run", "all steps; a hang ends after 120 s"),
                ("livedbg aoti --step 3 --set kernel=cpp_fused_0 -- ./run", "the values of one kernel"),
            ),
        ),
    ),
    markers=(
        MarkerPair(  # torch/_inductor/codegen/debug_utils.py
            "AOTInductor's kernels",
            r"^\[ before_launch: (?P<what>.+?) \]$",
            r"^\[ after_launch: (?P<what>.+?) \]$",
        ),
    ),
    page="systems/pytorch.md",
    presets=Lazy("livedbg.adapters.pytorch.catch_presets:PRESETS"),
    text_exceptions=("c10::Error",),  # c10/util/Exception.h
    environment=("PYTORCH_", "TORCH"),
    rank_in_memory=Lazy("livedbg.adapters.pytorch.collectives.groups:rank_in_memory"),
    thrown_in=Lazy("livedbg.adapters.pytorch.collectives.thrown:thrown_in"),
    saves=Lazy("livedbg.adapters.pytorch.recorder_dumps.saved:save"),
    launchers=("torchrun",),
    examples={"catch": (("livedbg catch 4711 c10::Error --stop", "one, with variables and source"),)},
    explains=Lazy("livedbg.adapters.pytorch.explained:explains"),
    causes=(
        (r"\b(?:ChildFailedError|ProcessExitedException|ProcessRaisedException):", CauseClass.SUMMARY),
        (r"\bError (?:compiling objects for|building) extension\b", CauseClass.SUMMARY),
        (r"DataLoader worker \(pid\(?s?\)? [\d, ]+\) (?:is killed|exited)", CauseClass.PEER),
        (
            r"\bDist(?:Network|Store)Error:|[Ww]atchdog caught collective|[Tt]imed out (?:waiting|after)|Socket Timeout"
            r"|ncclRemoteError|communicator was aborted|Watchdog caught|ran for \d+ milliseconds before timing out",
            CauseClass.PEER,
        ),
    ),
    log_places=LogPlaces(("TORCH_LOGS_OUT",), Lazy("livedbg.adapters.pytorch.traces.places:paths")),
    no_logs=(".pt", ".pth", ".pt2"),
    tensor_files=(
        TensorFiles(
            "pt",
            Lazy("livedbg.adapters.pytorch.tensor_files:load"),
            Lazy("livedbg.adapters.pytorch.tensor_files:write"),
            "save one tensor a file: torch.save(tensor, path)",
        ),
    ),
    continuations=(
        r"Exception raised from ",
        r"C\+\+ CapturedTraceback",
        r"nccl[A-Z]\w{1,40}: ",
        "Last error:",
        "For debugging consider passing",
        "Compile with `TORCH_USE_CUDA_DSA`",
        "Set TORCH",
        "from user code:",
        *("ATTENTION: guard_size", "Maybe you need to add guard", "consider using data-dependent", r"Caused by: \("),
        *(
            "For more information, run with TORCH",
            "For extended logs when we",
            "If you suspect the guard",
            "Suggested fixes:",
            r"User [Ss]tack\b[^\n]{0,60}:",
            "For more debugging",
        ),
        *(r"User Stack \(most recent", r"For C\+\+ stack trace", "Potential framework code culprit"),
        *("The following call raised this", "To fix the error, insert"),
        r"Found from ?:",
        r"  Developer debug context",
        r" For more details about this graph break",
        "`ptxas` stderr",
        r"ptxas (?:/|fatal|error|info|warning)",
        "Repro command: ",
    ),
)
