"""Models: loading from files and folders, tokenizers, and which models can draft for which.

Contains everything between a name or path and a `LoadedModel`. Does not contain what a model's cache and layers allow
(`engine.target`), nor how files are fetched, hashed and checked (`engine.files`). The drafter that runs a `head_model` is
`engine.drafters.feature_head`. Another kind of model file gets a reader beside `gguf_model`, called from `loading`; a reader
refuses files that it cannot read correctly.
"""

from engine.models.loaded import LoadedModel
from engine.models.loading import load
from engine.models.pair_check import PairReport, check_pair

__all__ = ["LoadedModel", "PairReport", "check_pair", "load"]
