import torch

from tsdr.training.stopping import EarlyStopping


def test_it_stops_after_patience_and_keeps_the_best_weights() -> None:
    model = torch.nn.Linear(1, 1)
    stopping = EarlyStopping(patience=2)
    over = []
    for epoch, value in enumerate([0.5, 0.7, 0.6, 0.7], start=1):
        torch.nn.init.constant_(model.weight, epoch)
        stopping.update(value, model)
        over.append(stopping.over)
    assert over == [False, False, False, True]
    assert stopping.best_epoch == 2
    assert stopping.best_weights["weight"].item() == 2
