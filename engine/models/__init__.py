"""Models: files and folders read, tokenizers, and which models can draft for which.

Lives here: everything between a name or path and a `LoadedModel`. Does not live here: what a model's cache and layers allow
(`engine.target`), and how files are fetched, hashed and checked (`engine.files`). The drafter that runs a `head_model` is
`engine.drafters.feature_head`. A further kind of model file is a reader beside `gguf_model`, reached from `loading`; it refuses
what it cannot read rightly.
"""

from engine.models.loaded import LoadedModel
from engine.models.loading import load
from engine.models.pair_check import PairReport, check_pair

__all__ = ["LoadedModel", "PairReport", "check_pair", "load"]
