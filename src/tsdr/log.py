"""Log: the one table of interactions that everything else reads, its checks and its vocabulary."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import polars as pl

from tsdr.defaults import MOST_CONCEPTS, UNZIPPED_LIMIT
from tsdr.errors import InputError
from tsdr.tables import DATE_TIMES, ZONED_DATE_TIMES, open_table, write_parquet

REQUIRED = ("student", "concept", "correct")
COLUMNS = ("student", "question", "concept", "correct", "time", "skipped", "event", "acknowledged")
SKIPPED = 2  # the response to an offer that was turned down, beside 0 and 1, wrong and right
Unknown = Literal["error", "skip"]  # what becomes of concepts that a vocabulary does not know

_TEXT = (pl.String, pl.Categorical, pl.Enum, pl.Null)
_FLAGS = {"0": 0, "1": 1, "0.0": 0, "1.0": 1, "false": 0, "true": 1}
_DATE_FORMATS = ("%Y-%m-%d", "%Y/%m/%d")


class Log:
    """A checked table of interactions, one row an attempt at a question.

    Columns: `student`, `question`, `concept` (text), `correct` (0 or 1), `time` (whole numbers, numbers or
    date-times) and, where the log has skipped offers, `skipped`. A skipped offer was shown and not answered:
    it has `skipped` true and no `correct`. Where the log has `event`, that is the platform's own name of the row.

    Whatever order the rows come in, they are kept sorted by student and, stably, by time within the student or, where
    the log has `acknowledged` (whole numbers), by that: a service's clock may have been set back. `rows` has which row
    of the `source` each of them was, counted from 1; if a table is part of it, so many rows came `before`.
    Without a `question` column the concept stands in; without `time`, the order of the student's rows does.
    Several skills in one row (a list, or text with `concept_separator`) are one concept: the set of them.

    >>> log = Log(pl.DataFrame({"student": [7, 7], "concept": ["b;a", "c"], "correct": [1, 0]}),
    ...           concept_separator=";")
    >>> log.frame.rows()
    [('7', 'a;b', 'a;b', 1, 0), ('7', 'c', 'c', 0, 1)]
    """

    def __init__(
        self,
        frame: pl.DataFrame,
        *,
        source: str = "table",
        columns: Mapping[str, str | None] | None = None,
        concept_separator: str | None = None,
        before: int = 0,
    ) -> None:
        theirs = _resolve_columns(frame.columns, columns or {}, source)
        self.source = source
        self.frame, self.rows = _Canonical(frame, theirs, source, concept_separator, before).sorted()

    def __len__(self) -> int:
        return self.frame.height

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Log):
            return NotImplemented
        return self.frame.schema == other.frame.schema and self.frame.equals(other.frame)

    __hash__ = None  # type: ignore[assignment]  # a table is compared by value

    def __repr__(self) -> str:
        return f"Log({len(self):,} rows, {len(self.students):,} students)"

    @cached_property
    def students(self) -> tuple[str, ...]:
        """The students' ids, in the order of the rows."""
        return tuple(self.frame["student"].unique(maintain_order=True))

    @cached_property
    def answered(self) -> pl.DataFrame:
        """The rows with an answer: all but the skipped offers."""
        return self.frame.filter(~pl.col("skipped")) if "skipped" in self.frame.columns else self.frame

    @property
    def skipped_offers(self) -> int:
        """How many rows are offers that were shown and not answered."""
        return len(self) - self.answered.height

    def write(self, path: str | Path) -> None:
        """Write the log as Parquet; `read_log` gives back an equal one."""
        write_parquet(self.frame, Path(path))


def with_skipped(answers: Log, skipped: Log) -> Log:
    """The log of both answers and the offers that were skipped between them, by their times."""
    return Log(pl.concat([answers.frame.with_columns(skipped=pl.lit(False)), skipped.frame]))


def after(earlier: Log, log: Log) -> tuple[Log, pl.Series]:
    """What the students of a log did before it, and then the log; and which rows of both are the log's.

    Their order is that of the two logs, whose times are compared, where they are times, and not put together.
    """
    known = earlier.frame.filter(pl.col("student").is_in(log.students))
    if known["time"].dtype == log.frame["time"].dtype and not (_is_order(known) or _is_order(log.frame)):
        ends = known.group_by("student").agg(pl.col("time").max().alias("end"))
        begins = log.frame.group_by("student").agg(pl.col("time").min().alias("begin"))
        late = ends.join(begins, on="student").filter(pl.col("end") >= pl.col("begin")).sort("student")
        if late.height:
            student, end, begin = late.row(0)
            raise InputError(
                f"{earlier.source}: is to be earlier than {log.source}, and student {student!r} has a row at {end} in "
                f"it, where the other begins at {begin} ({late.height:,} students are like that); cut it off before"
            )
    parts = []
    for frame, later in ((known, False), (log.frame, True)):
        flags = pl.lit(False).alias("skipped") if "skipped" not in frame.columns else pl.col("skipped")
        parts.append(frame.select("student", "question", "concept", "correct", flags, later=pl.lit(later)))
    both = pl.concat(parts).sort("student", maintain_order=True)
    return Log(both.drop("later").with_columns(time=pl.int_range(pl.len()).over("student"))), both["later"]


def times_as_written(
    path: str | Path,
    rows: pl.Series,
    columns: Mapping[str, str | None] | None = None,
    separator: str | None = None,
    unzipped_limit: float = UNZIPPED_LIMIT,
) -> pl.Series | None:
    """The times of these rows of a file, counted from 1, as they stand there; None if it has none."""
    frame, theirs, _ = raw_table(path, columns, separator, unzipped_limit)
    return frame[theirs["time"]].gather(rows - 1).alias("time") if "time" in theirs else None


def _is_order(frame: pl.DataFrame) -> bool:
    """Whether the time is the mere order of a student's rows."""
    return frame.select((pl.col("time") == pl.int_range(pl.len()).over("student")).all()).item() is True


@dataclass(frozen=True)
class Vocabulary:
    """The names behind the dense integers that a model sees: id i of a concept is `concepts[i]`."""

    concepts: tuple[str, ...]
    questions: tuple[str, ...]

    @classmethod
    def fit(cls, log: Log) -> "Vocabulary":
        """The concepts and questions of a log, skipped offers included, each sorted by name."""
        return cls(tuple(log.frame["concept"].unique().sort()), tuple(log.frame["question"].unique().sort()))

    def check_learnable(self, answers: int) -> None:
        """Refuse more concepts than a model can learn."""
        concepts = len(self.concepts)
        if concepts > MOST_CONCEPTS:
            raise InputError(
                f"the log has {concepts:,} concepts with {answers / concepts:.1f} answers each, and a model "
                f"learns {MOST_CONCEPTS:,} at most: is a question's id mapped to 'concept'? If not, map a broader skill"
            )

    def encode(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Replace the names in `concept` and `question` by integers, -1 for a name that is not known."""
        return frame.with_columns(
            _codes("concept", self.concepts),
            _codes("question", self.questions),
        )


def read_log(
    path: str | Path,
    columns: Mapping[str, str | None] | None = None,
    *,
    concept_separator: str | None = None,
    separator: str | None = None,
    unzipped_limit: float = UNZIPPED_LIMIT,
) -> Log:
    """Read a CSV, TSV or Parquet file, gzipped or not, into a checked `Log`.

    `columns` maps our names to the file's, such as `{"student": "user_id"}`; a name that is left out is looked up as
    it is, and an optional one that is mapped to None is not used. `concept_separator` splits a text of several
    skills. `separator` is the field separator of a text file, by default a comma for `.csv` and a tab for `.tsv`,
    `.tab` and `.txt`. A gzipped file may expand to `unzipped_limit` GB.

    Raises `InputError`, with file, row, column and what to do, for anything that could be misread.
    """
    frame, theirs, _ = raw_table(path, columns, separator, unzipped_limit)
    return Log(frame, source=str(path), columns=theirs, concept_separator=concept_separator)


class LogParts:
    """A file of a log, of which some rows are read at a time: each part is checked as a log of its own.

    `rows` says about how many there are, and `order` which column the answers of a student are in the order of: none,
    if they are in that of the rows.
    """

    def __init__(
        self,
        path: str | Path,
        columns: Mapping[str, str | None] | None = None,
        *,
        concept_separator: str | None = None,
        separator: str | None = None,
        unzipped_limit: float = UNZIPPED_LIMIT,
    ) -> None:
        self.path = Path(path)
        self.concept_separator = concept_separator
        self.table = open_table(self.path, separator, unzipped_limit)
        self.theirs = _resolve_columns(self.table.columns, columns or {}, str(path))
        self.order = next((name for name in ("acknowledged", "time") if name in self.theirs), None)
        self.rows = self.table.rows()

    def __iter__(self) -> Iterator[Log]:
        before = 0
        for part in self.table.parts(list(self.theirs.values())):
            yield Log(
                part,
                source=str(self.path),
                columns=self.theirs,
                concept_separator=self.concept_separator,
                before=before,
            )
            before += len(part)


def raw_table(
    path: str | Path,
    columns: Mapping[str, str | None] | None = None,
    separator: str | None = None,
    unzipped_limit: float = UNZIPPED_LIMIT,
) -> tuple[pl.DataFrame, dict[str, str], list[str]]:
    """The columns of a file that a log is made of, as they are, by which names; and the columns that are not used."""
    table = open_table(Path(path), separator, unzipped_limit)
    theirs = _resolve_columns(table.columns, columns or {}, str(path))
    unused = [name for name in table.columns if name not in theirs.values()]
    frame = table.read(list(theirs.values()))
    written_by_us = set(COLUMNS[:5]) <= set(frame.columns) and frame.schema == Log(frame[:0]).frame.schema
    if frame.height == 0 and not written_by_us:
        raise InputError(f"{path}: has a header and no rows; there is nothing to learn from")
    return frame, theirs, unused


def _codes(column: str, names: tuple[str, ...]) -> pl.Expr:
    codes = pl.Series(range(len(names)), dtype=pl.Int64)
    known = pl.Series(names, dtype=pl.String)
    return pl.col(column).replace_strict(known, codes, default=-1, return_dtype=pl.Int64)


def _resolve_columns(found: list[str], asked: Mapping[str, str | None], source: str) -> dict[str, str]:
    """Which of the file's columns stands for which of ours."""
    for ours in asked:
        if ours not in COLUMNS:
            raise InputError(f"{source}: there is no column {ours!r} in a log; choose from {', '.join(COLUMNS)}")
    named = {ours: asked.get(ours, ours) for ours in COLUMNS if ours in asked or ours in found}
    theirs = {ours: name for ours, name in named.items() if name}
    for ours in REQUIRED:
        theirs.setdefault(ours, ours)
    missing = []
    for ours, name in theirs.items():
        if name not in found:
            advice = (
                "Is it separated by something else? Say so with separator=... or --separator"
                if len(found) == 1
                else f"Name the right one with columns={{{ours!r}: ...}} or --column {ours}=..."
            )
            told = f"the file has {', '.join(map(repr, found))}. {advice}"
            missing.append(Fault(ours, f"{source}: column {name!r}, for our {ours!r}, is missing; {told}"))
        if f"{name}_duplicated_0" in found:
            missing.append(Fault(ours, f"{source}: has two columns named {name!r}; rename one of them"))
    if missing:
        raise UnreadableError(missing)
    for name in theirs.values():
        twins = [other for other, its in theirs.items() if its == name]
        if len(twins) > 1:
            raise InputError(
                f"{source}: column {name!r} is mapped to both {twins[0]!r} and {twins[1]!r}; "
                f"each of our columns needs one of its own"
            )
    return theirs


@dataclass(frozen=True, eq=False)
class Fault:
    """What cannot be read of a column of a table: in the rows where `rows` is true, or, without them, at all."""

    column: str
    message: str
    rows: pl.Series | None = None


class UnreadableError(InputError):
    """A table that cannot be read as a log: everything that is wrong with it, of which the message says the first."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        others = len(faults) - 1
        more = f"; {others} more {'fault' if others == 1 else 'faults'}: `tsdr inspect` lists them" if others else ""
        super().__init__(faults[0].message + more)


class _Canonical:
    """Turns a user's table into the columns, types and order of a `Log`, or refuses it with all that is wrong."""

    def __init__(
        self, frame: pl.DataFrame, theirs: Mapping[str, str], source: str, concept_separator: str | None, before: int
    ) -> None:
        self.theirs = theirs
        self.source = source
        self.before = before
        self.faults: list[Fault] = []
        self.raw = frame.select(pl.col(name).alias(ours) for ours, name in theirs.items())
        columns: dict[str, pl.Series] = {}
        readings: dict[str, Callable[[], pl.Series]] = {
            "student": lambda: self._ids("student"),
            "concept": lambda: self._concept(concept_separator),
            "question": lambda: self._ids("question") if "question" in theirs else columns["concept"],
            "skipped": lambda: self._flags("skipped", pl.lit(True)).cast(pl.Boolean),
            "correct": lambda: self._correct(columns.get("skipped")),
            "time": lambda: self._time() if "time" in theirs else self._order_of_rows(columns["student"]),
            "event": self._events,
            "acknowledged": self._order,
        }
        for name, reading in readings.items():
            if name in ("skipped", "event", "acknowledged") and name not in theirs:
                continue
            try:
                columns[name] = reading()
            except InputError as error:
                self.faults.append(Fault(name, str(error)))
            except KeyError:  # what it is read from cannot be read
                continue
        if self.faults:
            raise UnreadableError(self.faults)
        self.table = pl.DataFrame({name: columns[name] for name in COLUMNS if name in columns})

    def sorted(self) -> tuple[pl.DataFrame, pl.Series]:
        """The table by student and in order, and which row of the source each of its rows was, from 1."""
        order = "acknowledged" if "acknowledged" in self.table.columns else "time"
        numbered = self.table.with_row_index("row", offset=self.before + 1).sort("student", order, maintain_order=True)
        return numbered.drop("row"), numbered["row"]

    def _refuse(self, column: str, bad: pl.Series, reason: str) -> None:
        """Keep what is wrong where `bad` is true, if it is anywhere; the first row is named."""
        count = bad.sum()
        if not count:
            return
        row = bad.arg_max()
        assert row is not None
        name = self.theirs[column]
        value = self.raw[column].slice(row, 1).to_list()[0]
        role = "" if name == column else f" (our {column!r})"
        more = f" ({count:,} rows are like that)" if count > 1 else ""
        place = f"{self.source}: row {self.before + row + 1} after the header, column {name!r}{role}"
        message = f"{place}: {value!r} {reason}{more}"
        self.faults.append(Fault(column, message, bad))

    def _wrong_type(self, column: str, rule: str) -> InputError:
        found = self.raw[column].dtype
        return InputError(f"{self.source}: column {self.theirs[column]!r} holds {found}; {rule}, so convert the column")

    def _ids(self, column: str) -> pl.Series:
        raw = self.raw[column]
        if not (raw.dtype.is_integer() or raw.dtype in _TEXT):
            raise self._wrong_type(column, "ids are text or whole numbers")
        ids = raw.cast(pl.String)
        empty = ids.is_null() | (ids.str.strip_chars() == "").fill_null(False)
        self._refuse(column, empty, f"is empty; give every row a {column} or remove the row")
        return ids.alias(column)

    def _events(self) -> pl.Series:
        """Names of rows; one may be missing, for most of what is done with a log does not need them."""
        raw = self.raw["event"]
        if not (raw.dtype.is_integer() or raw.dtype in _TEXT):
            raise self._wrong_type("event", "ids are text or whole numbers")
        events = raw.cast(pl.String)
        return events.set(events.str.strip_chars() == "", None).alias("event")

    def _order(self) -> pl.Series:
        raw = self.raw["acknowledged"]
        if not (raw.dtype.is_integer() or raw.dtype in _TEXT):
            raise self._wrong_type("acknowledged", "an order is whole numbers")
        order = raw.cast(pl.String).str.strip_chars().cast(pl.Int64, strict=False)
        self._refuse("acknowledged", order.is_null(), "is no whole number; give every row one, or leave the column out")
        return order.alias("acknowledged")

    def _concept(self, separator: str | None) -> pl.Series:
        raw = self.raw["concept"]
        if separator == "":
            raise InputError(f"{self.source}: concept_separator is empty; give what stands between two skills")
        if isinstance(raw.dtype, pl.List):
            if not (raw.dtype.inner.is_integer() or raw.dtype.inner in _TEXT):
                raise self._wrong_type("concept", "skills are text or whole numbers")
            joiner = separator or ";"
            skills = raw.cast(pl.List(pl.String))
            clash = skills.list.eval(pl.element().str.contains(joiner, literal=True)).list.any().fill_null(False)
            self._refuse(
                "concept",
                clash,
                f"has a skill with {joiner!r} in its name, which joins the skills of a set; "
                "choose another concept_separator",
            )
        elif separator is not None:
            joiner = separator
            skills = raw.cast(pl.String).str.split(separator)
        else:
            return self._ids("concept")
        members = pl.element().str.strip_chars()
        named = skills.list.eval(members.filter(members != "").unique().sort())
        self._refuse(
            "concept",
            named.list.len().fill_null(0) == 0,
            "names no skill; give every row a concept or remove it",
        )
        return named.list.join(joiner).alias("concept")

    def _flags(self, column: str, needed: pl.Expr | pl.Series) -> pl.Series:
        """0/1/true/false as integers; null where a flag is absent and not `needed`."""
        if self.raw[column].dtype.is_nested():
            raise self._wrong_type(column, "an answer is 0, 1, true or false")
        text = self.raw[column].cast(pl.String).str.strip_chars().str.to_lowercase()
        flags = text.replace_strict(_FLAGS, default=None, return_dtype=pl.Int8).alias(column)
        absent = text.is_null() | (text == "").fill_null(False)
        bad = flags.to_frame().select(flags.is_null() & (~absent | needed)).to_series()
        self._refuse(
            column,
            bad,
            "is not 0, 1, true or false; recode the column, or say what its words mean: `tsdr clean --status`",
        )
        return flags

    def _correct(self, skipped: pl.Series | None) -> pl.Series:
        if skipped is None:
            return self._flags("correct", pl.lit(True))
        correct = self._flags("correct", ~skipped)
        self._refuse(
            "correct",
            skipped & correct.is_not_null(),
            "stands in a row that is marked as skipped; a skipped offer has no answer, so clear one of the two",
        )
        return correct

    def _order_of_rows(self, student: pl.Series) -> pl.Series:
        order = student.to_frame().select(pl.int_range(pl.len()).over("student"))
        return order.to_series().cast(pl.Int64).alias("time")

    def _time(self) -> pl.Series:
        raw = self.raw["time"]
        if raw.dtype.is_temporal() and raw.dtype not in (pl.Duration, pl.Time):
            time = raw.cast(pl.Datetime("us"))
        elif raw.dtype.is_integer():
            time = raw.cast(pl.Int64, strict=False)
        elif raw.dtype.is_float():
            time = raw.cast(pl.Float64)
        elif raw.dtype in (pl.String, pl.Null):
            time = _parse_time(raw.cast(pl.String))
        else:
            raise self._wrong_type("time", "a time is a number or a date-time")
        bad = time.is_null()
        if time.dtype == pl.Datetime:
            bad = bad | (time.dt.year() < 1000).fill_null(True)  # a year of two digits is not one of antiquity
        if time.dtype == pl.Float64:
            bad = bad | ~time.is_finite().fill_null(True)
        kind = "a date-time" if time.dtype == pl.Datetime else "a number or a date-time"
        self._refuse(
            "time",
            bad,
            f"does not parse as {kind}; write numbers or ISO date-times (2024-05-31 14:05:00) in every row, "
            "or leave the column out to use the order of the rows",
        )
        return time.alias("time")


def _parse_time(text: pl.Series) -> pl.Series:
    """The reading of the column that fits most of its rows: whole numbers, numbers or one date format."""
    text = text.str.strip_chars()

    def date_time(style: str) -> pl.Series:
        return text.str.to_datetime(style, time_unit="us", strict=False)

    def zoned(style: str) -> pl.Series:
        utc = text.str.to_datetime(style, time_unit="us", time_zone="UTC", strict=False)
        return utc.dt.replace_time_zone(None)

    def date(style: str) -> pl.Series:
        return text.str.to_date(style, strict=False).cast(pl.Datetime("us"))

    readings: list[Any] = [
        lambda: text.cast(pl.Int64, strict=False),
        lambda: text.cast(pl.Float64, strict=False),
    ]
    readings += [lambda style=style: date_time(style) for style in DATE_TIMES]
    readings += [lambda style=style: zoned(style) for style in ZONED_DATE_TIMES]
    readings += [lambda style=style: date(style) for style in _DATE_FORMATS]
    best = readings[0]()
    for reading in readings[1:]:
        if not best.null_count():
            break
        other = reading()
        if other.null_count() < best.null_count():
            best = other
    return best
