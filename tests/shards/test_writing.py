import errno
import json
from pathlib import Path

import polars as pl
import pytest

import tsdr
from tsdr import InputError, Log, Shards, read_log, read_shards, write_shards
from tsdr.shards import writing
from tsdr.tables import open_table, write_parquet


@pytest.fixture(scope="module")
def log() -> Log:
    return tsdr.simulate(students=40, questions=30, concepts=5, seed=2).offers()


def told_by(shards: Shards) -> pl.DataFrame:
    """The rows of all shards, by a plain loop: student, concept, question, correct."""
    concepts, questions = shards.vocabulary.concepts, shards.vocabulary.questions
    rows = []
    for number in range(len(shards)):
        for student, answers, *lists in shards.read(number).iter_rows():
            events = list(zip(*lists, strict=True))
            assert answers == sum(response != 2 for *_, response in events)
            rows += [(student, concepts[c], questions[q], None if r == 2 else r) for c, q, r in events]
    return pl.DataFrame(rows, ["student", "concept", "question", "correct"], orient="row")


def as_told(log: Log) -> pl.DataFrame:
    return log.frame.select("student", "concept", "question", pl.col("correct").cast(pl.Int64))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_shards_hold_what_the_log_holds_in_whatever_order_its_rows_come(
    log: Log, ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tsdr.tables.BYTES_AT_ONCE", 20_000)
    monkeypatch.setattr("tsdr.tables.ROWS_AT_ONCE", 500)
    shuffled = log.frame.sample(fraction=1, shuffle=True, seed=1)
    files = []
    for number, part in enumerate((shuffled[:1000], shuffled[1000:])):
        files.append(tmp_path / f"{number}.{ending}")
        part.write_csv(files[-1]) if ending == "csv" else part.write_parquet(files[-1])
    shards = write_shards(files, tmp_path / "shards", rows=700)
    assert len(shards) > 5
    assert (shards.students, shards.answers, shards.skipped_offers) == (40, log.answered.height, log.skipped_offers)
    assert shards.vocabulary == tsdr.Vocabulary.fit(log)
    # Rows of the same time are in the order of the files, in which the whole log has them, too.
    together = Log(shuffled)
    assert told_by(shards).sort("student", maintain_order=True).equals(as_told(together))
    assert {path.name for path in (tmp_path / "shards").iterdir()} == {
        "shards.json",
        *(shard.file for shard in shards.description.shards),
    }


def test_without_times_answers_are_in_the_order_of_the_rows(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tsdr.tables.BYTES_AT_ONCE", 8000)
    frame = log.answered.sort("time", maintain_order=True).select("student", "concept", "question", "correct")
    frame.write_csv(tmp_path / "log.csv")
    shards = write_shards(tmp_path / "log.csv", tmp_path / "shards", rows=700)
    expected = as_told(read_log(tmp_path / "log.csv"))
    assert told_by(shards).sort("student", maintain_order=True).equals(expected)


def test_rows_with_ends_of_lines_in_quotes_are_not_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ['two\nlines and a "word"', "plain", 'ends\n"', '"\n\n', "tab\tcomma,"]
    frame = pl.DataFrame({"student, of": [name for name in names for _ in range(9)], "b": "x"})
    frame.write_csv(tmp_path / "log.csv")
    for size in (1, 7, 40, 10_000):
        monkeypatch.setattr("tsdr.tables.BYTES_AT_ONCE", size)
        table = open_table(tmp_path / "log.csv")
        assert pl.concat(table.parts(table.columns)).equals(frame), size


def test_the_same_log_has_the_same_shards_and_another_has_not(log: Log, tmp_path: Path) -> None:
    log.write(tmp_path / "log.parquet")
    Log(log.frame[:-1]).write(tmp_path / "less.parquet")
    one, again, other = (
        write_shards(tmp_path / name, tmp_path / folder, rows=700)
        for name, folder in (("log.parquet", "one"), ("log.parquet", "again"), ("less.parquet", "other"))
    )
    assert one.digest() == again.digest() != other.digest()


def test_a_bad_row_is_named_wherever_it_is(log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tsdr.tables.BYTES_AT_ONCE", 1000)
    frame = log.answered.with_columns(pl.col("correct").cast(pl.String))
    frame[1234, "correct"] = "maybe"
    frame.write_csv(tmp_path / "log.csv")
    with pytest.raises(InputError, match=r"log.csv: row 1235 after the header, column 'correct': 'maybe'"):
        write_shards(tmp_path / "log.csv", tmp_path / "shards")
    assert not (tmp_path / "shards").exists()


@pytest.mark.parametrize("fault", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")])
def test_what_is_interrupted_leaves_nothing(
    fault: BaseException, log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.write(tmp_path / "log.parquet")
    written: list[Path] = []

    def fails(frame: pl.DataFrame, path: Path) -> None:
        written.append(path)
        if len(written) == 9:
            raise fault
        write_parquet(frame, path)

    monkeypatch.setattr(writing, "write_parquet", fails)
    expected = InputError if isinstance(fault, OSError) else KeyboardInterrupt
    with pytest.raises(expected, match=r"shards: cannot be written \(No space left on device\); free some space|^$"):
        write_shards(tmp_path / "log.parquet", tmp_path / "shards", rows=700)
    assert [path.name for path in tmp_path.iterdir()] == ["log.parquet"]


def test_files_that_are_not_of_one_log_are_refused(log: Log, tmp_path: Path) -> None:
    frame = log.answered
    frame.write_parquet(tmp_path / "numbers.parquet")
    frame.drop("time").write_parquet(tmp_path / "none.parquet")
    frame.with_columns(pl.col("time").cast(pl.Datetime)).write_parquet(tmp_path / "dates.parquet")
    for other, said in (
        ("none", r"time, .*: none\); give them one"),
        ("dates", "times that are date-times in some rows"),
    ):
        with pytest.raises(InputError, match=said):
            write_shards([tmp_path / "numbers.parquet", tmp_path / f"{other}.parquet"], tmp_path / "shards")


def test_a_log_without_rows_is_refused(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("student,concept,correct\n")
    with pytest.raises(InputError, match="has a header and no rows"):
        write_shards(tmp_path / "log.csv", tmp_path / "shards")


def test_a_folder_that_is_there_is_not_written_over(log: Log, tmp_path: Path) -> None:
    log.write(tmp_path / "log.parquet")
    (tmp_path / "shards").mkdir()
    write_shards(tmp_path / "log.parquet", tmp_path / "shards")  # an empty one is as good as none
    with pytest.raises(InputError, match="is there already"):
        write_shards(tmp_path / "log.parquet", tmp_path / "shards")


@pytest.fixture
def written(log: Log, tmp_path: Path) -> Path:
    log.write(tmp_path / "log.parquet")
    write_shards(tmp_path / "log.parquet", tmp_path / "shards", rows=700)
    return tmp_path / "shards"


def test_a_shard_that_was_altered_is_refused(written: Path) -> None:
    content = bytearray((written / "00003.parquet").read_bytes())
    content[len(content) // 2] ^= 1
    (written / "00003.parquet").write_bytes(content)
    shards = read_shards(written)
    shards.read(2)
    with pytest.raises(InputError, match=r"00003.parquet: is not as it was written"):
        shards.read(3)


def test_a_shard_that_is_gone_is_said_to_be(written: Path) -> None:
    (written / "00000.parquet").unlink()
    with pytest.raises(InputError, match=r"00000.parquet: cannot be read"):
        read_shards(written).read(0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text[: len(text) // 2], "cannot be read as what describes shards"),
        (lambda text: "[1]", "is of version None"),
        (lambda text: json.dumps(json.loads(text) | {"version": 2}), "is of version 2, and this is read: 1"),
        (lambda text: json.dumps(json.loads(text) | {"concepts": ["a"]}), "altered or damaged"),
        (lambda text: json.dumps(json.loads(text) | {"shards": 7}), "cannot be read as what describes shards"),
    ],
)
def test_a_description_that_was_altered_is_refused(written: Path, change: object, said: str) -> None:
    path = written / "shards.json"
    path.write_text(change(path.read_text()))  # type: ignore[operator]
    with pytest.raises(InputError, match=said):
        read_shards(written)


def test_what_is_no_folder_of_shards_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(InputError, match="is no folder of shards"):
            read_shards(folder)


def test_what_a_killed_process_left_is_removed_by_the_next_one(log: Log, tmp_path: Path) -> None:
    log.write(tmp_path / "log.parquet")
    left = tmp_path / ".shards.99999999.part"
    left.mkdir()
    (left / "0.0.piece").write_text("half")
    write_shards(tmp_path / "log.parquet", tmp_path / "shards")
    assert {path.name for path in tmp_path.iterdir()} == {"log.parquet", "shards"}
