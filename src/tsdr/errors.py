"""What the package raises when it refuses its input."""


class InputError(ValueError):
    """The input cannot be used as it is; the message says where, why, and what to do next."""
