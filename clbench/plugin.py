"""What methods and tasks have in common: a name, a config, and where they came from."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar, Union, get_args, get_origin

import pydantic

from clbench.errors import UserError


class Config(pydantic.BaseModel):
    """Base of every config: frozen, and a key that is not declared is an error.

    A sweep is a tuple field; a single value given for it on the command line (`-p scale=0.5`) becomes a tuple of one.
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True)

    @pydantic.model_validator(mode="before")
    @classmethod
    def _one_value_is_a_sweep_of_one(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        values = dict(values)
        for key, value in values.items():
            field = cls.model_fields.get(key)
            is_one = value is not None and not isinstance(value, list | tuple | set)
            if is_one and field is not None and _is_sweep(field.annotation):
                values[key] = (value,)
        return values


def _is_sweep(annotation: Any) -> bool:
    if get_origin(annotation) in (Union, types.UnionType):
        return any(_is_sweep(argument) for argument in get_args(annotation))
    return get_origin(annotation) is tuple


ConfigT = TypeVar("ConfigT", bound=Config)


def parse_config(model: type[ConfigT], values: Mapping[str, Any], *, what: str) -> ConfigT:
    """`values` as a `model`.

    Raises:
        UserError: naming each wrong key or value, and what is allowed there.
    """
    try:
        return model.model_validate(dict(values))
    except pydantic.ValidationError as error:
        raise UserError(f"{what}: " + "; ".join(_problem(model, item) for item in error.errors())) from None


def _problem(model: type[pydantic.BaseModel], error: Any) -> str:
    location = [str(part) for part in error["loc"]]
    key = ".".join(location) or "config"
    if error["type"] == "extra_forbidden":
        owner = _owner(model, location[:-1])
        return f"unknown key {key!r}; allowed: {', '.join(owner.model_fields) or 'none'}"
    if error["type"] == "missing":
        return f"missing key {key!r}"
    message = str(error["msg"]).removeprefix("Value error, ")
    return f"{key} = {error['input']!r}: {message[:1].lower()}{message[1:]}"


def _owner(model: type[pydantic.BaseModel], location: list[str]) -> type[pydantic.BaseModel]:
    for part in location:
        field = model.model_fields.get(part)
        annotation = field.annotation if field else None
        if not (isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel)):
            break
        model = annotation
    return model


class Plugin(Generic[ConfigT]):
    """A method or a task: constructed from a checked config and nothing else."""

    name: ClassVar[str]
    """The name on the command line and in records: lower case, words joined by hyphens."""

    Config: ClassVar[type[Config]] = Config
    """The config's schema. Its defaults are the plugin's defaults."""

    config: ConfigT

    def __init__(self, config: ConfigT) -> None:
        self.config = config

    @classmethod
    def from_values(cls, values: Mapping[str, Any] | None = None) -> Any:
        """Build the plugin from plain values, with errors that a user can act on (`UserError`)."""
        return cls(parse_config(cls.Config, values or {}, what=cls.name))  # type: ignore[arg-type]
