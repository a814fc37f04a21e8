"""The settings of each command as frozen dataclasses: names, types and ranges.

What a setting means and where it starts stands in ``conf/*.yaml`` (``xmc COMMAND --help`` shows it); the
defaults here are the same ones, for use from Python. A field that is itself a dataclass holds the settings
of the group with its name (``encoder.dense``); one marked ``flat`` holds settings without a prefix.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from xmc.data.options import ReadOptions
from xmc.errors import SettingError
from xmc.rules import Rule

MAX_WHOLE = 2**31 - 1
NONE = {"none": None, "null": None}
# Of xmc.index.kinds and xmc.tag.runner, which are too slow to import for help.
KINDS = ("auto", "exact", "hnsw", "cagra", "pca", "ivf_flat", "ivf_sq8", "ivf_pq")
RUNNERS = ("local", "ray")
ON_BAD_DOCUMENT = ("quarantine", "error")
LOSSES = (
    "auto",
    "bce",
    "propensity_bce",
    "sampled_softmax",
    "decoupled_softmax",
    "soft_top_k",
    "adaptive_margin",
)  # of xmc.train.loop
DENSE = ("frozen", "last", "full", "lora")
METRICS = ("ndcg", "psp")  # of xmc.train.data
DTYPES = ("auto", "fp32", "bf16", "fp16", "int8")


def require(holds: bool, name: str, value: object, wanted: str) -> None:
    """Raise a SettingError that names the setting, its value and what was wanted, unless ``holds``."""
    if not holds:
        raise SettingError(f"{name}={value}: wanted {wanted}")


def require_whole(name: str, value: int, low: int) -> None:
    """``value`` lies in ``low`` .. 2^31 - 1, which every array and library here can count to."""
    require(low <= value <= MAX_WHOLE, name, value, f"a whole number from {low} to {MAX_WHOLE}")


def require_one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    """``value`` is one of ``choices``."""
    require(value in choices, name, value, "one of " + ", ".join(choices))


def _only(*names: str) -> dict[str, Any]:
    """Metadata of a part without a prefix; ``names``: the settings that the command reads, if not all."""
    return {"flat": True, "only": names or None}


def _named(default: object, words: dict[str, Any]) -> Any:
    """A field for which some words stand for a value: ``threads=auto`` is None."""
    return field(default=default, metadata={"words": words})


@dataclass(frozen=True)
class RunSettings:
    """What the machine is asked for. ``threads`` None: as many as this process may use."""

    seed: int = 0
    device: str = "auto"
    threads: int | None = _named(None, {"auto": None})
    dtype: str = "auto"
    progress: str = "auto"

    def validate(self) -> None:
        """Raise a SettingError that names the first field out of range."""
        require_whole("seed", self.seed, 0)
        number = self.device.removeprefix("cuda:")
        known = self.device in ("auto", "cpu", "cuda") or (number != self.device and number.isdecimal())
        require(known, "device", self.device, "auto, cpu, cuda or cuda:N")
        if self.threads is not None:
            require_whole("threads", self.threads, 1)
        require_one_of("dtype", self.dtype, DTYPES)
        require_one_of("progress", self.progress, ("auto", "on", "off"))


@dataclass(frozen=True)
class WordSettings:
    """What the lexical tower counts, and how long its vectors are."""

    dim: int = 512
    ngram: int = 4
    max_features: int = 500_000

    def validate(self) -> None:
        """Raise a SettingError that names the first field out of range."""
        for name, low, high in (("dim", 16, 65_536), ("ngram", 2, 10), ("max_features", 0, 10**9)):
            value = getattr(self, name)
            wanted = f"a whole number from {low} to {high}"
            require(low <= value <= high, f"encoder.lexical.{name}", value, wanted)


@dataclass(frozen=True)
class EncoderSettings:
    """The two towers. ``dense`` ``none``: words only; ``max_length`` None: the dense tower's own choice."""

    dense: str = "default"
    max_length: int | None = _named(None, {"auto": None})
    lexical: WordSettings = field(default_factory=WordSettings)

    def validate(self) -> None:
        """Raise a SettingError that names the first field out of range."""
        require(self.dense != "", "encoder.dense", self.dense, "a model's name or directory, or none")
        if self.max_length is not None:
            require_whole("encoder.max_length", self.max_length, 1)


@dataclass(frozen=True)
class IndexSettings:
    """How labels are searched. ``memory`` in GB, 0: half of what is free."""

    kind: str = "auto"
    use: str = "batch"
    recall: float = 0.99
    memory: float = _named(0.0, {"auto": 0.0})

    def validate(self) -> None:
        """Raise a SettingError that names the first field out of range."""
        require_one_of("index.kind", self.kind, KINDS)
        require_one_of("index.use", self.use, ("batch", "single"))
        require(0 < self.recall <= 1, "index.recall", self.recall, "a number above 0, at most 1")
        require(0 <= self.memory < math.inf, "index.memory", self.memory, "a number, 0 or more")


@dataclass(frozen=True)
class RerankSettings:
    """The cross-encoder: ``cross`` ``none``, or the encoder that it begins as."""

    cross: str = "none"
    top: int = 10
    tokens: int = 128

    def validate(self) -> None:
        """Raise a SettingError that names the first field out of range."""
        require(self.cross != "", "rerank.cross", self.cross, "a model's name or directory, or none")
        require_whole("rerank.top", self.top, 1)
        require_whole("rerank.tokens", self.tokens, 16)


@dataclass(frozen=True)
class ShardSettings:
    """How a tagging job is cut up and where it runs."""

    shard_size: int = 1000
    max_characters: int = 20_000_000
    max_seconds: int = 120
    on_bad_document: str = "quarantine"
    parts: bool = False
    runner: str = "local"
    store: str = "none"
    evidence: bool = False

    def validate(self) -> None:
        """Raise a SettingError that names the first field out of range."""
        require_whole("tag.shard_size", self.shard_size, 1)
        require_whole("tag.max_characters", self.max_characters, 1)
        require_whole("tag.max_seconds", self.max_seconds, 1)
        require_one_of("tag.on_bad_document", self.on_bad_document, ON_BAD_DOCUMENT)
        require_one_of("tag.runner", self.runner, RUNNERS)


@dataclass(frozen=True)
class MetricSettings:
    """What is measured besides the propensity-scored metrics, and how sure the intervals are."""

    ks: tuple[int, ...] = (1, 3, 5, 10, 50, 100)
    threshold: float = 0.5
    resamples: int = 1000
    confidence: float = 0.95

    def validate(self) -> None:
        """Raise a SettingError that names the first field out of range."""
        for k in self.ks:
            require_whole("eval.ks", k, 1)
        require(math.isfinite(self.threshold), "eval.threshold", self.threshold, "a number")
        require_whole("eval.resamples", self.resamples, 0)
        require(0 < self.confidence < 1, "eval.confidence", self.confidence, "a number between 0 and 1")


@dataclass(frozen=True)
class PropensitySettings:
    """The two constants of the propensity model (Jain, Prabhu and Varma, KDD 2016)."""

    a: float = 0.55
    b: float = 1.5

    def validate(self) -> None:
        """Raise a SettingError that names the first field out of range."""
        require(0 <= self.a < math.inf, "propensity.a", self.a, "a number, 0 or more")
        require(0 < self.b < math.inf, "propensity.b", self.b, "a number above 0")


@dataclass(frozen=True)
class InspectSettings:
    """What ``xmc inspect`` reads."""

    read: ReadOptions = field(default_factory=ReadOptions, metadata=_only())

    def validate(self) -> None:
        """Each part checks itself."""


@dataclass(frozen=True)
class BuildSettings:
    """What ``xmc index`` reads."""

    encoder: EncoderSettings = field(default_factory=EncoderSettings)
    index: IndexSettings = field(default_factory=IndexSettings)
    run: RunSettings = field(default_factory=RunSettings, metadata=_only())
    rerank: RerankSettings = field(default_factory=RerankSettings)
    strict: bool = False
    classifiers: bool = True
    read: ReadOptions = field(default_factory=ReadOptions, metadata=_only())

    def validate(self) -> None:
        """Each part checks itself."""


@dataclass(frozen=True)
class TrainSettings:
    """How the trained tower and the prototypes are fitted. ``epochs`` None: by the number of documents."""

    epochs: int | None = _named(None, {"auto": None})
    loss: str = "auto"
    dense: str = "frozen"
    batch: int = 64
    metric: str = "ndcg"
    dim: int = 384
    max_features: int = 150_000
    free_vectors: int = 1_000_000
    rate: float = 1.0

    def validate(self) -> None:
        """Raise a SettingError that names the first field out of range."""
        if self.epochs is not None:
            require_whole("train.epochs", self.epochs, 1)
        require_one_of("train.loss", self.loss, LOSSES)
        require_one_of("train.dense", self.dense, DENSE)
        require_whole("train.batch", self.batch, 1)
        require_one_of("train.metric", self.metric, METRICS)
        require_whole("train.dim", self.dim, 8)
        require_whole("train.max_features", self.max_features, 1)
        require_whole("train.free_vectors", self.free_vectors, 1)
        require(0 < self.rate < math.inf, "train.rate", self.rate, "a number above 0")


@dataclass(frozen=True)
class TrainingSettings(BuildSettings):
    """What ``xmc train`` reads."""

    train: TrainSettings = field(default_factory=TrainSettings)


@dataclass(frozen=True)
class TagSettings:
    """What ``xmc tag`` reads. ``threshold`` None: the best ``top_k`` are written whatever they score.

    ``top_k`` None: 10, or as many as a threshold rule's promise needs.
    """

    top_k: int | None = _named(None, {"auto": None})
    threshold: float | Rule | None = field(default=None, metadata={"words": NONE})
    tag: ShardSettings = field(default_factory=ShardSettings)
    run: RunSettings = field(
        default_factory=RunSettings, metadata=_only("device", "threads", "dtype", "progress")
    )
    read: ReadOptions = field(
        default_factory=ReadOptions, metadata=_only("encoding", "coerce", "on_unknown_label", "on_duplicate")
    )

    def validate(self) -> None:
        """Raise a SettingError that names the first field out of range."""
        if self.top_k is not None:
            require_whole("top_k", self.top_k, 0)
        if isinstance(self.threshold, float):
            require(math.isfinite(self.threshold), "threshold", self.threshold, "a number or none")


@dataclass(frozen=True)
class EvaluateSettings:
    """What ``xmc eval`` reads."""

    eval: MetricSettings = field(default_factory=MetricSettings)
    propensity: PropensitySettings = field(default_factory=PropensitySettings)
    seed: int = 0
    read: ReadOptions = field(default_factory=ReadOptions, metadata=_only())

    def validate(self) -> None:
        """Raise a SettingError that names the first field out of range."""
        require_whole("seed", self.seed, 0)


@dataclass(frozen=True)
class LabelSettings:
    """What ``xmc labels`` reads."""

    run: RunSettings = field(
        default_factory=RunSettings, metadata=_only("device", "threads", "dtype", "progress")
    )
    read: ReadOptions = field(
        default_factory=ReadOptions, metadata=_only("encoding", "language", "coerce", "on_unknown_label")
    )

    def validate(self) -> None:
        """Each part checks itself."""


@dataclass(frozen=True)
class LearnSettings:
    """What ``xmc learn`` reads."""

    run: RunSettings = field(
        default_factory=RunSettings, metadata=_only("device", "threads", "dtype", "progress")
    )
    read: ReadOptions = field(
        default_factory=ReadOptions, metadata=_only("encoding", "coerce", "on_unknown_label", "on_duplicate")
    )

    def validate(self) -> None:
        """Each part checks itself."""


@dataclass(frozen=True)
class BenchSettings:
    """What ``xmc bench`` builds and judges."""

    system: str = "train"
    split: str = "auto"
    top_k: int = 100

    def validate(self) -> None:
        """Raise a SettingError that names the first field out of range."""
        require_one_of("bench.system", self.system, ("train", "index"))
        require_one_of("bench.split", self.split, ("auto", "dev", "test"))
        require_whole("bench.top_k", self.top_k, 1)


@dataclass(frozen=True)
class BenchmarkSettings(TrainingSettings):
    """What ``xmc bench`` reads: the settings of building and of evaluating, and its own."""

    bench: BenchSettings = field(default_factory=BenchSettings)
    eval: MetricSettings = field(default_factory=MetricSettings)
    propensity: PropensitySettings = field(default_factory=PropensitySettings)


COMMANDS: dict[str, type] = {
    "inspect": InspectSettings,
    "index": BuildSettings,
    "train": TrainingSettings,
    "plan": TrainingSettings,
    "tag": TagSettings,
    "eval": EvaluateSettings,
    "labels": LabelSettings,
    "learn": LearnSettings,
    "bench": BenchmarkSettings,
}
