from datetime import datetime
from pathlib import Path

import pytest

from tsdr import InputError, read_log
from tsdr.datasets import load, prepare

HEADER = "Row\tAnon Student Id\tProblem Name\tStep Name\tFirst Transaction Time\tCorrect First Attempt\tKC(Default)"


def write(folder: Path, rows: list[str], header: str = HEADER, name: str = "algebra_2005_2006_train.txt") -> Path:
    (folder / name).write_text("\n".join([header, *rows]) + "\n")
    return folder


def test_steps_are_questions_and_their_components_one_concept(tmp_path: Path) -> None:
    raw = write(
        tmp_path,
        [
            "1\ta\tP1\tS1\t2005-09-09 12:24:35.0\t1\tx~~y",
            "2\ta\tP1\tS2\t2005-09-09 12:20:00.0\t0\ty",
            "3\ta\tP2\tS1\t\t1\tz",
            "4\tb\tP1\tS1\t2005-09-10 08:00:00.0\t0\ty~~w",
            "5\tb\tP3\tS1\t2005-09-10 08:01:00.0\t1\t",
            "6\tb\tP2\tS1\t2005-09-10 08:02:00.0\t\tz",
        ],
    )
    account = prepare("algebra05", raw, tmp_path / "log.parquet", minimum=1)
    assert account.read == 6
    assert account.dropped == {"no knowledge component": 1}
    assert account.notes == {
        "no time, so the place in the file stands for it": 1,
        "no result, kept as a skipped offer": 1,
    }
    assert load("algebra05", raw, minimum=1).frame.rows() == [
        ("a", "P1 / S2", "y", 0, datetime(2005, 9, 9, 12, 20), False),
        ("a", "P2 / S1", "z", 1, datetime(2005, 9, 9, 12, 20), False),
        ("a", "P1 / S1", "w~~x~~y", 1, datetime(2005, 9, 9, 12, 24, 35), False),
        ("b", "P1 / S1", "w~~x~~y", 0, datetime(2005, 9, 10, 8), False),
        ("b", "P2 / S1", "z", None, datetime(2005, 9, 10, 8, 2), True),
    ]


TRANSACTIONS = "Anon Student Id\tTime\tProblem Name\tStep Name\tProblem View\tAttempt At Step\tOutcome\tKC (Unique)"


def test_a_row_without_a_result_is_a_skip_only_where_its_step_was_never_answered(tmp_path: Path) -> None:
    raw = write(
        tmp_path,
        [
            "a\t2011-01-02 10:00:00\tP\tS\t1\t\t\tk",  # a look at the step, answered later on
            "a\t2011-01-02 10:00:05\tP\tS\t1\t1\tINCORRECT\tk",
            "a\t2011-01-02 10:00:09\tP\tS\t1\t2\t \tk",
            "a\t2011-01-03 10:00:07\tP\tS\t2\t2\t\tk",  # another view, in which nothing was answered
            "a\t2011-01-03 10:00:00\tP\tS\t2\t2\t\tk",
            "b\t2011-01-02 10:00:00\tP\tS\t1\t\t\tk",  # another student
            "b\t2011-01-02 10:01:00\tP\tT\t1\t1\t\tk",  # answered at the second attempt: no skip, no first answer
            "b\t2011-01-02 10:02:00\tP\tT\t1\t2\tCORRECT\tk",
            "b\t2011-01-02 10:03:00\tP\tU\t1\t1\tUNGRADED\tk",  # an answer, of which nothing can be said
            "b\t2011-01-02 10:04:00\tP\tU\t1\t1\t\tk",
            "b\t2011-01-02 10:05:00\tP\tV\t1\t1\tCORRECT\tk",
            "b\t2011-01-02 10:06:00\tP\t\t1\t\t\t",  # an event outside of any step
        ],
        TRANSACTIONS,
        "export.txt",
    )
    account = prepare("datashop", raw, tmp_path / "log.parquet", minimum=1)
    assert account.dropped == {
        "no answer, in another row of a step that is answered": 4,
        "no answer, in another row of a step without one": 1,
        "later attempt at the step": 1,
        "result that is neither right nor wrong": 1,
        "no knowledge component": 1,
    }
    assert account.notes == {"no result, kept as a skipped offer": 2}
    assert load("datashop", raw, minimum=1).frame.select("student", "question", "correct", "time").rows() == [
        ("a", "P / S", 0, datetime(2011, 1, 2, 10, 0, 5)),
        ("a", "P / S", None, datetime(2011, 1, 3, 10)),
        ("b", "P / S", None, datetime(2011, 1, 2, 10)),
        ("b", "P / V", 1, datetime(2011, 1, 2, 10, 5)),
    ]


def test_a_step_without_a_result_at_first_and_with_actions_is_no_skip(tmp_path: Path) -> None:
    header = HEADER.replace(
        "Correct First Attempt", "Step Start Time\tCorrect First Attempt\tIncorrects\tHints\tCorrects"
    )
    raw = write(
        tmp_path,
        [
            "1\ta\tP\tS\t\t2005-09-09 12:00:00.0\t\t0\t0\t0\tk",  # shown, and nothing done
            "2\ta\tP\tT\t2005-09-09 12:01:05.0\t2005-09-09 12:01:00.0\t\t0\t0\t1\tk",
            "3\ta\tP\tU\t2005-09-09 12:02:05.0\t2005-09-09 12:02:00.0\t1\t0\t0\t1\tk",
            "4\ta\tP\tV\t\t\t\t\t\t\tk",  # withheld, as in the files of a contest
        ],
        header,
    )
    account = prepare("algebra05", raw, tmp_path / "log.parquet", minimum=1)
    assert account.dropped == {
        "no answer to the first attempt, and others after it": 1,
        "neither a result nor a time": 1,
    }
    assert load("algebra05", raw, minimum=1).frame.select("question", "correct", "time").rows() == [
        ("P / S", None, datetime(2005, 9, 9, 12)),
        ("P / U", 1, datetime(2005, 9, 9, 12, 2, 5)),
    ]


def test_files_that_differ_in_what_is_not_needed_are_read_together(tmp_path: Path) -> None:
    header = "Anon Student Id\tTime\tProblem Name\tOutcome\tKC (M)"
    write(tmp_path, ["a\t2011-01-02 10:00:00\tP\t\tk\t1"], f"{header}\tCorrects", "one.txt")
    write(tmp_path, ["a\t2011-01-02 11:00:00\tQ\tCORRECT\tk"], header, "two.txt")
    assert load("datashop", tmp_path, minimum=1).frame["correct"].to_list() == [None, 1]


def test_blank_times_everywhere_leave_the_order_of_the_file(real_raw: Path, tmp_path: Path) -> None:
    account = prepare(
        "datashop", real_raw / "kddcup" / "kddcup2010_course_test.csv", tmp_path / "log.parquet", minimum=1
    )
    assert account.read == 1140
    withheld = {"neither a result nor a time": 474}  # a contest's test file: nothing says that they were not answered
    assert account.dropped == withheld | {"no knowledge component": 172}
    assert account.skipped == 0
    assert account.notes == {"no time, so the place in the file stands for it": 494}


def test_the_real_sample_of_steps(real_raw: Path, tmp_path: Path) -> None:
    sample = real_raw / "kddcup" / "ct_first6000_as_kddcup_tab.txt"
    account = prepare("algebra05", sample, tmp_path / "log.parquet", minimum=1)
    assert (account.read, account.dropped, account.counts.interactions) == (6000, {}, 6000)


def test_a_datashop_export_of_transactions(tmp_path: Path) -> None:
    header = "Anon Student Id\tTime\tProblem Name\tStep Name\tAttempt At Step\tOutcome\tKC (Unique)\tKC (Other)"
    raw = write(
        tmp_path,
        [
            "a\t2011-01-02 10:00:00\tP\tS\t1\tINCORRECT\tk\to",
            "a\t2011-01-02 10:00:05\tP\tS\t2\tCORRECT\tk\to",
            "a\t2011-01-02 10:01:00\tP\tT\t1\tHINT\tk\to",
            "b\t2011-01-02 10:02:00\tP\tT\t1\tCORRECT\tk\to",
        ],
        header,
        "export.txt",
    )
    account = prepare("datashop", raw, tmp_path / "log.parquet", minimum=1)
    assert account.dropped == {"later attempt at the step": 1}
    assert account.notes == {"a hint, taken for a wrong answer": 1}
    frame = load("datashop", raw, minimum=1).frame
    assert frame.select("student", "question", "concept", "correct").rows() == [
        ("a", "P / S", "k", 0),
        ("a", "P / T", "k", 0),
        ("b", "P / T", "k", 1),
    ]


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    write(tmp_path, ["1\ta\t1"], "Row\tAnon Student Id\tOutcome")
    with pytest.raises(InputError, match="none of the columns First Transaction Time, Time"):
        load("datashop", tmp_path)
    write(tmp_path, ["a\t1\t2"], "Anon Student Id\tOutcome\tTime")
    with pytest.raises(InputError, match="no column of knowledge components"):
        load("datashop", tmp_path)


def test_names_in_iso_8859_1_and_files_of_one_name(tmp_path: Path) -> None:
    for folder, student in (("one", "b\xe9"), ("two", "c\xe9")):
        (tmp_path / folder).mkdir()
        row = f"1\t{student}\tP\tS\t2005-09-09 12:00:00.0\t1\tk"
        (tmp_path / folder / "export.txt").write_bytes(f"{HEADER}\r\n{row}\r\n".encode("iso-8859-1"))
    assert load("datashop", tmp_path, minimum=1).students == ("b\xe9", "c\xe9")


def test_a_quote_in_a_table_of_tabs_is_a_character(tmp_path: Path) -> None:
    steps = ['"Hello', '5" pipe', '"x" is', 'bye"']
    raw = write(tmp_path, [f"{i}\ta\tP\t{step}\t2005-09-09 12:0{i}:00.0\t1\tk" for i, step in enumerate(steps)])
    assert load("algebra05", raw, minimum=1).frame["question"].to_list() == [f"P / {step}" for step in steps]


def test_components_in_repeated_columns_are_one_concept(tmp_path: Path) -> None:
    header = "Anon Student Id\tTime\tProblem Name\tOutcome\tKC (M)\tKC Category (M)\tKC (M)\tKC (Other)"
    raw = write(
        tmp_path,
        ["a\t2011-01-02T10:00:00Z\tP\tCORRECT\tk2\t\tk1\to", "a\t2011-01-02T09:00:00Z\tQ\tCORRECT\tk2\t\t\to"],
        header,
        "export.txt",
    )
    frame = load("datashop", raw, minimum=1).frame
    assert frame.select("question", "concept").rows() == [("Q", "k2"), ("P", "k1~~k2")]


def test_a_step_that_stands_there_twice_is_one(tmp_path: Path) -> None:
    row = "1\ta\tP\tS\t2005-09-09 12:00:00.0\t1\tk"
    raw = write(tmp_path, [row, row, row.replace("12:00", "12:01")], name="one.txt")
    write(tmp_path, [row], name="two.txt")
    account = prepare("datashop", raw, tmp_path / "log.parquet", minimum=1)
    assert (account.read, account.dropped) == (4, {"the same step twice": 2})
    with pytest.raises(InputError, match="expects one file"):
        load("algebra05", raw)


def test_what_no_log_can_hold_is_dropped_and_counted(tmp_path: Path) -> None:
    raw = write(
        tmp_path,
        [
            "1\ta\tP\tS\t2005-09-09 12:00:00.0\t1\t~~",
            "2\ta\tP\tT\t9/21/11 17:35\t1\tk",
            "3\ta\tP\tU\t2005-09-09 12:00:00.0\t1\tk",
        ],
    )
    account = prepare("algebra05", raw, tmp_path / "log.parquet", minimum=1)
    assert account.dropped == {"no skill": 1, "no time": 1}
    assert len(read_log(tmp_path / "log.parquet")) == 1


def test_statics_is_read_from_a_table_of_commas_too(tmp_path: Path) -> None:
    header = "Anon Student Id,Problem Name,Step Name,First Transaction Time,First Attempt,KC (F2011)"
    rows = ['a,P,"S, first",2011-09-21 17:35:12,correct,k', "a,P,T,2011-09-21 17:36:12,hint,k~~l"]
    raw = write(tmp_path, rows, header, "AllData_student_step_2011F.csv")
    account = prepare("statics", raw, tmp_path / "log.parquet", minimum=1)
    assert account.notes == {"a hint, taken for a wrong answer": 1}
    assert load("statics", raw, minimum=1).frame["question"].to_list() == ["P / S, first", "P / T"]


def test_bridge06_takes_its_own_components(tmp_path: Path) -> None:
    header = HEADER.replace("KC(Default)", "KC(SubSkills)\tKC(KTracedSkills)")
    row = "1\ta\tP\tS\t2006-09-09 12:00:00.0\t1\tsub\ttraced"
    raw = write(tmp_path, [row], header, "bridge_to_algebra_2006_2007_train.txt")
    assert load("bridge06", raw, minimum=1).frame["concept"].to_list() == ["sub"]
