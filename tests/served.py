"""Models to serve in tests: every parameter random, so that nothing is answered by chance of a zero."""

from typing import Any

import numpy as np
import polars as pl
import torch

from tsdr import Log, Vocabulary, build_backbone
from tsdr.defaults import Extent
from tsdr.models.bundle import Bundle
from tsdr.models.model import Model

BACKBONES = ("dkt", "akt", "simplekt", "folibikt", "sparsekt", "diskt", "counts", "hybrid")
VOCABULARY = Vocabulary(tuple(f"c{i:02}" for i in range(11)), tuple(f"q{i:02}" for i in range(13)))


def random_bundle(name: str = "dkt", window: Extent = 8, vocabulary: Vocabulary = VOCABULARY, **options: Any) -> Bundle:
    smallest = {"counts": {}, "hybrid": {"d": 16}}.get(name, {"d": 16, "size": "light"})
    options = smallest | options
    torch.manual_seed(5)
    model = build_backbone(
        name, n_concepts=len(vocabulary.concepts), n_questions=len(vocabulary.questions), **options
    ).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return Bundle(model, name, model.options, vocabulary, window, {})


def random_model(name: str = "dkt", window: Extent = 8, **options: Any) -> Model:
    return Model(random_bundle(name, window, **options))


def random_log(
    students: int = 5, most: int = 30, seed: int = 0, concepts: int = 11, questions: int = 13, skips: float = 0
) -> Log:
    """Students with one answer, with as many as a window, and with more; questions beyond 13 are not known.

    A share of the rows are offers that were skipped.
    """
    drawn = np.random.default_rng(seed)
    counts = [1, 8, most, *drawn.integers(2, most, students)][:students]
    rows = [
        (f"s{student}", f"q{drawn.integers(questions + 2):02}", f"c{drawn.integers(concepts):02}", drawn.integers(2))
        for student, count in enumerate(counts)
        for _ in range(count)
    ]
    columns = ["student", "question", "concept", "correct"]
    table = pl.DataFrame([(*row[:3], int(row[3])) for row in rows], schema=columns, orient="row")
    if not skips:
        return Log(table)
    skipped = pl.Series("skipped", drawn.random(len(rows)) < skips)
    return Log(table.with_columns(skipped, correct=pl.when(~skipped).then("correct")))
