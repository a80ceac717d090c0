"""How a model is trained."""

from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, NonNegativeFloat, PositiveFloat, PositiveInt

from tsdr.defaults import SEED

if TYPE_CHECKING:
    import torch

Device = Literal["auto", "cpu", "cuda"]
# Of the validation students: the AUC of their answers, or what is minimised in training, that is the log loss of their
# answers and, where a method imputes, the error against what is imputed for cells that were not logged.
StopBy = Literal["auc", "loss"]


class TrainingOptions(BaseModel):
    """How a model is trained; the defaults are the experiments', but for `stop_by`, where the paper's is "auc"."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    learning_rate: PositiveFloat = 1e-3
    weight_decay: NonNegativeFloat = 0.0
    batch_size: PositiveInt = 64
    patience: PositiveInt = 15
    max_epochs: PositiveInt = 200
    seed: int = SEED
    device: Device = "auto"
    stop_by: StopBy = "loss"

    def settings(self) -> dict[str, Any]:
        """What a record says of it; the paper's rule of stopping goes without saying."""
        left_out = {"seed", "device"} | ({"stop_by"} if self.stop_by == "auc" else set())
        return self.model_dump(exclude=left_out)

    def torch_device(self) -> "torch.device":
        """The device to train on."""
        from tsdr.devices import device_named  # options are read, and commands explained, without torch

        return device_named(self.device)
