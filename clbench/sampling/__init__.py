"""Sampling: one interface, whichever engine stands behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clbench.sampling.interface import Completion, Sampler, SamplingConfig

if TYPE_CHECKING:
    from clbench.sampling.torch_sampler import TorchSampler

__all__ = ["Completion", "Sampler", "SamplingConfig", "TorchSampler"]


def __getattr__(name: str) -> Any:
    if name == "TorchSampler":
        from clbench.sampling.torch_sampler import TorchSampler

        return TorchSampler
    raise AttributeError(f"module 'clbench.sampling' has no attribute {name!r}")
