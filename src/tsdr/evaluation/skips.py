"""Offers that students turned down: does skipping depend on how the student has done in the concept so far?"""

from typing import Any

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict

from tsdr.evaluation.offpolicy import Estimate, bootstrap
from tsdr.log import Log

# A record is the share right of the student's earlier answers to the concept.
MOSTLY = 2 / 3
RECORDS = ("no answer yet", "mostly wrong", "mixed", "mostly right")


class Skips(BaseModel):
    """How many offers were skipped, by the student's record in the concept just before the offer.

    `difference` is the share skipped where the record is mostly right less the share skipped of all other offers.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    offers: int
    share: float
    by_record: dict[str, float]
    difference: Estimate

    @property
    def related(self) -> bool:
        """Whether skipping depends on the record, beyond chance."""
        return self.difference.low > 0 or self.difference.high < 0


def skips_of(log: Log) -> Skips | None:
    """What is known of skipped offers; None if the log has none."""
    if not log.skipped_offers:
        return None
    offers = log.frame.select("student", "skipped", record=_record())
    share = dict(offers.group_by("record").agg(pl.col("skipped").mean()).iter_rows())
    known = pl.col("record") == RECORDS[-1]
    sums = offers.group_by("student", maintain_order=True).agg(
        known.sum().alias("known"),
        (known & pl.col("skipped")).sum().alias("known_skipped"),
        (~known).sum().alias("other"),
        (~known & pl.col("skipped")).sum().alias("other_skipped"),
    )
    return Skips(
        offers=len(log),
        share=log.skipped_offers / len(log),
        by_record={name: share[name] for name in RECORDS if name in share},
        difference=bootstrap(sums.drop("student").to_numpy().astype(float), _difference),
    )


def _record() -> pl.Expr:
    """The student's record in the concept before each offer, from answers alone."""
    among = ("student", "concept")
    answered = (~pl.col("skipped")).cast(pl.Int64)
    before = answered.cum_sum().over(among) - answered
    right = pl.col("correct").fill_null(0).cast(pl.Int64)
    share = (right.cum_sum().over(among) - right) / before
    return (
        pl.when(before == 0)
        .then(pl.lit(RECORDS[0]))
        .when(share <= 1 - MOSTLY)
        .then(pl.lit(RECORDS[1]))
        .when(share < MOSTLY)
        .then(pl.lit(RECORDS[2]))
        .otherwise(pl.lit(RECORDS[3]))
    )


def _difference(sums: Any) -> Any:
    known, known_skipped, other, other_skipped = np.moveaxis(sums, -1, 0)
    return known_skipped / np.maximum(known, 1) - other_skipped / np.maximum(other, 1)
