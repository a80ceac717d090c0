"""Offers that students turned down: does skipping depend on how the student has done in the concept so far?"""

from typing import Any

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict

from tsdr.log import Log
from tsdr.resampling import Estimate, bootstrap

# A record is the share right of the student's earlier answers to the concept.
MOSTLY = 2 / 3
RECORDS = ("no answer yet", "mostly wrong", "mixed", "mostly right")
ENDS = ("mostly right", "mostly wrong")


class Skips(BaseModel):
    """How many offers were skipped, by the student's record in the concept just before the offer.

    `differences` has, for the records that are mostly right and mostly wrong, the share skipped less that of all other
    offers. Offers are compared within their concept, whose own share is taken off: a concept that everybody skips does
    not count. There are two, and students may skip at both ends, so their intervals are of 97.5 % each.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    offers: int
    share: float
    by_record: dict[str, float]
    differences: dict[str, Estimate]

    @property
    def related(self) -> dict[str, Estimate]:
        """The differences that are beyond chance."""
        return {name: found for name, found in self.differences.items() if found.low > 0 or found.high < 0}


def skips_of(log: Log) -> Skips | None:
    """What is known of skipped offers; None if the log has none."""
    if not log.skipped_offers:
        return None
    skipped = pl.col("skipped").cast(pl.Float64)
    offers = log.frame.select("student", "skipped", excess=skipped - skipped.mean().over("concept"), record=_record())
    share = dict(offers.group_by("record").agg(pl.col("skipped").mean()).iter_rows())
    return Skips(
        offers=len(log),
        share=log.skipped_offers / len(log),
        by_record={name: share[name] for name in RECORDS if name in share},
        differences={name: _against_others(offers, name) for name in ENDS},
    )


def _against_others(offers: pl.DataFrame, record: str) -> Estimate:
    has = pl.col("record") == record
    sums = offers.group_by("student", maintain_order=True).agg(
        has.sum().alias("offers"),
        (has * pl.col("excess")).sum().alias("excess"),
        (~has).sum().alias("other_offers"),
        (~has * pl.col("excess")).sum().alias("other_excess"),
    )
    return bootstrap(sums.drop("student").to_numpy().astype(float), _difference, covered=1 - 0.05 / len(ENDS))


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
    offers, excess, other_offers, other_excess = np.moveaxis(sums, -1, 0)
    return excess / np.maximum(offers, 1) - other_excess / np.maximum(other_offers, 1)
