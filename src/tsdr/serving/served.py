"""The model that a service serves, and how another takes its place: no request waits for that, and none is lost."""

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from tsdr.diagnosis.findings import Diagnosis
from tsdr.errors import InputError, in_a_sentence
from tsdr.models.model import Model, load
from tsdr.serving.messages import ServedBundle
from tsdr.serving.store import Store
from tsdr.serving.students import Students, on_one_core

SHOWN_DIGITS = 12  # of a digest


class Serving:
    """What requests are answered by: each takes the `students` of its moment, and keeps them until it is answered."""

    def __init__(
        self, model: Model, store: Store, folder: Path | None = None, tell_others: Callable[[], None] = lambda: None
    ) -> None:
        """Serve a model; others that come into the `folder` can take its place, here and in other processes."""
        self._store, self._folder, self.tell_others = store, folder, tell_others
        self._lock = threading.Lock()
        self._serve(model)

    @property
    def bundle(self) -> ServedBundle:
        """Which bundle is served."""
        digest = self.students.model.bundle.digest
        return ServedBundle(name=self._name, weights=digest and digest[:SHOWN_DIGITS], since=self._since)

    def renew(self) -> bool:
        """Serve what is in the folder by now; whether it is another bundle.

        It is checked first. Until then the one before is served, and if it is refused, that stays.
        """
        if self._folder is None:
            raise InputError("this service was given a model, and no folder that another could come into")
        on_one_core()
        with self._lock:
            model, before = checked_model(self._folder), self.students.model.bundle
            if (model.bundle.digest, model.bundle.diagnosis) == (before.digest, before.diagnosis) and before.digest:
                return False
            self._serve(model)
        return True

    def follow(self) -> None:
        """Renew, by nobody's request: what came of it goes to the log of the service."""
        log = logging.getLogger(__name__)
        try:
            changed = self.renew()
        except (InputError, OSError) as error:
            log.error("the model that was served stays: %s", error)
        else:
            log.info("%s bundle is served: %s", "another" if changed else "the same", self.bundle.model_dump_json())

    def _serve(self, model: Model) -> None:
        self._name = None if self._folder is None else self._folder.resolve().name  # of what a link leads to
        self._since = datetime.now(UTC)
        self.students = Students(model, self._store)


def checked_model(folder: Path) -> Model:
    """The model in a folder, if it can be served: it is whole, it answers, and its diagnosis can be shown."""
    model = load(folder)
    diagnosis_of(model)
    if not model.session().mastery_of_all().isfinite().all():
        raise InputError(f"{folder}: what it says of a student without answers is no number; fit it anew")
    return model


def diagnosis_of(model: Model) -> Diagnosis | None:
    """What the bundle says of the selection of its log, or a refusal of what is no diagnosis."""
    if model.bundle.diagnosis is None:
        return None
    try:
        return Diagnosis.model_validate(model.bundle.diagnosis)
    except ValidationError as error:
        raise InputError(f"the bundle's diagnosis cannot be read ({in_a_sentence(error)[:500]})") from error
