"""A run, what it came to, and the log that it was made on: values, with all that reports ask of them."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator, model_validator

from tsdr.defaults import WINDOW
from tsdr.methods import Method, MethodField

# What a log is called that was selected by a known policy: simulated, or complete answers of a log that were masked.
_SELECTED = re.compile(r"(?P<log>.+)-gamma(?P<gamma>\d+(?:\.\d+)?)(?:-(?P<sizes>\d+x\d+x\d+(?:x\d+)?))?")
# Of simulated students; with a recommender that goes by the history beside, or instead of, their skips.
_SIMULATED, _RECOMMENDED = "simulated", "recommended"
PAPER_SIZES = (1000, 200, 20)  # students, questions and concepts of the paper's simulated logs
# So many epochs are trained where it is their cost that is measured: too few to say how good a model is.
TIMED_EPOCHS = 3
# The baselines that are the best possible predictor at the history that models see, without skips and with them.
LIMIT, LIMIT_WITH_SKIPS = "limit", "limit-skips"
ESTIMATED = ("estimated_snips", "estimated_dr")  # metrics that rest on models of the log's selection


@dataclass(frozen=True)
class LogName:
    """What a log is called: its own name and, if a known policy selected it, how strongly.

    `sizes` are the students, questions and concepts of a simulated log where they are not the paper's; and the most
    answers that a student gives, where that is not the simulator's usual number.

    >>> LogName.parse("math1-gamma0.8"), str(LogName("simulated", 0.8, (40, 12, 3)))
    (LogName(log='math1', gamma=0.8, sizes=None), 'simulated-gamma0.8-40x12x3')
    """

    log: str
    gamma: float | None = None
    sizes: tuple[int, ...] | None = None

    @classmethod
    def parse(cls, text: str) -> "LogName":
        """The parts of a name."""
        found = _SELECTED.fullmatch(text)
        if found is None:
            return cls(text)
        sizes = tuple(map(int, found["sizes"].split("x"))) if found["sizes"] else None
        return cls(found["log"], float(found["gamma"]), sizes)

    @classmethod
    def simulated(cls, gamma: float, sizes: tuple[int, ...] | None = None, *, recommended: bool = False) -> "LogName":
        """The name of a simulated log."""
        return cls(_RECOMMENDED if recommended else _SIMULATED, gamma, sizes)

    def __str__(self) -> str:
        gamma = "" if self.gamma is None else f"-gamma{self.gamma:g}"
        return f"{self.log}{gamma}" + ("" if self.sizes is None else f"-{'x'.join(map(str, self.sizes))}")

    @property
    def is_simulated(self) -> bool:
        """Whether students were simulated."""
        return self.gamma is not None and self.log in (_SIMULATED, _RECOMMENDED)

    @property
    def is_recommended(self) -> bool:
        """Whether a recommender chose what simulated students were offered."""
        return self.is_simulated and self.log == _RECOMMENDED

    @property
    def is_masked(self) -> bool:
        """Whether it is complete real answers, seen through a known policy."""
        return self.gamma is not None and not self.is_simulated

    @property
    def is_the_papers(self) -> bool:
        """Whether it is a simulated log of the paper's kind and sizes."""
        return self.is_simulated and not self.is_recommended and self.sizes is None


class Run(BaseModel):
    """What a run is: the same run has the same file name."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dataset: str
    backbone: str
    method: MethodField
    options: Mapping[str, Any]
    fold: int
    seed: int

    @model_validator(mode="before")
    @classmethod
    def _called_what_it_is_now(cls, run: Any) -> Any:
        """Options that a record does not have are from after it was written, and its method has another name since."""
        if isinstance(run, dict) and "imputation" not in run.get("options", {}).get("debias", {"imputation": None}):
            return {**run, "method": Method.formerly(str(run["method"]))}
        return run

    def file_name(self) -> str:
        """Readable, and different for different options."""
        options = hashlib.sha256(json.dumps(self.options, sort_keys=True).encode()).hexdigest()[:8]
        name = re.sub(r"[^A-Za-z0-9._-]", "_", f"{self.dataset}-{self.backbone}-{self.method}")
        return f"{name}-{options}-seed{self.seed}-fold{self.fold}.json"

    @property
    def log(self) -> LogName:
        """The log, by the parts of its name."""
        return LogName.parse(self.dataset)

    @property
    def data(self) -> str | None:
        """What tells the content of the log from any other of the same name."""
        return self.options.get("data")

    @property
    def log_in_view(self) -> str:
        """The log and, where it is not what the paper has, what of its histories is in view."""
        window = self.options.get("window", WINDOW)
        in_view = self.dataset if window == WINDOW else f"{self.dataset}, {window} in view"
        return f"{in_view}, skips read" if self.skips_read else in_view

    @property
    def skips_read(self) -> bool:
        """Whether offers that were turned down were in view, too."""
        return self.options.get("skips") == "read"

    @property
    def tuned(self) -> Mapping[str, Any]:
        """The options that were chosen on validation students, with the values that they were chosen from."""
        return self.options.get("tuned", {})

    @property
    def timed(self) -> bool:
        """Whether it was made to measure what training costs, alone in its process."""
        return self.options.get("training", {}).get("max_epochs") == TIMED_EPOCHS

    @property
    def stop_by(self) -> str | None:
        """What stopped the training, the paper's rule unless it says otherwise; None if nothing was trained."""
        return self.options["training"].get("stop_by", "auc") if "training" in self.options else None

    @property
    def size(self) -> str | None:
        """The size of the backbone, where it comes in several."""
        return self.options.get("backbone", {}).get("size")

    @property
    def debias(self) -> Mapping[str, Any]:
        """What was done about selection, option by option; empty for naive training, random exposure and baselines."""
        return self.options.get("debias", {})

    @property
    def model_settings(self) -> str:
        """The model's options and those of its training: what methods are compared on."""
        others = ("debias", "tuned", "data", "fold_seed", "watched", "estimated")
        return json.dumps({name: of for name, of in self.options.items() if name not in others}, sort_keys=True)

    @property
    def method_settings(self) -> str:
        """The options of the method."""
        return json.dumps({name: self.options.get(name) for name in ("debias", "tuned")}, sort_keys=True)


class Record(Run):
    """A run and what it came to.

    `metrics` are pooled over the logged answers of the test students, `true_...` over all cells of a simulated log,
    `estimated_...` over all cells of any log, resting on models; `per_student` are means over students. `by_student`
    has what each test student contributes to the metrics (`of_each_student` and, on simulated logs, `TrueRisk`) and
    `student`, the place among all students of the log; `calibration` has ten bins; a value that does not exist is null.
    `bias` is that of `TrueRisk`. `chosen` is what a tuned method settled on, `watched` what was watched after each
    epoch. `seconds` are those of training, of all that was tried if it was tuned; `threads` are those that it had, and
    on which its last digits may depend (no older record says it).
    """

    metrics: Mapping[str, float]
    per_student: Mapping[str, float]
    bias: Mapping[str, float] | None = None
    by_student: Mapping[str, list[float | None]] | None = None
    calibration: Mapping[str, list[float | None]] | None = None
    students: Mapping[str, int]
    scored: int
    epochs: int
    best_epoch: int
    chosen: Mapping[str, Any] | None = None
    watched: list[dict[str, float]] | None = None
    seconds: float
    threads: int | None = None
    peak_memory_mib: float
    versions: Mapping[str, str]

    @property
    def has_truth(self) -> bool:
        """Whether it was held against the truth."""
        return "true_bce" in self.metrics

    @property
    def seconds_an_epoch(self) -> float:
        """How long an epoch took on average."""
        return self.seconds / max(self.epochs, 1)

    @field_validator("metrics", "per_student", mode="before")
    @classmethod
    def _no_value_is_not_a_number(cls, metrics: Any) -> Any:
        """JSON has no NaN: a metric that does not exist, such as the AUC of right answers only, is null there."""
        if not isinstance(metrics, Mapping):
            return metrics
        return {name: float("nan") if value is None else value for name, value in metrics.items()}
