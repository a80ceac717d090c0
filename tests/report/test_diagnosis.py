import json
import re
from pathlib import Path

import pytest

import tsdr
from tsdr import Population
from tsdr.diagnosis.diagnose import diagnose
from tsdr.diagnosis.findings import Diagnosis
from tsdr.report.diagnosis import CHARTS, Chart, write_diagnosis


@pytest.fixture(scope="module")
def diagnosis() -> Diagnosis:
    population = Population(answers=(8, 8))
    return diagnose(tsdr.simulate(0.8, 60, 20, 4, population=population).offers(), window=8)


@pytest.fixture(scope="module")
def charts(diagnosis: Diagnosis) -> list[Chart]:
    return [draw(diagnosis) for draw in CHARTS]


def test_the_page_opens_with_the_verdict_and_asks_no_other_host(diagnosis: Diagnosis, tmp_path: Path) -> None:
    numbers = write_diagnosis(diagnosis, "<their> log", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    body = page[page.index("<body>") :]
    assert body.index(diagnosis.verdict.headline) < body.index("<svg")
    assert "&lt;their&gt; log" in body
    assert not re.findall(r'(?:src|href)="(?!data:|#)', page)
    assert not re.findall(r"url\((?!#)", page)
    assert numbers == tmp_path / "page.json"
    assert Diagnosis.model_validate_json(numbers.read_text()) == diagnosis
    assert json.loads(numbers.read_text())["verdict"]["level"] == diagnosis.verdict.level


def test_every_chart_says_what_to_conclude_and_keeps_its_colours(charts: list[Chart]) -> None:
    for chart in charts:
        assert re.search(r"\d", chart.conclusion), "from this log's numbers"
        assert chart.conclusion.endswith(".")
        colours = re.findall(r"(?:fill|stroke): (#[^;\"]+)", chart.svg)
        assert colours
        assert all(re.fullmatch(r"#[0-9a-f]{6}", colour) for colour in colours)


def test_ids_do_not_repeat_between_charts(charts: list[Chart]) -> None:
    ids = [set(re.findall(r'\bid="([^"]+)"', chart.svg)) for chart in charts]
    assert len(set.union(*ids)) == sum(map(len, ids))
