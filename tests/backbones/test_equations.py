"""Every attention model, whole, against a plain reading of its equations, row by row and head by head."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import softplus

from tsdr import Batch, build_backbone
from tsdr.backbones.akt import AKT
from tsdr.backbones.attention import Block, ForgettingDecay
from tsdr.backbones.diskt import DisKT
from tsdr.backbones.simplekt import SimpleKT

STUDENTS, STEPS, CONCEPTS, QUESTIONS, D, HEADS = 2, 8, 5, 7, 32, 8
WIDTH = D // HEADS


@pytest.fixture
def batch() -> Batch:
    generator = torch.Generator().manual_seed(4)

    def draw(high: int) -> Tensor:
        return torch.randint(high, (STUDENTS, STEPS), generator=generator)

    return Batch.of_answers(draw(CONCEPTS), draw(QUESTIONS), draw(2), torch.ones(STUDENTS, STEPS, dtype=torch.bool))


def model_of(name: str) -> AKT | SimpleKT:
    """A model whose every parameter matters, difficulties included."""
    torch.manual_seed(1)
    model = build_backbone(name, n_concepts=CONCEPTS, n_questions=QUESTIONS, d=D).eval()
    assert isinstance(model, AKT | SimpleKT)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
        model.target.difficulty.weight[-1] = 0
    return model


def attention(
    query: Tensor,
    keys: list[Tensor],
    values: list[Tensor],
    distance: list[int],
    rate: float | None,
    slope: float,
    k: int,
) -> Tensor:
    """One row and head: scores, bias, decay, the k largest, one softmax."""
    if not keys:
        return torch.zeros(WIDTH)
    scores = [float(query @ key) / math.sqrt(WIDTH) - slope * steps for key, steps in zip(keys, distance, strict=True)]
    if rate is not None:
        total = sum(math.exp(score) for score in scores)
        mass = [math.exp(score) / total for score in scores]
        decay = [math.exp(-rate * math.sqrt(steps * sum(mass[i + 1 :]))) for i, steps in enumerate(distance)]
        scores = [score * min(max(factor, 1e-5), 1e5) for score, factor in zip(scores, decay, strict=True)]
    kept = sorted(range(len(scores)), key=lambda i: -scores[i])[:k]
    total = sum(math.exp(scores[i]) for i in kept)
    retrieved = torch.zeros(WIDTH)
    for i in kept:
        retrieved = retrieved + math.exp(scores[i]) / total * values[i]
    return retrieved


def run_block(block: Block, x: Tensor, y: Tensor, *, strict: bool, biased: bool = False, k: int = STEPS) -> Tensor:
    """A post-norm block over whole sequences."""
    decays = [piece for piece in block.shaping if isinstance(piece, ForgettingDecay)]
    retrieved = torch.zeros_like(x)
    projected, values = block.query_key(x), block.value(y)
    for student in range(STUDENTS):
        for step in range(STEPS):
            past = range(step if strict else step + 1)
            for head in range(HEADS):
                part = slice(head * WIDTH, (head + 1) * WIDTH)
                retrieved[student, step, part] = attention(
                    projected[student, step, part],
                    [projected[student, i, part] for i in past],
                    [values[student, i, part] for i in past],
                    [step - i for i in past],
                    float(softplus(decays[0].rate[head])) if decays else None,
                    2.0 ** (-8 * (head + 1) / HEADS) if biased else 0.0,
                    k,
                )
    x = block.norm(x + block.out(retrieved))
    if block.feed_forward is None or block.feed_forward_norm is None:
        return x
    inner, outer = block.feed_forward[0], block.feed_forward[3]
    return block.feed_forward_norm(x + outer(torch.relu(inner(x))))


def positions() -> Tensor:
    table = torch.zeros(STEPS, D)
    for step in range(STEPS):
        for i in range(0, D, 2):
            angle = step / 10_000 ** (i / D)
            table[step, i], table[step, i + 1] = math.sin(angle), math.cos(angle)
    return table


@torch.no_grad()
@pytest.mark.parametrize("name", ["akt", "folibikt"])
def test_akt_and_folibikt(name: str, batch: Batch) -> None:
    model = model_of(name)
    assert isinstance(model, AKT)
    biased = name == "folibikt"
    mu = model.target.difficulty.weight[batch.question]
    concept, variation = model.target.concept.weight[batch.concept], model.target.variation.weight[batch.concept]
    x = target = concept + mu * variation
    answered, answered_variation = model.answered.weight[batch.correct], model.answered_variation.weight[batch.correct]
    y = concept + answered + mu * (answered_variation + variation)
    for block in model.knowledge:
        y = run_block(block, y, y, strict=False, biased=biased)
    for i, block in enumerate(model.retrieval):
        among_targets = i % 2 == 0
        assert (block.feed_forward is None) == among_targets
        x = run_block(block, x, x if among_targets else y, strict=not among_targets, biased=biased)
    expected = model.head(torch.cat([x, target], dim=-1)).squeeze(-1)
    torch.testing.assert_close(model(batch), expected, atol=1e-4, rtol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("name", ["simplekt", "sparsekt"])
def test_simplekt_and_sparsekt(name: str, batch: Batch) -> None:
    model = model_of(name)
    mu = model.target.difficulty.weight[batch.question]
    concept, variation = model.target.concept.weight[batch.concept], model.target.variation.weight[batch.concept]
    target = concept + mu * variation
    x, y = target + positions(), concept + model.answered.weight[batch.correct] + positions()
    for block in model.retrieval:
        x = run_block(block, x, y, strict=True, k=5 if name == "sparsekt" else STEPS)
    expected = model.head(torch.cat([x, target], dim=-1)).squeeze(-1)
    torch.testing.assert_close(model(batch), expected, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_diskt(batch: Batch) -> None:
    model = model_of("diskt")
    assert isinstance(model, DisKT)
    model.share_right.copy_(torch.tensor([0.3, 0.8, 0.55, 0.9, 0.4]))
    mu = model.target.difficulty.weight[batch.question]
    concept, variation = model.target.concept.weight[batch.concept], model.target.variation.weight[batch.concept]
    target = concept + mu * variation
    y = concept + model.answered.weight[batch.correct] + mu * model.answered_variation.weight[batch.correct]
    h = target + positions()
    for block in model.retrieval:
        h = run_block(block, h, y + positions(), strict=True)
    right_answer = (batch.correct == 1)[..., None]
    familiar = model.familiar(torch.where(right_answer, y, model.blank))
    unfamiliar = model.unfamiliar(torch.where(right_answer, model.blank, y))
    share = model.share_right[batch.concept]
    evidence = 0.55 * torch.where(batch.correct == 1, share, 1 - share)
    right, wrong = torch.zeros_like(h), torch.zeros_like(h)
    flagged = 0
    for student in range(STUDENTS):
        means = [0.2] + [float(evidence[student, :step].mean()) for step in range(1, STEPS)]
        contradicts = [float(evidence[student, step]) < means[step] - 1e-5 for step in range(STEPS)]
        flagged += sum(contradicts)
        for step in range(STEPS):
            past = [i for i in range(step) if not contradicts[i]]
            for head in range(HEADS):
                part = slice(head * WIDTH, (head + 1) * WIDTH)
                for stream, out in ((familiar, right), (unfamiliar, wrong)):
                    out[student, step, part] = attention(
                        h[student, step, part],
                        [h[student, i, part] for i in past],
                        [stream[student, i, part] for i in past],
                        [step - i for i in past],
                        None,
                        0.0,
                        STEPS,
                    )
    assert 0 < flagged < STUDENTS * STEPS
    expected = model.head(torch.cat([h - (right + wrong) - mu, target, right - wrong], dim=-1)).squeeze(-1)
    torch.testing.assert_close(model(batch), expected, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_dkt(batch: Batch) -> None:
    torch.manual_seed(1)
    model = build_backbone("dkt", n_concepts=CONCEPTS, n_questions=QUESTIONS, d=D).eval()
    weights = {name: parameter.detach() for name, parameter in model.named_parameters()}
    for student in range(STUDENTS):
        hidden, cell = torch.zeros(D), torch.zeros(D)
        for step in range(STEPS):
            concept, correct = int(batch.concept[student, step]), int(batch.correct[student, step])
            expected = weights["output.weight"][concept] @ hidden + weights["output.bias"][concept]
            torch.testing.assert_close(model(batch)[student, step], expected, atol=1e-5, rtol=1e-5)
            inputs = weights["interaction.weight"][2 * concept + correct]
            gates = weights["lstm.weight_ih_l0"] @ inputs + weights["lstm.bias_ih_l0"]
            gates = gates + weights["lstm.weight_hh_l0"] @ hidden + weights["lstm.bias_hh_l0"]
            enter, forget, candidate, leave = gates.chunk(4)
            cell = forget.sigmoid() * cell + enter.sigmoid() * candidate.tanh()
            hidden = leave.sigmoid() * cell.tanh()
