"""Writes tiny Qwen 2 models, which mlx-lm can split over two ranks in both ways, and describes clusters of this machine alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from engine.cluster.hosts import LOOPBACK, Cluster, Host, Sharding
from tests.engine.tiny_models import weights, write_folder

CONTEXT = 3000


def write_qwen2(folder: Path, nearness: float = 0.0, **changes: object) -> str:
    """The folder with the model; `nearness` above 0 makes another one whose logits resemble it."""
    made = weights()
    if nearness:
        made = {name: array + nearness * weights(9)[name] for name, array in made.items()}
    generator = np.random.default_rng(5)
    for name in list(made):
        if any(part in name for part in ("q_proj", "k_proj", "v_proj")):
            bias = 0.1 * generator.standard_normal(len(made[name]))
            made[name.replace("weight", "bias")] = bias.astype(np.float32)
    return str(write_folder(folder, made, model_type="qwen2", max_position_embeddings=CONTEXT, **changes))


def of_this_machine(ranks: int, sharding: Sharding = "tensor") -> Cluster:
    """A cluster of `ranks` processes on this machine."""
    return Cluster((Host(LOOPBACK, (LOOPBACK,)),) * ranks, sharding=sharding)
