"""The Hydra configuration becomes typed settings, checked before anything is built.

Hydra checks names and types against these classes (the schema `schema` in `conf/config.yaml`);
`check` does what types cannot say. Keys that this workload accepts but does not use are marked
"accepted": they let a command line written for a larger Hydra workload run unchanged.
"""

from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING

from runner.errors import RunnerError

BACKENDS = ("auto", "torch", "numpy")
"""Values of `backend`."""


@dataclass
class Model:
    """Which network to build."""

    name: str = MISSING
    architecture: str = MISSING
    """`model_type` of transformers, for instance `llama` or `mixtral`."""
    config: dict[str, Any] = field(default_factory=dict)
    """Fields of that architecture's transformers configuration class, passed on verbatim."""
    dtype: str = "auto"
    """`auto`, `bf16`, `fp16`, `fp32` or `fp64` (or torch's long names)."""
    path: str | None = None
    """Folder with a transformers `config.json` that replaces `architecture` and `config`."""


@dataclass
class Infer:
    """What one repeat computes."""

    prompt_tokens: int = 32
    """Tokens of each prompt."""
    max_new_tokens: int = 16
    """Decode steps after prefill: exactly this many, nothing ends a sequence early."""
    batch_size: int = 1
    """Sequences side by side."""
    do_sample: bool = False
    """Accepted; decoding is greedy."""
    temperature: float = 0.0
    """Accepted; decoding is greedy."""
    no_repeat_ngram_size: int = 0
    """Accepted; decoding is greedy."""


@dataclass
class Run:
    """How often it is computed."""

    repeats: int = 3
    """Measured repeats, unless `dataset.sampling.num_samples_per_epoch` is given."""
    warmup: int = 1
    """Repeats before those, under the range `warmup`."""


@dataclass
class Nvtx:
    """Which ranges are opened."""

    enable: bool = True
    steps: bool = False
    """A range `step` around each decode step."""
    layers: bool = False
    """Ranges `layer.N` and inside them `attn` and `mlp`."""


@dataclass
class Sampling:
    """How the prompts of the repeats are drawn."""

    num_epochs: int = 1
    num_samples_per_epoch: int | None = None
    """When given, there are `num_epochs * num_samples_per_epoch` repeats."""
    randomize: bool = False
    """Other prompts at every run, instead of the same ones."""
    seed: int | None = None
    """Seed of the prompts when `randomize` is on; null draws one from the system."""


@dataclass
class Dataset:
    """Where the prompts come from: random tokens, always."""

    name: str = "random_tokens"
    """Accepted."""
    root: str | None = None
    """Accepted."""
    subset_filelist: str | None = None
    """Accepted."""
    sampling: Sampling = field(default_factory=Sampling)


@dataclass
class Outputs:
    """What is written into `hydra.run.dir`."""

    metrics: str = "metrics.json"
    """File name of the stage times."""
    tokens: str | None = None
    """File name for the generated token ids; null writes none."""


@dataclass
class Inputs:
    """Where the inputs are listed."""

    manifest: str | None = None
    """Accepted."""


@dataclass
class Settings:
    """The whole configuration."""

    model: Model = field(default_factory=Model)
    infer: Infer = field(default_factory=Infer)
    run: Run = field(default_factory=Run)
    nvtx: Nvtx = field(default_factory=Nvtx)
    dataset: Dataset = field(default_factory=Dataset)
    outputs: Outputs = field(default_factory=Outputs)
    inputs: Inputs = field(default_factory=Inputs)
    pipeline: dict[str, Any] = field(default_factory=dict)
    """Accepted: this workload never starts a profiler or an analysis of its own."""
    experiment: str = "runner"
    backend: str = "auto"
    device: str = "auto"
    """`auto`, `cpu`, `cuda`, `cuda:N`, or whatever else torch accepts."""
    seed: int = 0
    """Seed of the weights and of the prompts."""
    use_flash_attn: bool = False
    """FlashAttention 2 where it is installed (torch backend)."""


def register() -> None:
    """Make `Settings` known to Hydra as the schema that `conf/config.yaml` names."""
    ConfigStore.instance().store(name="schema", node=Settings)


def repeats(settings: Settings) -> int:
    """Return how many measured repeats the settings ask for."""
    sampling = settings.dataset.sampling
    if sampling.num_samples_per_epoch is None:
        return settings.run.repeats
    return sampling.num_epochs * sampling.num_samples_per_epoch


def check(settings: Settings) -> None:
    """Raise `RunnerError`, naming the key, for a value that cannot be run."""
    sampling = settings.dataset.sampling
    least = {
        "infer.prompt_tokens": (settings.infer.prompt_tokens, 1),
        "infer.max_new_tokens": (settings.infer.max_new_tokens, 0),
        "infer.batch_size": (settings.infer.batch_size, 1),
        "run.repeats": (settings.run.repeats, 1),
        "run.warmup": (settings.run.warmup, 0),
        "dataset.sampling.num_epochs": (sampling.num_epochs, 1),
        "dataset.sampling.num_samples_per_epoch": (sampling.num_samples_per_epoch, 1),
        "dataset.sampling.seed": (sampling.seed, 0),
        "seed": (settings.seed, 0),
    }
    for key, (value, lowest) in least.items():
        if value is not None and value < lowest:
            raise RunnerError(f"{key}={value} is too small", f"set it to {lowest} or more")
    if settings.backend not in BACKENDS:
        raise RunnerError(
            f"backend={settings.backend} is unknown", f"choose one of {', '.join(BACKENDS)}"
        )
    for key, name in (
        ("outputs.metrics", settings.outputs.metrics),
        ("outputs.tokens", settings.outputs.tokens),
    ):
        if name is not None and (name in ("", ".", "..") or "/" in name or "\0" in name):
            raise RunnerError(
                f"{key}={name!r} is no file name",
                "give a name without a folder: the folder is hydra.run.dir",
            )


def accepted_only(settings: Settings) -> list[str]:
    """Name the settings that were changed to a value this workload does not act on."""
    found = []
    infer = settings.infer
    if infer.do_sample or infer.temperature or infer.no_repeat_ngram_size:
        found.append("infer.do_sample, temperature, no_repeat_ngram_size (decoding is greedy)")
    if settings.dataset.root or settings.dataset.subset_filelist or settings.inputs.manifest:
        found.append("dataset.root, subset_filelist, inputs.manifest (prompts are random tokens)")
    for name, stage in settings.pipeline.items():
        if isinstance(stage, dict) and stage.get("enable") is True:
            found.append(f"pipeline.{name}.enable=true (no profiler or analysis is built in)")
    return found
