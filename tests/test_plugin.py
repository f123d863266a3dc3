"""Configs: what is refused, and with which words."""

from __future__ import annotations

import pydantic
import pytest

from clbench.errors import UserError
from clbench.plugin import Config, parse_config


class Inner(Config):
    rate: float | None = pydantic.Field(default=None, gt=0)


class Outer(Config):
    scale: tuple[float, ...] = (1.0,)
    optional: tuple[int, ...] | None = None
    name: str = "x"
    inner: Inner = Inner()


def parse(**values: object) -> Outer:
    return parse_config(Outer, values, what="outer")


def test_one_value_for_a_sweep_is_a_sweep_of_one() -> None:
    assert parse(scale=0.5, optional=3) == Outer(scale=(0.5,), optional=(3,))
    assert parse(optional=None).optional is None


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"scal": 1.0}, ["outer", "unknown key 'scal'", "allowed: scale, optional, name, inner"]),
        ({"inner": {"rat": 1}}, ["unknown key 'inner.rat'", "allowed: rate"]),
        ({"inner": {"rate": -1}}, ["inner.rate = -1", "greater than 0"]),
        ({"scale": ["a"]}, ["scale.0 = 'a'", "valid number"]),
        ({"scale": float("nan")}, ["scale.0", "finite"]),
        ({"scale": float("inf")}, ["scale.0", "finite"]),
        ({"name": 3}, ["name = 3", "valid string"]),
        ({"inner": 3}, ["inner = 3"]),
    ],
)
def test_a_wrong_key_or_value_is_named_with_what_is_allowed(values: dict[str, object], words: list[str]) -> None:
    with pytest.raises(UserError) as caught:
        parse_config(Outer, values, what="outer")
    for word in words:
        assert word in str(caught.value)


def test_a_config_cannot_be_changed() -> None:
    with pytest.raises(pydantic.ValidationError):
        parse().name = "y"  # type: ignore[misc]
