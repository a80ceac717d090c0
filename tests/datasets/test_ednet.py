import random
from pathlib import Path

import polars as pl
import pytest

from tsdr import InputError
from tsdr.datasets import ednet, load, prepare

QUESTIONS = (
    "question_id,bundle_id,explanation_id,correct_answer,part,tags,deployed_at\n"
    "q1,b1,e1,a,1,5;2,1\nq2,b2,e2,b,1,9,1\nq3,b2,e2,c,1,-1,1\n"
)
HEADER = "timestamp,solving_id,question_id,user_answer,elapsed_time\n"


def folder(root: Path) -> Path:
    (root / "Contents").mkdir()
    (root / "Contents" / "questions.csv").write_text(QUESTIONS)
    (root / "KT1").mkdir()
    (root / "more").mkdir()
    return root


def test_answers_are_judged_bundles_kept_together_and_every_row_is_counted(tmp_path: Path) -> None:
    raw = folder(tmp_path)
    (raw / "KT1" / "u1.csv").write_text(
        HEADER + "300,2,q1,a,1\n100,1,q1,b,1\n200,1,q2,b,1\n150,3,q2,a,1\n400,4,q3,c,1\n500,5,q99,a,1\n"
    )
    (raw / "more" / "u1.csv").write_text(HEADER + "300,2,q1,a,1\n600,6,q1,,1\n,7,q1,a,1\n")
    (raw / "KT1" / "u2.csv").write_text(HEADER)
    (raw / "KT1" / "u3.csv").write_text(HEADER + "50,1,q2,b,1\n")
    account = prepare("ednet", raw, tmp_path / "log.parquet", minimum=1)
    assert account.read == 10
    assert account.dropped == {
        "no time": 1,
        "question that questions.csv does not know": 1,
        "question without a tag": 1,
        "the same answer twice": 1,
    }
    assert account.notes == {"no answer, kept as a skipped offer": 1}
    assert load("ednet", raw, minimum=1).frame.rows() == [
        ("u1", "q1", "2~~5", 0, 100, False),
        ("u1", "q2", "9", 1, 100, False),
        ("u1", "q2", "9", 0, 150, False),
        ("u1", "q1", "2~~5", 1, 300, False),
        ("u1", "q1", "2~~5", None, 600, True),
        ("u3", "q2", "9", 1, 50, False),
    ]


def test_all_students_are_prepared_some_files_at_a_time_to_the_same_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = folder(tmp_path)
    drawn = random.Random(1)
    for student in range(1, 51):
        times = [drawn.randrange(400) for _ in range(drawn.randrange(1, 30))]
        answer = "ab" if student < 20 else "abc "  # the first ones leave nothing unanswered
        rows = [f"{time},{time % 7},q{drawn.randrange(1, 4)},{drawn.choice(answer).strip()},1" for time in times]
        (raw / drawn.choice(["KT1", "more"]) / f"u{student}.csv").write_text(HEADER + "\n".join(rows) + "\n")
    whole = load("ednet", raw, sample="all"), prepare("ednet", raw, tmp_path / "whole.parquet", sample="all")
    monkeypatch.setattr(ednet, "FILES_AT_ONCE", 4)
    parts = load("ednet", raw, sample="all"), prepare("ednet", raw, tmp_path / "parts.parquet", sample="all")
    assert parts == whole
    assert len(whole[0]) == whole[1].counts.interactions + whole[1].skipped > 100
    assert 0 < whole[1].skipped < whole[1].read
    assert pl.read_parquet(tmp_path / "parts.parquet").equals(pl.read_parquet(tmp_path / "whole.parquet"))


def test_a_blank_keeps_its_place_in_the_bundle(tmp_path: Path) -> None:
    raw = folder(tmp_path)
    (raw / "KT1" / "u1.csv").write_text(HEADER + "200,1,q1,,1\n210,1,q2,b,1\n205,2,q2,a,1\n")
    rows = [("q1", None, 200), ("q2", 1, 200), ("q2", 0, 205)]
    assert load("ednet", raw, minimum=1).frame.select("question", "correct", "time").rows() == rows
    dropped = load("ednet", raw, minimum=1, unanswered="drop").frame.select("question", "correct", "time")
    assert dropped.rows() == [("q2", 0, 205), ("q2", 1, 210)], "as if the blank had never been there"


def test_a_solving_is_one_offer_and_an_answer_in_it_is_no_skip(tmp_path: Path) -> None:
    raw = folder(tmp_path)
    (raw / "KT1" / "u1.csv").write_text(
        HEADER
        + "100,1,q1,,1\n100,1,q1,a,1\n101,1,q1, ,1\n"  # answered, with blanks before it and after it
        + "205,2,q2,,1\n203,2,q2,,1\n209,2,q2,,1\n"  # never answered
        + "300,3,q1,,1\n400,4,q1,,1\n"  # offered twice
        + "500,,q2,,1\n500,,q2,,1\n600,,q2,,1\n"  # without an id of the solving, the time tells
    )
    (raw / "KT1" / "u2.csv").write_text(HEADER + "300,3,q1,b,1\n")
    account = prepare("ednet", raw, tmp_path / "log.parquet", minimum=1)
    assert account.dropped == {
        "no answer, in another row of a solving that is answered": 2,
        "no answer, in another row of a solving without one": 3,
    }
    assert load("ednet", raw, minimum=1).frame.select("student", "question", "correct", "time").rows() == [
        ("u1", "q1", 1, 100),
        ("u1", "q2", None, 203),
        ("u1", "q1", None, 300),
        ("u1", "q1", None, 400),
        ("u1", "q2", None, 500),
        ("u1", "q2", None, 600),
        ("u2", "q1", 0, 300),
    ]


def test_blanks_are_no_answers_that_a_student_needs(tmp_path: Path) -> None:
    raw = folder(tmp_path)
    said = ["a"] * 4 + [""] * 3
    (raw / "KT1" / "u1.csv").write_text(HEADER + "".join(f"{i},{i},q1,{one},1\n" for i, one in enumerate(said)))
    (raw / "KT1" / "u2.csv").write_text(HEADER + "".join(f"{i},{i},q1,a,1\n" for i in range(5)))
    account = prepare("ednet", raw, tmp_path / "log.parquet")
    assert account.dropped == {"student with fewer than 5 answers": 7}
    assert account.notes == {}, "notes are about what is left"
    assert load("ednet", raw, unanswered="wrong").students == ("u1", "u2")


def test_one_table_is_read_like_files(tmp_path: Path) -> None:
    raw = folder(tmp_path)
    rows = [f"{100 * i},{i},q{1 + i % 2},{'ab'[i % 2]},1" for i in range(12)]
    (raw / "KT1" / "u7.csv").write_text(HEADER + "\n".join(rows) + "\n")
    by_file = load("ednet", raw)
    (raw / "KT1" / "u7.csv").unlink()
    table = "user_id," + HEADER + "\n".join(f"u7,{row}" for row in rows) + "\n"
    (raw / "KT1" / "answers.csv").write_text(table)
    assert load("ednet", raw) == by_file
    assert len(by_file) == 12


def test_a_sample_is_drawn_by_the_seed_and_files_beyond_it_are_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = folder(tmp_path)
    for student in range(30):
        rows = "".join(f"{i},{i},q1,a,1\n" for i in range(6 if student % 2 else 2))
        (raw / "KT1" / f"u{student}.csv").write_text(HEADER + rows)
    monkeypatch.setattr("tsdr.datasets.ednet.FILES_AT_ONCE", 4)
    first, again, other = (load("ednet", raw, sample=5, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert len(first.students) == len(other.students) == 5
    assert first.students != other.students
    assert {int(name[1:]) % 2 for name in first.students} == {1}
    account = prepare("ednet", raw, tmp_path / "log.parquet", sample=5, seed=1)
    assert account.read < 15 * 6 + 15 * 2
    assert account.notes["student whose file was not opened, the sample being full"] > 0
    everyone = load("ednet", raw, sample="all")
    assert len(everyone.students) == 15


def test_the_real_sample(real_raw: Path, tmp_path: Path) -> None:
    account = prepare("ednet", real_raw / "ednet", tmp_path / "log.parquet")
    assert account.read == 1_082 + 19_345
    blanks = {
        "no answer, in another row of a solving that is answered": 21,
        "no answer, in another row of a solving without one": 129,
    }
    assert account.dropped == blanks | {"question without a tag": 2}
    assert account.notes == {"no answer, kept as a skipped offer": 974 - 150}
    assert (account.counts.interactions, account.skipped) == (19_451, 824)
    assert account.share_right == pytest.approx(0.6221, abs=1e-4)
    wrong = prepare("ednet", real_raw / "ednet", tmp_path / "log.parquet", unanswered="wrong")
    assert wrong.share_right == pytest.approx(0.6221 * 19_451 / 20_275, abs=1e-4)


def test_a_folder_without_answers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"neither files u1\.csv"):
        load("ednet", folder(tmp_path))


def test_a_question_listed_twice_does_not_shift_the_others(tmp_path: Path) -> None:
    raw = folder(tmp_path)
    (raw / "KT1" / "u1.csv").write_text(HEADER + "1,1,q1,a,1\n2,2,q2,b,1\n")
    path = raw / "Contents" / "questions.csv"
    path.write_text(QUESTIONS + "q1,b1,e1,a,1,5;2,1\n")
    assert load("ednet", raw, minimum=1).frame.select("concept", "correct").rows() == [("2~~5", 1), ("9", 1)]
    path.write_text(QUESTIONS + "q1,b1,e1,d,1,5;2,1\n")
    with pytest.raises(InputError, match="'q1' twice, with different answers"):
        load("ednet", raw)


def test_answers_without_a_solving_id_keep_their_times(tmp_path: Path) -> None:
    raw = folder(tmp_path)
    (raw / "KT1" / "u1.csv").write_text(HEADER + "100,,q1,a,1\n200,5000000000,q1,a,1\n300.0,s-7,q1,a,1\n")
    assert load("ednet", raw, minimum=1).frame["time"].to_list() == [100, 200, 300]


def test_unanswered_rows_do_not_fill_the_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = folder(tmp_path)
    for student in range(30):
        said = "a" if student % 3 == 0 else ""
        (raw / "KT1" / f"u{student}.csv").write_text(HEADER + "".join(f"{i},{i},q1,{said},1\n" for i in range(6)))
    monkeypatch.setattr("tsdr.datasets.ednet.FILES_AT_ONCE", 3)
    assert len(load("ednet", raw, sample=8).students) == 8


def test_a_table_and_files_of_students_are_not_mixed(tmp_path: Path) -> None:
    raw = folder(tmp_path)
    (raw / "KT1" / "u1.csv").write_text(HEADER)
    (raw / "KT1" / "answers.csv").write_text(f"user_id,{HEADER}")
    with pytest.raises(InputError, match="keep one kind"):
        load("ednet", raw)
