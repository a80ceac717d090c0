"""What a Parquet file says that it expands to, against what was written; no more of it is read than is allowed."""

import gzip
from pathlib import Path

import polars as pl
import pytest

from tsdr import InputError, read_log
from tsdr.log import LogParts
from tsdr.parquet import Expanded

ROWS = 4_000_000


def test_it_is_told_by_the_footer_of_how_many_groups_there_are(tmp_path: Path) -> None:
    """Of values that are all different, and not packed, a file has as many bytes as it says."""
    frame = pl.DataFrame({"a": range(30_000), "b": [f"{i * 7919:09}" for i in range(30_000)]})
    for groups, rows in ((1, 30_000), (30, 1_000)):
        path = tmp_path / f"{groups}.parquet"
        frame.write_parquet(path, compression="uncompressed", row_group_size=rows, statistics=False)
        found = Expanded.of(path)
        assert found.whole - 8 * 2 * 30_000 == pytest.approx(path.stat().st_size, rel=0.03)
        assert found.largest == pytest.approx(found.whole / groups, rel=0.02)


@pytest.fixture(scope="module")
def bomb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One answer, so many times: 160 MB in memory, and next to nothing on disk; two groups, as large as each other."""
    alike = pl.select(student=pl.lit("ann"), concept=pl.lit("fractions"), correct=1, question=pl.lit("q"))
    path = tmp_path_factory.mktemp("bomb") / "bomb.parquet"
    alike.select(pl.all().repeat_by(ROWS).explode()).write_parquet(path, row_group_size=ROWS // 2)
    assert path.stat().st_size < 200_000
    return path


def test_more_of_it_than_is_allowed_is_refused_before_it_is_unpacked(bomb: Path) -> None:
    with pytest.raises(InputError, match=r"expands to more than 0.1 GB.*--unzipped-limit"):
        read_log(bomb, unzipped_limit=0.1)
    packed = bomb.with_suffix(".parquet.gz")
    packed.write_bytes(gzip.compress(bomb.read_bytes()))
    with pytest.raises(InputError, match=r"parquet.gz: .*expands to more than 0.1 GB"):
        read_log(packed, unzipped_limit=0.1)


def test_in_parts_it_is_the_largest_part_that_counts(bomb: Path) -> None:
    parts = LogParts(bomb, unzipped_limit=0.1)
    assert len(next(iter(parts))) > 0
    with pytest.raises(InputError, match=r"expands to more than 0.05 GB"):
        next(iter(LogParts(bomb, unzipped_limit=0.05)))


def test_one_long_text_is_not_taken_for_little(tmp_path: Path) -> None:
    frame = pl.DataFrame({"student": ["a" * 10_000_000], "concept": ["c"], "correct": [1]})
    frame.write_parquet(tmp_path / "long.parquet")
    assert (tmp_path / "long.parquet").stat().st_size < 100_000
    with pytest.raises(InputError, match=r"expands to more than 0.005 GB"):
        read_log(tmp_path / "long.parquet", unzipped_limit=0.005)


@pytest.mark.parametrize("footer", [b"", b"\xff" * 100, b"\x19" * 3, b"\x1c" * 5000, b"\x49\xf7\xff\xff\xff\xff\x7f"])
def test_a_footer_that_makes_no_sense_is_no_account(tmp_path: Path, footer: bytes) -> None:
    path = tmp_path / "damaged.parquet"
    path.write_bytes(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(ValueError, match="footer"):
        Expanded.of(path)
