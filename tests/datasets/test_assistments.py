from pathlib import Path

from tsdr.datasets import load, prepare

HEADER_2017 = "studentId,MiddleSchoolId,skill,problemId,correct,startTime,note\n"


def test_one_row_per_student_and_time_and_the_set_of_skills_of_a_problem(tmp_path: Path) -> None:
    rows = [
        '1,7,area,p1,1,200,"a note\nof two lines"',
        "1,7,perimeter,p1,1,200,same action",
        "1,7,noskill,p2,0,100,earlier",
        "1,7,area,p3,1,300.0,",
        "2,7,caf\xe9,p1,0,150,",
        "2,7,area,p3,0,150,same time",
        "2,7,,p3,1,170,no skill",
        "2,7,area,p3,,180,no answer",
        "2,7,area,p3,1,,no time",
        ",7,area,p3,1,190,nobody",
    ]
    (tmp_path / "anonymized_full_release_competition_dataset.csv").write_bytes(
        (HEADER_2017 + "\n".join(rows) + "\n").encode("iso-8859-1")
    )
    account = prepare("assistments17", tmp_path, tmp_path / "log.parquet", minimum=1)
    assert account.read == 10
    assert account.dropped == {
        "no student or problem": 1,
        "answer is neither 0 nor 1": 1,
        "no time": 1,
        "no skill": 1,
        "another row of the same student and start time": 2,
    }
    assert load("assistments17", tmp_path, minimum=1).frame.rows() == [
        ("1", "p2", "noskill", 0, 100),
        ("1", "p1", "area~~caf\xe9~~perimeter", 1, 200),
        ("1", "p3", "area", 1, 300),
        ("2", "p1", "area~~caf\xe9~~perimeter", 0, 150),
    ]
    assert account.share_right == 0.5


def test_an_attempt_under_several_skills_is_one(tmp_path: Path) -> None:
    rows = ["3,u,p1,2,1", "3,u,p1,5,1", "1,u,p2,5,0", "2,v,p1,2,0", "4,v,p2,,1"]
    (tmp_path / "skill_builder_data.csv").write_text(
        "order_id,user_id,problem_id,skill_id,correct\n" + "\n".join(rows) + "\n"
    )
    account = prepare("assistments09", tmp_path, tmp_path / "log.parquet", minimum=1)
    assert account.dropped == {"no skill": 1, "the same attempt under another skill": 1}
    assert load("assistments09", tmp_path, minimum=1).frame.rows() == [
        ("u", "p2", "5", 0, 1),
        ("u", "p1", "2~~5", 1, 3),
        ("v", "p1", "2~~5", 0, 2),
    ]


def test_the_real_sample(real_raw: Path, tmp_path: Path) -> None:
    account = prepare("assistments09", real_raw / "assistments", tmp_path / "log.parquet", minimum=1)
    assert (account.read, account.dropped) == (999, {})
    assert account.counts.students == 112
