"""One model, trained by the workers of a Ray cluster together.

What is to be learned is prepared here, and sent to them; what they tell of every epoch, with the checkpoint to go on
from, comes to a board that lies beside the process that asked for it. Ray Train starts all of them anew where one dies,
and they go on from the board. Nothing has to be shared by the machines but the package.
"""

import logging
import socket
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tsdr.backbones.plugins import loaded_plugins
from tsdr.devices import MOST_THREADS, RandomState, random_state, set_random_state
from tsdr.errors import InputError, extra_missing, in_a_sentence
from tsdr.lessons import Lessons
from tsdr.parallel import Workers
from tsdr.sequences import Sequences
from tsdr.training.checkpoint import keep_checkpoint, read_checkpoint
from tsdr.training.epoch import Epoch
from tsdr.training.learner import Learner
from tsdr.training.options import Device, TrainingOptions
from tsdr.training.trainer import fingerprint, fit

ATTEMPTS = 5  # at an epoch: what dies over it so often is not done in by chance
# Everything on the loopback, and workers as urgent as this process is: Ray's own are to make way for all else.
OF_ONE_MACHINE: dict[str, Any] = {
    "include_dashboard": False,
    "_node_ip_address": "127.0.0.1",
    "_system_config": {"worker_niceness": 0},
}
REACHED_WITHIN = 10.0  # seconds
PAUSE = 0.1  # seconds between two looks at the board
LONGEST_REASON = 300  # characters; Ray goes on about memory and processes


def connected(address: str | None) -> Any:
    """Ray, connected to the cluster at an address or, without one, to a new one of this machine alone."""
    try:
        import ray
    except ImportError as error:
        raise extra_missing("the ray engine needs Ray", "ray") from error
    if ray.is_initialized():
        raise InputError("this process is connected to a Ray cluster already; call ray.shutdown() first")
    if address not in (None, "auto"):
        _check_reachable(address)
    try:
        ray.init(
            address=address or "local",
            log_to_driver=False,
            logging_level=logging.ERROR,
            **({} if address else OF_ONE_MACHINE),
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        where = f"there is no Ray cluster at {address}" if address else "Ray cannot be started on this machine"
        raise InputError(f"{where} ({_shortened(error)})") from error
    return ray


def _check_reachable(address: str) -> None:
    """Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise InputError(f"--address {address}: write the head's host and port, as in 192.168.0.1:6379")
    try:
        socket.create_connection((host, int(port)), timeout=REACHED_WITHIN).close()
    except (OSError, OverflowError) as error:
        raise InputError(
            f"there is no Ray cluster at {address} ({in_a_sentence(error)}); start its head with ray start --head, or "
            "leave the address out"
        ) from error


@dataclass(frozen=True)
class Room:
    """What there is for so many workers: the threads that each of them has, and whether each has a GPU."""

    workers: int
    threads: int
    gpu: bool

    @classmethod
    def among(cls, machines: Sequence[dict[str, float]], workers: int, *, parallel: bool, device: Device) -> "Room":
        """On machines with these resources; a worker has one thread, or as many as all of them can have if it helps.

        >>> Room.among([{"CPU": 8.0}, {"CPU": 4.0}], 3, parallel=True, device="auto")
        Room(workers=3, threads=4, gpu=False)
        """
        cores = [int(machine.get("CPU", 0)) for machine in machines]
        if sum(cores) < workers:
            raise InputError(
                f"there are {sum(cores)} cores in the Ray cluster, too few for {workers} workers; use fewer --workers, "
                "or add machines to it"
            )
        gpus = int(sum(machine.get("GPU", 0) for machine in machines))
        if device == "cuda" and gpus < workers:
            raise InputError(
                f"there are {gpus} GPUs in the Ray cluster, too few for {workers} workers on --device cuda"
            )
        most = MOST_THREADS if parallel else 1
        threads = next(n for n in range(most, 0, -1) if sum(core // n for core in cores) >= workers)
        return cls(workers, threads, device != "cpu" and gpus >= workers)


@dataclass(frozen=True)
class Task:
    """All that a worker has to be sent: what learns, from whom, and where random numbers stand."""

    learner: Learner
    train: Lessons
    validation: Sequences
    options: TrainingOptions
    random: RandomState


@dataclass(frozen=True)
class Result:
    """The weights of the trained model, settled, and its epochs."""

    weights: dict[str, Tensor]
    epochs: list[Epoch]


@dataclass(frozen=True)
class News:
    """Epochs that have ended, the checkpoint after the last of them, why there is nothing more to come, and the end.

    Before them, what users are warned of.
    """

    warned: list[str]
    epochs: list[Epoch]
    checkpoint: bytes | None
    failed: str | None
    result: Result | None


class Board:
    """What the first of the workers has told, for the others when they begin anew, and for whoever waits for it.

    It is an actor of Ray's, beside whoever waits.
    """

    def __init__(self, checkpoint: bytes | None) -> None:
        self.checkpoint = checkpoint
        self._told: list[Epoch] = []
        self._warned: dict[str, bool] = {}  # what users are warned of, and whether they have been
        self._attempts, self._reason = 0, "its workers died"
        self._failed: str | None = None
        self._result: Result | None = None

    def begin(self, first: bool) -> bytes | None:
        """The checkpoint to go on from, if there is one."""
        self._attempts += first
        if self._attempts > ATTEMPTS:
            self._failed = f"the training has failed {ATTEMPTS} times in the same epoch: {self._reason}"
        return self.checkpoint

    def tell(self, epoch: Epoch, checkpoint: bytes) -> None:
        """One more epoch is through."""
        self._told.append(epoch)
        self.checkpoint, self._attempts = checkpoint, 0

    def warn(self, of: str) -> None:
        """Something to warn users of, once, however often it begins anew."""
        self._warned.setdefault(of, False)

    def fail(self, reason: str, final: bool) -> None:
        """Something went wrong: for good, or so that another attempt may do."""
        self._reason = reason
        self._failed = reason if final else self._failed

    def end(self, result: Result) -> None:
        """The training is through."""
        self._result = result

    def news(self) -> News:
        """What has been told since this was last asked."""
        told, self._told = self._told, []
        warned = [of for of, done in self._warned.items() if not done]
        self._warned.update(dict.fromkeys(warned, True))
        return News(warned, told, self.checkpoint if told else None, self._failed, self._result)


class RayTeam:
    """So many workers of a Ray cluster, who train whatever learns as the training loop would here."""

    def __init__(self, workers: int, address: str | None, *, parallel: bool, device: Device) -> None:
        if workers < 1:
            raise InputError(f"a model is trained by one worker at least, not by {workers}")
        self._ray = connected(address)
        machines = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        try:
            self.room = Room.among(machines, workers, parallel=parallel, device=device)
        except InputError:
            self.close()
            raise

    def close(self) -> None:
        """Part from the cluster, which ends whatever is still at work there; a cluster of one's own ends with it."""
        self._ray.shutdown()

    def fit(
        self,
        learner: Learner,
        train: Lessons,
        validation: Sequences,
        options: TrainingOptions,
        *,
        checkpoint: Path | None = None,
        resume: bool = False,
        on_epoch: Callable[[Epoch], None] = lambda epoch: None,
    ) -> list[Epoch]:
        """Train until it is done, or go on; the learner's model has the best weights then."""
        ray = self._ray
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the workers will say it
            learner.check(train, validation)
        begun = None
        if resume and checkpoint is not None and checkpoint.exists():
            read_checkpoint(checkpoint, fingerprint(learner, train, validation, options))
            begun = checkpoint.read_bytes()
        here = {"ray.io/node-id": ray.get_runtime_context().get_node_id()}
        board = ray.remote(num_cpus=0, label_selector=here)(Board).remote(begun)
        task = ray.put(ray.cloudpickle.dumps(Task(learner, train, validation, options, random_state())))
        work = {"plugins": loaded_plugins(), "task": [task], "board": board, "threads": self.room.threads}
        with tempfile.TemporaryDirectory(prefix="tsdr-ray") as folder:
            training = threading.Thread(target=_run, args=(self.room, work, folder), daemon=True)
            training.start()
            result = self._hear(board, training, checkpoint, on_epoch)
            training.join()
        learner.model.load_state_dict(result.weights)
        learner.model.eval()
        return result.epochs

    def _hear(
        self, board: Any, training: threading.Thread, checkpoint: Path | None, on_epoch: Callable[[Epoch], None]
    ) -> Result:
        """Look at the board until the training is through, and keep the checkpoints that come to it."""
        while True:
            over = not training.is_alive()
            try:
                news: News = self._ray.get(board.news.remote())
            except self._ray.exceptions.RayError as error:
                raise InputError(f"the Ray cluster is lost ({_shortened(error)}); --resume goes on") from error
            if checkpoint is not None and news.checkpoint is not None:
                keep_checkpoint(checkpoint, news.checkpoint)
            for of in news.warned:
                warnings.warn(of, stacklevel=4)
            for epoch in news.epochs:
                on_epoch(epoch)
            if news.failed is not None:
                raise InputError(news.failed)
            if news.result is not None:
                return news.result
            if over:
                raise InputError("the training ended on the Ray cluster before it was through; --resume goes on")
            time.sleep(PAUSE)


def _shortened(error: Exception) -> str:
    """What Ray says, as far as it is about what happened."""
    said = in_a_sentence(error)
    return said if len(said) <= LONGEST_REASON else f"{said[:LONGEST_REASON]} ..."


def _run(room: Room, work: dict[str, Any], folder: str) -> None:
    """Have Ray Train do it, and begin anew where a worker dies; it has a folder for what it writes of itself."""
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    resources = {"CPU": room.threads, **({"GPU": 1} if room.gpu else {})}
    try:
        TorchTrainer(
            _work,
            train_loop_config=work,
            scaling_config=ScalingConfig(num_workers=room.workers, use_gpu=room.gpu, resources_per_worker=resources),
            run_config=RunConfig(storage_path=folder, failure_config=FailureConfig(max_failures=-1)),
        ).fit()
    except Exception as error:
        work["board"].fail.remote(f"Ray Train has given up ({_shortened(error)}); --resume goes on", True)


def _work(config: dict[str, Any]) -> None:
    """The life of a worker, from wherever the training stands."""
    import ray
    from ray.train import get_context
    from ray.train.torch import get_device

    for plugin in config["plugins"]:
        plugin.load()
    first, board = get_context().get_world_rank() == 0, config["board"]
    begun = ray.get(board.begin.remote(first))
    try:
        task: Task = ray.cloudpickle.loads(ray.get(config["task"][0]))
        result = _train(task, get_device(), config["threads"], begun, board if first else None)
    except Exception as error:
        ray.get(board.fail.remote(in_a_sentence(error), isinstance(error, InputError)))
        raise
    if first:
        ray.get(board.end.remote(result))


def _train(task: Task, device: torch.device, threads: int, begun: bytes | None, board: Any) -> Result:
    """Train, as one of a team; the first of it has the board to tell of every epoch."""
    import ray

    learner = task.learner.to(device)
    torch.set_num_threads(threads)
    set_random_state(task.random)
    learner.team = Workers(device)
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder) / "checkpoint"
        if begun is not None:
            checkpoint.write_bytes(begun)

        def tell(epoch: Epoch) -> None:
            if board is not None:
                ray.get(board.tell.remote(epoch, checkpoint.read_bytes()))

        with warnings.catch_warnings():
            if board is not None:
                warnings.showwarning = lambda message, *where: board.warn.remote(str(message))
            epochs = fit(
                learner, task.train, task.validation, task.options, checkpoint=checkpoint, resume=True, on_epoch=tell
            )
    return Result({name: tensor.cpu() for name, tensor in learner.model.state_dict().items()}, epochs)
