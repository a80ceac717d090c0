"""What is done about selection, as values: the options, the methods that are settings of them, and changes to those.

On the command line, in records and in file names a method is written `tsdr`, with changed options behind its name
`tsdr:smoothness=0:clip=0.5/2`, or with several values to choose from `tsdr:smoothness=0.5|2`. It is read here alone.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeFloat,
    PlainSerializer,
    PositiveInt,
    model_validator,
)

from tsdr.errors import InputError

COUNTS = "counts"  # the backbone that imputes for others, and that any other one has to beat
ImputationLoss = Literal["bce", "squared-error-of-errors", "free"]
PropensityKind = Literal["bernoulli", "categorical"]


class DebiasOptions(BaseModel):
    """What is done about selection; the defaults are tsdr's."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    weights: Literal["both", "imputation", "kt", "off"] = Field(
        default="imputation", description="whose observed errors are weighted by the inverse propensity"
    )
    imputing: bool = Field(default=True, description="add the imputed errors of all cells")
    imputation: Literal["own", "counts", "both"] = Field(
        default="counts", description="who imputes: a second network of the backbone's kind, counts, or both"
    )
    targeted: bool = Field(
        default=True, description="fit the imputation models, stacked, to logged answers that did not teach them"
    )
    ask: Literal["concept", "question", "both"] = Field(
        default="both", description="what the backbone is asked of a cell: the concept, a question of it, or either"
    )
    smooth: Literal["imputation", "kt", "off"] = Field(default="imputation", description="whose states are kept smooth")
    smoothness: NonNegativeFloat = Field(
        default=2.0, description="λ, the weight of the mean squared step of the states"
    )
    alpha: NonNegativeFloat = Field(default=10.0, description="α, the weight of the imputed errors")
    cells: PositiveInt | Literal["all"] = Field(
        default=10, description="cells drawn from a sequence for the imputed mean"
    )
    negatives: PositiveInt | Literal["all"] = Field(
        default=64, description="concepts drawn as the propensity's negatives"
    )
    clip: tuple[NonNegativeFloat, NonNegativeFloat] = Field(
        default=(0.25, 4.0), description="bounds of w = 1 / (|C| p̂)"
    )
    self_normalise: bool = Field(default=True, description="divide w by its mean over the batch")
    imputation_loss: ImputationLoss = Field(default="bce", description="how the imputation model learns")
    correction: Literal["full", "stopped"] = Field(
        default="stopped", description="does ê at observed cells carry gradient"
    )
    propensity: PropensityKind = Field(default="bernoulli", description="sigmoid a concept, or softmax over all")
    by_question: bool = Field(
        default=True, description="weight, too, by how often a question is logged among its concept's"
    )
    light_imputation: bool = Field(
        default=True, description="build the imputation model in the backbone's light size, if it has one"
    )
    propensities: Literal["estimated", "true", "wrong"] = Field(
        default="estimated", description="learned; or, of a simulated log, known, or known and turned upside down"
    )
    crippled: bool = Field(
        default=False, description="let what imputes learn from shuffled answers, and be too sure by a logit"
    )
    joint: bool = Field(default=True, description="train the auxiliary models along, or first and then freeze them")
    warm_up: PositiveInt = Field(default=10, description="epochs of the auxiliary models before they are frozen")

    @property
    def needs_questions(self) -> bool:
        """Whether it goes by which questions a concept has."""
        return (self.weights != "off" and self.by_question) or (self.imputing and self.ask != "concept")

    @model_validator(mode="after")
    def _full_correction_is_of_concepts(self) -> Self:
        """The mean over cells and the correction at observed ones must be of the same imputed error."""
        if self.imputing and self.correction == "full" and (self.ask != "concept" or self.targeted):
            raise ValueError('correction="full" takes ask="concept" and targeted=False')
        return self

    def weighs(self, model: Literal["imputation", "kt"]) -> bool:
        """Whether the observed errors of a model are weighted."""
        return self.weights in ("both", model)


# Imputation by a second network of the backbone's kind, as it is.
_BY_OWN = {"imputation": "own", "targeted": False, "ask": "concept", "alpha": 3.0}
# Weights on the backbone's own errors: of concepts alone, as in the paper, and mild. Wide ones cost ipw more than they
# bring.
_ON_ERRORS = {"by_question": False, "clip": (0.5, 2.0)}
_SETTINGS: dict[str, dict[str, Any]] = {
    "naive": {"weights": "off", "imputing": False, "smooth": "off"},
    "ipw": {"weights": "kt", "imputing": False, "smooth": "off", **_ON_ERRORS},
    "eib": {"weights": "off", "smooth": "off", **_BY_OWN},
    "dr": {"weights": "both", "smooth": "off", **_BY_OWN, **_ON_ERRORS},
    "tsdr-own": _BY_OWN,
    # As the paper's equations have it: its loss of the imputation model, weights on both models, the whole correction.
    "tsdr-paper": {
        **_BY_OWN,
        "weights": "both",
        "by_question": False,
        "clip": (0.01, 100.0),
        "self_normalise": False,
        "correction": "full",
        "alpha": 1.0,
        "cells": "all",
        "negatives": "all",
        "imputation_loss": "squared-error-of-errors",
        "light_imputation": False,
        "smoothness": 1.0,
    },
    "tsdr-unweighted": {"weights": "off"},
    "tsdr": {},
}
# Settings of the one objective; and what stands beside them in comparisons only: naive training with dropout and weight
# decay tuned, and the oracle that learns from answers which no log has.
OBJECTIVES = tuple(_SETTINGS)
REGULARISED, RANDOM_EXPOSURE = "naive-regularised", "random-exposure"
NAMES = ("naive", REGULARISED, *(name for name in OBJECTIVES if name != "naive"), RANDOM_EXPOSURE)
_TRAINING = ", ".join(OBJECTIVES)
_BASELINE = "baseline"  # of records of what is reached without knowledge tracing


@dataclass(frozen=True, order=True)
class Method:
    """A method, and the options that are changed in it: for each the values, as they were written, to choose from."""

    name: str
    changes: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Method":
        """A method that can be run, from how it is written; refused if there is no such method, option or value.

        >>> Method.parse("tsdr:smoothness=0:clip=0.5/2").options().clip
        (0.5, 2.0)
        """
        method = cls.written(text)
        if method.name not in NAMES:
            raise InputError(f"there is no method {method.name!r}; choose from {', '.join(NAMES)}")
        if method.changes and method.name not in OBJECTIVES:
            raise InputError(f"{text}: {method.name} has no options to change")
        method.alternatives()
        return method

    @classmethod
    def written(cls, text: str) -> "Method":
        """What is written in a record, whichever version wrote it."""
        name, *changes = text.split(":")
        parts = (change.partition("=") for change in changes)
        return cls(
            name, tuple((option, tuple(values.split("|")) if equals else ()) for option, equals, values in parts)
        )

    @classmethod
    def formerly(cls, text: str) -> "Method":
        """What is written in a record from before anything but a network of the backbone's kind could impute."""
        former = cls.written(text)
        if former.name == UNWEIGHTED.name:
            return cls(OWN.name, (("weights", ("off",)), *former.changes))
        return cls(OWN.name, former.changes) if former.name == TSDR.name else former

    def __str__(self) -> str:
        return ":".join([self.name, *(f"{option}={'|'.join(values)}" for option, values in self.changes)])

    @property
    def is_baseline(self) -> bool:
        """Whether it is no training at all, but what is reached without knowledge tracing."""
        return self.name == _BASELINE

    @property
    def tuned(self) -> tuple[str, ...]:
        """The options that have several values to choose from."""
        return tuple(option for option, values in self.changes if len(values) > 1)

    def options(self) -> DebiasOptions:
        """The options of a method that leaves no choice; one that does, or needs the truth, is for comparisons only."""
        found = self.alternatives()
        if len(found) != 1:
            raise InputError(f"{self} can be compared, and not be used to train one model; choose from {_TRAINING}")
        return found[0][0]

    def alternatives(self) -> list[tuple[DebiasOptions, dict[str, Any]]]:
        """The options that it chooses from, and for each what sets it apart; none if it has no objective of ours."""
        if self.name not in OBJECTIVES:
            return []
        found = []
        for values in product(*(several for _, several in self.changes)):
            changed = dict(zip((option for option, _ in self.changes), values, strict=True))
            options = self._with(changed)
            found.append((options, {option: getattr(options, option) for option in self.tuned}))
        if not found:
            raise self._malformed(next(option for option, values in self.changes if not values))
        return found

    def _with(self, changed: dict[str, str]) -> DebiasOptions:
        for option in changed:
            if option not in DebiasOptions.model_fields:
                raise self._malformed(f"{option}={changed[option]}")
        read = {option: value.split("/") if "/" in value else value for option, value in changed.items()}
        return DebiasOptions(**_SETTINGS[self.name] | read)

    def _malformed(self, change: str) -> InputError:
        return InputError(
            f"{self}: {change!r} does not set an option; write option=value, the option one of "
            f"{', '.join(DebiasOptions.model_fields)}"
        )


NAIVE, TSDR, UNWEIGHTED = Method("naive"), Method("tsdr"), Method("tsdr-unweighted")
OWN, PAPER = Method("tsdr-own"), Method("tsdr-paper")
ORACLE, BASELINE = Method(RANDOM_EXPOSURE), Method(_BASELINE)
MethodField = Annotated[
    Method,
    BeforeValidator(lambda method: Method.written(method) if isinstance(method, str) else method),
    PlainSerializer(str),
]


def options_of(method: str | Method, **changes: Any) -> DebiasOptions:
    """The options of a method, with changes as values.

    >>> options_of("tsdr", alpha=1).alpha
    1.0
    """
    own = (Method.parse(method) if isinstance(method, str) else method).options()
    return DebiasOptions(**own.model_dump() | changes)


NAIVE_OPTIONS = options_of(NAIVE)


def parse_all(methods: Iterable[str | Method]) -> list[Method]:
    """Methods, each once, however they are given."""
    return list(dict.fromkeys(Method.parse(one) if isinstance(one, str) else one for one in methods))
