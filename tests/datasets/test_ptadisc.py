from datetime import datetime
from pathlib import Path

import pytest

from tsdr import InputError
from tsdr.datasets import load, prepare

LOG = (
    "submission_id,user_id,create_at,problem_type,score,problem_set_id,problem_set_problem_id,status\n"
    "s1,u,2015/10/13 16:47,P,2.0,9,i1,ACCEPTED\n"
    "s2,u,2015/10/13 16:40,P,0.0,9,i2,WRONG_ANSWER\n"
    "s3,u,2015/10/13 16:50,P,1.0,9,i1,PARTIAL_ACCEPTED\n"
    "s3,u,2015/10/13 16:50,P,0.0,9,i2,WRONG_ANSWER\n"
    "s4,v,2015/10/14 08:00,P,0.0,9,i9,WRONG_ANSWER\n"
    "s5,v,,P,2.0,9,i1,ACCEPTED\n"
    "s6,v,2015/10/14 08:10,P,2.0,9,i1,ACCEPTED\n"
    "s6,v,2015/10/14 08:10,P,2.0,9,i1,ACCEPTED\n"
)
INFO = "problem_set_problem_id,problem_id,knowledge_id,full_score\ni1,p1,k2,2.0\ni1,p1,k1,2.0\ni2,p2,k1,2.0\n"


def test_a_course(tmp_path: Path) -> None:
    """Submission s3 has two problems: one got a part of its score, the other none."""
    (tmp_path / "response_log.csv").write_text(LOG)
    (tmp_path / "problem_info.csv").write_text(INFO)
    account = prepare("linux", tmp_path, tmp_path / "log.parquet", minimum=1)
    assert account.read == 8
    assert account.dropped == {
        "problem that problem_info.csv does not know": 1,
        "a part of the score": 1,
        "no time": 1,
        "the same submission twice": 1,
    }
    assert load("linux", tmp_path, minimum=1).frame.rows() == [
        ("u", "p2", "k1", 0, datetime(2015, 10, 13, 16, 40)),
        ("u", "p1", "k1~~k2", 1, datetime(2015, 10, 13, 16, 47)),
        ("u", "p2", "k1", 0, datetime(2015, 10, 13, 16, 50)),
        ("v", "p1", "k1~~k2", 1, datetime(2015, 10, 14, 8, 10)),
    ]


def test_the_flat_variant(tmp_path: Path) -> None:
    (tmp_path / "prob.csv").write_text(
        "user_id_new,problem_id_new,skill_id_new,score,create_at\n"
        "1,5,7,1,2015/10/13 16:47\n1,6,7,0,2015/10/13 16:48\n1,6,7,0.5,2015/10/13 16:49\n"
    )
    account = prepare("prob", tmp_path, tmp_path / "log.parquet", minimum=1)
    assert account.dropped == {"a part of the score": 1}
    assert load("prob", tmp_path, minimum=1).frame["correct"].to_list() == [1, 0]


def test_another_course_is_not_taken_for_the_one_that_is_asked_for(tmp_path: Path) -> None:
    header = "user_id_new,problem_id_new,skill_id_new,score,create_at\n"
    for course, answer in (("prob", 1), ("linux", 0)):
        (tmp_path / f"{course}.csv").write_text(f"{header}1,5,7,{answer},2015/10/13 16:47\n")
    assert load("prob", tmp_path, minimum=1).frame["correct"].to_list() == [1]
    assert load("linux", tmp_path, minimum=1).frame["correct"].to_list() == [0]
    with pytest.raises(InputError, match=r"which of linux\.csv, prob\.csv is database\?"):
        load("database", tmp_path)


def test_the_folder_of_a_course_is_found_among_others(tmp_path: Path) -> None:
    for course in ("linux", "comp"):
        (tmp_path / course).mkdir()
        (tmp_path / course / "response_log.csv").write_text(LOG.replace("u,2015", f"{course},2015"))
        (tmp_path / course / "problem_info.csv").write_text(INFO)
    assert load("comp", tmp_path, minimum=1).students == ("comp", "v")
    with pytest.raises(InputError, match="expects one file"):
        load("database", tmp_path)
