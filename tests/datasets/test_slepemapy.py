from datetime import datetime
from pathlib import Path

from tsdr.datasets import load, prepare

RELEASE = (
    "id;user;place_asked;place_answered;type;inserted;response_time;number_of_options;place_map;options\n"
    "1;u;10;10;1;2015-01-01 10:00:00;1;0;1;\n"
    "2;u;11;;2;2015-01-01 10:01:00;1;4;1;[11, 12]\n"
    "2;u;11;;2;2015-01-01 10:01:00;1;4;1;[11, 12]\n"
    "3;u;10;12;2;2015-01-01 09:00:00;1;0;1;\n"
    "4;v;12;12;1;;1;0;1;\n"
)


def test_what_was_not_known_is_a_skipped_offer_a_wrong_answer_or_dropped(tmp_path: Path) -> None:
    (tmp_path / "answer.csv").write_text(RELEASE)
    account = prepare("slepemapy", tmp_path, tmp_path / "log.parquet", minimum=1)
    assert account.read == 5
    assert account.dropped == {"no time": 1, "the same answer twice": 1}
    assert (account.counts.interactions, account.skipped) == (2, 1)
    log = load("slepemapy", tmp_path, minimum=1)
    assert log.skipped_offers == 1
    assert log.frame.rows() == [
        ("u", "10-2", "10", 0, datetime(2015, 1, 1, 9), False),
        ("u", "10-1", "10", 1, datetime(2015, 1, 1, 10), False),
        ("u", "11-2", "11", None, datetime(2015, 1, 1, 10, 1), True),
    ]
    wrong = load("slepemapy", tmp_path, minimum=1, unanswered="wrong")
    assert wrong.frame["correct"].to_list() == [0, 1, 0]
    dropped = prepare("slepemapy", tmp_path, tmp_path / "log.parquet", minimum=1, unanswered="drop")
    assert dropped.dropped == {"no time": 1, "the same answer twice": 1, '"I don\'t know"': 1}
    assert len(load("slepemapy", tmp_path, minimum=1, unanswered="drop")) == 2


def test_the_real_contest_files_are_their_canonical_log(real_raw: Path) -> None:
    """A line that stands in both files is one answer: 92,396 of 94,245."""
    log = load("slepemapy", real_raw / "slepemapy", minimum=1, unanswered="wrong")
    frame = log.frame
    assert (len(log), len(log.students)) == (92_396, 1_325)
    assert (frame["question"].n_unique(), frame["concept"].n_unique()) == (2_299, 1_157)
    assert round(frame["correct"].cast(float).mean(), 3) == 0.742  # type: ignore[arg-type]
    assert load("slepemapy", real_raw / "slepemapy", minimum=1).skipped_offers == 1_719


def test_numbers_are_compared_as_numbers_and_notes_count_what_is_left(tmp_path: Path) -> None:
    head = RELEASE.splitlines()[0]
    rows = [
        f"{student}{i};u{student};10;{'' if i == 0 else '10.0'};1;2015-01-01 10:0{i}:00;1;0;1;"
        for student in range(4)
        for i in range(6)
    ]
    (tmp_path / "answer.csv").write_text("\n".join([head, *rows]) + "\n")
    account = prepare("slepemapy", tmp_path, tmp_path / "log.parquet", sample=2)
    assert account.share_right == 1.0
    assert account.notes == {'"I don\'t know", kept as a skipped offer': 2}
    assert account.skipped == 2
