"""How training comes along: loss, validation AUC, and the time to go unless a better epoch comes."""

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from tsdr.training.trainer import Epoch, TrainingOptions


class TrainingProgress:
    """A line for each fold: the epochs until patience runs out, and how long they take."""

    def __init__(self, training: TrainingOptions, console: Console, folds: int = 1, name: str = "training") -> None:
        self.training, self.folds, self.name = training, folds, name
        self.tasks: dict[int, TaskID] = {}
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

    def epoch(self, epoch: Epoch) -> None:
        """Show an epoch of the one run."""
        self.fold_epoch(0, epoch)

    def fold_epoch(self, fold: int, epoch: Epoch) -> None:
        """Show an epoch of a fold."""
        if fold not in self.tasks:
            name = f"{self.name}, fold {fold + 1} of {self.folds}" if self.folds > 1 else self.name
            self.tasks[fold] = self.progress.add_task(name, state="")
        last = min(epoch.best_epoch + self.training.patience, self.training.max_epochs)
        left = (last - epoch.number) * epoch.seconds
        state = (
            f"epoch {epoch.number}: loss {epoch.loss:.4f}, AUC {epoch.validation_auc:.4f}, "
            f"best {epoch.best_auc:.4f} at {epoch.best_epoch}; {left:.0f} s to go"
        )
        self.progress.update(self.tasks[fold], total=last, completed=epoch.number, state=state)


@contextmanager
def resumable(how: str) -> Iterator[None]:
    """Say, when the user stops a run, how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        complain("stopped:", f"{how} goes on from the last whole epoch.")
        raise


def complain(kind: str, message: str) -> None:
    """Print a sentence to standard error, with its kind before it."""
    Console(stderr=True).print(Text.assemble((kind, "bold red"), " ", message), soft_wrap=True)
