import re

import matplotlib.pyplot as plt

from tsdr.report.svg import inline_svg


def chart(name: str, title: str = "a") -> str:
    figure, panel = plt.subplots()
    panel.plot([0, 1], [0, 1], color="#d55e00", marker="o")
    panel.set_title(title)
    return str(inline_svg(figure, name, 'of "a" < b'))


def test_a_chart_keeps_its_colours_and_finds_its_own_parts() -> None:
    svg = chart("one")
    assert "#d55e00" in svg
    assert "fill: #ffffff" in svg
    ids, used = set(re.findall(r'id="([^"]*)"', svg)), set(re.findall(r'(?:href="|url\()#([^")]*)', svg))
    assert used
    assert used <= ids
    assert not ids & set(re.findall(r'id="([^"]*)"', chart("two")))


def test_a_chart_shrinks_with_the_page_and_is_read_aloud() -> None:
    svg = chart("one")
    opening = svg[: svg.index(">")]
    assert "viewBox" in opening
    assert not re.search(r"\b(width|height)=", opening)
    assert "of &#34;a&#34; &lt; b" in opening


def test_text_in_a_chart_is_escaped_and_light() -> None:
    svg = chart("one", "<b>odd</b>")
    assert "&lt;b&gt;odd" in svg
    assert "<b>" not in svg
    assert len(svg) < 12_000
