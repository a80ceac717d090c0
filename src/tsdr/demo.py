"""The main job on a built-in simulated log, from nothing to a picture."""

from pathlib import Path

from rich.console import Console
from rich.progress import track

from tsdr.inspection import inspect_log
from tsdr.report.plots import plot_selection
from tsdr.report.terminal import show_inspection
from tsdr.simulator import simulate

GAMMAS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.999)
SHOWN = 0.8


def run_demo(out: Path, console: Console) -> None:
    """Simulate selected logs, show what one of them holds, and draw how far it is from the truth."""
    simulations = [
        simulate(gamma)
        for gamma in track(GAMMAS, "Simulating 1,000 students at six strengths of selection", console=console)
    ]
    shown = simulations[GAMMAS.index(SHOWN)]
    shown.write(out / "log")
    console.print(f"\nA log in which students skip what is too hard or too dull (gamma {SHOWN}):")
    show_inspection(inspect_log(shown.offers()), console)
    picture = out / "selection.png"
    plot_selection(simulations, picture)
    console.print(
        f"\nThe log and its truth: {out / 'log'}\nHow the log departs from the truth: {picture}",
        soft_wrap=True,
    )
