"""Shared fixtures."""

from pathlib import Path

import pytest

from tsdr import Log, read_log

REAL_DATA = Path(__file__).parents[2] / "shared" / "data"
REAL_COLUMNS = {"student": "user_id", "question": "item_id", "concept": "skill_id", "time": "timestamp"}


class RealLogs:
    """The real logs that may not be redistributed; tests that ask for one are skipped where it is absent."""

    def read(self, name: str) -> Log:
        path = REAL_DATA / f"{name}.tsv.gz"
        if not path.exists():
            pytest.skip(f"the real log {name} is not beside this project (it may not be redistributed)")
        return read_log(path, REAL_COLUMNS)


@pytest.fixture(scope="session")
def real_logs() -> RealLogs:
    return RealLogs()
