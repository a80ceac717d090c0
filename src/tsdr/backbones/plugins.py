"""Backbones of one's own: files that the user names, and packages that are installed. No other code is ever run."""

import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path
from traceback import extract_tb
from types import ModuleType

from tsdr.backbones.contract import backbone_class, installed_backbones, registered_by
from tsdr.errors import InputError, in_a_sentence

_loaded: dict[str, "Plugin"] = {}


@dataclass(frozen=True)
class Plugin:
    """A Python file that registers backbones, with what was in it when it was read."""

    path: Path
    source: bytes

    @classmethod
    def read(cls, path: str | Path) -> "Plugin":
        """The file at a path, of which nothing is run yet."""
        path = Path(path).resolve()
        if not path.is_file():
            raise InputError(f"{path}: there is no such file; a plugin is a Python file that registers a backbone")
        return cls(path, path.read_bytes())

    @property
    def digest(self) -> str:
        """What tells its content from any other."""
        return hashlib.sha256(self.source).hexdigest()

    @property
    def module(self) -> str:
        """What it is called once it is loaded, wherever that is."""
        return f"tsdr_plugin_{self.path.stem}"

    def load(self) -> tuple[str, ...]:
        """Run it, unless that has been done, and give the names of the backbones that it registers."""
        known = _loaded.get(self.module)
        if known is not None and known.path != self.path:
            raise InputError(f"{self.path}: {known.path} is loaded already, and has the same name; rename one of them")
        if known != self:
            self._run()
            _loaded[self.module] = self
        return registered_by(self.module)

    def _run(self) -> None:
        module = sys.modules[self.module] = ModuleType(self.module)
        module.__file__ = str(self.path)
        if str(self.path.parent) not in sys.path:
            sys.path.append(str(self.path.parent))  # it may import what lies beside it
        try:
            exec(compile(self.source, str(self.path), "exec"), vars(module))
        except Exception as error:
            lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == str(self.path)]
            where = f", line {lines[-1]}" if lines else ""
            kind = type(error).__name__
            raise InputError(
                f"{self.path}{where}: cannot be run as a plugin ({kind}: {in_a_sentence(error)})"
            ) from error
        if not registered_by(self.module):
            raise InputError(
                f'{self.path}: registers no backbone; write @tsdr.register_backbone("NAME") above its class'
            )


def load_plugin(path: str | Path) -> tuple[str, ...]:
    """Run a Python file that registers backbones, and give their names: they are known from then on."""
    return Plugin.read(path).load()


def loaded_plugins() -> tuple[Plugin, ...]:
    """The files that were loaded, for other processes to load them, too."""
    return tuple(_loaded.values())


def origin_of(backbone: str) -> dict[str, str] | None:
    """The file or the installed package that a backbone comes from; None if it is one of ours, or of a program."""
    plugin = _loaded.get(backbone_class(backbone).__module__)
    if plugin is not None:
        return {"file": plugin.path.name, "sha256": plugin.digest}
    offered = installed_backbones().get(backbone)
    if offered is None or offered.dist is None:
        return None
    return {"package": offered.dist.name, "version": offered.dist.version}
