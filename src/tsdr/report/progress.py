"""How training comes along: loss, validation score, and the time to go; and how a grid of trainings does."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from tsdr.records.run import Record, Run
from tsdr.training.epoch import Epoch
from tsdr.training.options import TrainingOptions


class TrainingProgress:
    """A line for each training: the epochs until patience runs out, and how long they take."""

    def __init__(self, training: TrainingOptions, console: Console) -> None:
        self.training = training
        self.tasks: dict[str, TaskID] = {}
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=12),
            TextColumn("{task.fields[state]}"),
            TimeElapsedColumn(),
            console=console,
        )

    def __enter__(self) -> "TrainingProgress":
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def of_run(self, run: Run, epoch: Epoch) -> None:
        """Show an epoch of one run of several."""
        self.epoch(epoch, f"{run.backbone} {run.method}, fold {run.fold + 1} of {run.options['folds']}")

    def epoch(self, epoch: Epoch, of: str = "training") -> None:
        """Show an epoch."""
        if of not in self.tasks:
            self.tasks[of] = self.progress.add_task(of, state="")
        last = min(epoch.best_epoch + self.training.patience, self.training.max_epochs)
        left = (last - epoch.number) * epoch.seconds
        state = (
            f"epoch {epoch.number}: loss {epoch.loss:.4f}, {epoch.score_name} {epoch.score:.4f}, "
            f"best {epoch.best_score:.4f} at {epoch.best_epoch}; {left:.0f} s to go"
        )
        self.progress.update(self.tasks[of], total=last, completed=epoch.number, state=state)


class GridProgress:
    """A bar over the runs of a grid, with what ended last and, after the first runs, the time that is left.

    A run that is still to come is expected to take as long as those of its backbone and method have taken, or else
    those of its backbone, or else the average one.
    """

    def __init__(self, runs: Sequence[Run], done: Iterable[Record], workers: int, console: Console) -> None:
        self.workers = workers
        self.left = list(runs)
        self.seconds = defaultdict[tuple[str, ...], list[float]](list)
        for record in done:
            self._learn(record)
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[state]}"),
            console=console,
        )
        self.task = self.progress.add_task("Runs", total=len(self.left), state="")

    def __enter__(self) -> "GridProgress":
        self.progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.progress.stop()

    def ended(self, run: Run, record: Record | None) -> None:
        """A run has ended; without a record it has failed."""
        self.left.remove(run)
        came = "failed"
        if record is not None:
            self._learn(record)
            came = f"AUC {record.metrics['auc']:.4f}, {record.epochs} epochs in {record.seconds:.0f} s"
        state = f"about {_duration(self.time_left())} left" if self.left else ""
        self.progress.update(self.task, advance=1, state=state)
        what = f"{run.dataset} {run.backbone} {run.method} seed {run.seed} fold {run.fold}"
        self.progress.console.print(f"{what}: {came}" + (f"; {state}" if state else ""), soft_wrap=True)

    def time_left(self) -> float:
        """The expected seconds until the last run ends."""
        return sum(self._expected(run) for run in self.left) / self.workers

    def _learn(self, record: Record) -> None:
        for key in _alike(record):
            self.seconds[key].append(record.seconds)

    def _expected(self, run: Run) -> float:
        known = next((self.seconds[key] for key in _alike(run) if self.seconds[key]), [0.0])
        return sum(known) / len(known)


def _alike(run: Run) -> tuple[tuple[str, ...], ...]:
    """What runs that take about as long have in common, the closest first."""
    return (run.backbone, str(run.method)), (run.backbone,), ()


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02} min" if minutes >= 60 else f"{max(1, minutes)} min"


@contextmanager
def resumable(how: str, where: str = "the last whole epoch") -> Iterator[None]:
    """Say, when the user stops a run, how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        complain("stopped:", f"{how} goes on from {where}.")
        raise


def complain(kind: str, message: str) -> None:
    """Print a sentence to standard error, with its kind before it."""
    Console(stderr=True).print(Text.assemble((kind, "bold red"), " ", message), soft_wrap=True)
