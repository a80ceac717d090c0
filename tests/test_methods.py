import pytest

from tsdr import DebiasOptions, InputError, Method
from tsdr.methods import NAMES, options_of, parse_all
from tsdr.records.run import Run


@pytest.mark.parametrize(
    "written", ["naive", "tsdr", "tsdr:smoothness=0.5|2", "tsdr:smooth=off:joint=false", "tsdr:clip=0.5/2:cells=all"]
)
def test_a_method_is_written_as_it_was_read(written: str) -> None:
    assert str(Method.parse(written)) == written
    run = Run(dataset="d", backbone="dkt", method=Method.parse(written), options={}, fold=0, seed=1)
    assert run.model_dump()["method"] == written
    assert Run.model_validate_json(run.model_dump_json()) == run


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InputError, match=r"no method 'tdsr'.*tsdr"):
        Method.parse("tdsr")
    with pytest.raises(ValueError, match="alhpa"):
        options_of("tsdr", alhpa=1)
    for written in ("tsdr:alhpa=1", "tsdr:alpha", "tsdr:", "tsdr:alpha=1:alhpa=1|2"):
        with pytest.raises(InputError, match="write option=value"):
            Method.parse(written)
    with pytest.raises(ValueError, match="alpha"):
        Method.parse("tsdr:alpha=-1")
    with pytest.raises(InputError, match="has no options to change"):
        Method.parse("random-exposure:alpha=1")
    for only_compared in ("random-exposure", "naive-regularised", "tsdr:smoothness=0.5|2"):
        with pytest.raises(InputError, match="not be used to train one model"):
            Method.parse(only_compared).options()


def test_changes_are_read_as_the_options_that_they_name() -> None:
    written_out = options_of("tsdr:cells=all:joint=false:alpha=0.5:clip=0.1/10:imputation_loss=free")
    assert written_out == DebiasOptions(cells="all", joint=False, alpha=0.5, clip=(0.1, 10), imputation_loss="free")


def test_several_values_are_alternatives_and_say_what_sets_them_apart() -> None:
    method = Method.parse("tsdr:smoothness=0.5|2:alpha=1:cells=5|all")
    assert method.tuned == ("smoothness", "cells")
    chosen = [chosen for _, chosen in method.alternatives()]
    assert chosen == [{"smoothness": s, "cells": c} for s in (0.5, 2.0) for c in (5, "all")]
    assert {options.alpha for options, _ in method.alternatives()} == {1.0}


def test_a_record_of_another_version_keeps_its_method() -> None:
    """What is on disk is read, whatever is known of it here."""
    assert str(Method.written("sometime:soon=1|2")) == "sometime:soon=1|2"
    assert all(str(Method.written(name)) == name for name in NAMES)


def test_before_counts_could_impute_tsdr_was_what_is_called_tsdr_own_now() -> None:
    former = {"tsdr": "tsdr-own", "tsdr:smoothness=0": "tsdr-own:smoothness=0", "naive": "naive"}
    former["tsdr-unweighted"] = "tsdr-own:weights=off"
    assert {name: str(Method.formerly(name)) for name in former} == former


def test_the_papers_objective_is_its_equations() -> None:
    """Weights on both models, the whole correction at α = 1, its imputation loss and its smoothness."""
    paper = options_of("tsdr-paper")
    assert (paper.weights, paper.correction, paper.alpha, paper.smooth) == ("both", "full", 1.0, "imputation")
    assert (paper.imputation, paper.imputation_loss, paper.targeted) == ("own", "squared-error-of-errors", False)
    with pytest.raises(ValueError, match='ask="concept" and targeted=False'):
        options_of("tsdr", correction="full")


def test_a_method_that_is_named_twice_is_one() -> None:
    assert parse_all(["naive", "tsdr", Method("naive")]) == [Method("naive"), Method("tsdr")]
