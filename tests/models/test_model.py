"""Answers as they come in, whole logs, and a plain loop over windows: three ways to the same numbers."""

from pathlib import Path

import polars as pl
import pytest
import torch

import tsdr
from served import BACKBONES, VOCABULARY, random_bundle, random_log, random_model
from tsdr import Batch, InputError, Log, Vocabulary
from tsdr.backbones.contract import tensors_in
from tsdr.defaults import Extent
from tsdr.models.model import Model
from tsdr.sequences import SKIPPED

CLOSE = 1e-5


def by_hand(model: Model, events: list[tuple[int, int, int]], concept: int, question: int) -> float:
    """What is in view, padded with nonsense, encoded on its own, and one target asked after it.

    Of a window of answers that is full the older half goes out of view, with what was skipped between them.
    """
    begins, window = 0, model.window
    answered = [place for place, event in enumerate(events) if event[2] != SKIPPED]
    while window != "all" and len(answered) - begins >= window:
        begins += window // 2
    latest = events[answered[begins - 1] + 1 if begins else 0 :]
    padded = [*latest, *[(1, 1, 1)] * 3]
    row = torch.tensor(padded).T[:, None]
    batch = Batch.of_answers(row[0], row[1], row[2], torch.arange(len(padded))[None] < len(latest))
    with torch.no_grad():
        history = model.backbone.encode(batch)
        target = torch.tensor([[[concept]]]), torch.tensor([[[question]]]), torch.tensor([[len(latest)]])
        return float(model.backbone.answer(history, *target).sigmoid())


@pytest.mark.parametrize(
    ("name", "window"),
    [*((name, 8) for name in BACKBONES), ("simplekt", 5), ("dkt", "all"), ("counts", "all"), ("hybrid", "all")],
)
def test_a_session_a_log_and_a_plain_loop_agree_beyond_the_window(name: str, window: Extent) -> None:
    model, log = random_model(name, window), random_log(most=44)
    predicted = model.predict_log(log)
    coded = VOCABULARY.encode(log.frame)
    assert predicted.drop("row", "success").equals(log.frame)
    assert int((coded["question"] < 0).sum()) > 0
    for student in log.students:
        session = model.session()
        answers: list[tuple[int, int, int]] = []
        rows = predicted.filter(pl.col("student") == student)
        codes = coded.filter(pl.col("student") == student).select("concept", "question", "correct").rows()
        for row, code in zip(rows.iter_rows(named=True), codes, strict=True):
            alone = by_hand(model, answers, *code[:2])
            assert session.predict(row["question"], row["concept"]) == pytest.approx(alone, abs=CLOSE)
            assert row["success"] == pytest.approx(alone, abs=CLOSE)
            session.observe(row["question"], row["concept"], row["correct"])
            answers.append(code)
        assert session.answers == len(codes)
        assert session.unknown_questions == sum(question < 0 for _, question, _ in codes)
        for concept, mastery in session.mastery().items():
            assert mastery == pytest.approx(by_hand(model, answers, VOCABULARY.concepts.index(concept), -1), abs=CLOSE)


@pytest.mark.parametrize(
    ("name", "window"), [*((name, 6) for name in BACKBONES), ("dkt", "all"), ("counts", "all"), ("hybrid", "all")]
)
def test_skipped_offers_are_read_alike_by_a_session_a_log_and_a_plain_loop(name: str, window: Extent) -> None:
    model, log = random_model(name, window, skips=True), random_log(students=4, most=40, skips=0.3)
    predicted = model.predict_log(log)
    coded = VOCABULARY.encode(log.frame).with_columns(pl.col("correct").fill_null(SKIPPED))
    assert predicted.drop("row", "success").equals(log.answered)
    mastery = model.mastery_log(log)
    moved = 0.0
    for student in log.students:
        session = model.session()
        events: list[tuple[int, int, int]] = []
        success = iter(predicted.filter(pl.col("student") == student)["success"])
        rows = log.frame.filter(pl.col("student") == student).iter_rows(named=True)
        codes = coded.filter(pl.col("student") == student).select("concept", "question", "correct").rows()
        for row, code in zip(rows, codes, strict=True):
            alone = by_hand(model, events, *code[:2])
            assert session.predict(row["question"], row["concept"]) == pytest.approx(alone, abs=CLOSE)
            if row["skipped"]:
                session.skip(row["question"], row["concept"])
                moved = max(moved, abs(session.predict(row["question"], row["concept"]) - alone))
            else:
                assert next(success) == pytest.approx(alone, abs=CLOSE)
                session.observe(row["question"], row["concept"], row["correct"])
            events.append(code)
        assert session.answers == sum(code[2] != SKIPPED for code in codes)
        found = mastery.filter(pl.col("student") == student)["mastery"].to_list()
        assert found == pytest.approx(list(session.mastery().values()), abs=CLOSE)
    assert moved > 1e-3


def test_a_model_that_was_trained_without_skips_ignores_them_and_says_so() -> None:
    model, log = random_model("dkt"), random_log(skips=0.3)
    session = model.session()
    with pytest.warns(UserWarning, match="trained without skipped offers"):
        session.skip("q01", "c03")
    assert session.mastery() == model.session().mastery()
    with pytest.warns(UserWarning, match="trained without skipped offers"):
        predicted = model.predict_log(log)
    answers = Log(log.answered.drop("skipped"))
    assert predicted["success"].equals(model.predict_log(answers)["success"])
    with pytest.raises(InputError, match="for `skip`"):
        session.observe("q01", "c03", None)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", BACKBONES)
def test_answers_read_one_by_one_or_in_one_go_come_to_the_same(name: str) -> None:
    model, log = random_model(name), random_log(students=3)
    for student in log.students:
        one_by_one, in_one_go = model.session(), model.session()
        for row in log.frame.filter(pl.col("student") == student).iter_rows(named=True):
            for session in (one_by_one, in_one_go):
                session.observe(row["question"], row["concept"], row["correct"])
            one_by_one.mastery()
        assert in_one_go.mastery() == pytest.approx(one_by_one.mastery(), abs=CLOSE)


@pytest.mark.parametrize("name", ["dkt", "counts", "hybrid"])
def test_what_a_session_gives_to_be_kept_is_of_one_size_and_goes_on_like_it(name: str) -> None:
    model, log = random_model(name, "all", skips=True), random_log(students=3, most=60, skips=0.2)
    sizes = set()
    for student in log.students:
        session = model.session()
        for row in log.frame.filter(pl.col("student") == student).iter_rows(named=True):
            if row["skipped"]:
                session.skip(row["question"], row["concept"])
            else:
                session.observe(row["question"], row["concept"], row["correct"])
        sizes.add(len(session.kept()))
        resumed = model.session_from(session.kept())
        assert resumed.mastery() == session.mastery()
        for one in (session, resumed):
            one.observe("q01", "c03", 1)
            one.observe("nobody knows", "c04", 0)
        assert resumed.mastery() == session.mastery()
        assert resumed.evidence() == session.evidence()
        assert (resumed.answers, resumed.unknown_questions, resumed.in_view) == (
            session.answers,
            session.unknown_questions,
            session.in_view,
        )
    assert len(sizes) == 1


def test_what_is_of_no_session_of_the_model_is_refused() -> None:
    model = random_model("dkt", "all")
    for kept in (b"", b"nothing", model.session().kept()[:-1]):
        with pytest.raises(InputError, match="nothing that a session gave"):
            model.session_from(kept)
    with pytest.raises(InputError, match="another model"):
        model.session_from(random_model("hybrid", "all").session().kept())
    with pytest.raises(InputError, match="window of 8 answers"):
        random_model("dkt").session().kept()


@pytest.mark.parametrize("name", ["dkt", "akt"])
def test_mastery_of_a_log_is_that_of_sessions(name: str) -> None:
    model, log = random_model(name), random_log()
    found = model.mastery_log(log)
    assert found.height == len(log.students) * len(model.concepts)
    for student in log.students:
        session = model.session()
        for row in log.frame.filter(pl.col("student") == student).iter_rows(named=True):
            session.observe(row["question"], row["concept"], row["correct"])
        own = found.filter(pl.col("student") == student)
        assert dict(zip(own["concept"], own["mastery"], strict=True)) == pytest.approx(session.mastery(), abs=CLOSE)


def test_many_students_and_long_histories_are_taken_in_batches() -> None:
    model, log = random_model(window=4), random_log(students=150, most=12, seed=3)
    together = model.predict_log(log)
    apart = [model.predict_log(Log(log.frame.filter(pl.col("student") == student))) for student in log.students]
    difference = (together["success"] - pl.concat(apart)["success"]).abs().max()
    assert isinstance(difference, float)
    assert difference < CLOSE


def test_without_questions_the_concept_stands_in() -> None:
    names = VOCABULARY.concepts
    model = Model(random_bundle("simplekt", vocabulary=Vocabulary(names, names)))
    log = Log(random_log().frame.filter(pl.col("student") == "s2").drop("question"))
    assert len(log) > 16, "more than two windows"
    session = model.session()
    for row, predicted in zip(log.frame.iter_rows(named=True), model.predict_log(log)["success"], strict=True):
        assert session.predict(None, row["concept"]) == pytest.approx(predicted, abs=CLOSE)
        assert session.mastery()[row["concept"]] == pytest.approx(predicted, abs=CLOSE)
        session.observe(None, row["concept"], row["correct"])
    assert session.unknown_questions == 0


def test_a_question_of_the_same_name_does_not_stand_in() -> None:
    numbers = tuple(str(i) for i in range(11))
    model = Model(random_bundle("simplekt", vocabulary=Vocabulary(numbers, (*numbers, "11"))))
    session = model.session()
    session.observe(None, "7", 1)
    assert session.predict(None, "7") == pytest.approx(session.mastery()["7"], abs=CLOSE)
    assert session.predict("7", "7") != pytest.approx(session.mastery()["7"], abs=1e-4)


def test_concepts_that_are_not_known_are_refused_or_left_out() -> None:
    model, log = random_model(), random_log()
    strange = Log(
        log.frame.with_columns(
            concept=pl.when(pl.int_range(pl.len()) % 7 == 0).then(pl.lit("new")).otherwise("concept")
        )
    )
    with pytest.raises(InputError, match="concept 'new' is not in the vocabulary"):
        model.predict_log(strange)
    predicted = model.predict_log(strange, unknown="skip")
    assert (
        predicted.filter(pl.col("concept") == "new")["success"].null_count()
        == (strange.frame["concept"] == "new").sum()
    )
    without = model.predict_log(Log(strange.frame.filter(pl.col("concept") != "new")))
    assert predicted["success"].drop_nulls().to_list() == pytest.approx(without["success"].to_list(), abs=CLOSE)
    session = model.session()
    for bad in (("q01", "new", 1), ("q01", "c01", 2), ("q01", "c01", -1)):
        with pytest.raises(InputError):
            session.observe(*bad)
    assert session.answers == 0
    with pytest.raises(InputError, match="does not know the concept 'new'"):
        session.predict("q01", "new")


def test_load_gives_the_model_of_a_bundle(tmp_path: Path) -> None:
    random_bundle("diskt").write(tmp_path)
    log = random_log()
    loaded = tsdr.load(tmp_path)
    assert loaded.predict_log(log).equals(random_model("diskt").predict_log(log))
    with pytest.raises(InputError, match="is not a bundle"):
        tsdr.load(tmp_path / "nothing")


@pytest.mark.parametrize("name", ["dkt", "counts", "hybrid"])
def test_a_session_of_a_whole_history_takes_no_more_room_the_longer_it_is(name: str) -> None:
    model = random_model(name, "all")
    session, sizes = model.session(), set()
    in_one_go = model.session()
    drawn = torch.Generator().manual_seed(1)
    for _ in range(450):
        concept, question, correct = (int(torch.randint(n, (), generator=drawn)) for n in (11, 13, 2))
        for one in (session, in_one_go):
            one.observe(VOCABULARY.questions[question], VOCABULARY.concepts[concept], correct)
        session.mastery_of_all()
        sizes.add(sum(tensor.numel() for tensor in tensors_in(session.history)))
    assert len(sizes) == 1
    torch.testing.assert_close(in_one_go.mastery_of_all(), session.mastery_of_all(), atol=CLOSE, rtol=0)


@pytest.mark.filterwarnings("ignore:the model was trained without skipped offers")
def test_a_history_is_in_view_and_is_not_predicted() -> None:
    """A log cut in two, whatever order its rows come in: the later part is predicted as it is in the whole."""
    model, log = random_model("dkt", "all"), random_log(skips=0.2)
    first = log.frame.filter(pl.col("time") < 9)
    later = log.frame.filter(pl.col("time") >= 9).sample(fraction=1, shuffle=True, seed=3)
    whole = model.predict_log(log)
    found = model.predict_log(Log(later), history=Log(first))
    alone = model.predict_log(Log(later))
    keys = ["student", "time"]
    joined = found.join(whole, on=keys, suffix="_whole")
    assert joined.height == found.height == later["correct"].count()
    assert joined["success"].to_list() == pytest.approx(joined["success_whole"].to_list(), abs=CLOSE)
    assert alone["success"].to_list() != pytest.approx(found["success"].to_list(), abs=1e-3)
    as_they_came = later.with_row_index("row", offset=1)
    assert found.select("row", *keys).sort("row").rows() == [
        row for row in as_they_came.drop_nulls("correct").select("row", *keys).rows()
    ]


def test_a_history_that_is_not_earlier_is_refused() -> None:
    model = random_model("dkt", "all")
    whole = Log(random_log().frame.with_columns(time=pl.col("time") + 1000))
    with pytest.raises(InputError, match=r"is to be earlier than .* student 's0' has a row at 1000"):
        model.predict_log(whole, history=whole)
