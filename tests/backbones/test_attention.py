"""The shared attention against plain loops in NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from tsdr.backbones.attention import (
    Block,
    ForgettingDecay,
    KeysValues,
    LinearBias,
    RaschEmbedding,
    SummaryQuery,
    TopK,
    View,
    sinusoids,
)

D, HEADS, KEYS = 8, 2, 7
Array = NDArray[Any]


def plain(scores: Array, distance: Array, head: int) -> Array:
    return scores


def decayed(scores: Array, distance: Array, head: int) -> Array:
    """AKT, by its definition, key by key; the rate parameter is 0.3, 0.6, ... by head."""
    rate = np.log1p(np.exp(0.3 * (head + 1)))
    mass = np.exp(scores - scores.max())
    mass = mass / mass.sum()
    shaped = []
    for key, score in enumerate(scores):
        after = sum(mass[later] for later in range(key + 1, len(scores)))
        factor = np.exp(-rate * np.sqrt(distance[key] * after))
        shaped.append(score * min(max(factor, 1e-5), 1e5))
    return np.array(shaped)


def biased(scores: Array, distance: Array, head: int) -> Array:
    return scores - distance * 2.0 ** (-8 * (head + 1) / HEADS)


def sparse(scores: Array, distance: Array, head: int) -> Array:
    kept = sorted(range(len(scores)), key=lambda key: -scores[key])[:3]
    return np.array([score if key in kept else -np.inf for key, score in enumerate(scores)])


def both(scores: Array, distance: Array, head: int) -> Array:
    return decayed(biased(scores, distance, head), distance, head)


def decay() -> ForgettingDecay:
    piece = ForgettingDecay(HEADS)
    piece.rate.data = torch.tensor([0.3, 0.6]).reshape(HEADS, 1, 1)
    return piece


SHAPINGS: dict[str, tuple[Callable[[], list[nn.Module]], Callable[[Array, Array, int], Array]]] = {
    "plain": (lambda: [], plain),
    "decay": (lambda: [decay()], decayed),
    "bias": (lambda: [LinearBias(HEADS)], biased),
    "top-k": (lambda: [TopK(3)], sparse),
    "bias, then decay": (lambda: [LinearBias(HEADS), decay()], both),
}


def oracle(
    block: Block, x: Array, keys: Array, values: Array, step: int, shape: Callable[..., Array], own: bool
) -> Array:
    """One query row by loops: scores, shaping, one softmax over what it may see, projection, norm, feed-forward."""

    def linear(layer: nn.Linear, vector: Array) -> Array:
        return layer.weight.detach().numpy() @ vector + layer.bias.detach().numpy()

    def norm(layer: nn.LayerNorm, vector: Array) -> Array:
        return (vector - vector.mean()) / np.sqrt(vector.var() + layer.eps)

    width = D // HEADS
    query = linear(block.query_key, x)
    retrieved = np.zeros(D)
    for head in range(HEADS):
        part = slice(head * width, (head + 1) * width)
        seen_keys = [linear(block.query_key, keys[key])[part] for key in range(step)]
        seen_values = [linear(block.value, values[key])[part] for key in range(step)]
        distance = [step - key for key in range(step)]
        if own:
            seen_keys.append(query[part])
            seen_values.append(linear(block.value, x)[part])
            distance.append(0)
        if not seen_keys:
            continue
        scores = np.array([query[part] @ key / np.sqrt(width) for key in seen_keys])
        scores = shape(scores, np.array(distance), head)
        weights = np.exp(scores - scores.max())
        retrieved[part] = (weights / weights.sum()) @ np.array(seen_values)
    x = norm(block.norm, x + linear(block.out, retrieved))
    assert block.feed_forward is not None
    assert block.feed_forward_norm is not None
    inner, outer = block.feed_forward[0], block.feed_forward[3]
    assert isinstance(inner, nn.Linear)
    assert isinstance(outer, nn.Linear)
    return norm(block.feed_forward_norm, x + linear(outer, np.maximum(linear(inner, x), 0)))


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("shaping", SHAPINGS)
def test_a_block_is_its_definition(shaping: str, own: bool) -> None:
    torch.manual_seed(1)
    pieces, shape = SHAPINGS[shaping]
    block = Block(D, HEADS, 16, 0.5, pieces(), inclusive=own).eval()
    keys, values, rows = torch.randn(2, KEYS, D), torch.randn(2, KEYS, D), torch.randn(2, 4, D)
    steps = torch.tensor([[0, 1, 5, 7], [2, 2, 6, 3]])
    past = block.keys_values(keys, values)
    got = block(rows, past, View.of_past(steps, KEYS), block.keys_values(rows, rows) if own else None)
    for student in range(2):
        for row in range(4):
            expected = oracle(
                block,
                rows[student, row].numpy(),
                keys[student].numpy(),
                values[student].numpy(),
                int(steps[student, row]),
                shape,
                own,
            )
            np.testing.assert_allclose(got[student, row].detach().numpy(), expected, atol=2e-5)


def test_decay_is_differentiated_through_its_rate_and_scores_only() -> None:
    """δ carries no gradient: with δ held fixed, the derivative of scores x factor is the factor."""
    piece = decay()
    scores = torch.randn(1, HEADS, 1, KEYS, requires_grad=True)
    view = View.of_past(torch.tensor([[5]]), KEYS)
    shaped = piece(scores, view)
    shaped.sum().backward()
    assert scores.grad is not None
    factor = (shaped / scores).detach()
    torch.testing.assert_close(scores.grad, factor)
    assert piece.rate.grad is not None
    assert (piece.rate.grad != 0).all()


def test_writing_a_position_leaves_the_others() -> None:
    past = KeysValues(torch.randn(2, HEADS, 3, 4), torch.randn(2, HEADS, 3, 4))
    new = KeysValues(torch.randn(2, HEADS, 1, 4), torch.randn(2, HEADS, 1, 4))
    grown = past.write(new, torch.tensor([3, 1]))
    assert grown.keys.shape == (2, HEADS, 4, 4)
    torch.testing.assert_close(grown.keys[0, :, 3], new.keys[0, :, 0])
    torch.testing.assert_close(grown.values[1, :, 1], new.values[1, :, 0])
    torch.testing.assert_close(grown.keys[0, :, :3], past.keys[0])
    torch.testing.assert_close(grown.keys[1, :, [0, 2]], past.keys[1, :, [0, 2]])


def test_a_summary_moves_nothing_but_its_query() -> None:
    keys, values = (torch.randn(2, HEADS, 5, D // HEADS, requires_grad=True) for _ in range(2))
    summary = SummaryQuery(D, HEADS)
    state = summary(KeysValues(keys, values), View.of_past(torch.arange(5)[None], 5))
    assert state.shape == (2, 5, D)
    assert not state[:, 0].any(), "before any answer there is nothing to retrieve"
    state.square().sum().backward()
    assert keys.grad is None
    assert values.grad is None
    assert summary.query.grad is not None
    assert summary.query.grad.any()


def test_rasch_embeddings_know_average_questions() -> None:
    embedding = RaschEmbedding(3, 4, D, 1)
    nn.init.normal_(embedding.difficulty.weight[:4])
    concept, question = torch.tensor([0, 1, 2]), torch.tensor([3, -1, 0])
    with_question = embedding(concept, question)
    average = embedding(concept, None)
    torch.testing.assert_close(with_question[1], average[1])
    expected = embedding.concept.weight[0] + embedding.difficulty.weight[3] * embedding.variation.weight[0]
    torch.testing.assert_close(with_question[0], expected)
    assert not torch.equal(with_question[2], average[2])


def test_positions_are_sines_and_cosines() -> None:
    table = sinusoids(6, 4, torch.device("cpu"))
    for position in range(6):
        expected = [np.sin(position), np.cos(position), np.sin(position / 100), np.cos(position / 100)]
        np.testing.assert_allclose(table[position], expected, atol=1e-6)
