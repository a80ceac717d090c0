"""The page in Chromium: open, choose a student, add an answer by keyboard alone, see the heat map change."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from services import Service, running

from browser import Page, page
from served import random_log, random_model
from tsdr.diagnosis.diagnose import diagnose
from tsdr.serving.transfer import enroll
from tsdr.simulator import simulate

HEAT = "[...document.querySelectorAll('#heat tbody tr')].map(row => [...row.children].map(cell => cell.innerText))"
ANSWERS = "document.querySelectorAll('#history tbody tr').length"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("served")
    found = diagnose(simulate(0.8, students=60, questions=20, concepts=5).log)
    random_model("simplekt").with_diagnosis(found.model_dump(mode="json")).save(folder / "model")
    store = f"sqlite:///{folder / 'students.db'}"
    assert sum(new.answers for new in enroll(random_log(students=6), store)) == len(random_log(students=6))
    with running(folder / "model", store) as started:
        yield started


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Page]:
    with page(tmp_path) as opened:
        yield opened


def test_a_student_is_chosen_and_an_answer_changes_the_heat_map(service: Service, browser: Page) -> None:
    """No pointer: the form is reached, filled and sent by keys, as on a machine without a mouse."""
    browser.open(service.url)
    browser.run("document.querySelector('input[name=student]').focus()")
    browser.type("s3")
    browser.press("Enter")
    browser.wait("document.querySelector('h1')?.innerText == 's3'")
    before, answers = browser.run(HEAT), browser.run(ANSWERS)
    browser.run("document.querySelector('input[name=concept]').focus(); document.activeElement.select()")
    browser.type("c04")
    browser.press("Tab")
    browser.type("q07")
    browser.press("Enter")
    browser.wait(f"{ANSWERS} == {answers + 1}")
    after = browser.run(HEAT)
    assert len(after[0]) == len(before[0]) + 1
    assert after[0][0] == "c04"  # the concept that was answered last comes first
    row = next(row for row in after if row[0] == before[0][0])
    assert row[1 : len(before[0])] == before[0][1:]  # the past stays as it was
    first = browser.run("[...document.querySelector('#history tbody tr').children].map(cell => cell.innerText)")
    assert first[:4] == [str(answers + 1), "c04", "q07", "right"]
    assert not browser.errors
    assert all(url.startswith((service.url, "data:")) for url in browser.asked)


@pytest.mark.parametrize("width", [360, 1200])
@pytest.mark.parametrize("path", ["/", "/?student=s2", "/?student=nobody", "/log", "/docs", "/sign-in"])
def test_no_page_is_wider_than_its_window(service: Service, browser: Page, path: str, width: int) -> None:
    browser.open(service.url + path, width)
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert not browser.errors
    assert all(url.startswith((service.url, "data:")) for url in browser.asked)


def test_the_class_is_shown_with_its_uncertainty_and_the_log_behind_the_model(service: Service, browser: Page) -> None:
    browser.open(service.url)
    rows = browser.run("[...document.querySelectorAll('#class tbody tr')].map(row => row.innerText.split('\\t'))")
    assert len(rows) == 11
    means = [int(row[1].rstrip("%")) for row in rows]
    little = ["little evidence" in row[0] for row in rows]
    assert list(zip(little, means, strict=True)) == sorted(zip(little, means, strict=True))
    for row, mean in zip(rows, means, strict=True):
        low, high = (int(end.rstrip("%")) for end in row[2].split(" to "))
        assert low <= mean <= high
    assert "This log is" in browser.run("document.querySelector('.verdict').innerText")
    browser.run("document.querySelector('a[href=\"/log\"]').click()")
    browser.wait("document.querySelectorAll('figure svg').length >= 5")


def test_all_of_it_is_reached_by_keyboard_and_shows_the_focus(service: Service, browser: Page) -> None:
    browser.open(f"{service.url}/?student=s2")
    unnamed = "input:not([type=hidden]), button"
    assert browser.run(f"[...document.querySelectorAll('{unnamed}')].every(c => c.labels?.length || c.innerText)")
    reached = []
    for _ in range(30):
        browser.press("Tab")
        if browser.run("document.activeElement == document.body"):
            break
        reached.append(browser.run("document.activeElement.name || document.activeElement.className || 'button'"))
        assert browser.run("getComputedStyle(document.activeElement).outlineStyle") != "none", reached
    assert reached[0] == "skip"
    assert {"student", "scroll latest", "concept", "question", "correct", "button", "scroll"} <= set(reached)
