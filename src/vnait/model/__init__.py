"""transformers' models of semantic vectors, a positional method and a standard encoder."""

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)

from vnait.model.auto_map import write_auto_map
from vnait.model.causal import VnaitForCausalLM
from vnait.model.configuration import FORMAT, VnaitConfig
from vnait.model.encoder import Encoded, SemanticVectors, VnaitModel, VnaitPreTrainedModel, seed_weights
from vnait.model.heads import (
    VnaitForMaskedLM,
    VnaitForSequenceClassification,
    VnaitForTokenClassification,
    mean_of,
)

CLASSIFIERS = VnaitForSequenceClassification, VnaitForTokenClassification  # of texts, of words

__all__ = [
    "CLASSIFIERS",
    "FORMAT",
    "Encoded",
    "SemanticVectors",
    "VnaitConfig",
    "VnaitForCausalLM",
    "VnaitForMaskedLM",
    "VnaitForSequenceClassification",
    "VnaitForTokenClassification",
    "VnaitModel",
    "VnaitPreTrainedModel",
    "mean_of",
    "seed_weights",
    "write_auto_map",
]

AutoConfig.register("vnait", VnaitConfig)
AutoModel.register(VnaitConfig, VnaitModel)
AutoModelForCausalLM.register(VnaitConfig, VnaitForCausalLM)
AutoModelForMaskedLM.register(VnaitConfig, VnaitForMaskedLM)
AutoModelForSequenceClassification.register(VnaitConfig, VnaitForSequenceClassification)
AutoModelForTokenClassification.register(VnaitConfig, VnaitForTokenClassification)
