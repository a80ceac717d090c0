from pathlib import Path

from browser import render

BAD = """<!doctype html><html><head><link rel="icon" href="data:,"></head><body>
<div style="width: 2000px">wide</div><img src="missing.png"><script>console.error("told"); nowhere();</script>
</body></html>"""


def test_a_page_that_overflows_fails_and_asks_for_more_is_found_out(tmp_path: Path) -> None:
    (tmp_path / "bad.html").write_text(BAD)
    seen = render(tmp_path / "bad.html", 390, tmp_path)
    assert seen.window == 390
    assert seen.width >= 2000
    assert any("nowhere" in error for error in seen.errors)
    assert "told" in seen.errors
    assert any("missing.png" in error for error in seen.errors)
