"""How much a Parquet file holds, by its own account: read from its footer, before anything of it is unpacked."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TAIL = 8  # bytes at the end: the length of the footer, and what every file ends with
_VALUE = 8  # bytes at least that a value takes in memory, however many alike are written as one
# Fields of the format's structures that are gone by: numbered as in parquet.thrift.
_ROW_GROUPS, _COLUMNS, _BYTES, _ROWS = 4, 1, 2, 3


@dataclass(frozen=True)
class Expanded:
    """Bytes that a file has once it is unpacked: all of it, and the largest part of it that is unpacked at once."""

    whole: int
    largest: int

    @classmethod
    def of(cls, path: Path) -> "Expanded":
        """By the footer; a ValueError where there is none that can be read."""
        with path.open("rb") as file:
            file.seek(-_TAIL, 2)
            length = int.from_bytes(file.read(4), "little")
            file.seek(-_TAIL - length, 2)
            footer = file.read(length)
        try:
            groups = _Compact(footer).struct().get(_ROW_GROUPS, [])
            sizes = [group[_BYTES] + _VALUE * group[_ROWS] * len(group[_COLUMNS]) for group in groups]
        except (IndexError, KeyError, RecursionError, TypeError) as error:
            raise ValueError("its footer is damaged") from error
        return cls(sum(sizes), max(sizes, default=0))


class _Compact:
    """Thrift's compact protocol, as much of it as footers have: structures become dictionaries by field number."""

    def __init__(self, content: bytes) -> None:
        self.content, self.at = content, 0

    def struct(self) -> dict[int, Any]:
        """The structure that begins here."""
        found: dict[int, Any] = {}
        field = 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else self._integer()
            found[field] = self._value(head & 15)
        return found

    def _value(self, kind: int) -> Any:
        match kind:
            case 1 | 2:  # true and false are in the kind itself
                return kind == 1
            case 3:
                return self._byte()
            case 4 | 5 | 6:
                return self._integer()
            case 7:
                return self._skip(8)
            case 8:
                return self._skip(self._unsigned())
            case 9 | 10:
                head = self._byte()
                size = head >> 4 if head >> 4 < 15 else self._unsigned()
                return [self._byte() if head & 15 in (1, 2) else self._value(head & 15) for _ in range(size)]
            case 12:
                return self.struct()
        raise KeyError(kind)

    def _byte(self) -> int:
        self.at += 1
        return self.content[self.at - 1]

    def _unsigned(self) -> int:
        found = shift = 0
        while (byte := self._byte()) & 128:
            found, shift = found | (byte & 127) << shift, shift + 7
        return found | byte << shift

    def _integer(self) -> int:
        found = self._unsigned()
        return found >> 1 ^ -(found & 1)

    def _skip(self, size: int) -> None:
        self.at += size
        if self.at > len(self.content):
            raise IndexError(self.at)
