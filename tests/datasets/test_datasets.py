"""What holds for every source: what is refused, what is written, and that no row is lost without a count."""

import resource
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from conftest import RealLogs
from tsdr import InputError, read_log
from tsdr.cli import main
from tsdr.datasets import SOURCES, load, prepare
from tsdr.datasets.account import Account
from tsdr.datasets.interactions import Preparation, finish, skill_sets, without

NAMED = {"spanish", "assistments17", "slepemapy", "algebra05", "prob", "linux", "database", "comp", "ednet"}


def spanish(folder: Path, students: int = 20, answers: int = 8) -> Path:
    rows = [f"{student} {i % 3} {(student + i) % 2}" for student in range(students) for i in range(answers)]
    (folder / "spanish_dataset.txt").write_text("\n".join(rows))
    (folder / "spanish_expert_labels.txt").write_text("0\n1\n1\n")
    return folder


def test_the_nine_of_the_paper_have_its_counts_and_the_others_are_there() -> None:
    assert {name for name, source in SOURCES.items() if source.paper} == NAMED
    assert set(SOURCES) == NAMED | {"assistments09", "statics", "bridge06", "datashop", "xapi", "caliper", "pykt"}


@pytest.mark.parametrize("name", SOURCES)
def test_a_wrong_folder_is_a_sentence_that_says_what_was_expected_and_found(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        load(name, tmp_path / "nowhere")
    (tmp_path / "notes.md").write_text("nothing of use")
    with pytest.raises(InputError, match=rf"{name} expects .*notes\.md"):
        load(name, tmp_path)


def test_what_is_written_is_what_is_loaded_and_reads_back_as_a_log(tmp_path: Path) -> None:
    raw = spanish(tmp_path)
    account = prepare("spanish", raw, tmp_path / "log.parquet")
    log = load("spanish", raw)
    assert read_log(tmp_path / "log.parquet") == log
    assert account.counts.interactions == len(log) == 160
    assert account.read - sum(account.dropped.values()) == len(log)


def test_students_with_few_answers_are_left_out_and_a_sample_is_drawn_of_the_others(tmp_path: Path) -> None:
    raw = spanish(tmp_path)
    with (raw / "spanish_dataset.txt").open("a") as file:
        file.write("\n99 0 1\n99 1 1")
    account = prepare("spanish", raw, tmp_path / "log.parquet", sample=4, seed=3)
    assert account.dropped == {
        "student with fewer than 5 answers": 2,
        "student outside the sample of 4": 16 * 8,
    }
    assert load("spanish", raw, sample=4, seed=3).students == read_log(tmp_path / "log.parquet").students
    assert load("spanish", raw, sample=4, seed=4).students != load("spanish", raw, sample=4, seed=3).students


def test_nothing_is_left_where_a_log_cannot_be_written(tmp_path: Path) -> None:
    """A limit on the size of files stands for a full disk."""
    raw = spanish(tmp_path, students=2000, answers=50)
    out = tmp_path / "out"
    out.mkdir()

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, 5_000))

    run = subprocess.run(
        [
            sys.executable,
            "-c",
            "from tsdr.cli import main; main()",
            "prepare",
            "spanish",
            raw,
            "--out",
            out / "log.parquet",
        ],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limit,
    )
    assert run.returncode == 2, run.stderr
    assert "cannot be written" in run.stderr
    assert "Traceback" not in run.stderr
    assert list(out.iterdir()) == []


def test_an_interrupted_run_leaves_the_old_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = spanish(tmp_path)
    prepare("spanish", raw, tmp_path / "log.parquet")
    before = (tmp_path / "log.parquet").read_bytes()

    def stopped(self: pl.LazyFrame, path: Path, **more: object) -> None:
        path.write_bytes(b"half of a log")
        raise KeyboardInterrupt

    monkeypatch.setattr(pl.LazyFrame, "sink_parquet", stopped)
    with pytest.raises(KeyboardInterrupt):
        prepare("spanish", raw, tmp_path / "log.parquet", minimum=1)
    assert (tmp_path / "log.parquet").read_bytes() == before
    assert not list(tmp_path.glob(".*"))


def test_refusals(tmp_path: Path) -> None:
    raw = spanish(tmp_path)
    with pytest.raises(InputError, match=r"no data set 'spansh'.*spanish"):
        load("spansh", raw)
    with pytest.raises(InputError, match=r"ends in \.parquet"):
        prepare("spanish", raw, tmp_path / "log.csv")
    for wrong in ({"sample": "everyone"}, {"unanswered": "wrnog"}):
        with pytest.raises(InputError, match=r"wrnog|everyone"):
            load("spanish", raw, **wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="at least 1"):
        load("spanish", raw, sample=0)
    with pytest.raises(InputError, match=r"no row of spanish is left.*160 student with fewer than 50 answers"):
        prepare("spanish", raw, tmp_path / "log.parquet", minimum=50)


def test_rows_are_counted_under_the_first_rule_that_is_true_of_them() -> None:
    account = Account("x", read=5)
    frame = pl.DataFrame({"a": [1, 2, 3, 4, None]})
    left = without(frame, account, {"small": pl.col("a") < 3, "even": pl.col("a") % 2 == 0})
    assert left["a"].to_list() == [3, None]
    assert account.dropped == {"small": 2, "even": 1}


def test_a_reader_that_loses_a_row_is_found_out() -> None:
    frame = pl.DataFrame({"student": ["a"], "question": ["q"], "concept": ["c"], "correct": [1], "time": [0]})
    account = Account("x", read=2)
    ordered = finish(frame, account, Preparation(minimum=1))
    with pytest.raises(AssertionError, match="2 rows should be left, and 1 are"):
        account.close(ordered.lazy())


def test_equal_times_keep_the_order_of_the_file_and_students_that_of_their_names() -> None:
    frame = pl.DataFrame(
        {
            "student": ["b", "10", "b", "9", "b"],
            "question": ["q1", "q2", "q3", "q4", "q5"],
            "concept": ["c"] * 5,
            "correct": [1, 0, 1, 0, 1],
            "time": [5, 1, 5, 1, 2],
        }
    )
    ordered = finish(frame, Account("x", read=5), Preparation(minimum=1))
    assert ordered["question"].to_list() == ["q2", "q4", "q5", "q1", "q3"]


def test_a_question_has_all_skills_that_it_was_ever_logged_with() -> None:
    frame = pl.DataFrame({"question": ["q", "p", "q"], "skill": ["b ~~a", "c", "a~~d"]})
    assert skill_sets(frame, "~~")["concept"].to_list() == ["a~~b~~d", "c", "a~~b~~d"]


def test_the_whole_real_logs_have_the_papers_counts(real_logs: RealLogs) -> None:
    for name, log in (("assistments17", "assist17"), ("algebra05", "algebra05")):
        frame = real_logs.read(log).frame.filter(pl.len().over("student") >= 5)
        paper = SOURCES[name].paper
        assert paper is not None
        assert frame["student"].n_unique() == paper.students
        assert frame["concept"].n_unique() == paper.concepts
        assert abs(frame.height - paper.interactions) <= 30


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tsdr", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        return int(end.value.code or 0), said.out, said.err

    code, out, _ = run("datasets")
    assert code == 0
    assert all(f"\n{name}\n" in f"\n{out}" for name in SOURCES)
    code, out, _ = run("prepare", "spanish", spanish(tmp_path), "--out", tmp_path / "log.parquet", "--sample", "7")
    assert code == 0
    assert "dropped: student outside the sample of 7" in out
    assert "578,726" in out
    code, _, err = run("prepare", "spanish", tmp_path, "--out", tmp_path / "log.parquet", "--sample", "many")
    assert (code, "paper or all" in err) == (2, True)


def test_a_file_with_a_header_and_no_rows_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "export.txt").write_text("Anon Student Id\tTime\tOutcome\tKC (A)\n")
    with pytest.raises(InputError, match="have no rows"):
        prepare("datashop", tmp_path, tmp_path / "log.parquet")
