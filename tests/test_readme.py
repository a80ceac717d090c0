import re
from pathlib import Path

import pytest

from tsdr import Batch

README = Path(__file__).parents[1] / "README.md"


def test_the_python_example_runs_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [f"u{s},{i % 3};{i % 2},{(s + i) % 2}" for s in range(20) for i in range(60)]
    (tmp_path / "answers.csv").write_text("user_id,skills,score\n" + "\n".join(rows))
    monkeypatch.chdir(tmp_path)
    example = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert example is not None
    names: dict[str, object] = {}
    exec(example.group(1), names)
    batch = names["batch"]
    assert isinstance(batch, Batch)
    assert batch.mask.shape == (14, 50)  # 20 students less 4 for the test and 2 for validation
