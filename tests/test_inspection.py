import polars as pl
import pytest

from conftest import RealLogs
from tsdr import Log, inspect_log, simulate


def frame(students: int = 4, answers: int = 8) -> pl.DataFrame:
    rows = [(f"s{s}", f"q{i}", f"c{i % 3}", (s + i) % 2, i) for s in range(students) for i in range(answers)]
    return pl.DataFrame(rows, ["student", "question", "concept", "correct", "time"], orient="row")


def test_counts_are_those_of_a_small_log_by_hand() -> None:
    skipped = pl.DataFrame({"student": ["s0"], "question": ["q9"], "concept": ["c9"], "time": [9], "skipped": [True]})
    rows = frame(4, 8).filter(~((pl.col("student") == "s3") & (pl.col("time") > 5)))
    offers = pl.concat([rows.with_columns(skipped=pl.lit(False)), skipped], how="diagonal_relaxed")
    found = inspect_log(Log(offers))
    assert (found.students, found.questions, found.concepts, found.interactions) == (4, 9, 4, 30)
    assert found.share_right == pytest.approx(0.5)
    assert found.answers_a_student == (6, 6, 8, 8, 8)
    assert found.share_in_view == {50: 1.0, 200: 1.0}
    assert found.skipped_offers == 1
    # answers by concept: c0 and c1 11 and 12 (s3 lacks times 6 and 7), c2 8, c9 0
    assert found.busiest_tenth_share == pytest.approx(11 / 30)
    assert found.quieter_half_share == pytest.approx(8 / 30)
    assert found.rare_concepts == 2
    assert found.oddities == ()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: pl.concat([f, f.with_columns(concept=pl.lit("other"))]), "one row a skill"),
        (lambda f: pl.concat([f, f.head(3)]), "3 rows repeat"),
        (lambda f: f.with_columns(correct=pl.lit(1)), "Every answer is 1"),
        (lambda f: f.with_columns(concept=pl.format("{}{}", "student", "time")), "concept of their own"),
        (lambda f: f.with_columns(student=pl.int_range(pl.len()) // 2), "16 of 16 students"),
        (
            lambda f: f.with_columns(concept=pl.when(pl.col("student") == "s1").then(pl.lit("x")).otherwise("concept")),
            "several concepts",
        ),
        (lambda f: f.with_columns(time=pl.lit(0)), "have the time of the one before"),
        (lambda f: f.with_columns(skipped=pl.lit(True), correct=None), "nothing to learn"),
    ],
)
def test_what_looks_wrong_is_named(change: object, words: str) -> None:
    assert callable(change)
    oddities = inspect_log(Log(change(frame()))).oddities
    assert words in oddities[0]


def test_all_that_looks_wrong_is_named() -> None:
    rows = frame().with_columns(correct=pl.lit(1))
    oddities = inspect_log(Log(pl.concat([rows, rows.head(2)]))).oddities
    assert len(oddities) == 2
    assert "2 rows repeat" in oddities[0]
    assert "Every answer is 1" in oddities[1]


def test_a_simulated_and_a_real_log_look_right(real_logs: RealLogs) -> None:
    assert inspect_log(simulate(students=100).offers()).oddities == ()
    statics = inspect_log(real_logs.read("statics"))
    assert statics.interactions == 189_297
    a_student = real_logs.read("statics").frame.group_by("student").len()["len"].to_list()
    assert statics.share_in_view[50] == pytest.approx(sum(min(50, answers) for answers in a_student) / 189_297)


def test_names_that_differ_by_case_or_space_only_are_told_with_how_many_and_an_example() -> None:
    rows = frame()
    first = rows["concept"][0]
    twins = rows.with_columns(
        concept=pl.when(pl.int_range(pl.len()) == 0).then(pl.lit(f" {first.upper()} ")).otherwise(pl.col("concept"))
    )
    (said,) = [oddity for oddity in inspect_log(Log(twins)).oddities if "concepts differ" in oddity]
    assert said.startswith("2 concepts differ from another one by case or space")
    assert repr(f" {first.upper()} ") + " (1 rows)" in said
    assert not [oddity for oddity in inspect_log(Log(rows)).oddities if "by case or space" in oddity]
