from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest

from conftest import cross_validate
from tsdr import Folds, Population, Sequences, simulate
from tsdr.judging.experiment import Experiment
from tsdr.records.folder import RecordFolder
from tsdr.report.plots import observed_departure, plot_comparison, plot_selection
from tsdr.training.options import TrainingOptions

# Questions of one difficulty: then the concept's truth is the question's, and skipping tells nothing within a band.
ALIKE = Population(difficulty_sd=0)


def test_logged_answers_depart_from_the_truth_only_under_selection() -> None:
    centre, departure, error = observed_departure(simulate(gamma=0.999, students=1000))
    assert np.abs(departure / error).max() > 5
    assert departure[centre > 0.7].max() < 0
    # Bands of a continuous truth are not points: logged cells may sit elsewhere in a band than all cells do, hence
    # the allowance of one point beside the sampling error.
    _, departure, error = observed_departure(simulate(gamma=0.0, students=1000, population=ALIKE))
    assert (np.abs(departure) < 4 * error + 0.01).all()


def test_the_picture_is_a_png_of_a_readable_size(tmp_path: Path) -> None:
    path = tmp_path / "new" / "selection.png"
    plot_selection([simulate(gamma, students=50) for gamma in (0.0, 0.8)], path)
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG")
    width = int.from_bytes(content[16:20], "big")
    assert width == pytest.approx(1500, abs=10)


def test_the_comparison_is_drawn_for_whatever_methods_there_are(tmp_path: Path) -> None:
    simulation = simulate(students=40, questions=12, concepts=3)
    sequences = Sequences.from_log(simulation.log, window=8)
    folds = Folds.by_student(sequences.student, 2, seed=1)
    experiment = Experiment("simulated", sequences, sequences, folds, RecordFolder(tmp_path), simulation.truth)
    training = TrainingOptions(max_epochs=1, device="cpu")
    records = [
        record
        for method in ("naive", "tsdr:alpha=1")
        for record in cross_validate(experiment, backbone="dkt", options={}, training=training, method=method)
    ]
    plot_comparison(records, records[:1], tmp_path / "picture.png")
    picture = plt.imread(tmp_path / "picture.png")
    assert picture.shape[1] == 1500
    assert picture[..., :3].std() > 0.05, "something is drawn"
