"""Records of several views of one log: which answers they are judged by, and how they are paired."""

from tsdr.defaults import WINDOW, Extent
from tsdr.records.run import Record, Run


def judged_by(run: Run) -> Extent:
    """How many of each student's latest answers count: unless the run says it, as many as one window has."""
    window: Extent = run.options.get("window", WINDOW)
    scored: Extent | None = run.options.get("scored")
    if scored is not None:
        return scored
    return window if window == "all" else window - 1


def by_answers(record: Record) -> Record:
    """A record that can be paired with those of other views: of a log by its name, whatever was in view of it."""
    return record.model_copy(update={"options": {**record.options, "data": None}})
