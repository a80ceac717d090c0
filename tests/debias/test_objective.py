"""The joint objective: its limits, and what each of its models is moved by."""

import copy
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.optim import Optimizer

import tsdr
from conftest import random_batch
from tsdr import InputError, Sequences, Vocabulary, build_backbone
from tsdr.debias.building import network_beside, new_objective
from tsdr.debias.imputation import Imputation
from tsdr.debias.objective import JointObjective
from tsdr.debias.propensity import ConceptQuestions
from tsdr.debias.stack import FEWEST, Unseen
from tsdr.methods import NAIVE_OPTIONS, OBJECTIVES, DebiasOptions, options_of
from tsdr.parallel import Share, Team
from tsdr.training.epoch import Epoch
from tsdr.training.options import TrainingOptions
from tsdr.training.trainer import fit

TRAINING = TrainingOptions(device="cpu", max_epochs=3, learning_rate=0.01)


def objective(options: DebiasOptions, name: str = "simplekt", seed: int = 0) -> JointObjective:
    """With the models that the options call for; what is fitted elsewhere is as it was drawn here."""
    torch.manual_seed(seed)
    sizes: dict[str, Any] = {"n_concepts": 11, "d": 16, "dropout": 0.0}
    model = build_backbone(name, n_questions=13, **sizes)
    imputation = None
    if options.imputing:
        learned = None if options.imputation == "counts" else build_backbone(name, n_questions=1, **sizes)
        fitted = [] if options.imputation == "own" else [build_backbone("counts", n_concepts=11, n_questions=13)]
        imputation = Imputation(fitted, learned)
    questions = ConceptQuestions(random_batch().events().pairs(), 11, 13)
    return JointObjective(model, options, TRAINING, imputation, questions, [Unseen(held_out())])


def held_out(number: int = 24) -> Sequences:
    """Students whom nothing is learned from."""
    batch = random_batch(number, seed=9)
    students = tuple(f"s{row:02}" for row in range(number))
    vocabulary = Vocabulary(tuple(f"c{i}" for i in range(11)), tuple(f"q{i}" for i in range(13)))
    return Sequences.of_batch(batch, students, vocabulary)


def gradients_of(options: DebiasOptions) -> dict[str, Tensor]:
    """The gradient that the backbone gets in a step, everything else being the same."""
    joint = objective(options)
    found: dict[str, Tensor] = {}

    class Watching(Team):
        def add_up(self, optimiser: Optimizer) -> None:
            if optimiser is joint.optimisers["model"]:
                for key, parameter in joint.model.named_parameters():
                    if parameter.grad is not None and not key.startswith("summary_query"):
                        found[key] = parameter.grad.clone()

    joint.team = Watching()
    torch.manual_seed(1)
    joint.step(random_batch())
    return found


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.allclose(first[name], second[name], atol=1e-6) for name in first)


def test_an_imputed_error_that_is_free_of_the_prediction_trains_as_ipw_does() -> None:
    """The paper's literal form: every ê-term is then a constant for the knowledge-tracing model."""
    ipw = gradients_of(options_of("ipw"))
    for correction in ("full", "stopped"):
        free = options_of("dr", imputation_loss="free", correction=correction)
        assert same(gradients_of(free), ipw)
    assert not same(gradients_of(options_of("dr")), ipw)


def test_limits() -> None:
    naive = gradients_of(NAIVE_OPTIONS)
    unclipped: dict[str, Any] = {"clip": (1.0, 1.0)}
    assert same(gradients_of(options_of("ipw", **unclipped)), naive), "w = 1 is naive"
    assert same(gradients_of(options_of("dr", alpha=0, **unclipped)), naive)
    assert same(
        gradients_of(options_of("dr", **unclipped)),
        gradients_of(options_of("eib")),
    )
    assert not same(
        gradients_of(options_of("ipw")),
        gradients_of(options_of("dr")),
    )


@pytest.mark.parametrize("method", OBJECTIVES)
def test_each_method_has_the_models_that_it_needs_and_moves_them(method: str) -> None:
    options = options_of(method)
    joint = objective(options)
    before = copy.deepcopy(joint.state()["models"])
    for seed in range(3):
        joint.step(random_batch(seed=seed))
    after = joint.state()["models"]
    expected = {"model"}
    if options.imputing and options.imputation != "counts":
        expected.add("imputation")
    if options.weights != "off":
        expected.add("propensity")
    assert set(after) == expected
    for name in expected:
        assert any(not torch.equal(after[name][key], before[name][key]) for key in before[name]), name


def test_the_propensity_step_moves_the_summary_query_and_nothing_else_of_the_backbone() -> None:
    joint = objective(options_of("ipw"))
    assert joint.propensity is not None
    torch.nn.init.normal_(joint.propensity.output.weight)
    batch = random_batch()
    history = joint.model.encode(batch)
    before = {name: parameter.clone() for name, parameter in joint.model.named_parameters()}
    joint.update("auxiliary", joint.propensity.loss(joint.model.summary(history), batch.concept, batch.scored, "all"))
    moved = {name for name, p in joint.model.named_parameters() if not torch.equal(p, before[name])}
    assert moved == {"summary_query.query", "summary_query.recency"}


def test_all_cells_is_what_drawn_cells_estimate() -> None:
    """The loss with a few drawn cells has, on average, the value of the loss over every cell."""
    batch = random_batch()
    joint = objective(options_of("dr", cells="all"))
    assert joint.imputation is not None
    history, _ = joint.model.follow(batch)
    weights = batch.scored.float()
    exact = float(joint._imputed(joint.imputation, Share.all_of(batch), history, weights).detach())
    few = objective(options_of("dr", cells=2))
    assert few.imputation is not None
    few.model.load_state_dict(joint.model.state_dict())
    assert few.imputation.learned is not None
    assert joint.imputation.learned is not None
    few.imputation.learned.load_state_dict(joint.imputation.learned.state_dict())
    history, _ = few.model.follow(batch)
    torch.manual_seed(0)
    draws = torch.tensor(
        [float(few._imputed(few.imputation, Share.all_of(batch), history, weights).detach()) for _ in range(800)]
    )
    assert abs(float(draws.mean()) - exact) < 4 * float(draws.std()) / 800**0.5


@pytest.mark.parametrize(("imputation", "joint"), [("both", True), ("both", False), ("counts", True)])
def test_an_interrupted_joint_run_goes_on_to_the_same_numbers(imputation: str, joint: bool, tmp_path: Path) -> None:
    sequences = Sequences.from_log(tsdr.simulate(students=60, questions=20, concepts=5).log, window=10)
    train, validation = sequences.select(sequences.student[:45]), sequences.select(sequences.student[45:])
    options = options_of("tsdr", imputation=imputation, joint=joint, warm_up=2)

    def run(**more: Any) -> list[Epoch]:
        fresh = new_objective("dkt", train, {"d": 8}, TRAINING, options, validation)
        return fit(fresh, train, validation, TRAINING, checkpoint=tmp_path / "checkpoint", **more)

    whole = run()

    def interrupt(epoch: Epoch) -> None:
        if epoch.number == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(on_epoch=interrupt)
    torch.manual_seed(123)
    resumed = run(resume=True)
    assert [epoch.score for epoch in resumed] == [epoch.score for epoch in whole]


def test_frozen_auxiliary_models_do_not_move() -> None:
    sequences = Sequences.from_log(tsdr.simulate(students=40, questions=20, concepts=5).log, window=10)
    options = options_of("tsdr-own", joint=False, warm_up=1)
    frozen = new_objective("dkt", sequences, {"d": 8}, TRAINING, options)
    for first in frozen.warm_up():
        first.step(sequences.batch)
    before = copy.deepcopy(frozen.state()["models"])
    frozen.step(sequences.batch)
    after = frozen.state()["models"]
    for name in ("imputation", "propensity", "reference"):
        assert all(torch.equal(after[name][key], before[name][key]) for key in before[name])
    assert any(not torch.equal(after["model"][key], before["model"][key]) for key in before["model"])


def test_a_method_that_imputes_needs_a_model_for_it() -> None:
    with pytest.raises(InputError, match="needs an imputation model"):
        JointObjective(build_backbone("dkt", n_concepts=3, n_questions=3), DebiasOptions(), TRAINING)


def test_the_imputation_model_is_the_light_size_of_the_backbone_and_knows_no_questions() -> None:
    model = build_backbone("akt", n_concepts=11, n_questions=13, d=16)
    own = options_of("tsdr-own")
    light, same = (
        network_beside("akt", model, own.model_copy(update={"light_imputation": light})) for light in (True, False)
    )
    assert light.options == {**model.options, "size": "light", "heads": 4}
    assert same.options == model.options
    assert light.n_questions == same.n_questions == 1


def test_a_network_that_imputes_beside_counts_is_smaller_still_where_it_can_be() -> None:
    alone, beside = options_of("tsdr-own"), options_of("tsdr", imputation="both")
    dkt, akt = (build_backbone(name, n_concepts=11, n_questions=13, d=16) for name in ("dkt", "akt"))
    assert network_beside("dkt", dkt, alone).options == dkt.options
    assert network_beside("dkt", dkt, beside).options == {**dkt.options, "d": 8}
    assert network_beside("akt", akt, beside).options == network_beside("akt", akt, alone).options


@pytest.mark.parametrize("correction", ["full", "stopped"])
def test_the_loss_of_the_backbone_is_what_a_loop_over_cells_says(
    correction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Textbook weights, all cells, auxiliary models that stand still: every term is worked out cell by cell."""
    options = options_of(
        "tsdr-own", weights="both", cells="all", joint=False, alpha=1.7, clip=(0.5, 2.0), correction=correction
    )
    joint = objective(options, name="dkt")
    assert joint.propensity is not None
    assert joint.imputation is not None
    assert joint.questions is not None
    torch.nn.init.normal_(joint.propensity.output.weight)
    losses: list[float] = []
    monkeypatch.setattr(JointObjective, "update", lambda self, name, loss: losses.append(float(loss.detach())))
    batch = random_batch()
    joint.step(batch)

    every = torch.arange(11).expand(*batch.mask.shape, -1)
    with torch.no_grad():
        history = joint.model.encode(batch)
        success = joint.model.answer(history, every).double().sigmoid()
        told = joint.imputation.answer(joint.imputation.encode(batch), every).double().sigmoid()
        propensity = joint.propensity.of_all(joint.model.summary(history)).double()
    steps = [(i, t) for i in range(len(batch.mask)) for t in range(1, 9) if batch.mask[i, t]]

    def cross_entropy(answer: float, predicted: float) -> float:
        return -answer * math.log(predicted) - (1 - answer) * math.log(1 - predicted)

    weights = []
    for i, t in steps:
        often = float(joint.questions.frequency(batch.concept[i, t], batch.question[i, t]))
        weights.append(min(2.0, max(0.5, 1 / (11 * float(propensity[i, t, batch.concept[i, t]]) * often))))
    mean_weight = sum(weights) / len(weights)
    observed = at_observed = everywhere = 0.0
    for (i, t), weight in zip(steps, weights, strict=True):
        c, w = int(batch.concept[i, t]), weight / mean_weight
        observed += w * cross_entropy(float(batch.correct[i, t]), float(success[i, t, c])) / len(steps)
        at_observed += w * cross_entropy(float(told[i, t, c]), float(success[i, t, c])) / len(steps)
        for c in range(11):
            everywhere += cross_entropy(float(told[i, t, c]), float(success[i, t, c])) / len(steps) / 11
    expected = observed + 1.7 * (everywhere - (at_observed if correction == "full" else 0))
    assert losses == [pytest.approx(expected, rel=1e-5)]


def test_targeting_needs_students_who_are_not_learned_from() -> None:
    model, counts = (build_backbone(name, n_concepts=3, n_questions=3) for name in ("dkt", "counts"))
    questions = ConceptQuestions(random_batch().events().pairs(), 11, 13)
    with pytest.raises(InputError, match="students who are not learned from"):
        JointObjective(model, DebiasOptions(), TRAINING, Imputation([counts]), questions)


def test_what_is_fitted_is_not_moved_and_the_stack_is_fitted_before_each_epoch() -> None:
    joint = objective(options_of("tsdr", imputation="both"))
    assert joint.imputation is not None
    (counts,), learned = joint.imputation.fitted, joint.imputation.learned
    assert learned is not None
    before = copy.deepcopy(counts.state_dict()), copy.deepcopy(learned.state_dict())
    joint.begin_epoch()
    first = joint.imputation.stack
    for seed in range(3):
        joint.step(random_batch(seed=seed))
    assert joint.imputation.stack is first, "it stands still during an epoch"
    assert all(torch.equal(counts.state_dict()[name], value) for name, value in before[0].items())
    assert any(not torch.equal(learned.state_dict()[name], value) for name, value in before[1].items())
    joint.begin_epoch()
    second = joint.imputation.stack
    assert not torch.equal(second.slope, first.slope), "one of the models has learned since"
    joint.begin_epoch()
    assert joint.imputation.stack is second, "the third epoch goes on with that of the second"


def test_what_imputes_is_left_as_it_is_where_few_students_could_target_it() -> None:
    for number, targeted in ((FEWEST - 1, False), (FEWEST, True)):
        joint = objective(options_of("tsdr"))
        joint.unseen = [Unseen(held_out(number))]
        joint.begin_epoch()
        assert joint.imputation is not None
        assert (joint.targeting is not None) is targeted
        assert (joint.imputation.stack.slope.tolist() != [1.0]) is targeted


def test_the_weights_of_targeting_are_those_of_exposure() -> None:
    """Known exposure takes the place of the propensity model's; without weights, all answers count alike."""
    told = held_out()
    known = torch.rand(len(told.answers), generator=torch.Generator().manual_seed(3)) + 0.5
    told = replace(told, events=replace(told.events, exposure=known))
    weighted = objective(options_of("tsdr", clip=(0.01, 100)))
    weighted.unseen = [Unseen(told)]
    weighted.begin_epoch()
    plain = objective(options_of("tsdr-unweighted"))
    plain.begin_epoch()
    assert weighted.targeting is not None
    assert plain.targeting is not None
    expected = 1 / known[told.scored]
    torch.testing.assert_close(weighted.targeting.weight, expected / expected.mean())
    torch.testing.assert_close(plain.targeting.weight, torch.ones_like(expected))


@pytest.mark.parametrize("ask", ["concept", "question", "both"])
def test_cells_are_asked_at_questions_drawn_evenly_or_at_their_concepts(ask: str) -> None:
    joint = objective(options_of("tsdr", ask=ask))
    concept = random_batch().concept[:, :1, None].expand(-1, 500, 1)
    drawn, asked = joint._questions(concept)
    if ask == "concept":
        assert drawn is asked is None
        return
    assert drawn is not None
    assert asked is not None
    batch = random_batch()
    known = torch.stack([batch.concept[batch.mask], batch.question[batch.mask]], 1).unique(dim=0).tolist()
    pairs = torch.stack([concept.flatten(), drawn.flatten()], 1).unique(dim=0).tolist()
    assert all(pair in known for pair in pairs)
    at_question = asked != -1
    assert torch.equal(asked[at_question], drawn[at_question])
    share = float(at_question.float().mean())
    # of 500 draws a sequence: 5 standard errors of a half are 0.04 for 8 sequences
    assert share == pytest.approx(1.0 if ask == "question" else 0.5, abs=0.0 if ask == "question" else 0.05)


def test_the_loss_beyond_answers_is_nought_for_a_backbone_that_says_what_is_imputed() -> None:
    """counts, taught by itself untargeted: no divergence; α times a positive one for another model."""
    options = options_of("tsdr", targeted=False, alpha=4)
    counts = build_backbone("counts", n_concepts=11, n_questions=13)
    questions = ConceptQuestions(random_batch().events().pairs(), 11, 13)
    same = JointObjective(counts, options, TRAINING, Imputation([counts]), questions)
    assert same.loss_beyond_answers(held_out()) == pytest.approx(0, abs=1e-6)
    other = objective(options)
    assert other.loss_beyond_answers(held_out()) > 0.01
    assert objective(options_of("tsdr-own")).loss_beyond_answers(held_out()) == 0
