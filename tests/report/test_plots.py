from pathlib import Path

import numpy as np
import pytest

from tsdr import Population, simulate
from tsdr.report.plots import observed_departure, plot_selection

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
