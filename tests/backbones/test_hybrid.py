"""Hybrid is `counts` where there is no more to be said, and says more where there is."""

import numpy as np
import polars as pl
import torch

import tsdr
from tsdr import Log, Sequences, build_backbone
from tsdr.backbones import AnyBackbone
from tsdr.backbones.counts import Counts
from tsdr.backbones.hybrid import OFTEN, Hybrid
from tsdr.backbones.predicting import predict
from tsdr.debias.building import new_objective
from tsdr.methods import NAIVE_OPTIONS
from tsdr.metrics import auc, log_loss
from tsdr.training.options import TrainingOptions
from tsdr.training.trainer import fit


def simulated(students: int = 80, window: int = 20) -> Sequences:
    log = tsdr.simulate(gamma=0.8, students=students, questions=24, concepts=6, seed=2).log
    return Sequences.from_log(log, window=window)


def built(name: str, sequences: Sequences) -> AnyBackbone:
    torch.manual_seed(1)
    vocabulary = sequences.vocabulary
    options = {"d": 16} if name == "hybrid" else {}
    model = build_backbone(name, n_concepts=len(vocabulary.concepts), n_questions=len(vocabulary.questions), **options)
    model.prepare(sequences)
    return model.eval()


def with_something_to_say(model: AnyBackbone) -> Hybrid:
    assert isinstance(model, Hybrid)
    with torch.no_grad():
        for weights in (model.question.weight, model.of_concept.weight, *model.shared.parameters()):
            weights.normal_(0, 0.5)
    return model


def test_before_it_learns_it_is_counts() -> None:
    sequences = simulated()
    counts, hybrid = built("counts", sequences), built("hybrid", sequences)
    np.testing.assert_allclose(predict(hybrid, sequences).success, predict(counts, sequences).success, atol=1e-6)
    every = torch.arange(6).expand(*sequences.batch.mask.shape, -1)
    said = [model.answer(model.encode(sequences.batch), every) for model in (counts, hybrid)]
    torch.testing.assert_close(*said)


def test_training_moves_the_residual_and_leaves_the_counts_alone() -> None:
    sequences = simulated()
    training = TrainingOptions(device="cpu", seed=1)
    objective = new_objective("hybrid", sequences, {"d": 16}, training, NAIVE_OPTIONS)
    model = objective.model
    assert isinstance(model, Hybrid)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for batch in sequences.batches(16):
        objective.step(batch)
    moved = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert {"lstm.weight_ih_l0", "question.weight", "of_concept.weight", "shared.weight"} <= moved
    assert not any(name.startswith("base.") for name in moved)


def test_a_target_without_a_question_is_the_mean_over_those_of_the_concept() -> None:
    sequences = simulated()
    model = with_something_to_say(built("hybrid", sequences))
    model.often.fill_(False)  # what is learned of single questions is theirs alone
    history, answers = model.encode(sequences.batch), sequences.answers
    with torch.no_grad():
        for concept in range(6):
            questions = answers.question[answers.concept == concept].unique()
            assert 1 < len(questions) <= 7, "so that each stands for itself"
            asked = questions.expand(*sequences.batch.mask.shape, -1)
            target = torch.full_like(asked, concept)
            each = model.answer(history, target, asked).sigmoid()
            of_all = model.answer(history, target[..., :1]).sigmoid()
            torch.testing.assert_close(each.mean(-1), of_all.squeeze(-1), atol=1e-5, rtol=0)


def test_nothing_is_learned_of_questions_with_few_answers() -> None:
    sequences = simulated(students=30)
    model = with_something_to_say(built("hybrid", sequences))
    times = torch.bincount(sequences.answers.question, minlength=25)
    assert torch.equal(model.often, times >= OFTEN)
    rare = (times < OFTEN).nonzero().squeeze(1)
    common = (times >= OFTEN).nonzero().squeeze(1)
    assert len(rare) > 1
    assert len(common) > 1
    said = predict(model, sequences).success
    with torch.no_grad():
        model.question.weight[rare] += 1
    assert np.array_equal(predict(model, sequences).success, said)
    with torch.no_grad():
        model.question.weight[common] += 1
    assert not np.array_equal(predict(model, sequences).success, said)


def test_it_finds_what_counts_cannot_see() -> None:
    """An answer is right if the one before was on the same concept."""
    concepts = np.random.default_rng(0).integers(3, size=(120, 30))
    rows = [
        (f"s{student}", f"q{concept}", f"c{concept}", int(step > 0 and of_student[step - 1] == concept))
        for student, of_student in enumerate(concepts.tolist())
        for step, concept in enumerate(of_student)
    ]
    log = Log(pl.DataFrame(rows, ["student", "question", "concept", "correct"], orient="row"))
    training = TrainingOptions(device="cpu", seed=1, learning_rate=1e-2, max_epochs=15)
    by_counts = tsdr.fit(log, backbone="counts", method="naive", training=training)
    by_hybrid = tsdr.fit(log, backbone="hybrid", method="naive", options={"d": 16}, training=training)
    assert isinstance(by_counts.backbone, Counts)
    correct = log.frame["correct"].to_numpy()
    found = [auc(model.predict_log(log)["success"].to_numpy(), correct) for model in (by_counts, by_hybrid)]
    assert found[0] < 0.85
    assert found[1] > 0.95


def test_of_what_it_adds_the_share_is_kept_that_holds_for_others() -> None:
    """Against a fine grid of shares; what is nonsense is left out, and what says too little is kept whole."""
    sequences = simulated(200)
    model = with_something_to_say(built("hybrid", sequences))
    kept, best = [], []
    for strength in (0.05, 1.0):
        with torch.no_grad():
            for weights in model.shared.parameters():
                weights.fill_(strength)
            model.shared.bias.fill_(-strength)
        model.settle(sequences)
        kept.append(float(model.holds))
        losses = []
        for share in np.linspace(0, 1, 51):
            model.holds.fill_(share)
            found = predict(model, sequences)
            losses.append(log_loss(found.success, found.correct))
        best.append(int(np.argmin(losses)) / 50)
    np.testing.assert_allclose(kept, best, atol=0.021)
    assert kept[0] != kept[1]


def test_of_what_it_adds_to_a_concept_so_much_is_left_that_first_answers_do_not_mislead() -> None:
    """A network that says of every concept the contrary of the counts, and much more of some."""
    sequences = simulated(200)
    model = with_something_to_say(built("hybrid", sequences))
    beginners = model.base.beginners()

    def gain() -> torch.Tensor:
        logit = model.answer(model.encode(beginners.batch), beginners.target, steps=beginners.steps)
        return beginners.gain(logit).amin(1).view(2, -1).amin(0)

    with torch.no_grad():
        before, weights = gain(), model.of_concept.weight.clone()
        astray = before < 0
        assert 0 < astray.sum() < len(astray)
        model._put_in_order()
        after = gain()
    assert (after > -1e-5).all()
    moved = (model.of_concept.weight - weights).abs().amax(1) > 1e-6
    assert torch.equal(moved, astray), "and no others are touched"


def test_a_network_that_misleads_in_nothing_is_left_as_it_is() -> None:
    """Whatever the counts get wrong: here all of it, and the network says nothing yet."""
    sequences = simulated(200)
    model = built("hybrid", sequences)
    assert isinstance(model, Hybrid)
    with torch.no_grad():
        model.base.slope.copy_(torch.tensor([-3.0, 3.0]))
        base = model.base.beginners()
        logit = model.base.without_question(model.base.encode(base.batch), base.target, base.steps)
        assert (base.gain(logit) < 0).any()
        before = model.of_concept.weight.clone()
        model._put_in_order()
        assert torch.equal(model.of_concept.weight, before)


def test_training_ends_with_it() -> None:
    sequences = simulated(200)
    train, validation = sequences.select(sequences.student[:150]), sequences.select(sequences.student[150:])
    training = TrainingOptions(device="cpu", seed=1, max_epochs=6, learning_rate=0.02)
    objective = new_objective("hybrid", train, {"d": 16, "dropout": 0.0}, training, NAIVE_OPTIONS)
    assert isinstance(objective.model, Hybrid)
    objective.model.holds.fill_(0.5)
    fit(objective, train, validation, training)
    assert float(objective.model.holds) != 0.5
    settled = predict(objective.model, validation)
    objective.model.holds.fill_(1)
    whole = predict(objective.model, validation)
    assert log_loss(settled.success, settled.correct) <= log_loss(whole.success, whole.correct)
