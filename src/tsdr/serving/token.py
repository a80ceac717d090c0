"""The one secret of a service: who brings it may read and write all."""

import hmac

from starlette.requests import Request

from tsdr.errors import InputError

LONGEST = 1000
SIGNED_IN = "tsdr_token"  # the cookie of a browser that has brought it


class Token:
    """A token that requests must bring; nothing is asked for where there is none."""

    def __init__(self, secret: str | None) -> None:
        if secret and not (secret.isascii() and secret.isprintable() and secret == secret.strip()):
            raise InputError("a token has printable ASCII characters only, no space at either end: so headers are sent")
        if secret and len(secret) > LONGEST:
            raise InputError(f"a token has at most {LONGEST:,} characters; this one has {len(secret):,}")
        self._secret = secret or None

    @property
    def is_asked(self) -> bool:
        """Whether there is one."""
        return self._secret is not None

    def is_right(self, brought: str) -> bool:
        """Whether it is what was brought, in a time that does not tell how much of it is."""
        return self._secret is None or hmac.compare_digest(brought.encode(), self._secret.encode())

    def signed_in(self, request: Request) -> bool:
        """Whether a browser has brought it before."""
        return self.is_right(request.cookies.get(SIGNED_IN, ""))

    def brought_by(self, request: Request) -> bool:
        """Whether a request brings it: in its header or, from a browser, as a cookie."""
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        return self.is_right(given) if scheme.lower() == "bearer" else self.signed_in(request)
