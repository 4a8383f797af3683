"""The models: semantic vectors, a positional method and a standard encoder, as transformers' `PreTrainedModel`s."""

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)

from vnait.model.causal import VnaitForCausalLM, looking_back
from vnait.model.configuration import FORMAT, VnaitConfig
from vnait.model.encoder import Encoded, SemanticVectors, VnaitModel, VnaitPreTrainedModel, seed_weights
from vnait.model.heads import VnaitForMaskedLM, VnaitForSequenceClassification, VnaitForTokenClassification, mean_of
from vnait.model.loading import load_classifier

__all__ = [
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
    "load_classifier",
    "looking_back",
    "mean_of",
    "seed_weights",
]

AutoConfig.register("vnait", VnaitConfig)
AutoModel.register(VnaitConfig, VnaitModel)
AutoModelForCausalLM.register(VnaitConfig, VnaitForCausalLM)
AutoModelForMaskedLM.register(VnaitConfig, VnaitForMaskedLM)
AutoModelForSequenceClassification.register(VnaitConfig, VnaitForSequenceClassification)
AutoModelForTokenClassification.register(VnaitConfig, VnaitForTokenClassification)
