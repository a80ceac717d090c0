"""Results as text on a terminal."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tsdr.inspection import Inspection


def show_inspection(inspection: Inspection, console: Console) -> None:
    """Print what is in a log and the first thing that looks wrong."""
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in inspection.rows():
        table.add_row(name, value)
    console.print(table)
    if inspection.oddity:
        console.print(Text.assemble("\n", ("Looks wrong:", "bold yellow"), " ", inspection.oddity), soft_wrap=True)
    else:
        console.print("\nNothing looks wrong.")
