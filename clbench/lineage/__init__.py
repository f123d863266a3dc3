"""Lineages: the ordered checkpoints of one model."""

from clbench.lineage.lineage import Lineage
from clbench.lineage.manifest import Manifest, built_in_names, read_manifest

__all__ = ["Lineage", "Manifest", "built_in_names", "read_manifest"]
