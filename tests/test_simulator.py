from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError
from scipy import stats

from tsdr import InputError, Log, Population, Recommender, Sequences, read_simulation, simulate
from tsdr.simulator import Simulation, skip_probability

PAPER_OBSERVED = 114_400
PAPER_KEPT = 48_500
PAPER_SKIPPED = {0.0: 0, 0.2: 12_922, 0.4: 24_669, 0.6: 36_055, 0.8: 46_627, 0.999: 55_770}

POLICIES: dict[str, dict[str, Any]] = {
    "skips": {"gamma": 0.8},
    "recommender": {"gamma": 0.0, "recommender": Recommender()},
    "both": {"gamma": 0.8, "recommender": Recommender(estimate="truth", width=0.2)},
}


@pytest.fixture(scope="module", params=POLICIES)
def simulation(request: pytest.FixtureRequest) -> Simulation:
    return simulate(students=400, seed=3, **POLICIES[request.param])


@pytest.fixture(scope="module")
def selected() -> Simulation:
    return simulate(gamma=0.8, students=400, seed=3)


def steps(simulation: Simulation) -> NDArray[np.bool_]:
    """Which [student, step] there are."""
    truth = simulation.truth
    return np.arange(truth.probability.shape[1]) < truth.length[:, None]


def logged_concept(simulation: Simulation) -> NDArray[np.int64]:
    """The logged concept of every step, in the order of `array[steps(simulation)]`."""
    names = {name: i for i, name in enumerate(simulation.truth.concept.tolist())}
    return simulation.log.frame["concept"].replace_strict(names, return_dtype=pl.Int64).to_numpy()


def assert_frequencies(hits: NDArray[Any], chances: NDArray[Any], bins: int = 10) -> None:
    """In each quantile bin of the stated chances, hits are as frequent as stated.

    The hits are independent given the chances, so a bin's z-score is standard normal; 5 standard errors keep
    the chance of a false alarm in any of the bins below 1e-5.
    """
    edges = np.unique(np.quantile(chances, np.linspace(0, 1, bins + 1)))
    bin_of = np.clip(np.searchsorted(edges, chances, side="right") - 1, 0, len(edges) - 2)
    for b in range(len(edges) - 1):
        chance, hit = chances[bin_of == b], hits[bin_of == b]
        error = np.sqrt((chance * (1 - chance)).sum())
        assert abs(hit.sum() - chance.sum()) < 5 * error + 1e-9, (b, hit.mean(), chance.mean())


@pytest.mark.parametrize("gamma", PAPER_SKIPPED)
def test_counts_come_close_to_the_papers(gamma: float) -> None:
    simulation = simulate(gamma=gamma, seed=1)
    assert len(simulation.log) == pytest.approx(PAPER_OBSERVED, rel=0.05)
    assert len(simulation.skipped) == pytest.approx(PAPER_SKIPPED[gamma], rel=0.12)
    batch = Sequences.from_log(simulation.log).batch
    assert int(batch.mask.sum()) == pytest.approx(PAPER_KEPT, rel=0.04)
    assert 0.71 < batch.correct[batch.mask].double().mean() < 0.79


def test_answers_are_right_as_often_as_the_truth_says(simulation: Simulation) -> None:
    correct = simulation.log.frame["correct"].to_numpy()
    assert_frequencies(correct, simulation.truth.of_answers(simulation.log))


def test_concepts_are_logged_as_often_as_the_propensity_says(simulation: Simulation) -> None:
    propensity = simulation.truth.propensity[steps(simulation)].astype(np.float64)
    np.testing.assert_allclose(propensity.sum(axis=1), 1, atol=1e-5)
    logged = np.zeros_like(propensity)
    logged[np.arange(len(logged)), logged_concept(simulation)] = 1
    for concept in range(propensity.shape[1]):
        assert_frequencies(logged[:, concept], propensity[:, concept], bins=5)


def test_the_concept_truth_is_the_mean_of_the_question_truth(simulation: Simulation) -> None:
    """An independent walk through the log by a plain loop, mastery in hand."""
    truth, population = simulation.truth, simulation.truth.population
    names = {name: i for i, name in enumerate(truth.bank.question.tolist())}
    of_answers = truth.of_answers(simulation.log)
    row = 0
    for student in range(20):
        mastery = truth.initial_mastery[student].copy()
        rows = simulation.log.frame.filter(student=truth.student[student]).to_dicts()
        for step, answer in enumerate(rows):
            chance = np.array(
                [
                    population.guess
                    + (1 - population.guess - population.slip) / (1 + np.exp(-population.slope * (mastery[c] - d)))
                    for c, d in zip(truth.bank.concept, truth.bank.difficulty, strict=True)
                ]
            )
            means = [chance[truth.bank.concept == c].mean() for c in range(len(truth.concept))]
            np.testing.assert_allclose(truth.probability[student, step], means, atol=1e-6)
            question = names[answer["question"]]
            assert of_answers[row] == pytest.approx(chance[question])
            concept = truth.bank.concept[question]
            assert truth.concept[concept] == answer["concept"]
            if answer["correct"]:
                mastery[concept] += population.learning_rate * (1 - mastery[concept])
            row += 1
        assert len(rows) == truth.length[student]


def test_skips_follow_the_rule(selected: Simulation) -> None:
    """A first offer is a skipped one, or an answer that does not come right after a skip."""
    offers = selected.offers().frame
    answer_truth = selected.log.frame.select("student", "time").with_columns(
        p=pl.Series(selected.truth.of_answers(selected.log))
    )
    # a skipped question's truth: its concept's right answers so far, as for an answer given in its place
    pretended = selected.skipped.frame.with_columns(correct=pl.lit(0, pl.Int8), skipped=pl.lit(False))
    both = pl.concat([selected.log.frame.with_columns(skipped=pl.lit(True)), pretended]).sort("student", "time")
    as_log = type(selected.log)(both.drop("skipped"))
    p = pl.Series(selected.truth.of_answers(as_log))
    marked = offers.with_columns(p=p, second=pl.col("skipped").shift(1).over("student").fill_null(False))
    assert answer_truth["p"].equals(marked.filter(~pl.col("skipped"))["p"])
    first = marked.filter(~pl.col("second"))
    chance = skip_probability(first["p"].to_numpy(), 0.8)
    skipped = first["skipped"].to_numpy()
    assert not skipped[chance == 0].any()
    assert_frequencies(skipped[chance > 0], chance[chance > 0])
    assert not marked.filter("second")["skipped"].any()


def test_the_second_offer_is_another_question(selected: Simulation) -> None:
    offers = selected.offers().frame.with_columns(
        before=pl.col("question").shift(1).over("student"), second=pl.col("skipped").shift(1).over("student")
    )
    after_skip = offers.filter("second")
    assert after_skip.height == len(selected.skipped)
    assert (after_skip["question"] != after_skip["before"]).all()


def test_without_skips_the_logged_cells_are_a_fair_sample_of_their_concept() -> None:
    """Per concept, the truth at logged steps has the mean of all steps; reweighted, so has the whole log."""
    simulation = simulate(gamma=0, students=400, seed=5)
    cells = simulation.truth.probability[steps(simulation)].astype(np.float64)
    logged = logged_concept(simulation)
    at_logged = cells[np.arange(len(cells)), logged]
    per_concept = np.array([at_logged[logged == c].mean() for c in range(cells.shape[1])])
    error = np.array([at_logged[logged == c].std() / np.sqrt((logged == c).sum()) for c in range(cells.shape[1])])
    difference = per_concept.mean() - cells.mean()
    bound = 4 * np.sqrt((error**2).sum()) / cells.shape[1]
    assert abs(difference) < bound
    assert len(simulation.skipped) == 0

    selected = simulate(gamma=0.8, students=400, seed=5)
    cells, logged = selected.truth.probability[steps(selected)].astype(np.float64), logged_concept(selected)
    at_logged = cells[np.arange(len(cells)), logged]
    reweighted = np.mean([at_logged[logged == c].mean() for c in range(cells.shape[1])])
    assert abs(reweighted - cells.mean()) > 2 * bound, "the same check must see a selected log"


def test_inverse_propensity_weighting_recovers_the_mean_truth(simulation: Simulation) -> None:
    """The propensity is the right one: Σ p / propensity over logged cells estimates the sum over all cells."""
    at = steps(simulation)
    cells, propensity = (
        array[at].astype(np.float64) for array in (simulation.truth.probability, simulation.truth.propensity)
    )
    logged = logged_concept(simulation)
    row = np.arange(len(cells))
    weighted = cells[row, logged] / propensity[row, logged] / cells.shape[1]
    z = (weighted.mean() - cells.mean()) / (weighted - cells.mean(axis=1)).std() * np.sqrt(len(cells))
    assert abs(z) < 4


def test_a_recommender_moves_success_towards_its_target() -> None:
    def gap(target: float) -> float:
        recommender = Recommender(target=target, estimate="truth", width=0.05)
        success = simulate(gamma=0, students=200, recommender=recommender)
        return abs(float(success.truth.of_answers(success.log).mean()) - target)

    popular = simulate(gamma=0, students=200)
    mean = float(popular.truth.of_answers(popular.log).mean())
    assert gap(0.3) < abs(mean - 0.3) / 2
    assert gap(0.9) < abs(mean - 0.9) / 2


def test_the_platforms_estimate_uses_past_answers_only() -> None:
    """With a history-based recommender, propensities are a function of the answers logged before the step."""
    recommender = Recommender(prior=(2.0, 1.0), width=0.3)
    simulation = simulate(gamma=0, students=30, questions=40, concepts=5, recommender=recommender)
    truth, bank = simulation.truth, simulation.truth.bank
    popularity = np.array([bank.popularity[bank.concept == c].sum() for c in range(5)])
    names = {name: i for i, name in enumerate(truth.concept.tolist())}
    for student in range(5):
        right, wrong = np.full(5, 2.0), np.full(5, 1.0)
        for step, answer in enumerate(simulation.log.frame.filter(student=truth.student[student]).to_dicts()):
            weight = popularity * np.exp(-np.abs(right / (right + wrong) - 0.7) / 0.3)
            np.testing.assert_allclose(truth.propensity[student, step], weight / weight.sum(), rtol=1e-5)
            (right if answer["correct"] else wrong)[names[answer["concept"]]] += 1


def test_a_very_narrow_recommender_still_offers_something() -> None:
    simulation = simulate(gamma=0.5, students=20, recommender=Recommender(width=1e-5, estimate="truth"))
    assert np.isfinite(simulation.truth.propensity).all()
    np.testing.assert_allclose(simulation.truth.propensity[steps(simulation)].sum(axis=1), 1, atol=1e-5)


def test_lengths_and_question_popularity_are_as_asked() -> None:
    population = Population(answers=(3, 6), zipf=1.5)
    simulation = simulate(gamma=0, students=3000, questions=50, concepts=7, population=population)
    lengths = np.bincount(simulation.truth.length, minlength=7)[3:]
    assert stats.chisquare(lengths).pvalue > 1e-4
    assert simulation.log.frame["student"].n_unique() == 3000
    counts = simulation.log.frame["question"].value_counts()
    asked = dict(counts.iter_rows())
    popularity = simulation.truth.bank.popularity
    observed = [asked.get(name, 0) for name in simulation.truth.bank.question.tolist()]
    assert stats.chisquare(observed, popularity * len(simulation.log)).pvalue > 1e-4
    assert popularity.max() / popularity.min() == pytest.approx(50**1.5)


def test_same_seed_same_bytes_and_another_seed_other_bytes(tmp_path: Path) -> None:
    for name, seed in (("one", 7), ("two", 7), ("three", 8)):
        simulate(students=50, seed=seed).write(tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert files == ["log.parquet", "options.json", "skipped.parquet", "truth.npz"]
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
        assert (tmp_path / "one" / file).read_bytes() != (tmp_path / "three" / file).read_bytes()


def test_more_students_leave_the_first_block_as_it_is() -> None:
    few, many = simulate(students=1000, seed=2), simulate(students=1500, seed=2)
    np.testing.assert_array_equal(many.truth.length[:1000], few.truth.length)
    width = few.truth.probability.shape[1]
    np.testing.assert_array_equal(many.truth.probability[:1000, :width], few.truth.probability)
    assert (many.truth.length[1000:1500] != few.truth.length[:500]).any()
    answers = few.log.frame["correct"]
    assert many.log.frame["correct"].head(len(answers)).equals(answers)


def test_students_that_come_after_others_are_those_of_one_simulation_of_all() -> None:
    shape = {"questions": 20, "concepts": 4, "seed": 3, "recommender": Recommender()}
    whole, part = simulate(students=1040, **shape), simulate(students=40, after=1000, **shape)  # type: ignore[arg-type]
    assert part.truth.student.tolist() == whole.truth.student[1000:].tolist()
    for ours, theirs in ((part.log, whole.log), (part.skipped, whole.skipped)):
        assert ours == Log(theirs.frame.filter(pl.col("student").is_in(part.truth.student.tolist())))
    steps = part.truth.probability.shape[1]
    assert np.array_equal(part.truth.probability, whole.truth.probability[1000:, :steps])
    with pytest.raises(ValidationError, match="multiple of 1000"):
        simulate(students=40, after=500)


def test_a_written_simulation_is_read_back_whole(selected: Simulation, tmp_path: Path) -> None:
    selected.write(tmp_path)
    again = read_simulation(tmp_path)
    assert again.log == selected.log
    assert again.skipped == selected.skipped
    np.testing.assert_array_equal(again.truth.of_answers(again.log), selected.truth.of_answers(selected.log))


def test_truth_files_have_the_published_arrays(selected: Simulation, tmp_path: Path) -> None:
    selected.write(tmp_path)
    arrays = np.load(tmp_path / "truth.npz", allow_pickle=False)
    log = pl.read_parquet(tmp_path / "log.parquet")
    shape = (400, arrays["length"].max(), 20)
    assert arrays["probability"].dtype == arrays["propensity"].dtype == np.float32
    assert arrays["probability"].shape == arrays["propensity"].shape == shape
    runs = log["student"].rle().struct.unnest()
    assert runs["value"].to_list() == arrays["student"].tolist()
    assert runs["len"].to_list() == arrays["length"].tolist()
    assert set(log["concept"]) == set(arrays["concept"].tolist())


def test_foreign_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a folder that `tsdr simulate` wrote"):
        read_simulation(tmp_path)
    (tmp_path / "log.parquet").write_bytes(b"someone's own")
    with pytest.raises(InputError, match="not simulated"):
        simulate(students=5).write(tmp_path)
    assert (tmp_path / "log.parquet").read_bytes() == b"someone's own"


@pytest.mark.parametrize(
    "bad",
    [
        {"gamma": 1.1},
        {"gamma": -0.1},
        {"students": 0},
        {"questions": 1},
        {"concepts": 30, "questions": 20},
        {"seed": -1},
        {"population": Population(answers=(5, 4))},
        {"population": Population(guess=0.6, slip=0.6)},
    ],
)
def test_impossible_settings_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises((InputError, ValidationError)):
        simulate(**bad)


def test_a_misspelt_parameter_is_refused() -> None:
    with pytest.raises(ValidationError, match="learning_rat"):
        Population(learning_rat=0.5)  # type: ignore[call-arg]


@pytest.mark.parametrize("recommender", [None, Recommender()])
def test_known_exposure_makes_logged_answers_a_fair_sample(recommender: Recommender | None) -> None:
    """Weights 1 / exposure have the mean 1, and the weighted share right is the mean success over all cells.

    By four standard errors over students: answers of one student hang together.
    """
    drawn = simulate(0.8, students=1000, questions=60, concepts=6, seed=8, recommender=recommender)
    weight, (_, correct) = 1 / drawn.exposure(), drawn.truth.answers_of(drawn.log)
    there = np.arange(weight.shape[1]) < drawn.truth.length[:, None]
    true = drawn.truth.probability.mean(2)
    for off in (weight - 1, weight * correct - true):
        by_student = np.where(there, off, 0).sum(1) / there.sum() * len(weight)
        assert abs(by_student.mean()) < 4 * by_student.std() / np.sqrt(len(by_student))
    by_concept = drawn.truth.propensity[there].mean(0)
    assert by_concept.max() > 2 * by_concept.min(), "unweighted, they are none"
    assert (weight[~there] == 1).all()
