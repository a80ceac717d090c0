"""What the package raises when it refuses its input."""

from pydantic import ValidationError


class InputError(ValueError):
    """The input cannot be used as it is; the message says where, why, and what to do next."""


def extra_missing(what: str, extra: str) -> InputError:
    """What to say where a package is missing that comes with one of the extras."""
    return InputError(f"{what}: install tsdr with its extra `{extra}`, as in pip install '.[{extra}]'")


def in_a_sentence(error: Exception) -> str:
    """What an exception says, on one line: for a validation error, each field and what is wrong with it."""
    if isinstance(error, ValidationError):
        faults = ((".".join(map(str, fault["loc"])), fault["msg"]) for fault in error.errors())
        return "; ".join(f"{place}: {message}" if place else message for place, message in faults)
    return " ".join(str(error).split())
