"""Backbones of one's own are known to commands, to workers and to services, and nothing runs that was not named."""

import json
import os
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

import tsdr
from tsdr import InputError
from tsdr.backbones import backbone_names, contract, plugins
from tsdr.cli import app, main
from tsdr.devices import THREADS
from tsdr.experiments.engines import Job, Processes
from tsdr.experiments.logs import Simulated
from tsdr.judging.experiment import plan_folds
from tsdr.records.folder import RecordFolder
from tsdr.records.run import Record
from tsdr.serving.students import on_one_core
from tsdr.serving.workers import Workers
from tsdr.training.options import TrainingOptions

SOURCE = """
from pathlib import Path

import tsdr
from tsdr.backbones.dkt import DKT

Path(__file__).with_suffix(".ran").touch()


@tsdr.register_backbone("{name}")
class Mine(DKT):
    \"\"\"Like dkt.\"\"\"
"""
TRAINING = TrainingOptions(max_epochs=1, device="cpu")


@pytest.fixture
def forget(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Be as a process that has not loaded any plugin."""
    ours = dict(contract._REGISTRY)

    def forget() -> None:
        monkeypatch.setattr(contract, "_REGISTRY", dict(ours))
        monkeypatch.setattr(plugins, "_loaded", {})

    forget()
    return forget


def plugin(folder: Path, name: str = "mine", file: str = "my_backbone.py") -> Path:
    path = folder / file
    path.write_text(SOURCE.format(name=name))
    return path


def ran(path: Path) -> bool:
    return path.with_suffix(".ran").exists()


def bundle(folder: Path, backbone: str) -> Path:
    log = tsdr.simulate(students=30, questions=8, concepts=3).log
    tsdr.fit(log, backbone=backbone, method="naive", options={"d": 8}, training=TRAINING).save(folder)
    return folder


def test_a_plugin_is_run_once_and_again_when_it_has_changed(tmp_path: Path, forget: Callable[[], None]) -> None:
    path = plugin(tmp_path)
    assert tsdr.load_plugin(path) == ("mine",)
    path.with_suffix(".ran").unlink()
    assert tsdr.load_plugin(path) == ("mine",)
    assert not ran(path), "it was run twice"
    assert "mine" in backbone_names()
    path.write_text(path.read_text().replace("Like dkt", "Much like dkt"))
    tsdr.load_plugin(path)
    assert ran(path)


def test_a_plugin_may_import_what_lies_beside_it(
    tmp_path: Path, forget: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "lies_beside_it.py").write_text("NAME = 'besides'")
    path = plugin(tmp_path)
    path.write_text("from lies_beside_it import NAME\n" + path.read_text().replace('"mine"', "NAME"))
    assert tsdr.load_plugin(path) == ("besides",)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (None, "there is no such file"),
        ("import tsdr\nx = 1 / 0", r"my_backbone\.py, line 2: cannot be run as a plugin \(ZeroDivisionError"),
        ("def f(:", r"cannot be run as a plugin \(SyntaxError"),
        ("x = 1", r"registers no backbone; write @tsdr\.register_backbone"),
        (SOURCE.format(name="akt"), "there is a backbone named 'akt' already"),
    ],
)
def test_a_plugin_that_is_none_is_refused_in_a_sentence(
    source: str | None, said: str, tmp_path: Path, forget: Callable[[], None]
) -> None:
    path = tmp_path / "my_backbone.py"
    if source is not None:
        path.write_text(source)
    with pytest.raises(InputError, match=said):
        tsdr.load_plugin(path)


def test_two_plugins_of_one_file_name_are_not_mixed_up(tmp_path: Path, forget: Callable[[], None]) -> None:
    (tmp_path / "other").mkdir()
    tsdr.load_plugin(plugin(tmp_path))
    with pytest.raises(InputError, match="has the same name; rename one"):
        tsdr.load_plugin(plugin(tmp_path / "other", name="other"))


def test_a_bundle_says_which_plugin_it_needs_and_does_not_run_it(tmp_path: Path, forget: Callable[[], None]) -> None:
    path = plugin(tmp_path)
    tsdr.load_plugin(path)
    made = bundle(tmp_path / "bundle", "mine")
    description = json.loads((made / "bundle.json").read_text())
    assert description["plugin"]["file"] == "my_backbone.py"
    path.with_suffix(".ran").unlink()
    for said in ("my_backbone.py", str(path)):  # not even where it is said to lie
        description["plugin"]["file"] = said
        (made / "bundle.json").write_text(json.dumps(description))
        forget()
        with pytest.raises(InputError, match=r"my_backbone\.py': if you trust it, name it with --plugin"):
            tsdr.load(made)
        assert not ran(path)


@pytest.mark.filterwarnings("error")
def test_a_bundle_is_read_with_its_plugin_and_warns_of_another_one(tmp_path: Path, forget: Callable[[], None]) -> None:
    path = plugin(tmp_path)
    tsdr.load_plugin(path)
    made = bundle(tmp_path / "bundle", "mine")
    before = tsdr.load(made).session().mastery()
    forget()
    tsdr.load_plugin(path)
    assert tsdr.load(made).session().mastery() == before
    path.write_text(path.read_text() + "\n# other\n")
    tsdr.load_plugin(path)
    with pytest.warns(UserWarning, match="is not what it was when the model was trained; audit it"):
        tsdr.load(made)


def install(site: Path, source: str, module: str = "my_package_of_backbones") -> None:
    """A package as pip leaves it."""
    about = site / "my_package-1.2.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.2\n")
    (about / "entry_points.txt").write_text(f"[tsdr.backbones]\npackaged = {module}\n")
    (site / f"{module}.py").write_text(source)


def test_an_installed_package_is_imported_when_its_backbone_is_asked_for(
    tmp_path: Path, forget: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "my_package_of_backbones.py"
    install(tmp_path, SOURCE.format(name="packaged"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, module.stem, raising=False)
    assert "packaged" in backbone_names()
    tsdr.check_backbone("dkt")
    assert not ran(module)
    made = bundle(tmp_path / "bundle", "packaged")
    assert ran(module)
    assert json.loads((made / "bundle.json").read_text())["plugin"] == {"package": "my-package", "version": "1.2"}
    monkeypatch.setattr(sys, "path", [folder for folder in sys.path if folder != str(tmp_path)])
    forget()
    with pytest.raises(InputError, match=r"the package 'my-package' 1\.2: if you trust it, install it"):
        tsdr.load(made)


@pytest.mark.parametrize(
    ("source", "said"), [("import nothing_of_that_name", "fails as it is imported"), ("x = 1", "registers none of")]
)
def test_an_installed_package_that_fails_is_named(
    source: str, said: str, tmp_path: Path, forget: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, source, module="my_broken_package")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_broken_package", raising=False)
    with pytest.raises(InputError, match=said):
        tsdr.check_backbone("packaged")


def test_every_command_takes_plugins() -> None:
    commands = [command for group in app.registered_groups for command in group.typer_instance.registered_commands]  # type: ignore[union-attr]
    assert len(commands) > 15
    assert all("plugin" in command.callback.__annotations__ for command in commands if command.callback)


def test_a_command_knows_the_backbone_of_its_plugin(
    tmp_path: Path, forget: Callable[[], None], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = plugin(tmp_path)
    monkeypatch.setattr(sys, "argv", ["tsdr", "audit", "mine", "--plugin", str(path)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    assert "streaming is batch" in capsys.readouterr().out


def test_workers_know_plugins_and_the_number_of_threads_that_is_set(
    tmp_path: Path, forget: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(THREADS, "2")
    tsdr.load_plugin(plugin(tmp_path))
    experiment = Simulated(0.8, 30, 8, 3).experiment(RecordFolder(tmp_path), 2, seed=1)
    planned = plan_folds(experiment, backbone="mine", options={"d": 8}, training=TRAINING, method="naive")
    (came,) = Processes(1).run([Job(experiment, planned[0])])
    assert isinstance(came, Record), came
    assert came.threads == min(2, os.cpu_count() or 1), "it has one where nothing is set"
    assert came.options["plugin"]["file"] == "my_backbone.py", "a record of another source is of another run"


def test_a_process_of_a_service_knows_plugins(
    tmp_path: Path, forget: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    tsdr.load_plugin(plugin(tmp_path))
    made = bundle(tmp_path / "bundle", "mine")
    monkeypatch.setattr("tsdr.serving.workers.GIVE_UP_SECONDS", 0.0)

    def work(place: int, telling: Connection) -> None:
        on_one_core()
        telling.send(f"it reads {tsdr.load(made).bundle.backbone}")
        time.sleep(60)

    with pytest.raises(InputError, match=r"\(it reads mine\)"):
        Workers(1, work).run()
