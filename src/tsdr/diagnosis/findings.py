"""What is found out about the selection of a log: plain data, to be shown, written and read."""

from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict

from tsdr.diagnosis.questions import QuestionExposure
from tsdr.diagnosis.skips import Skips
from tsdr.diagnosis.verdict import Verdict
from tsdr.resampling import Estimate

RESTS_ON = "estimates that rest on the selection and imputation models, not measurements"
UNSEEN = 0.1  # of a uniform chance to be logged: a cell with less is as good as never logged


@dataclass(frozen=True)
class RiskEstimates:
    """What the log says of a model's risk, taken plainly and with the log's selection taken out."""

    naive: Estimate
    snips: Estimate
    dr: Estimate
    effective_share: float
    clipped_share: float


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Subject(_Part):
    """What was diagnosed: a log with so many answers to known concepts, of which some are in view.

    How many are is None in a diagnosis from before that was kept, whose answers are those in view. If the students were
    drawn by chance, the log had so many that they are `drawn_from`.
    """

    students: int
    held_out_students: int
    concepts: int
    answers: int
    in_view: int | None = None
    window: int | Literal["all"]
    short_students: int
    earlier_answers: int
    unknown_concept_answers: int
    skipped_offers: int
    model: str
    own_model: bool
    drawn_from: int | None = None


class ConceptExposure(_Part):
    """How often a concept is logged; `relative` is 1 where it is logged as often as every concept on average."""

    concept: str
    answers: int
    relative: float


class Exposure(_Part):
    """How far the log is from uniform exposure over concepts.

    `entropy` is 1 if all concepts are logged equally, 0 if there is one only. `distance` is the total variation
    distance from uniform: the share of answers that would have to go to other concepts. `by_chance` is what it would be
    if every answer were drawn uniformly. `relative` has every concept, the most logged first.
    """

    busiest_tenth_share: float
    entropy: float
    distance: float
    by_chance: float
    relative: list[float]
    least: list[ConceptExposure]


class Selection(_Part):
    """Whether a student's history tells which concept is logged next: log loss in nats an answer, less is better."""

    log_loss: float
    marginal_log_loss: float
    gain: Estimate


class CalibrationBin(_Part):
    """Cells whose |C| p̂ lies in one range: predicted and logged frequency relative to uniform exposure."""

    cells: int
    predicted: float
    logged: float


class Propensities(_Part):
    """How far propensities can be taken at their word, and where there is overlap.

    `below` is the share of cells whose |C| p̂ is below each threshold.
    """

    calibration: list[CalibrationBin]
    error: float
    below: dict[str, float]


class ClipPoint(_Part):
    """What becomes of the SNIPS risk and of the effective sample if w is kept between 1 / clip and clip."""

    clip: float
    snips: Estimate
    effective_share: float
    clipped_share: float


class WeightsFound(_Part):
    """The weights of the logged answers of held-out students."""

    answers: int
    effective_share: float
    clipped_share: float
    clip: tuple[float, float]
    largest: list[float]
    curve: list[ClipPoint]


class Band(_Part):
    """Students by share right in the first half of their sequence, and what they are logged with in the second half.

    `relative` has, for each group of concepts, the share of the band's answers over the share of concepts.
    """

    name: str
    students: int
    share_right: float
    answers: int
    distance: float
    relative: list[float]


class Bands(_Part):
    """Who is logged with what; groups of concepts by the share right that the log shows, the hardest first."""

    groups: list[str]
    bands: list[Band]


class Placebos(_Part):
    """Checks that must find nothing: concepts shuffled over all steps, and the same propensity for every concept."""

    permuted_gain: Estimate
    permuted_passed: bool
    constant_difference: float
    constant_effective_share: float
    constant_passed: bool


class Diagnosis(_Part):
    """All that was found, the verdict first."""

    verdict: Verdict
    subject: Subject
    exposure: Exposure
    questions: QuestionExposure | None = None
    selection: Selection
    skips: Skips | None
    propensities: Propensities
    weights: WeightsFound
    risk: RiskEstimates
    bands: Bands
    placebos: Placebos
