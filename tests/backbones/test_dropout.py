import pytest
import torch

from tsdr.backbones.dropout import Dropout


@pytest.mark.parametrize("share", [0.05, 0.3, 0.5])
def test_a_share_is_dropped_and_the_mean_is_kept(share: float) -> None:
    """A million values: the share dropped has a standard error of at most 0.0005, and so has the mean."""
    torch.manual_seed(0)
    x = torch.ones(999, 1001, requires_grad=True)
    y = Dropout(share)(x)
    y.sum().backward()
    assert float((y == 0).float().mean()) == pytest.approx(share, abs=0.0025)
    assert float(y.detach().mean()) == pytest.approx(1, abs=0.005)
    assert torch.equal(x.grad, y.detach()), "what is dropped carries no gradient"  # type: ignore[arg-type]
    # neighbours, which may come from one drawn number, are dropped on their own
    flat = (y == 0).flatten().float()
    for lag in range(1, 5):
        both = float((flat[lag:] * flat[:-lag]).mean())
        assert both == pytest.approx(share**2, abs=0.003)


def test_nothing_is_dropped_in_evaluation_or_at_zero() -> None:
    x = torch.randn(5, 3)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x
    for share in (-0.1, 1.0):
        with pytest.raises(ValueError, match="share from 0 to below 1"):
            Dropout(share)
