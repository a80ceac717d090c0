"""What is known of logs and models, as text on a terminal."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import polars as pl
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tsdr.cleaning import COPIES, Cleaned
from tsdr.datasets import Account, Source
from tsdr.diagnosis.findings import RESTS_ON, Diagnosis
from tsdr.inspection import Inspection
from tsdr.models.evidence import LITTLE

if TYPE_CHECKING:
    from tsdr.backbones.checks import Audit  # both need torch, which the terminal does not
    from tsdr.models.direction import Direction
    from tsdr.models.effects import Effects

SHOWN_CONCEPTS, SHOWN_QUESTIONS = 30, 10
LITTLE_MARK = "*"


def show_inspection(inspection: Inspection, console: Console) -> None:
    """Print what is in a log and what looks wrong."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in inspection.rows():
        table.add_row(name, value)
    console.print(table)
    if not inspection.oddities:
        console.print("\nNothing looks wrong.")
    for oddity in inspection.oddities:
        console.print(Text.assemble("\n", ("Looks wrong:", "bold yellow"), " ", oddity), soft_wrap=True)


def show_unused(columns: Sequence[str], console: Console) -> None:
    """Print the columns of a file that are not used."""
    if columns:
        console.print(f"Columns that are not used: {', '.join(columns)}", soft_wrap=True)


def show_cleaned(cleaned: Cleaned, console: Console) -> None:
    """Print what became of the rows of a file."""
    rows = {"rows read": cleaned.read}
    for what, count in cleaned.dropped.items():
        rows[f"  dropped: {what if what == COPIES else f'{what} cannot be read'}"] = -count
    rows["rows of the log"] = len(cleaned.log)
    rows["  skipped offers among them"] = cleaned.log.skipped_offers
    _show_numbers(rows, console)


def show_mastery(mastery: pl.DataFrame, student: str | None, console: Console) -> None:
    """Print mastery by concept with its evidence: of one student, or the mean over all with their spread.

    The weakest come first, and those that little evidence stands behind last.
    """
    own = mastery if student is None else mastery.filter(pl.col("student") == student)
    found = own.group_by("concept").agg(
        mean=pl.col("mastery").mean(),
        low=pl.col("mastery").quantile(0.1),
        high=pl.col("mastery").quantile(0.9),
        answers=pl.col("answers").sum(),
        training=pl.col("training_answers").first(),
        little=pl.col("little_evidence").all(),
    )
    table = Table(box=None, pad_edge=False)
    table.add_column("concept", overflow="fold")
    table.add_column("mastery", justify="right")
    if student is None:
        table.add_column("middle 80 % of students", justify="right", no_wrap=True)
    for name in ("answers here", "learned from"):
        table.add_column(name, justify="right", no_wrap=True)
    for concept, mean, low, high, answers, training, little in (
        found.sort("little", "mean", "concept").head(SHOWN_CONCEPTS).iter_rows()
    ):
        table.add_row(
            concept,
            f"{mean:.3f}{LITTLE_MARK if little else ' '}",
            *([f"{low:.3f} to {high:.3f}"] if student is None else []),
            f"{answers:,}",
            "-" if training is None else f"{training:,}",
        )
    console.print(table)
    who = f"student {student}" if student else f"mean over {mastery['student'].n_unique():,} students"
    more = f"; the weakest {SHOWN_CONCEPTS} of {found.height:,} concepts" if found.height > SHOWN_CONCEPTS else ""
    console.print(f"Chance that the next answer is right, {who}{more}.", soft_wrap=True)
    little = int(found["little"].sum())
    if little:
        of = f"{little:,} of {found.height:,} concepts"
        console.print(f"{LITTLE_MARK} {LITTLE}: {of}, which come last.", soft_wrap=True)


def show_use(account: Mapping[str, int], minimum: int, console: Console) -> None:
    """Print what a training used of the answers of its log, and what it left out."""
    rows = {
        "answers of the log": account["answers"],
        "  learned from": account["learned_from"],
        "  of students to stop the training by": account["stopped_by"],
        "  left out, cut off by the window": account["earlier"],
        f"  left out, of students with fewer than {minimum}": account["of_short_students"],
        "  left out, to unknown concepts": account["to_unknown_concepts"],
        "skipped offers of the log": account["skips"],
        "  read": account["skips_read"],
        "  not read": account["skips"] - account["skips_read"],
    }
    _show_numbers(rows, console)


def _show_numbers(rows: Mapping[str, int], console: Console) -> None:
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(overflow="fold")
    table.add_column(justify="right", no_wrap=True)
    for name, number in rows.items():
        table.add_row(name, f"{number:,}")
    console.print(table)


def show_effects(effects: "Effects", console: Console) -> None:
    """Print the hardest and the easiest questions, and what answers are worth in each concept."""
    for title, shown in (
        ("The hardest questions", effects.questions[:SHOWN_QUESTIONS]),
        ("The easiest questions", effects.questions[: -SHOWN_QUESTIONS - 1 : -1]),
    ):
        table = Table("question", "concept", "right", title=title, box=None, pad_edge=False, title_justify="left")
        for found in shown:
            table.add_row(found.question, found.concept, f"{found.success:.0%}")
        console.print(table)
    console.print("right: by a student with even odds in the concept, averaged over its questions.\n", soft_wrap=True)
    worth = Table("concept", title="What answers are worth", box=None, pad_edge=False, title_justify="left")
    for name in effects.concepts[0].after:
        worth.add_column(f"after {name}", justify="right")
    for one in effects.concepts[:SHOWN_CONCEPTS]:
        worth.add_row(one.concept, *(f"{success:.0%}" for success in one.after.values()))
    console.print(worth)
    more = len(effects.concepts) - SHOWN_CONCEPTS
    console.print(
        "The chance of success of a student whose odds were even before the first answers in the concept"
        + (
            f"; the {SHOWN_CONCEPTS} of {len(effects.concepts):,} concepts where the first is worth most."
            if more > 0
            else "."
        ),
        soft_wrap=True,
    )


def show_account(account: Account, console: Console) -> None:
    """Print what became of the rows that were read, and how large the log is, beside the paper's."""
    rows = Table(show_header=False, box=None, pad_edge=False)
    rows.add_column(overflow="fold")
    rows.add_column(justify="right", no_wrap=True)
    rows.add_row(f"{account.dataset}: rows read", f"{account.read:,}", style="bold")
    for reason, count in account.dropped.items():
        rows.add_row(f"  dropped: {reason}", f"{-count:,}")
    rows.add_row("rows of the log", f"{account.counts.interactions + account.skipped:,}", style="bold")
    for what, count in account.notes.items():
        rows.add_row(f"  note: {what}", f"{count:,}")
    console.print(rows)
    sizes = Table("", "here", *(["paper"] if account.paper else []))
    for name in ("students", "questions", "concepts", "interactions"):
        paper = [f"{getattr(account.paper, name):,}"] if account.paper else []
        sizes.add_row(name, f"{getattr(account.counts, name):,}", *paper)
    sizes.add_row("share right", f"{account.share_right:.1%}", *(["-"] if account.paper else []))
    console.print(sizes)


def show_verdict(diagnosis: Diagnosis, console: Console) -> None:
    """Print what a diagnosis comes to."""
    verdict, risk = diagnosis.verdict, diagnosis.risk
    console.print(Text(verdict.headline, "bold"), soft_wrap=True)
    for reason in verdict.reasons:
        console.print(Text(f"- {reason}"), soft_wrap=True)
    subject = diagnosis.subject
    if subject.in_view is not None and subject.in_view < subject.answers:
        of = f"{subject.in_view:,} of the {subject.answers:,} answers of the log are in view"
        console.print(f"- {of}: propensities and risks are of these, exposure is of all.", soft_wrap=True)
    unknown = subject.unknown_concept_answers
    if unknown:
        console.print(f"- {unknown:,} answers to concepts that the model does not know are left out.", soft_wrap=True)
    console.print(
        f"Risk of the {diagnosis.subject.model} over all concepts: naive {risk.naive.value:.4f}, snips "
        f"{risk.snips.value:.4f}, dr {risk.dr.value:.4f}; the last two are {RESTS_ON}.",
        soft_wrap=True,
    )
    console.print(Text("What to do next", "bold"))
    for step in verdict.next:
        console.print(Text(f"- {step}"), soft_wrap=True)


def show_datasets(sources: Iterable[Source], console: Console) -> None:
    """Print what can be prepared: a block for each, so that nothing is cut off on a narrow or piped terminal."""
    for source in sources:
        console.print(Text(source.name, "bold"))
        lines = {
            "what": source.what,
            "published": source.published,
            "terms": source.terms,
            "files": source.files,
        }
        if source.paper:
            size = source.paper
            lines["paper"] = (
                f"{size.students:,} students, {size.questions:,} questions, {size.concepts:,} concepts, "
                f"{size.interactions:,} interactions"
            )
        for name, value in lines.items():
            console.print(Text(f"  {name:<10} {value}"), soft_wrap=True)


def show_audit(audit: "Audit", console: Console) -> None:
    """Print every check with its worst deviation and where it is."""
    table = Table("check", "worst deviation", "allowed", "where", "")
    for check in audit.checks:
        verdict = Text("pass", "green") if check.passed else Text("FAIL", "bold red")
        table.add_row(check.name, f"{check.worst:.2g}", f"{check.allowed:.2g}", check.where, verdict)
    console.print(table)
    for check in audit.checks:
        if check.advice and not check.passed:
            console.print(f"{check.name}: {check.where}. To mend it: {check.advice}.", soft_wrap=True)


def show_direction(direction: "Direction", console: Console) -> None:
    """Print for how many concepts answers move mastery the wrong way: a warning if there are any, and no failure."""
    if direction.any_astray:
        console.print(Text("Warning: some mastery moves the wrong way", "bold yellow"))
    for sentence in direction.sentences():
        console.print(sentence, soft_wrap=True)
