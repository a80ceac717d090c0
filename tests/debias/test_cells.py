import numpy as np
import pytest
import torch

from tsdr.debias.cells import draw_cells

CONCEPTS = 5


def scored(lengths: tuple[int, ...] = (9, 4, 2, 1), steps: int = 9) -> torch.Tensor:
    mask = torch.arange(steps) < torch.tensor(lengths)[:, None]
    mask[:, :1] = False
    return mask


def test_all_cells_are_every_concept_at_every_scored_step() -> None:
    values = torch.randn(4, 9, CONCEPTS, generator=torch.Generator().manual_seed(0)) + 3
    mask = scored()
    cells = draw_cells(mask, CONCEPTS, "all")
    taken = values.gather(1, cells.steps[..., None].expand_as(values)).gather(2, cells.concept)
    assert float(cells.mean(taken)) == pytest.approx(float(values[mask].mean()), rel=1e-5)


def scattered() -> torch.Tensor:
    """Scored steps anywhere: context before them, gaps between them, and the first step among them."""
    mask = torch.rand(4, 9, generator=torch.Generator().manual_seed(1)) < 0.4
    mask[0, 0], mask[3] = True, False
    return mask


@pytest.mark.parametrize("mask", [scored(), scattered()], ids=["all but the first", "scattered"])
def test_drawn_cells_are_scored_ones_and_their_mean_is_unbiased(mask: torch.Tensor) -> None:
    torch.manual_seed(0)
    values = torch.randn(4, 9, CONCEPTS) + 3
    means = []
    for _ in range(4000):
        cells = draw_cells(mask, CONCEPTS, 3)
        at_scored = mask.gather(1, cells.steps)
        assert at_scored[:3].all(), "a sequence without a scored step has weight 0 instead"
        assert not cells.weight[3].any()
        rows = torch.arange(4)[:, None, None]
        means.append(float(cells.mean(values[rows, cells.steps[..., None], cells.concept])))
    expected = float(values[mask].mean())
    assert abs(np.mean(means) - expected) < 4 * np.std(means) / np.sqrt(len(means))
