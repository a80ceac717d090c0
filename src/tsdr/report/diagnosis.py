"""The page of a diagnosis: the verdict first, then each chart with what to conclude from this log's numbers."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator, PercentFormatter

from tsdr.diagnosis.findings import RESTS_ON, UNSEEN, Diagnosis
from tsdr.report.pages import TONES, render, write_text
from tsdr.report.svg import inline_svg
from tsdr.resampling import Estimate

INK, ACCENT, SECOND = "#1d2733", "#2563a8", "#b4561b"
# Propensities and the log agree well enough for weights up to here, and not at all beyond.
GOOD_CALIBRATION, POOR_CALIBRATION = 0.1, 0.25


@dataclass(frozen=True)
class Chart:
    """A chart, what it is of, and what to conclude from it."""

    title: str
    conclusion: str
    svg: Markup


def write_diagnosis(diagnosis: Diagnosis, name: str, path: Path) -> Path:
    """Write the page and, beside it, the numbers as JSON; gives the path of the latter."""
    numbers = path.with_suffix(".json")
    if numbers == path:
        numbers = path.with_name(f"{path.name}.json")
    write_text(numbers, diagnosis.model_dump_json(indent=1))
    write_text(path, diagnosis_page(diagnosis, name, numbers.name))
    return numbers


def diagnosis_page(diagnosis: Diagnosis, name: str, numbers: str) -> str:
    """The page; `numbers` is where its numbers can be had."""
    return render(
        "diagnosis.html",
        name=name,
        diagnosis=diagnosis,
        tone=TONES[diagnosis.verdict.level],
        charts=[draw(diagnosis) for draw in CHARTS],
        rests_on=RESTS_ON,
        risks=[(kind, getattr(diagnosis.risk, kind)) for kind in ("naive", "snips", "dr")],
        numbers=numbers,
    )


def _exposure(diagnosis: Diagnosis) -> Chart:
    exposure = diagnosis.exposure
    figure, axes = _figure()
    relative = np.maximum(exposure.relative, 1e-3)
    axes.fill_between(np.arange(len(relative)) / len(relative), relative, 1, color=ACCENT, alpha=0.25, step="post")
    axes.plot(np.arange(len(relative)) / len(relative), relative, color=ACCENT, drawstyle="steps-post")
    axes.axhline(1, color=INK, linewidth=1)
    axes.set_yscale("log")
    _plain_ticks(axes.yaxis, float(relative.min()), float(relative.max()))
    axes.xaxis.set_major_formatter(PercentFormatter(1))
    axes.set_xlabel("concepts, the most logged first")
    axes.set_ylabel("answers (average concept: 1)")
    even = exposure.distance <= 2 * exposure.by_chance
    tenth = -(-len(relative) // 10) / len(relative)
    conclusion = f"The busiest {tenth:.0%} of concepts have {exposure.busiest_tenth_share:.0%} of the answers" + (
        ", no more than chance explains."
        if even
        else f": a plain mean over answers counts each of them {exposure.busiest_tenth_share / tenth:.1f} times."
    )
    return _chart(figure, "exposure", "Which concepts are logged", conclusion)


def _calibration(diagnosis: Diagnosis) -> Chart:
    found = diagnosis.propensities
    figure, axes = _figure()
    predicted = np.array([part.predicted for part in found.calibration])
    logged = np.array([part.logged for part in found.calibration])
    cells = np.array([part.cells for part in found.calibration])
    ends = float(min(predicted.min(), 0.5)), float(max(predicted.max(), 2))
    axes.plot(ends, ends, color=INK, linewidth=1, label="as predicted")
    some = logged > 0
    axes.scatter(predicted[some], logged[some], s=20 + 200 * cells[some] / cells.sum(), color=ACCENT, alpha=0.8)
    axes.set_xscale("log")
    axes.set_yscale("log")
    _plain_ticks(axes.xaxis, *ends)
    _plain_ticks(axes.yaxis, float(logged[some].min()), float(logged[some].max()))
    axes.set_xlabel("predicted chance, relative to uniform")
    axes.set_ylabel("logged, relative to uniform")
    axes.legend(frameon=False)
    word = "well" if found.error < GOOD_CALIBRATION else "roughly" if found.error < POOR_CALIBRATION else "badly"
    trust = {
        "well": "they can be taken at their word",
        "roughly": "weights made of them are rough, too",
        "badly": "do not weight by them",
    }
    conclusion = (
        f"On held-out students the propensities are {word} calibrated (error {found.error:.1%} of the answers): "
        f"{trust[word]}."
    )
    return _chart(figure, "calibration", "Do propensities hold what they promise", conclusion)


def _overlap(diagnosis: Diagnosis) -> Chart:
    below = diagnosis.propensities.below
    figure, axes = _figure(height=2.2)
    names = [f"below {threshold} of uniform" for threshold in below]
    places = range(len(names))
    axes.barh(places, list(below.values()), color=ACCENT, height=0.6)
    axes.set_yticks(places, names)
    axes.invert_yaxis()
    axes.set_xlim(0, max(1.15 * max(below.values()), 0.05))
    axes.xaxis.set_major_formatter(PercentFormatter(1))
    axes.set_xlabel("share of cells (step, concept)")
    for place, value in enumerate(below.values()):
        axes.text(value, place, f" {value:.1%}", va="center")
    unseen = below[f"{UNSEEN:g}"]
    can = {
        "enough": "weights can stand in for what was not logged",
        "thin": "weights stand in for part of what was not logged",
        "too thin": "for these, weights have nothing to work with",
    }[diagnosis.verdict.overlap]
    conclusion = f"{unseen:.1%} of cells have less than a tenth of a uniform chance to be logged: {can}."
    return _chart(figure, "overlap", "Is there a chance to see every concept", conclusion)


def _clips(diagnosis: Diagnosis) -> Chart:
    curve = diagnosis.weights.curve
    clips = np.array([point.clip for point in curve])
    figure, (risk, share) = plt.subplots(2, 1, figsize=(6, 4.6), sharex=True, layout="constrained")
    values, low, high = (np.array([getattr(point.snips, end) for point in curve]) for end in ("value", "low", "high"))
    risk.fill_between(clips, low, high, color=ACCENT, alpha=0.2)
    risk.plot(clips, values, color=ACCENT, marker="o", label="snips, 95 % interval")
    risk.axhline(diagnosis.risk.naive.value, color=INK, linewidth=1, linestyle="--", label="naive")
    risk.set_ylabel("estimated risk")
    risk.legend(frameon=False)
    share.plot(clips, [point.effective_share for point in curve], color=SECOND, marker="s", label="effective sample")
    share.plot(clips, [point.clipped_share for point in curve], color="0.5", marker="x", label="clipped")
    share.set_ylim(0, 1.05)
    share.yaxis.set_major_formatter(PercentFormatter(1))
    share.set_ylabel("share of answers")
    share.legend(frameon=False)
    share.set_xscale("log")
    _plain_ticks(share.xaxis, float(clips.min()), float(clips.max()))
    share.set_xlabel("clip: weights are kept between 1/clip and clip")
    for axes in (risk, share):
        _tidy(axes)
    inner = [point for point in curve if point.clip >= diagnosis.weights.clip[1]]
    moved = max(p.snips.value for p in inner) - min(p.snips.value for p in inner)
    usual = inner[0].snips
    steady = moved <= (usual.high - usual.low) / 2
    conclusion = (
        f"Beyond a clip of {inner[0].clip:g} the estimate moves by {moved:.4f}, "
        + ("less than" if steady else "more than")
        + " its own uncertainty: "
        + ("the choice of clip does not decide the result." if steady else "do not lean on one clip.")
    )
    return _chart(figure, "clips", f"Risk of the {diagnosis.subject.model} against the clip of the weights", conclusion)


def _bands(diagnosis: Diagnosis) -> Chart:
    bands = diagnosis.bands
    values = np.array([band.relative for band in bands.bands])
    figure, axes = _figure(height=3.0)
    edge = max(float(np.abs(values - 1).max()), 0.1)
    picture = axes.imshow(values, cmap="RdBu", norm=TwoSlopeNorm(1, 1 - edge, 1 + edge), aspect="auto")
    for row, column in np.ndindex(values.shape):
        strong = abs(values[row, column] - 1) > 0.6 * edge
        axes.text(column, row, f"{values[row, column]:.2f}", ha="center", va="center", color="w" if strong else INK)
    axes.set_xticks(range(len(bands.groups)), bands.groups)
    axes.set_yticks(range(len(bands.bands)), [band.name for band in bands.bands])
    axes.set_xlabel("concepts, by the share right that the log shows")
    axes.set_ylabel("students, by earlier share right")
    axes.spines[:].set_visible(False)
    figure.colorbar(picture, label="answers, 1 = uniform")
    row, column = np.unravel_index(int(values.argmin()), values.shape)
    spread = float(np.ptp(values, axis=0).max())
    differ = "differs between bands by up to" if spread >= 0.1 else "hardly differs between bands: by at most"
    conclusion = (
        f"Logged least: {bands.groups[column]} concepts by students of the {bands.bands[row].name}, "
        f"{values[row, column]:.2f} of a uniform share; a group's exposure {differ} {spread:.2f}."
    )
    return _chart(figure, "bands", "Who is logged with what", conclusion)


def _placebos(diagnosis: Diagnosis) -> Chart:
    figure, axes = _figure(height=2.0)
    gains: dict[str, Estimate] = {
        "this log": diagnosis.selection.gain,
        "shuffled concepts": diagnosis.placebos.permuted_gain,
    }
    for place, (name, gain) in enumerate(gains.items()):
        colour = ACCENT if name == "this log" else "0.5"
        axes.plot([gain.low, gain.high], [place, place], color=colour, linewidth=3)
        axes.plot(gain.value, place, "o", color=colour)
    axes.axvline(0, color=INK, linewidth=1)
    axes.set_yticks(range(len(gains)), list(gains))
    axes.set_ylim(1.6, -0.6)
    axes.locator_params(axis="x", nbins=5)
    axes.set_xlabel("gain from knowing the history, nats an answer")
    own, placebo = diagnosis.selection.gain, diagnosis.placebos
    conclusion = (
        "In this log the history "
        + ("tells" if own.low > max(0.0, placebo.permuted_gain.high) else "does not tell")
        + f" which concept is logged next (gain {own.value:.4f}); with concepts shuffled it "
        + ("does not, as it must be." if placebo.permuted_passed else "seems to as well, so do not trust the gain.")
    )
    return _chart(figure, "placebos", "Is selection related to the student's history", conclusion)


CHARTS: tuple[Callable[[Diagnosis], Chart], ...] = (_exposure, _placebos, _calibration, _overlap, _clips, _bands)


def _figure(height: float = 3.2) -> tuple[Figure, Axes]:
    """A figure narrow enough that its letters can be read on a phone."""
    figure, axes = plt.subplots(figsize=(6, height), layout="constrained")
    _tidy(axes)
    return figure, axes


def _tidy(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)


def _plain_ticks(axis: Axis, low: float, high: float) -> None:
    """Ticks at 1, 3, 10 and so on of a logarithmic axis, written out."""
    steps = [value for power in range(-3, 4) for value in (10.0**power, 3 * 10.0**power)]
    within = [value for value in steps if low / 3.3 <= value <= 3.3 * high]
    axis.set_ticks(within, [f"{value:g}" for value in within])
    axis.set_minor_locator(NullLocator())


def _chart(figure: Figure, name: str, title: str, conclusion: str) -> Chart:
    return Chart(title, conclusion, inline_svg(figure, name, f"{title}. {conclusion}"))
