import torch

from conftest import random_batch
from tsdr import build_backbone
from tsdr.backbones.attention import TopK, View


def test_with_room_for_all_it_is_simplekt() -> None:
    sparse, wide, simple = (
        build_backbone(name, n_concepts=11, n_questions=13, d=16, **options).eval()
        for name, options in (("sparsekt", {"k": 2}), ("sparsekt", {"k": 9}), ("simplekt", {}))
    )
    sparse.load_state_dict(simple.state_dict())
    wide.load_state_dict(simple.state_dict())
    batch = random_batch()
    torch.testing.assert_close(wide(batch), simple(batch))
    torch.testing.assert_close(sparse(batch)[:, :3], simple(batch)[:, :3])
    assert not torch.allclose(sparse(batch)[:, 4:], simple(batch)[:, 4:])


def test_hidden_positions_do_not_take_one_of_the_k_places() -> None:
    scores = torch.tensor([1.0, 2.0, 3.0, 100.0, 200.0]).expand(1, 1, 1, 5)
    view = View.of_past(torch.tensor([[3]]), 5)
    kept = TopK(2)(scores, view)[0, 0, 0]
    assert kept[1:3].tolist() == [2.0, 3.0]
    assert kept[0] < -1e30
