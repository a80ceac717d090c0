"""What the numbers of a diagnosis come to, in plain words."""

import math
from typing import Literal

from pydantic import BaseModel, ConfigDict

from tsdr.diagnosis.questions import QuestionExposure
from tsdr.diagnosis.skips import Skips
from tsdr.resampling import Estimate

Level = Literal["fair", "uneven", "selected"]
Overlap = Literal["enough", "thin", "too thin"]

# Exposure is called even up to this distance from uniform, or up to twice what chance alone brings.
EVEN = 0.05
# A gain below this (in nats an answer) is real, perhaps, but moves weights by a percent or so.
SLIGHT = 0.005
# Of the answers, how many count after weighting; and of the cells, how many are as good as never logged.
ENOUGH_EFFECTIVE, ENOUGH_UNSEEN = 0.3, 0.05
THIN_EFFECTIVE, THIN_UNSEEN = 0.1, 0.3


class Verdict(BaseModel):
    """Is the log a fair sample, is selection related to the students' histories, can weights repair it, what next."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    level: Level
    overlap: Overlap
    headline: str
    reasons: tuple[str, ...]
    next: tuple[str, ...]


HEADLINES: dict[Level, str] = {
    "fair": "This log is close to a fair sample: concepts are logged about equally, whatever students did before.",
    "uneven": "This log is uneven: some concepts are logged far more than others, but not, as far as can be seen, "
    "depending on what a student did before.",
    "selected": "This log is selected: what is logged next depends on what the student did before.",
}
BY_SKIPS = "This log is selected: whether students take or skip an offer depends on how they did before."
OVERLAP_WORDS: dict[Overlap, str] = {
    "enough": "Weights can repair it: nearly every concept keeps a fair chance to be logged at every step",
    "thin": "Weights can repair it in part: some concepts have hardly a chance to be logged",
    "too thin": "Weights cannot repair it: too many concepts have next to no chance to be logged",
}


_COMPARING = "tsdr compare LOG --methods naive,tsdr"
_TRAINING: dict[Overlap, str] = {
    "enough": "Train with --method tsdr, and compare it with naive over all concepts, not by AUC alone: "
    f"`{_COMPARING} --estimate-risk` estimates the risk by weights as on this page.",
    "thin": "Train with --method tsdr, and compare it with naive over all concepts, not by AUC alone: "
    f"`{_COMPARING} --estimate-risk`. Its estimates speak for the concepts that keep a chance to be logged; for the "
    "others they are what the imputation model says.",
    "too thin": "Do not go by weighted estimates, those of this page included: they speak for too few concepts. "
    "--method tsdr imputes what was not logged, and this log cannot tell whether that is right: "
    f"`{_COMPARING}` shows what it does to logged answers, beside the baselines.",
}


def judge(
    *,
    distance: float,
    distance_by_chance: float,
    questions: QuestionExposure | None,
    gain: Estimate,
    placebo: Estimate,
    effective_share: float,
    unseen_share: float,
    skips: Skips | None,
    placebo_passed: bool,
) -> Verdict:
    """Weigh the numbers.

    `gain` is what the history is worth, and must exceed `placebo`, what it is worth where concepts are shuffled.
    `unseen_share` is that of cells with a tenth, at most, of a uniform chance to be logged.
    """
    even = distance <= max(EVEN, 2 * distance_by_chance)
    history_tells = gain.low > max(0.0, placebo.high)
    skips_tell = skips is not None and bool(skips.related)
    level: Level = "selected" if history_tells or skips_tell else "fair" if even else "uneven"
    overlap = _overlap(effective_share, unseen_share)
    reasons = [
        f"{distance:.0%} of the answers would have to go to other concepts for all to be logged equally "
        f"({distance_by_chance:.1%} would by chance alone).",
        _of_gain(gain, history_tells),
        f"{OVERLAP_WORDS[overlap]} ({unseen_share:.0%} of cells have less than a tenth of a uniform chance, and "
        f"weighted answers are worth {effective_share:.0%} of their number).",
    ]
    if questions is not None:
        reasons.insert(1, _of_questions(questions))
    if skips is not None:
        reasons.append(_of_skips(skips))
    if not placebo_passed:
        reasons.append(
            "A placebo check failed: a pattern was found in shuffled concepts, where there is none. Take these numbers "
            "with doubt, and use more students."
        )
    headline = BY_SKIPS if skips_tell and not history_tells else HEADLINES[level]
    return Verdict(level=level, overlap=overlap, headline=headline, reasons=tuple(reasons), next=_next(level, overlap))


def _overlap(effective_share: float, unseen_share: float) -> Overlap:
    if effective_share >= ENOUGH_EFFECTIVE and unseen_share <= ENOUGH_UNSEEN:
        return "enough"
    return "thin" if effective_share >= THIN_EFFECTIVE and unseen_share <= THIN_UNSEEN else "too thin"


def _of_questions(found: QuestionExposure) -> str:
    """Which questions speak for their concepts."""
    told = (
        f"Within concepts, {found.distance:.0%} of the answers would have to go to other questions of the same concept "
        f"({found.by_chance:.1%} would by chance alone)"
    )
    if found.distance <= max(EVEN, 2 * found.by_chance):
        return f"{told}: a concept's questions are logged about equally."
    return f"{told}: what the log shows of a concept are mostly its busiest questions. tsdr weights by question, too."


def _of_gain(gain: Estimate, tells: bool) -> str:
    """What knowing the history is worth."""
    if not tells:
        return (
            "Knowing a student's history does not help to foresee which concept is logged next "
            f"(gain {gain.value:.4f} nats an answer, 95 % interval {gain.low:.4f} to {gain.high:.4f})."
        )
    slight = ", which is slight" if gain.value < SLIGHT else ""
    return (
        f"Knowing a student's history makes the concept that is logged {math.exp(gain.value):.2f} times as likely as "
        f"its plain frequency does{slight} (gain {gain.value:.4f} nats an answer, 95 % interval {gain.low:.4f} to "
        f"{gain.high:.4f})."
    )


def _of_skips(skips: Skips) -> str:
    """What skipped offers tell."""
    told = f"Students turned down {skips.share:.1%} of the offers"
    if not skips.related:
        return f"{told}, whether or not they had done well in the concept before."
    parts = [
        f"{'more' if found.value > 0 else 'less'} often where they had been {record} in the concept: by "
        f"{100 * abs(found.value):.1f} points (interval {100 * found.low:.1f} to {100 * found.high:.1f})"
        for record, found in skips.related.items()
    ]
    return f"{told}, and {'; and '.join(parts)}."


def _next(level: Level, overlap: Overlap) -> tuple[str, ...]:
    if level == "fair":
        return (
            "Train and evaluate plainly: nothing was found by which logged answers would not speak for all concepts. "
            "A small log hides much.",
        )
    steps = []
    if level == "selected":
        steps.append(_TRAINING[overlap])
        steps.append(
            "Ask why: a fixed curriculum, a recommender and students who skip all show here. Only what depends on "
            "mastery that the history does not show is beyond repair."
        )
    else:
        steps.append(
            "Report metrics by concept, or weighted: a plain mean speaks for the concepts that are logged most."
        )
    if overlap != "enough":
        steps.append(
            "Log a small share of offers at random (one in twenty, say), or merge rare concepts: no method can learn "
            "from what is never logged, and what it says there is the imputation model's opinion."
        )
    return tuple(steps)
