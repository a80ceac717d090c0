"""Pages: self-contained HTML that asks no other host for anything; what comes from data is escaped."""

from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from tsdr.files import replacing

# How a verdict on a log is coloured.
TONES = {"fair": "good", "uneven": "warn", "selected": "bad"}


def templates(package: str = "tsdr.report") -> Environment:
    """The templates of a package, which can build on those of this one."""
    return Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in dict.fromkeys((package, "tsdr.report"))]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(template: str, **content: Any) -> str:
    """Fill a template of this package."""
    return templates().get_template(template).render(**content)


def write_page(template: str, path: Path, **content: Any) -> None:
    """Fill a template of this package and write the page."""
    write_text(path, render(template, **content))


def write_text(path: Path, page: str) -> None:
    """Write a page, whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
