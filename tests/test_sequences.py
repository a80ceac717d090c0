from typing import Any

import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tsdr import Batch, Folds, InputError, Log, Sequences, Vocabulary
from tsdr.defaults import Extent
from tsdr.folds import Split


def log_of(lengths: dict[str, int], concepts: int = 3) -> Log:
    """Students with so many answers each; answer i has question q{i}, and is right if i is even."""
    rows = [(student, f"q{i:03d}", f"c{i % concepts}", 1 - i % 2) for student, n in lengths.items() for i in range(n)]
    return Log(pl.DataFrame(rows, ["student", "question", "concept", "correct"], orient="row"))


def interactions(sequences: Sequences) -> dict[str, list[tuple[str, str, int]]]:
    """Read the tensors back, by a plain loop: student to (question, concept, correct)."""
    read: dict[str, list[tuple[str, str, int]]] = {}
    batch, vocabulary = sequences.batch, sequences.vocabulary
    for row, student in enumerate(sequences.student):
        for step in range(batch.mask.shape[1]):
            if batch.mask[row, step]:
                question = vocabulary.questions[int(batch.question[row, step])]
                concept = vocabulary.concepts[int(batch.concept[row, step])]
                read.setdefault(student, []).append((question, concept, int(batch.correct[row, step])))
    return read


def expected(log: Log) -> dict[str, list[tuple[str, str, int]]]:
    return {
        student: list(log.answered.filter(student=student).select("question", "concept", "correct").rows())
        for student in log.students
    }


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 23), min_size=1),
    st.integers(2, 9),
    st.integers(1, 6),
)
@settings(max_examples=60, deadline=None)
def test_sequences_hold_what_the_log_holds(lengths: dict[str, int], window: int, minimum: int) -> None:
    log = log_of(lengths)
    kept = {student: rows for student, rows in expected(log).items() if len(rows) >= minimum}
    latest = Sequences.from_log(log, window=window, minimum=minimum)
    assert interactions(latest) == {student: rows[-window:] for student, rows in kept.items()}
    assert latest.dropped.short_students == len(lengths) - len(kept)
    assert latest.dropped.earlier_interactions == sum(max(0, len(rows) - window) for rows in kept.values())


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=5),
    st.one_of(st.integers(2, 11), st.just("all")),
    st.one_of(st.integers(1, 20), st.just("all")),
)
@settings(max_examples=150, deadline=None)
def test_every_answer_that_counts_is_scored_once_with_half_a_window_before_it(
    lengths: list[int], window: Extent, scored: Extent
) -> None:
    log = log_of({f"s{i}": n for i, n in enumerate(lengths)})
    sequences = Sequences.from_log(log, window=window, scored=scored, minimum=1)
    found = []
    for batch in sequences.batches(3):
        for row, step in batch.scored.nonzero().tolist():
            found.append(int(batch.place[row, step]))  # type: ignore[index]
    assert sorted(found) == sequences.scored.tolist()
    latest = [(i, at) for i, n in enumerate(lengths) for at in range(1, n) if scored == "all" or at >= n - scored]
    student = [int(sequences.student[row][1:]) for row in sequences.row_of_events().tolist()]
    assert [(student[place], int(sequences.position[place])) for place in sequences.scored.tolist()] == latest
    rows = sequences.rows
    for begin, length, context in zip(rows.begin.tolist(), rows.length.tolist(), rows.context.tolist(), strict=True):
        assert context >= 1
        assert window == "all" or length <= window
        first = int(sequences.position[begin])
        one_will_do = window == "all" or (scored != "all" and scored < window)  # then the latest window is the row
        assert first == 0 or one_will_do or context >= int(window) // 2


def test_long_histories_come_in_stretches_of_rows_alike_in_length() -> None:
    lengths = {f"s{i:03d}": n for i, n in enumerate([5, 700, 30, 410, 6, 401, 20, 2000])}
    sequences = Sequences.from_log(log_of(lengths), window="all")
    read: dict[int, list[int]] = {}
    before: list[int] = []
    padded = cells = 0
    for batch in sequences.batches(2, torch.Generator().manual_seed(1)):
        assert batch.place is not None
        assert batch.mask.shape[1] <= 200
        rows = sequences.row_of_events()[batch.place[:, 0]].tolist()
        assert batch.after is None or [before[i] for i in batch.after.tolist()] == rows
        for row, place, mask in zip(rows, batch.place, batch.mask, strict=True):
            read.setdefault(row, []).extend(place[mask].tolist())
        before = rows
        padded, cells = padded + int((~batch.mask).sum()), cells + batch.mask.numel()
    assert read == {i: list(range(b, b + n)) for i, (b, n) in enumerate(zip(*_spans(sequences), strict=True))}
    assert padded < 0.2 * cells


def _spans(sequences: Sequences) -> tuple[list[int], list[int]]:
    return sequences.rows.begin.tolist(), sequences.rows.length.tolist()


def test_a_whole_history_is_cut_to_a_window_with_the_same_answers_scored() -> None:
    log = log_of({"a": 40, "b": 7, "c": 90})
    for scored in (15, "all"):
        whole = Sequences.from_log(log, window="all", scored=scored)
        cut = Sequences.from_log(log, window=20, scored=scored)
        again = whole.within(20)
        assert again.digest() == cut.digest()
        assert torch.equal(again.batch.mask, cut.batch.mask)
        assert torch.equal(whole.position[whole.scored], again.position[again.scored])


def test_masks_are_right_padded_and_positions_count_the_whole_history() -> None:
    sequences = Sequences.from_log(log_of({"a": 7, "b": 2}), window=4, minimum=1)
    assert sequences.student == ("a", "b")
    assert sequences.batch.mask.tolist() == [[True] * 4, [True, True, False, False]]
    assert sequences.batch.scored.tolist() == [[False, True, True, True], [False, True, False, False]]
    assert sequences.position.tolist() == [3, 4, 5, 6, 0, 1]
    assert sequences.batch.place.tolist() == [[0, 1, 2, 3], [4, 5, 0, 0]]  # type: ignore[union-attr]
    for tensor in (
        sequences.batch.concept,
        sequences.batch.question,
        sequences.batch.correct,
        sequences.batch.response,
    ):
        assert tensor.dtype == torch.long
        assert not tensor[~sequences.batch.mask].any()


def test_skipped_offers_are_left_out_and_counted() -> None:
    log = log_of({"a": 6})
    offers = Log(
        log.frame.with_columns(skipped=pl.col("time") == 2, correct=pl.when(pl.col("time") != 2).then("correct"))
    )
    sequences = Sequences.from_log(offers)
    assert sequences.dropped.skipped_offers == 1
    assert [question for question, _, _ in interactions(sequences)["a"]] == ["q000", "q001", "q003", "q004", "q005"]
    assert "q002" in sequences.vocabulary.questions


def test_unknown_concepts_are_an_error_or_skipped_and_unknown_questions_average() -> None:
    known = Vocabulary.fit(log_of({"a": 6}, concepts=2))
    other = log_of({"b": 9}, concepts=3)
    with pytest.raises(InputError, match=r"'c2'.*3 interactions.*unknown=\"skip\""):
        Sequences.from_log(other, known)
    sequences = Sequences.from_log(other, known, unknown="skip")
    assert sequences.dropped.unknown_concepts == 3
    assert sequences.position.tolist() == [0, 1, 3, 4, 6, 7]
    assert sequences.batch.question.tolist() == [[0, 1, 3, 4, -1, -1]]
    assert sequences.unknown_questions == 2


def test_nothing_left_is_no_crash() -> None:
    sequences = Sequences.from_log(log_of({"a": 2}))
    assert len(sequences) == 0
    assert list(sequences.batches()) == []


def test_batches_hold_every_sequence_once_in_any_order() -> None:
    sequences = Sequences.from_log(log_of({f"s{i}": 5 + i for i in range(10)}))

    def lengths(batches: list[Batch]) -> list[int]:
        return [int(length) for batch in batches for length in batch.mask.sum(1)]

    plain = list(sequences.batches(4))
    shuffled = list(sequences.batches(4, torch.Generator().manual_seed(3)))
    assert [len(batch) for batch in plain] == [4, 4, 2]
    assert lengths(plain) == list(range(5, 15))
    assert lengths(shuffled) != lengths(plain)
    assert sorted(lengths(shuffled)) == lengths(plain)
    again = list(sequences.batches(4, torch.Generator().manual_seed(3)))
    assert lengths(again) == lengths(shuffled)


@pytest.mark.parametrize("bad", [{"unknown": "erorr"}, {"window": 0}, {"minimum": 0}])
def test_misspelt_options_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Sequences.from_log(log_of({"a": 6}), **bad)


def test_a_digest_tells_interactions_apart() -> None:
    sequences = Sequences.from_log(log_of({"a": 6, "b": 7}))
    assert sequences.digest() == Sequences.from_log(log_of({"b": 7, "a": 6})).digest()
    others = [log_of({"a": 6, "b": 8}), log_of({"a": 6, "c": 7}), log_of({"a": 6, "b": 7}, concepts=2)]
    assert len({sequences.digest(), *(Sequences.from_log(log).digest() for log in others)}) == 4


def test_select_keeps_the_students_asked_for() -> None:
    log = log_of({"a": 5, "b": 6, "c": 7})
    selected = Sequences.from_log(log).select(["c", "a", "absent"])
    assert interactions(selected) == {student: expected(log)[student] for student in ("a", "c")}
    assert len(selected.position) == len(selected.answers) == 12


@given(st.integers(5, 60), st.integers(2, 5), st.integers(0, 3))
@settings(max_examples=40, deadline=None)
def test_folds_test_every_student_once_and_never_mix(students: int, folds: int, seed: int) -> None:
    names = [f"s{i}" for i in range(students)]
    assignment = Folds.by_student(names, folds, seed=seed)
    assert sorted(name for split in assignment.splits for name in split.test) == sorted(names)
    for split in assignment.splits:
        assert sorted([*split.train, *split.validation, *split.test]) == sorted(names)
        assert len(split.validation) == round(0.1 * (students - len(split.test)))
        assert abs(len(split.test) - students / folds) < 1


def test_holding_out_leaves_someone_to_train_on() -> None:
    split = Split.hold_out([f"s{i}" for i in range(30)], 0.1, seed=1)
    assert (len(split.train), len(split.validation), split.test) == (27, 3, ())
    assert not set(split.train) & set(split.validation)
    with pytest.raises(InputError, match="too few"):
        Split.hold_out(["a"], 0.1)


def test_folds_depend_on_the_seed_and_not_on_the_order_of_students() -> None:
    names = [f"s{i}" for i in range(50)]
    assert Folds.by_student(names, seed=1) == Folds.by_student(names[::-1], seed=1)
    assert Folds.by_student(names, seed=1) != Folds.by_student(names, seed=2)


@pytest.mark.parametrize("bad", [{"folds": 1}, {"folds": 11}, {"validation": 1.0}])
def test_impossible_folds_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Folds.by_student([f"s{i}" for i in range(10)], **bad)


def test_more_concepts_than_can_be_learned_are_refused() -> None:
    rows = pl.int_range(50_001, eager=True).cast(pl.String)
    log = Log(pl.DataFrame({"student": "ann", "concept": rows, "correct": [0, 1] * 25_000 + [1]}))
    with pytest.raises(InputError, match=r"50,001 concepts with 1.0 answers each.*is a question's id mapped"):
        Sequences.from_log(log)
