"""Reading and writing checkpoints as safetensors, one file or sharded with an index."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from clbench.canonical import digest, file_sha256
from clbench.errors import IntegrityError, UserError

SINGLE_NAME = "model.safetensors"
INDEX_NAME = "model.safetensors.index.json"


def weight_files(directory: Path) -> list[Path]:
    """The safetensors files of a checkpoint, sorted.

    Raises:
        UserError: if the directory holds none.
    """
    if (directory / INDEX_NAME).is_file():
        weight_map = _weight_map(directory)
        files = sorted({directory / name for name in weight_map.values()})
        for path in files:
            if path.parent != directory or not path.is_file():
                raise UserError(f"{directory / INDEX_NAME} names {path.name}, which is not there.")
        return files
    if (directory / SINGLE_NAME).is_file():
        return [directory / SINGLE_NAME]
    if any(directory.glob("*.bin")):
        raise UserError(
            f"{directory} holds pickled weights (.bin), which can run code; convert it to safetensors first."
        )
    raise UserError(f"{directory} is no checkpoint: neither {SINGLE_NAME} nor {INDEX_NAME} is there.")


def weights_sha256(directory: Path) -> str:
    """One hash over all weight files of a checkpoint: names and contents."""
    return digest({path.name: file_sha256(path) for path in weight_files(directory)})


def _weight_map(directory: Path) -> dict[str, str]:
    try:
        weight_map = json.loads((directory / INDEX_NAME).read_text(encoding="utf-8"))["weight_map"]
        return {str(tensor): str(file) for tensor, file in weight_map.items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UserError(f"{directory / INDEX_NAME} is damaged: it has no weight_map.") from None


class CheckpointReader:
    """Random access to the tensors of a checkpoint directory; nothing is read before it is asked for."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._stack = ExitStack()
        self._files: dict[str, Any] = {}
        for path in weight_files(directory):
            try:
                file = self._stack.enter_context(safe_open(path, framework="pt"))
            except SafetensorError as error:
                self._stack.close()
                raise IntegrityError(f"{path} is damaged: {error}.") from None
            for name in file.keys():  # noqa: SIM118 - safe_open is no mapping
                self._files[name] = file

    def __enter__(self) -> CheckpointReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stack.close()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Tensor names, sorted."""
        return tuple(sorted(self._files))

    def tensor(self, name: str) -> Tensor:
        """The tensor as stored. Raises `KeyError`."""
        tensor: Tensor = self._files[name].get_tensor(name)
        return tensor

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor, without reading it."""
        return tuple(self._files[name].get_slice(name).get_shape())


def write_weights(directory: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors as one safetensors file."""
    directory.mkdir(parents=True, exist_ok=True)
    contiguous = {name: tensor.detach().to("cpu").contiguous() for name, tensor in tensors.items()}
    path = directory / SINGLE_NAME
    try:
        save_file(contiguous, path, metadata={"format": "pt"})
    except SafetensorError as error:
        # The library tells what the system said only as text.
        if (number := re.search(r"os error (\d+)", str(error))) is None:
            raise
        code = int(number.group(1))
        raise OSError(code, os.strerror(code), str(path)) from error


def unique_state(model: torch.nn.Module) -> Iterator[tuple[str, Tensor]]:
    """A model's parameters and persistent buffers, tied ones once, under the first name they have."""
    seen: set[int] = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if id(tensor) not in seen:
            seen.add(id(tensor))
            yield name, tensor
