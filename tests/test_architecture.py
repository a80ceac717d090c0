"""The table of rooms in docs/architecture.md is what the imports are."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "tsdr"
ROW = re.compile(r"^\| (?P<room>`[^|]*`) \| (?P<imports>[^|]*) \| [^|]* \|$", re.MULTILINE)
LOOP = {"debias/", "training/", "judging/", "experiments/"}


def rooms() -> dict[str, tuple[list[str], set[str]]]:
    """For each room, by the first path of its row: all of its paths, and the rooms that it may import from."""
    found = {}
    for row in ROW.finditer((ROOT / "docs" / "architecture.md").read_text()):
        first, *others = re.findall(r"`([^`]+)`", row["room"])
        folder = first.rpartition("/")[0]
        inside = [f"{folder}/{path}" if folder and path.endswith(".py") else path for path in others]
        found[first] = [first, *inside], set(re.findall(r"`([^`]+)`", row["imports"]))
    return found


def room_of(path: str) -> str:
    """The room of a module: the row with the longest path that it lies in."""
    places = [(len(part), name) for name, (parts, _) in rooms().items() for part in parts if path.startswith(part)]
    assert places, f"{path} is in no room of docs/architecture.md"
    return max(places)[1]


def imported(path: Path) -> Iterator[str]:
    """The modules of ours that a module imports, anywhere in it, as paths."""
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "tsdr":
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.split(".")[0] == "tsdr"]
        yield from map(path_of, names)


def path_of(name: str) -> str:
    """The path of a module, or of the one that a name is in."""
    inside = SOURCE.joinpath(*name.split(".")[1:])
    while not (inside.is_dir() or inside.with_suffix(".py").exists()):
        inside = inside.parent
    return str((inside / "__init__.py" if inside.is_dir() else inside.with_suffix(".py")).relative_to(SOURCE))


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_imports_what_its_room_may(path: Path) -> None:
    own = room_of(str(path.relative_to(SOURCE)))
    allowed = rooms()[own][1]
    if "everything" in allowed:
        return
    for other in imported(path):
        assert room_of(other) in {own, *allowed}, f"{path.name} of {own} imports {other}"


def test_arrows_point_one_way() -> None:
    known = {name: imports - {"everything"} for name, (_, imports) in rooms().items()}
    assert all(imports <= set(known) for imports in known.values()), "a row names a room that there is not"
    assert list(TopologicalSorter(known).static_order()), "static_order raises CycleError for a ring"


def test_a_service_needs_no_objective_and_no_training_loop() -> None:
    known = {name: imports for name, (_, imports) in rooms().items()}
    reached, to_visit = set(), ["serving/"]
    while to_visit:
        room = to_visit.pop()
        if room not in reached:
            reached.add(room)
            to_visit += known[room]
    assert not reached & LOOP


def loaded(program: str) -> list[str]:
    """What a program that ends well has imported, of ours and torch."""
    ending = f"{program}\nimport sys; print(*(m for m in sys.modules if m.split('.')[0] in ('tsdr', 'torch')))"
    return subprocess.run([sys.executable, "-c", ending], capture_output=True, text=True, check=True).stdout.split()


def test_a_server_loads_what_it_serves_with_and_no_more() -> None:
    pytest.importorskip("fastapi", reason="the extra `serve` is not installed")
    ours = [module for module in loaded("import tsdr.serving.server") if module.startswith("tsdr.")]
    assert not [module for module in ours if f"{module.split('.')[1]}/" in LOOP]


@pytest.mark.parametrize("command", ["--help", "inspect {log}", "datasets", "prepare wcrp {raw} --out {out}"])
def test_commands_about_logs_do_not_wait_for_torch(command: str, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("student,concept,correct\na,c,1\na,c,0\n")
    raw = tmp_path / "raw"
    raw.mkdir()
    arguments = command.format(log=tmp_path / "log.csv", raw=raw, out=tmp_path / "log.parquet").split()
    program = f"""
import sys
from tsdr.cli import main
sys.argv = ["tsdr", *{arguments!r}]
try:
    main()
except SystemExit:
    pass
print()
"""
    assert "torch" not in loaded(program)
