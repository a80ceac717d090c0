"""The interface of a service as a page, from its own OpenAPI description: routes, parameters and messages."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_METHODS = ("get", "post", "put", "delete")


@dataclass(frozen=True)
class Field:
    """A parameter, or a part of a message."""

    name: str
    kind: str
    needed: bool
    what: str


@dataclass(frozen=True)
class Operation:
    """What one route does, what it takes and gives, and what it says otherwise."""

    method: str
    path: str
    what: str
    parameters: list[Field]
    takes: str
    gives: str
    otherwise: dict[str, str]


def operations_of(openapi: Mapping[str, Any]) -> Iterator[Operation]:
    """All routes that are described."""
    for path, methods in openapi["paths"].items():
        for method in _METHODS:
            if method in methods:
                yield _operation(method.upper(), path, methods[method])


def messages_of(openapi: Mapping[str, Any]) -> dict[str, tuple[str, list[Field]]]:
    """The messages that routes take and give, by name: what each is, and its parts."""
    return {
        name: (schema.get("description", ""), list(_fields(schema)))
        for name, schema in openapi["components"]["schemas"].items()
        if "properties" in schema
    }


def _operation(method: str, path: str, told: Mapping[str, Any]) -> Operation:
    good = {status: said for status, said in told["responses"].items() if status.startswith("2")}
    return Operation(
        method=method,
        path=path,
        what=told.get("description", ""),
        parameters=[
            Field(part["name"], kind_of(part["schema"]), part["required"], part.get("description", ""))
            for part in told.get("parameters", [])
        ],
        takes=_content(told.get("requestBody", {})),
        gives=" or ".join(filter(None, map(_content, good.values()))),
        otherwise={status: said["description"] for status, said in told["responses"].items() if status not in good},
    )


def _content(said: Mapping[str, Any]) -> str:
    return " or ".join(kind_of(told.get("schema", {})) or name for name, told in said.get("content", {}).items())


def _fields(schema: Mapping[str, Any]) -> Iterator[Field]:
    needed = schema.get("required", [])
    for name, part in schema["properties"].items():
        yield Field(name, kind_of(part), name in needed, part.get("description", ""))


def kind_of(schema: Mapping[str, Any]) -> str:
    """What a value is, in a few words.

    >>> kind_of({"anyOf": [{"type": "array", "items": {"$ref": "#/components/schemas/Asked"}}, {"type": "null"}]})
    'list of Asked or null'
    """
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(map(kind_of, schema[several])))
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "const" in schema or "enum" in schema:
        return " or ".join(map(str, schema.get("enum", [schema.get("const")])))
    if schema.get("type") == "array":
        return f"list of {kind_of(schema['items'])}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"{kind_of(schema['additionalProperties'])} by name"
    return str(schema.get("format") or schema.get("type", ""))
