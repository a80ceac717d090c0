import datetime
import gzip
import random
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import RealLogs
from tsdr import InputError, Log, Vocabulary, read_log
from tsdr.processes import peak_memory_mib

HEADER = "student,question,concept,correct,time\n"


def table(**columns: Sequence[object]) -> pl.DataFrame:
    rows = len(next(iter(columns.values())))
    return pl.DataFrame({"student": ["a"] * rows, "concept": ["c"] * rows, "correct": [1] * rows} | columns)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    def write_file(text: str, name: str = "log.csv") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write_file


interactions = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(0, 2), st.integers(0, 1), st.integers(-5, 5)),
    min_size=1,
    max_size=30,
)


@given(interactions, st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_the_order_of_rows_does_not_matter_where_times_differ(rows: list[tuple[int, ...]], rng: random.Random) -> None:
    distinct = list({(row[0], row[4]): row for row in rows}.values())
    shuffled = rng.sample(distinct, len(distinct))
    names = ["student", "question", "concept", "correct", "time"]
    assert Log(pl.DataFrame(distinct, names, orient="row")) == Log(pl.DataFrame(shuffled, names, orient="row"))


@given(interactions)
@settings(max_examples=60, deadline=None)
def test_rows_are_grouped_by_student_and_stably_ordered_by_time(rows: list[tuple[int, ...]]) -> None:
    frame = pl.DataFrame(rows, ["student", "question", "concept", "correct", "time"], orient="row")
    frame = frame.with_columns(question=pl.int_range(pl.len()))  # the question tells which row it was
    got = [(row["student"], row["time"], int(row["question"])) for row in Log(frame).frame.to_dicts()]
    assert got == sorted(got)
    assert sorted(number for _, _, number in got) == list(range(len(rows)))


@given(interactions)
@settings(max_examples=30, deadline=None)
def test_ids_are_the_same_as_text_and_as_integers(rows: list[tuple[int, ...]]) -> None:
    frame = pl.DataFrame(rows, ["student", "question", "concept", "correct", "time"], orient="row")
    ids = ["student", "question", "concept"]
    assert Log(frame) == Log(frame.with_columns(pl.col(ids).cast(pl.String)))


@given(interactions, st.sampled_from(["number", "fraction", "date"]), st.booleans())
@settings(max_examples=30, deadline=None)
def test_parquet_round_trip_is_exact(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, ...]], kind: str, skips: bool
) -> None:
    frame = pl.DataFrame(rows, ["student", "question", "concept", "correct", "time"], orient="row")
    if kind == "fraction":
        frame = frame.with_columns(pl.col("time") / 3)
    if kind == "date":
        frame = frame.with_columns(pl.lit(datetime.datetime(2024, 2, 29, 23, 59, 59, 1)) + pl.duration(days="time"))
    if skips:
        skipped = pl.col("question") > 3
        frame = frame.with_columns(skipped=skipped, correct=pl.when(~skipped).then("correct"))
    log = Log(frame)
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    log.write(path)
    again = read_log(path)
    assert again == log
    assert again.frame.schema == log.frame.schema


def test_a_log_is_the_same_from_every_format(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"u": [2, 1, 1], "q": ["x", "y\n,z", "x"], "k": ["é", "b", "b"], "ok": [0, 1, 1], "t": [5.5, 2, 1]}
    )
    frame.write_csv(tmp_path / "log.csv")
    frame.write_csv(tmp_path / "log.tsv", separator="\t")
    frame.write_csv(tmp_path / "semicolons.csv", separator=";")
    frame.write_parquet(tmp_path / "log.parquet")

    for name in ("log.csv", "log.tsv", "log.parquet"):
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress((tmp_path / name).read_bytes()))
    columns = {"student": "u", "question": "q", "concept": "k", "correct": "ok", "time": "t"}
    expected = Log(frame, columns=columns)
    assert expected.frame["question"].to_list() == ["x", "y\n,z", "x"]
    for name in ("log.csv", "log.tsv", "log.parquet", "log.csv.gz", "log.tsv.gz", "log.parquet.gz"):
        assert read_log(tmp_path / name, columns) == expected, name
    assert read_log(tmp_path / "semicolons.csv", columns, separator=";") == expected


def test_a_spreadsheets_byte_order_mark_and_line_ends_are_understood(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_bytes("\ufeffstudent,concept,correct\r\na,c,1\r\nb,c,0\r\n".encode())
    assert read_log(tmp_path / "log.csv").frame["correct"].to_list() == [1, 0]


def test_without_question_and_time_the_concept_and_the_order_of_rows_stand_in() -> None:
    frame = pl.DataFrame({"student": ["b", "a", "b"], "concept": ["x", "y", "z"], "correct": [1, 0, 1]})
    assert Log(frame).frame.rows() == [("a", "y", "y", 0, 0), ("b", "x", "x", 1, 0), ("b", "z", "z", 1, 1)]


@pytest.mark.parametrize(
    ("concept", "separator"),
    [(["b~~a", " a ~~b~~a"], "~~"), ([["b", "a"], ["a", "b", "a"]], None), ([[2, 1], [1, 2]], None)],
)
def test_several_skills_are_one_concept_their_set(concept: list[object], separator: str | None) -> None:
    log = Log(table(concept=concept), concept_separator=separator)
    assert log.frame["concept"].n_unique() == 1
    names = log.frame["concept"][0].split(separator or ";")
    assert names == sorted(set(names))
    assert len(names) == 2


@pytest.mark.parametrize("correct", [["1", "0"], ["true", "FALSE"], [True, False], [1, 0], [1.0, 0.0], ["1.0", " 0 "]])
def test_correct_is_read_in_all_its_spellings(correct: list[object]) -> None:
    assert Log(table(correct=correct)).frame["correct"].to_list() == [1, 0]


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        (["10", "9"], [9, 10]),
        (["1e3", "9.5"], [9.5, 1000.0]),
        (["2024-05-31 14:05:00", "2023-01-01 00:00:00.5"], None),
        (["2024-05-31T14:05:00Z", "2024-05-31T14:05:00+02:00"], None),
        (["2015/10/13 16:47", "2015/10/13 09:02"], None),
        (["2024-05-31", "2024-05-01"], None),
        (["2024-05-31 14:05:00+02:00", "2024-05-31 13:05:00+02:00"], None),
        (["2024-05-31T14:05", "2024-05-31T13:59"], None),
    ],
)
def test_times_are_read_as_numbers_or_date_times(time: list[str], expected: list[float] | None) -> None:
    frame = Log(table(question=["later", "earlier"], time=time)).frame
    assert frame["question"].to_list() == ["earlier", "later"]
    if expected is None:
        assert frame.schema["time"] == pl.Datetime("us")
    else:
        assert frame["time"].to_list() == expected


def test_skipped_offers_have_no_answer_and_are_not_among_the_answers() -> None:
    log = Log(table(correct=["1", "", "0"], skipped=["false", "true", "0"]))
    assert log.frame["correct"].to_list() == [1, None, 0]
    assert log.answered.height == 2
    assert log.skipped_offers == 1


REFUSED_ROWS = {
    "correct is 2": ("a,q,c,1,1\na,q,c,2,2\n", "row 2", "'correct'", "0, 1, true or false"),
    "correct is half": ("a,q,c,0.5,1\n", "row 1", "'correct'", "0, 1, true or false"),
    "correct is yes": ("a,q,c,yes,1\n", "row 1", "'correct'", "0, 1, true or false"),
    "correct is empty": ("a,q,c,1,1\na,q,c,,2\n", "row 2", "'correct'", "0, 1, true or false"),
    "student is empty": ("a,q,c,1,1\n,q,c,1,2\n", "row 2", "'student'", "empty"),
    "student is blank": ("  ,q,c,1,1\n", "row 1", "'student'", "empty"),
    "question is empty": ("a,,c,1,1\n", "row 1", "'question'", "empty"),
    "concept is empty": ("a,q,,1,1\n", "row 1", "'concept'", "empty"),
    "time is a word": ("a,q,c,1,5\na,q,c,1,6\na,q,c,1,soon\n", "row 3", "'time'", "does not parse"),
    "time is empty": ("a,q,c,1,5\na,q,c,1,\n", "row 2", "'time'", "does not parse"),
    "time is no date": ("a,q,c,1,2024-02-28\na,q,c,1,2024-02-30\n", "row 2", "'time'", "does not parse"),
    "time of two digits": ("a,q,c,1,24-05-31\n", "row 1", "'time'", "does not parse"),
    "time is not finite": ("a,q,c,1,1.5\na,q,c,1,nan\n", "row 2", "'time'", "does not parse"),
    "times of two kinds": ("a,q,c,1,1700000000\na,q,c,1,17\na,q,c,1,2024-02-03\n", "row 3", "'time'", "does not"),
}


@pytest.mark.parametrize("case", REFUSED_ROWS)
def test_a_bad_row_is_refused_with_file_row_and_column(case: str, write: Callable[..., Path]) -> None:
    rows, *words = REFUSED_ROWS[case]
    path = write(HEADER + rows)
    with pytest.raises(InputError) as refusal:
        read_log(path)
    for word in [str(path), *words]:
        assert word in str(refusal.value)


def test_rows_that_are_marked_as_skipped_and_answered_are_refused() -> None:
    with pytest.raises(InputError, match=r"row 2.*'correct'.*skipped"):
        Log(table(correct=[1, 1], skipped=[0, 1]))
    with pytest.raises(InputError, match=r"row 1.*'skipped'.*0, 1, true or false"):
        Log(table(correct=[1], skipped=["maybe"]))
    with pytest.raises(InputError, match=r"row 2.*'correct'.*0, 1, true or false"):
        Log(table(correct=[1, None], skipped=[0, 0]))


REFUSED_FILES: dict[str, tuple[str, bytes, dict[str, str], str]] = {
    "no rows": ("log.csv", HEADER.encode(), {}, "no rows"),
    "empty file": ("log.csv", b"", {}, "empty"),
    "empty gzip": ("log.csv.gz", bytes.fromhex("1f8b080000000000000303000000000000000000"), {}, "empty once unzipped"),
    "no such column": ("log.csv", b"user,concept,correct\na,c,1\n", {}, "'student'.*is missing.*'user'"),
    "mapped to none": ("log.csv", b"student,concept,correct\na,c,1\n", {"time": "when"}, "'when'.*is missing"),
    "mapped twice": ("log.csv", b"s,concept,correct\na,c,1\n", {"student": "s", "question": "s"}, "both"),
    "not our column": ("log.csv", b"student,concept,correct\na,c,1\n", {"pupil": "student"}, "no column 'pupil'"),
    "same name twice": ("log.csv", b"student,concept,correct,correct\na,c,1,0\n", {}, "two columns named 'correct'"),
    "truncated gzip": ("log.csv.gz", b"", {}, "truncated gzip"),
    "not gzip inside": ("log.csv.gz", b"\x1f\x8bgarbage", {}, "damaged or truncated gzip"),
    "unknown kind": ("log.xlsx", b"PK", {}, "unknown kind '.xlsx'"),
    "not Parquet": ("log.parquet", b"student,concept\n", {}, "cannot be read as Parquet"),
    "too many fields": ("log.csv", HEADER.encode() + b"a,q,c,1,1\na,q,c,1,2,9,9\n", {}, "as many fields"),
    "not UTF-8": ("log.csv", HEADER.encode() + b"Jos\xe9,q,c,1,1\n", {}, "UTF-8"),
}


@pytest.mark.parametrize("case", REFUSED_FILES)
def test_a_bad_file_is_refused_with_its_name_and_the_reason(case: str, tmp_path: Path) -> None:

    name, content, columns, reason = REFUSED_FILES[case]
    if case == "truncated gzip":
        content = gzip.compress((HEADER + "a,q,c,1,1\n" * 5000).encode())[:-20]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"(?s){name}.*{reason}"):
        read_log(path, columns)


def test_separators_are_one_character_and_may_be_written_as_in_a_shell(tmp_path: Path) -> None:
    path = tmp_path / "log.data"
    path.write_text("student\tconcept\tcorrect\na\tc\t1\n")
    assert len(read_log(path, separator="\\t")) == 1
    for separator in ("", ";;"):
        with pytest.raises(InputError, match="one character"):
            read_log(path, separator=separator)


def test_an_optional_column_can_be_left_unused(write: Callable[..., Path]) -> None:
    path = write("student,concept,correct,time,skipped\na,c,1,long,?\na,c,0,short,?\n")
    log = read_log(path, {"time": None, "skipped": None})
    assert log.frame.columns == ["student", "question", "concept", "correct", "time"]
    assert log.frame["time"].to_list() == [0, 1]


def test_an_empty_log_of_ours_is_read_back(tmp_path: Path) -> None:
    empty = Log(table(correct=[1], time=[3]).head(0))
    empty.write(tmp_path / "empty.parquet")
    assert read_log(tmp_path / "empty.parquet") == empty


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be opened"):
        read_log(tmp_path / "none.csv")
    with pytest.raises(InputError, match="is a folder"):
        read_log(tmp_path)


def test_ids_of_other_types_and_ambiguous_skills_are_refused() -> None:
    with pytest.raises(InputError, match="'student' holds Float64"):
        Log(table(student=[1.5, 2.0]))
    with pytest.raises(InputError, match=r"row 2.*';' in its name"):
        Log(table(concept=[["a"], ["a;b", "c"]]))
    with pytest.raises(InputError, match=r"row 1.*names no skill"):
        Log(table(concept=[" ; ", "a"]), concept_separator=";")
    with pytest.raises(InputError, match=r"'concept' holds List.*skills are text"):
        Log(table(concept=[[1.5], [2.0]]))
    with pytest.raises(InputError, match="'correct' holds List"):
        Log(table(correct=[[1], [0]]))
    with pytest.raises(InputError, match="concept_separator is empty"):
        Log(table(concept=["ab", "ba"]), concept_separator="")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.parquet"
    log = Log(table(correct=[1, 0]))
    log.write(path)

    def disk_full(self: pl.DataFrame, file: Path) -> None:
        Path(file).write_bytes(b"half")
        raise OSError("No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", disk_full)
    with pytest.raises(InputError, match=r"No space left on device.*free some space"):
        Log(table(correct=[1, 1])).write(path)
    assert read_log(path) == log
    assert [file.name for file in tmp_path.iterdir()] == ["log.parquet"]


def test_the_vocabulary_is_sorted_and_marks_the_unknown() -> None:
    log = Log(table(concept=["b", "a", "b"], question=["y", "x", "z"]))
    vocabulary = Vocabulary.fit(log)
    assert vocabulary == Vocabulary(("a", "b"), ("x", "y", "z"))
    other = Log(table(concept=["b", "new"], question=["z", "w"]))
    assert vocabulary.encode(other.frame).select("concept", "question").rows() == [(1, 2), (-1, -1)]


REAL_COUNTS = {
    "assist17": (1708, 3162, 411, 934_609, 37.3),
    "algebra05": (574, 173_889, 271, 607_021, 75.5),
    "spanish_37users": (37, 409, 221, 103_561, 75.1),
    "ednet_1000users": (1000, 11_640, 1435, 87_210, 63.6),
    "slepemapy_first": (1325, 2299, 1157, 92_396, 74.2),
    "statics": (282, 1223, 98, 189_297, 76.5),
    "assist09": (3114, 17_708, 149, 278_336, 65.9),
    "math1": (4209, 20, 16, 84_180, 43.1),
    "math2": (3911, 20, 17, 78_220, 41.5),
    "frcsub": (536, 20, 15, 10_720, 53.4),
}


@pytest.mark.parametrize("name", REAL_COUNTS)
def test_real_logs_give_their_published_counts(name: str, real_logs: RealLogs) -> None:
    frame = real_logs.read(name).frame
    counts = tuple(frame[column].n_unique() for column in ("student", "question", "concept"))
    share = frame["correct"].mean()
    assert isinstance(share, float)
    assert (*counts, frame.height, round(100 * share, 1)) == REAL_COUNTS[name]


def test_rows_are_found_again_in_their_source_and_keep_their_names() -> None:
    table = pl.DataFrame(
        {"student": ["b", "a", "b"], "concept": "c", "correct": 1, "time": [2, 5, 1], "id": [7, 8, None]}
    )
    log = Log(table, columns={"event": "id"})
    assert log.rows.to_list() == [2, 3, 1]
    assert log.frame["event"].to_list() == ["8", None, "7"]
    with pytest.raises(InputError, match="ids are text or whole numbers"):
        Log(table.with_columns(id=0.5), columns={"event": "id"})


def test_a_gzip_that_expands_beyond_measure_is_refused_in_little_memory(tmp_path: Path) -> None:
    rows = gzip.compress(b"ann,fractions,1\n" * 2**20)
    header = gzip.compress(b"student,concept,correct\n")
    (tmp_path / "bomb.csv.gz").write_bytes(header + 8 * rows)  # 300 KB, 128 MiB unpacked
    before = peak_memory_mib()
    with pytest.raises(InputError, match=r"expands to more than 0.12 GB.*unzipped_limit"):
        read_log(tmp_path / "bomb.csv.gz", unzipped_limit=0.12)
    assert peak_memory_mib() - before < 20
    (tmp_path / "small.csv.gz").write_bytes(header + gzip.compress(b"ann,fractions,1\n" * 100))
    assert len(read_log(tmp_path / "small.csv.gz", unzipped_limit=0.12)) == 100


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress], ids=["gzip", "zlib"])
def test_what_is_packed_twice_is_not_unpacked_without_a_limit(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    (tmp_path / "twice.csv.gz").write_bytes(gzip.compress(pack(b"student,concept,correct\nann,x,1\n")))
    with pytest.raises(InputError, match="packed in a way that is not read; unpack it"):
        read_log(tmp_path / "twice.csv.gz")


def test_a_text_without_lines_is_refused_before_it_is_shown(tmp_path: Path) -> None:
    (tmp_path / "line.csv").write_bytes(b"0" * 2**21)
    with pytest.raises(InputError, match="no header in its first 1,048,576 bytes") as refusal:
        read_log(tmp_path / "line.csv")
    assert len(str(refusal.value)) < 500
