"""pyKT's prepared files, as its own scripts write them, come to one log."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tsdr import InputError
from tsdr.datasets import load, prepare

TEXT = """u1,4
q1,q2,q1,q3
3_5,4,3_5,5
1,0,1,1
1000,2000,3000,4000
9,9,9,9
u2,2
q2,q3
4,5
0,1
500,600
NA
"""
# What data.txt comes to.
LOG = [
    ("u1", "q1", "3~~5", 1, 1000),
    ("u1", "q2", "4", 0, 2000),
    ("u1", "q1", "3~~5", 1, 3000),
    ("u1", "q3", "5", 1, 4000),
    ("u2", "q2", "4", 0, 500),
    ("u2", "q3", "5", 1, 600),
]
HEADER = "fold,uid,questions,concepts,responses,timestamps,selectmasks,is_repeat"
# u1's answers with a row for each skill, and u2's.
U1 = ["q1 q1 q2 q1 q1 q3", "3 5 4 3 5 5", "1 1 0 1 1 1", "1000 1000 2000 3000 3000 4000", "0 1 0 0 1 0"]
U2 = ["q2 q3", "4 5", "0 1", "500 600", "0 0"]


def table(path: Path, rows: Sequence[str], header: str = HEADER) -> Path:
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def stretch(student: str, lists: Sequence[str], begin: int, end: int, length: int, selected: int = 0) -> str:
    """A row of a table: steps from begin to end, padded; those before the step `selected` are context alone."""
    questions, concepts, responses, times, again = (steps.split()[begin:end] for steps in lists)
    masks = ["1" if begin + i >= selected else "-1" for i in range(len(questions))]
    columns = [questions, concepts, responses, times, masks, again]
    padded = [",".join([*column, *["-1"] * (length - len(column))]) for column in columns]
    return ",".join(["0", student, *(f'"{column}"' for column in padded)])


def rows_of(raw: Path) -> list[tuple[object, ...]]:
    return load("pykt", raw, minimum=1).frame.select("student", "question", "concept", "correct", "time").rows()


def test_text_is_read_with_its_sets_of_skills(tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text(TEXT)
    assert rows_of(tmp_path) == LOG
    assert rows_of(tmp_path / "data.txt") == LOG
    account = prepare("pykt", tmp_path, tmp_path / "log.parquet", minimum=1)
    assert (account.read, account.dropped) == (6, {})


def test_an_attempt_that_is_cut_into_skills_and_stretches_is_one_row_again(tmp_path: Path) -> None:
    u1 = [stretch("u1", U1, 0, 4, 4), stretch("u1", U1, 4, 6, 4)]  # the second attempt at q1 lies in both
    table(tmp_path / "train_valid_sequences.csv", u1)
    table(tmp_path / "test_sequences.csv", [stretch("u2", U2, 0, 2, 4)])
    assert rows_of(tmp_path) == LOG
    account = prepare("pykt", tmp_path, tmp_path / "log.parquet", minimum=1)
    assert account.read == 8, "padding is no row"
    assert account.dropped == {"another skill of the same attempt": 2}


def test_windows_that_overlap_count_every_step_once(tmp_path: Path) -> None:
    windows = [stretch("u1", U1, 0, 4, 4), stretch("u1", U1, 1, 5, 4, 4), stretch("u1", U1, 2, 6, 4, 5)]
    table(tmp_path / "test_window_sequences.csv", windows)
    assert rows_of(tmp_path) == LOG[:4]
    account = prepare("pykt", tmp_path, tmp_path / "log.parquet", minimum=1)
    assert account.read == 12
    assert account.dropped == {
        "step of a window that another window has, too": 6,
        "another skill of the same attempt": 2,
    }


def test_tables_of_questions_have_their_skills_joined(tmp_path: Path) -> None:
    header = "fold,uid,questions,concepts,responses,timestamps,selectmasks"
    row = '1,u1,"q1,q2,q1,q3,-1","3_5,4,3_5,5,-1","1,0,1,1,-1","1000,2000,3000,4000,-1","1,1,1,1,-1"'
    table(tmp_path / "train_valid_sequences_quelevel.csv", [row], header)
    assert rows_of(tmp_path) == LOG[:4]


def test_of_several_files_what_is_most_whole_is_read(tmp_path: Path) -> None:
    (tmp_path / "README.txt").write_text("nothing of pyKT's")
    wrong = [stretch("somebody else", U2, 0, 2, 2)]
    table(tmp_path / "test_window_sequences.csv", wrong)
    table(tmp_path / "train_valid_sequences.csv", [stretch("u2", U2, 0, 2, 2)])
    assert rows_of(tmp_path) == LOG[4:]
    table(tmp_path / "train_valid.csv", [stretch("u1", U1, 0, 6, 6)])
    table(tmp_path / "test.csv", [stretch("u2", U2, 0, 2, 2)])
    assert rows_of(tmp_path) == LOG
    table(tmp_path / "train_valid_quelevel.csv", wrong)  # beside which test.csv may be of either kind
    assert rows_of(tmp_path) == LOG[4:]


def test_what_is_absent_is_made_up_for(tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text("a,b,3\nNA\n3,4,3\n1,0,1\nNA\nNA\nc,3\nx,NA,y\nNA\n1,1,0\nNA\nNA")
    rows = load("pykt", tmp_path, minimum=1).frame.select("student", "question", "concept", "correct").rows()
    assert rows == [
        ("a,b", "3", "3", 1),
        ("a,b", "4", "4", 0),
        ("a,b", "3", "3", 1),
        ("c", "x", "x", 1),
        ("c", "y", "y", 0),
    ]


def test_every_row_is_accounted_for(tmp_path: Path) -> None:
    (tmp_path / "data.txt").write_text(
        "u1,3\nq1,q2,q3\n1,2,3\n1,2,0\n1,2,3\nNA\n"  # an answer that is neither right nor wrong
        "u2,2\nq1\n1,2\n1,0\n1,2\nNA\n"  # a list that is too short
        "u3,1\nNA\nNA\n1\n5\nNA\n"
        "u4,1\nq1\n1\n1\nsoon\nNA\n"
        "u5,0\nNA\nNA\nNA\nNA\nNA\n"
    )
    account = prepare("pykt", tmp_path, tmp_path / "log.parquet", minimum=1)
    assert account.read == 7
    assert account.counts.interactions == 2
    assert account.dropped == {
        "list of another length than the student's others": 2,
        "answer is neither 0 nor 1": 1,
        "neither question nor concept": 1,
        "no time": 1,
    }


def test_two_data_sets_are_not_mixed(tmp_path: Path) -> None:
    for name in ("algebra2005", "nips_task34"):
        (tmp_path / name).mkdir()
        table(tmp_path / name / "train_valid.csv", [stretch("u1", U1, 0, 6, 6)])
    with pytest.raises(InputError, match=r"expects one file train_valid\.csv, and there are 2"):
        load("pykt", tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("data.txt", TEXT + "u3,2\nq1,q2\n", r"data\.txt, line 13: a student's 6 lines are to begin here"),
        ("data.txt", "q1,q2\n" + TEXT, r"data\.txt, line 1: "),
        ("test_question_sequences.csv", f"{HEADER},qidxs,rest\n", "repeats what came before an answer"),
        ("train_valid.csv", "uid,concepts\nu1,3\n", "column 'responses' is missing"),
        ("notes.md", "nothing", r"pykt expects data\.txt or train_valid_sequences\.csv"),
    ],
)
def test_what_cannot_be_read_is_refused_in_a_sentence(name: str, content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=said):
        load("pykt", tmp_path)
