from collections import Counter
from pathlib import Path

import polars as pl
import pytest
import torch
from torch import Tensor

import tsdr
from tsdr import Log, Sequences, Shards, TrainingOptions, write_shards
from tsdr.defaults import Extent
from tsdr.sequences import Batch
from tsdr.shards import sequences as of_shards
from tsdr.shards.sequences import ShardedSequences

VIEWS: list[tuple[Extent, Extent | None, bool]] = [("all", None, False), (20, None, True), (16, "all", False)]


@pytest.fixture(scope="module")
def log() -> Log:
    return tsdr.simulate(students=60, questions=30, concepts=5, seed=2).offers()


@pytest.fixture(scope="module")
def few(log: Log, tmp_path_factory: pytest.TempPathFactory) -> Shards:
    """As many as are in memory together."""
    folder = tmp_path_factory.mktemp("few")
    log.write(folder / "log.parquet")
    return write_shards(folder / "log.parquet", folder / "shards", rows=len(log) // 2)


@pytest.fixture(scope="module")
def many(log: Log, tmp_path_factory: pytest.TempPathFactory) -> Shards:
    folder = tmp_path_factory.mktemp("many")
    log.write(folder / "log.parquet")
    return write_shards(folder / "log.parquet", folder / "shards", rows=900)


def rows_of(batches: list[Batch]) -> Counter[bytes]:
    """What is read and scored in each row of batches of rows that are not cut."""
    found: Counter[bytes] = Counter()
    for batch in batches:
        for row in range(len(batch)):
            real = batch.mask[row]
            columns = (batch.concept, batch.question, batch.response, batch.correct, batch.scored.long())
            found[torch.stack([column[row][real] for column in columns]).numpy().tobytes()] += 1
    return found


def same(one: Batch, other: Batch) -> bool:
    tensors: list[Tensor | None] = []
    for batch in (one, other):
        tensors += [batch.concept, batch.question, batch.response, batch.correct, batch.scored, batch.mask, batch.after]
    half = len(tensors) // 2
    return all(
        (a is None) == (b is None) and (a is None or b is None or torch.equal(a, b))
        for a, b in zip(tensors[:half], tensors[half:], strict=True)
    )


@pytest.mark.parametrize(("window", "scored", "skips"), VIEWS)
def test_sequences_of_shards_are_those_of_the_log(
    log: Log, many: Shards, window: Extent, scored: Extent | None, skips: bool
) -> None:
    expected = Sequences.from_log(log, window=window, scored=scored, minimum=40, skips=skips)
    lessons = ShardedSequences(many, window, scored, 40, skips)
    assert sorted(lessons.students()) == sorted(expected.students())
    assert (len(lessons), lessons.scored_answers) == (len(expected), len(expected.scored))
    assert lessons.skips_read == expected.skips_read
    dropped, by_log = lessons.dropped, expected.dropped
    assert dropped.short_answers == by_log.short_answers > 0
    assert dropped.earlier_interactions == by_log.earlier_interactions
    pairs, counted = lessons.pairs(), expected.pairs()
    assert all(torch.equal(getattr(pairs, name), getattr(counted, name)) for name in vars(pairs))
    chosen = expected.students()[5:17]
    one, other = lessons.select(chosen), expected.select(chosen)
    for ours, theirs in ((one.events.columns(), other.events.columns()), (vars(one.rows), vars(other.rows))):
        assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert torch.equal(one.position, other.position)
    assert one.student == other.student


def test_every_row_comes_once_an_epoch_in_an_order_of_the_generators(log: Log, many: Shards) -> None:
    lessons = ShardedSequences(many, 30, "all", 5, False)
    expected = rows_of(list(Sequences.from_log(log, window=30, scored="all").batches(8)))
    generator = torch.Generator().manual_seed(3)
    first, second = (list(lessons.batches(8, generator)) for _ in range(2))
    again = list(lessons.batches(8, torch.Generator().manual_seed(3)))
    assert rows_of(first) == rows_of(second) == rows_of(list(lessons.batches(8))) == expected
    assert len(first) == len(again)
    assert all(same(one, other) for one, other in zip(first, again, strict=True))
    assert not all(same(one, other) for one, other in zip(first, second, strict=False))


def test_a_log_that_fits_memory_comes_in_the_very_batches_of_the_log(log: Log, few: Shards) -> None:
    assert len(few) == of_shards.AT_ONCE
    lessons, expected = ShardedSequences(few, "all", None, 5, True), Sequences.from_log(log, window="all", skips=True)
    ours, theirs = (torch.Generator().manual_seed(7) for _ in range(2))
    for _ in range(2):
        pairs = zip(lessons.batches(16, ours), expected.batches(16, theirs), strict=True)
        assert all(same(one, other) for one, other in pairs)


def test_no_more_than_two_shards_are_read_ahead(many: Shards, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    whole = Shards.read

    def counted(shards: Shards, number: int) -> pl.DataFrame:
        read.append(number)
        return whole(shards, number)

    monkeypatch.setattr(Shards, "read", counted)
    batches = ShardedSequences(many, "all", None, 5, False).batches(1, torch.Generator().manual_seed(0))
    next(batches)
    assert len(read) == of_shards.AT_ONCE < len(many)
    assert sum(1 for _ in batches) > 0
    assert sorted(read) == list(range(len(many)))


def test_held_out_students_are_not_learned_from(log: Log, many: Shards) -> None:
    lessons = ShardedSequences(many, "all", None, 5, False)
    held_out = sorted(lessons.students())[::4]
    train = lessons.without(held_out)
    others = [name for name in log.students if name not in held_out]
    expected = Sequences.from_log(log, window="all").select(others)
    assert sorted(train.students()) == sorted(expected.students())
    assert int(train.pairs().answers.sum()) == len(expected.answers)
    assert train.digest() != lessons.digest()


def test_a_sample_is_drawn_by_the_seed_whatever_the_shards_and_it_is_said(
    few: Shards, many: Shards, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(ShardedSequences(many, "all", None, 5, False).sample().students()) == 60
    monkeypatch.setattr(of_shards, "SAMPLED", 1500)
    drawn = []
    for shards, seed in ((few, 1), (many, 1), (many, 2)):
        lessons = ShardedSequences(shards, "all", None, 5, False, seed)
        with pytest.warns(UserWarning, match=r"counts are fitted to 1,[34]\d\d of \d,\d\d\d answers"):
            drawn.append(lessons.sample())
    assert drawn[0].digest() == drawn[1].digest() != drawn[2].digest()
    assert 1300 < len(drawn[0].answers) <= 1500


def fitted(log: Log | Shards, backbone: str, method: str, **more: object) -> tsdr.Model:
    training = TrainingOptions(max_epochs=2, device="cpu")
    return tsdr.fit(log, backbone=backbone, method=method, training=training, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("backbone", "method", "options"),
    [("hybrid", "naive", {"d": 8}), ("dkt", "tsdr:targeted=false", {"d": 8}), ("diskt", "naive", {"d": 16})],
)
def test_of_few_shards_a_model_is_that_of_the_log_to_the_last_bit(
    log: Log, few: Shards, backbone: str, method: str, options: dict[str, int]
) -> None:
    window = 20 if backbone == "diskt" else None
    one, other = (fitted(told, backbone, method, options=options, window=window) for told in (log, few))
    weights = (model.backbone.state_dict() for model in (one, other))
    assert all(torch.equal(*pair) for pair in zip(*(state.values() for state in weights), strict=True))
    assert one.training["account"] == other.training["account"]
    assert one.training_answers == other.training_answers


def test_of_many_shards_a_model_learns_from_all_of_them_and_goes_on_where_it_stopped(
    log: Log, many: Shards, tmp_path: Path
) -> None:
    whole = fitted(many, "dkt", "naive", options={"d": 8}, checkpoint=tmp_path / "whole.pt")
    assert whole.training["account"] == fitted(log, "dkt", "naive", options={"d": 8}).training["account"]

    def stop(epoch: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fitted(many, "dkt", "naive", options={"d": 8}, checkpoint=tmp_path / "c.pt", on_epoch=stop)
    resumed = fitted(many, "dkt", "naive", options={"d": 8}, checkpoint=tmp_path / "c.pt", resume=True)
    states = (model.backbone.state_dict().values() for model in (whole, resumed))
    assert all(torch.equal(*pair) for pair in zip(*states, strict=True))


def test_no_more_stop_a_training_than_are_said(many: Shards, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_shards, "HELD_OUT", 400)
    model = fitted(many, "dkt", "naive", options={"d": 8})
    assert model.training["validation_students"] == ShardedSequences(many, "all", None, 5, False).most_held_out
    assert 200 < model.training["account"]["stopped_by"] < 600
