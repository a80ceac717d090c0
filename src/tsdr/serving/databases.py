"""Where a store lives, a SQLite file or a PostgreSQL server: no wait without an end, no write that goes nowhere."""

import fcntl
import os
import threading
import time
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sql
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DatabaseError,
    IntegrityError,
    OperationalError,
    ProgrammingError,
    SQLAlchemyError,
)
from sqlalchemy.schema import CreateColumn, CreateIndex, CreateTable

from tsdr.errors import InputError, extra_missing, in_a_sentence

CONNECTING = 2  # seconds until a server has to be connected to
_AT_ONCE = "SET LOCAL lock_timeout = 1"  # a millisecond: nought would be no limit
SILENCE = 1.0  # seconds for which a server that did not answer is not asked again
CHECKED = 1.0  # seconds for which a check that went well holds


class Patience(NamedTuple):
    """Seconds that others may hold what is wanted, and that a statement may take, if that has an end."""

    lock: float
    statement: float | None


COMMAND = Patience(30.0, None)  # whoever calls it can wait
SERVICE = Patience(1.5, 2.0)  # whoever asks is told within five seconds, what comes before and after included


class StoreError(InputError):
    """The store cannot be used now; the message says why."""


class HeldError(StoreError):
    """Another process holds what is wanted."""


class Database:
    """Tables in a file or on a server, with the version of their schema.

    What is served is not created or changed by those who serve it: `bring_up` comes before.
    """

    def __init__(self, url: str, tables: sql.MetaData, version: int, patience: Patience) -> None:
        self._tables, self._version, self._patience = tables, version, patience
        self._engine = _engine(url, self)
        self._file: _File | None = None
        if self._engine.dialect.name == "sqlite":
            self._file = _File(Path(str(self._engine.url.database)))
        self._silent_until = 0.0
        self._is_verified = False
        self._checked = 0.0
        self._trouble: StoreError | None = None  # why the last write failed

    def bring_up(self) -> None:
        """Create the tables, or those and their columns that a store of an earlier version does not have yet.

        What is newer, or was not made by tsdr, is refused.
        """
        with _refused(self._engine):
            try:
                self._create_missing()
            except (IntegrityError, OperationalError, ProgrammingError):  # another process has just created them
                self._create_missing()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection to read by."""
        with self._connection(self._patience.lock) as connection:
            yield connection

    @contextmanager
    def writing(self, *, waits: bool = True) -> Iterator[Connection]:
        """A transaction that writes. Once the block has ended, what it wrote will be found again.

        What can be done without is not waited for: if others hold what it wants, that is `HeldError` at once.
        """
        patience = self._patience.lock if waits else 0.0
        turn: AbstractContextManager[float] = self._file.turn(patience) if self._file else nullcontext(patience)
        try:
            with turn as left, self._connection(left) as connection, connection.begin():
                if not waits and not self._file:
                    connection.exec_driver_sql(_AT_ONCE)
                yield connection
            if self._file:
                self._file.check()
        except StoreError as error:
            if waits or not isinstance(error, HeldError):
                self._trouble = error
            raise
        self._trouble = None

    def check(self) -> None:
        """Raise `StoreError` if nothing can be stored now. It writes a little, and waits for nobody.

        Where another process holds the store at this moment, what became of the last write is what is known.
        """
        if self._file:
            self._file.check()
        if self._trouble is None and time.monotonic() < self._checked + CHECKED:
            return
        try:
            with self._connection(0.0) as connection, connection.begin():
                if not self._file:
                    connection.exec_driver_sql(_AT_ONCE)
                self._verify(connection)
                for table in self._tables.sorted_tables:  # nothing, into every column
                    nothing = sql.select(table).where(sql.false())
                    connection.execute(sql.insert(table).from_select(list(table.c), nothing))
                connection.execute(sql.update(_schema).values(checked=time.time()))
        except HeldError:
            if self._trouble:
                raise self._trouble from None
        else:
            self._trouble = None
        self._checked = time.monotonic()

    def close(self) -> None:
        """Let go of all connections."""
        self._engine.dispose()
        if self._file:
            self._file.let_go()

    def fell_silent(self) -> None:
        """The server did not answer in time: those who come next need not wait for it in turn."""
        self._silent_until = time.monotonic() + SILENCE

    @property
    def is_silent(self) -> bool:
        """Whether that was a moment ago."""
        return time.monotonic() < self._silent_until

    @contextmanager
    def _connection(self, lock: float) -> Iterator[Connection]:
        """A connection that waits so long for those who hold what it wants (on a server: as it was told to)."""
        if self.is_silent:
            raise StoreError(_SILENT)
        try:
            if self._file:
                self._file.check()
            with self._engine.connect() as connection:
                if self._file:
                    connection.connection.cursor().execute(f"PRAGMA busy_timeout = {round(1000 * lock)}")
                if not self._is_verified:
                    self._verify(connection)
                    connection.rollback()
                    self._is_verified = True
                yield connection
        except SQLAlchemyError as error:
            raise (StoreError(_SILENT) if self.is_silent else _explained(error)) from error
        except OSError as error:
            raise StoreError(f"the store cannot be opened ({error.strerror})") from error

    def _verify(self, connection: Connection) -> None:
        found = connection.execute(sql.select(_schema.c.version)).scalar_one()
        if found != self._version:
            raise StoreError(
                f"the store has schema {found}, and this service uses {self._version}: restart it with the other tsdr"
            )

    def _create_missing(self) -> None:
        with self._engine.begin() as connection:
            there = set(sql.inspect(connection).get_table_names())
            if _schema.name in there:
                found = connection.execute(sql.select(_schema.c.version)).scalar_one_or_none()
                if found == self._version:
                    return
                if found is not None and found > self._version:
                    raise InputError(
                        f"{self._engine.url.render_as_string()}: is a store with schema {found}, and this tsdr knows "
                        f"those up to {self._version}; use the newer tsdr that wrote it"
                    )
            else:
                self._refuse_foreign(connection, there)
            for table in (*self._tables.sorted_tables, _schema):
                connection.execute(CreateTable(table, if_not_exists=True))
                columns = _columns(connection, table.name)
                for column in table.columns:
                    if column.name not in columns:
                        new = CreateColumn(column).compile(dialect=self._engine.dialect)
                        connection.execute(sql.DDL(f"ALTER TABLE {table.name} ADD COLUMN {new}"))
                for index in table.indexes:
                    connection.execute(CreateIndex(index, if_not_exists=True))
            connection.execute(sql.delete(_schema))
            connection.execute(sql.insert(_schema).values(only=1, version=self._version, checked=time.time()))

    def _refuse_foreign(self, connection: Connection, there: set[str]) -> None:
        """Refuse tables without a version that are not those of a store from before there were versions."""
        ours = {table.name: table for table in self._tables.sorted_tables}
        foreign = {name for name in ours.keys() & there if not _is_earlier(_columns(connection, name), ours[name])}
        if self._file:  # a server's database may be shared, a file may not
            foreign |= there - ours.keys()
        if foreign:
            raise InputError(
                f"{self._engine.url.render_as_string()}: holds something else (its table {min(foreign)!r} is not one "
                "of a store); name another file or database"
            )


# One row: which schema the other tables have, and when it was last found that something can be written.
_schema = sql.Table(
    "tsdr_store",
    sql.MetaData(),
    sql.Column("only", sql.Integer, primary_key=True),
    sql.Column("version", sql.Integer, nullable=False),
    sql.Column("checked", sql.Float, nullable=False),
)


def _columns(connection: Connection, table: str) -> set[str]:
    return {column["name"] for column in sql.inspect(connection).get_columns(table)}


def _is_earlier(found: set[str], table: sql.Table) -> bool:
    """Whether these are the columns of a table, but for some that can be added to it."""
    needed = {column.name for column in table.columns if not column.nullable and column.server_default is None}
    return needed <= found <= set(table.columns.keys())


class _File:
    """The file of a store: one writer after the other, and always the file that it was.

    SQLite has one writer at a time, and those that wait for it look again and again, ever more rarely; here they queue.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._latest = path, Path(f"{path}-wal")  # what was written last is beside it
        self._lock = threading.Lock()
        self._known: dict[Path, tuple[int, int]] = {}

    def let_go(self) -> None:
        """All connections are closed: what was written last is in the file now."""
        self._known.pop(self._latest, None)

    def check(self) -> None:
        """Refuse to go on if anything of it has been moved or replaced."""
        for path in (self._path, self._latest):
            try:
                status = os.stat(path)
            except FileNotFoundError as error:
                if path in self._known or path == self._path:
                    raise StoreError(
                        f"{path.name} of the store is gone: put it back, or restart the service"
                    ) from error
                continue
            found = status.st_dev, status.st_ino
            if self._known.setdefault(path, found) != found:
                raise StoreError(f"{path.name} of the store has been replaced: restart the service")

    @contextmanager
    def turn(self, patience: float) -> Iterator[float]:
        """Wait for the turn, and have it until the block ends, or the process does; yields what is left of patience."""
        end = time.monotonic() + patience
        if not self._lock.acquire(timeout=patience):
            raise HeldError(_HELD)
        try:
            with Path(f"{self._path}.lock").open("a") as file:
                _lock(file.fileno(), end)
                yield max(0.0, end - time.monotonic())
        except OSError as error:
            raise StoreError(f"the store cannot be written to ({error.strerror})") from error
        finally:
            self._lock.release()


def _lock(file: int, end: float) -> None:
    """Have a file to oneself.

    Who has to wait for it does so in the system's queue, in a thread that can be left behind: closing the file, as is
    done next, gives back what it may still get.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        waiting = threading.Thread(target=fcntl.flock, args=(file, fcntl.LOCK_EX), daemon=True)
        waiting.start()
        waiting.join(max(0.0, end - time.monotonic()))
        if waiting.is_alive():
            raise HeldError(_HELD) from error


def without_password(url: str) -> str:
    """The address of a store, to be shown."""
    try:
        return make_url(url).render_as_string()
    except (ArgumentError, ValueError):
        return "the store"


def _engine(url: str, database: Database) -> Engine:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise InputError("this is not a store; write sqlite:///students.db or postgresql://...") from error
    if parsed.drivername == "sqlite" and parsed.database not in (None, "", ":memory:"):
        engine = sql.create_engine(parsed)
        sql.event.listen(engine, "connect", _set_up_sqlite)
        return engine
    if parsed.drivername in ("postgresql", "postgresql+psycopg"):
        return _postgres(parsed.set(drivername="postgresql+psycopg"), database)
    raise InputError(
        f"{parsed.render_as_string()} is not a store; write sqlite:///students.db, with a file, or postgresql://..."
    )


def _set_up_sqlite(connection: Any, record: Any) -> None:
    """Readers do not wait for writers (WAL), and what is committed has reached the disk (FULL)."""
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}")


def _postgres(url: URL, database: Database) -> Engine:
    try:
        import psycopg
    except ImportError as error:
        raise extra_missing("a store in PostgreSQL needs psycopg", "postgres") from error
    patience = database._patience
    limits = f"-c lock_timeout={round(1000 * patience.lock)}"
    if patience.statement is not None:
        limits += f" -c statement_timeout={round(1000 * patience.statement)} -c idle_in_transaction_session_timeout=10s"

    class Bounded(psycopg.Connection[Any]):
        """A connection that gives up a server that says nothing: one that is stopped, or cut off, ends no statement."""

        def wait(self, gen: Generator[Any, Any, Any], *args: Any, **kwargs: Any) -> Any:
            if patience.statement is not None:
                gen = self._in_time(gen, time.monotonic() + patience.statement + 0.5)
            return super().wait(gen, *args, **kwargs)

        def _in_time(self, gen: Generator[Any, Any, Any], end: float) -> Generator[Any, Any, Any]:
            """The same steps, as long as there is time: it is looked at whenever nothing has come for a while."""
            try:
                wanted = next(gen)
                while True:
                    ready = yield wanted
                    if not ready and time.monotonic() > end:
                        self.pgconn.finish()
                        database.fell_silent()
                        raise psycopg.OperationalError(_SILENT)
                    wanted = gen.send(ready)
            except StopIteration as done:
                return done.value

    engine = sql.create_engine(url, pool_pre_ping=True)

    @sql.event.listens_for(engine, "do_connect")
    def connect(dialect: Any, record: Any, arguments: Any, options: dict[str, Any]) -> Any:
        if database.is_silent:  # and this would be the second wait for it
            raise psycopg.OperationalError(_SILENT)
        asked = {"connect_timeout": CONNECTING} | options | {"options": f"{limits} {options.get('options', '')}"}
        try:
            return Bounded.connect(*arguments, **asked)
        except psycopg.errors.ConnectionTimeout:
            database.fell_silent()
            raise

    return engine


_HELD = "another process holds what is to be written: send it again"
_SILENT = "the store does not answer"
# What databases call the reasons for which they refuse a write, as SQLSTATE or SQLite's own name begins.
_REASONS = {
    ("55P03", "57014", "40P01", "SQLITE_BUSY", "SQLITE_LOCKED"): _HELD,
    ("53100", "SQLITE_FULL"): "the disk of the store is full",
    ("25006", "42501", "SQLITE_READONLY"): "the store can be read only",
    ("42P01", "42703"): "the store's tables are not those that this service uses",
}


def _explained(error: SQLAlchemyError) -> StoreError:
    """What a failure of the database comes to, without its own words: they might name a student."""
    cause: Any = getattr(error, "orig", None)
    code = str(getattr(cause, "sqlstate", None) or getattr(cause, "sqlite_errorname", None) or "")
    for codes, reason in _REASONS.items():
        if code.startswith(codes):
            return HeldError(reason) if reason == _HELD else StoreError(reason)
    if "no such table" in str(cause) or "no column" in str(cause) or "no such column" in str(cause):
        return StoreError("the store's tables are not those that this service uses")
    return StoreError("the store cannot be reached")


@contextmanager
def _refused(engine: Engine) -> Iterator[None]:
    try:
        yield
    except DatabaseError as error:
        where = engine.url.render_as_string()  # without the password
        raise InputError(f"{where}: cannot be used as a store ({in_a_sentence(error.orig or error)})") from error
