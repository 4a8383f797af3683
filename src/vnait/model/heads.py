"""The tasks: one answer per text, one per token, the masked words."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers.modeling_outputs import MaskedLMOutput, SequenceClassifierOutput, TokenClassifierOutput
from transformers.utils import ModelOutput, can_return_tuple

from vnait.model.bag_of_words import BagOfWords
from vnait.model.configuration import VnaitConfig
from vnait.model.encoder import (
    Batch,
    Embeds,
    Encoded,
    Ids,
    PositionIds,
    TiedDecoder,
    VnaitModel,
    VnaitPreTrainedModel,
    check_mask,
)
from vnait.model.linear_part import LinearPart
from vnait.model.one_hot import OneHotWords
from vnait.positions.building import for_masked_tokens
from vnait.positions.cache import AnyMask
from vnait.positions.coordinates.shared import Positions
from vnait.positions.method import Method
from vnait.shared.randomness import Dropout


class _Head(VnaitPreTrainedModel):
    """An encoder and a head that makes logits of its states."""

    output_class: type[ModelOutput]

    def __init__(self, config: VnaitConfig) -> None:
        super().__init__(config)
        self.num_labels = config.num_labels
        self.model = VnaitModel(config)

    @can_return_tuple
    def forward(
        self,
        input_ids: Ids = None,
        attention_mask: AnyMask = None,
        inputs_embeds: Embeds = None,
        labels: Tensor | None = None,
        positions: Positions = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
        position_ids: PositionIds = None,
    ) -> ModelOutput:
        """`logits`, per text or per token, and `loss` (task + regularizer) if labels are given."""
        length = None if input_ids is None else input_ids.shape[1]
        input_ids, attention_mask = self.filled(input_ids, attention_mask)
        batch = Batch(
            input_ids=input_ids,
            attention_mask=attention_mask,
            inputs_embeds=inputs_embeds,
            positions=positions,
            position_ids=position_ids,
            output_hidden_states=output_hidden_states,
            output_attentions=output_attentions,
        )
        encoded = self.model.read(batch)
        logits = self.logits(encoded, input_ids)
        if logits.ndim == 3:  # of the tokens that were given
            logits = logits[:, :length]
        return self.output_class(
            loss=None if labels is None else self.task_loss(logits, labels) + self.model.penalty(encoded),
            logits=logits,
            hidden_states=encoded.output.hidden_states,
            attentions=encoded.output.attentions,
        )

    def filled(self, input_ids: Ids, attention_mask: AnyMask) -> tuple[Ids, AnyMask]:
        """A text without tokens, as a pipeline gives an empty one, is an unknown word, as in `predict`."""
        unknown, padding = self.config.unk_token_id, self.config.pad_token_id
        if input_ids is None or unknown is None or padding is None:
            return input_ids, attention_mask
        if attention_mask is not None:
            check_mask(attention_mask, input_ids)
        mask = input_ids != padding if attention_mask is None else attention_mask.bool()
        if input_ids.shape[1] == 0:  # all texts are empty
            input_ids = input_ids.new_full((len(input_ids), 1), unknown)
            return input_ids, torch.ones_like(input_ids)
        empty = ~mask.any(1, keepdim=True) & (torch.arange(mask.shape[1], device=mask.device) == 0)
        return torch.where(empty, unknown, input_ids), None if attention_mask is None else mask | empty

    def logits(self, encoded: Encoded, input_ids: Ids) -> Tensor:
        """The logits, from the encoder's states."""
        raise NotImplementedError

    def task_loss(self, logits: Float[Tensor, "B T C"], labels: Int[Tensor, "B T"]) -> Float[Tensor, ""]:
        """Cross-entropy over the tokens; labels of -100 are left out."""
        return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())


class VnaitForSequenceClassification(_Head):
    """One answer per text, from the mean over its known tokens: classes, or numbers with
    problem_type="regression".

    logits = classifier(mean of the last states) + bag(words). Attention reads unknown words (`unk_token_id`,
    if the configuration has it), but the mean leaves them out: a text of unknown words only gets the biases,
    the training rows' prior. `bag` starts at zero and takes no part in gradient descent:
    `vnait.train.fitting.fit` mixes a logistic regression in after the training, of the bag of words or of
    words at their places.
    """

    output_class = SequenceClassifierOutput

    def __init__(self, config: VnaitConfig) -> None:
        super().__init__(config)
        self.dropout = Dropout(config.dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.bag: LinearPart = BagOfWords(config.vocab_size, config.num_labels)
        if config.one_hot_terms:
            self.bag = OneHotWords(config.one_hot_terms, config.num_labels, config.unk_token_id)
        self.post_init()

    def take(self, bag: LinearPart) -> None:
        """Have another linear part."""
        self.bag = bag
        self.config.one_hot_terms = len(bag.terms) if isinstance(bag, OneHotWords) else 0

    def logits(self, encoded: Encoded, input_ids: Ids) -> Float[Tensor, "B C"]:
        """From the mean of the states, and the linear part."""
        known = encoded.mask
        if input_ids is not None and self.config.unk_token_id is not None:
            known = known & (input_ids != self.config.unk_token_id)
        mean = mean_of(encoded.output.last_hidden_state, known)
        return self.classifier(self.dropout(mean)) + self.bag(input_ids, encoded.mask)

    def task_loss(self, logits: Float[Tensor, "B C"], labels: Tensor) -> Float[Tensor, ""]:
        """As transformers': it depends on `problem_type`."""
        return self.loss_function(logits=logits, labels=labels, pooled_logits=logits, config=self.config)

    def resize_token_embeddings(self, *args: Any, **settings: Any) -> nn.Module:
        """As in transformers; new words add nothing in the linear part."""
        table = super().resize_token_embeddings(*args, **settings)
        self.bag.resize(self.config.vocab_size)
        return table


def mean_of(states: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B D"]:
    """The mean over the tokens of the mask; zero if there are none.

    >>> mean_of(torch.tensor([[[1.0], [3.0], [9.0]]]), torch.tensor([[True, True, False]]))
    tensor([[2.]])
    """
    real = mask[..., None].to(states.dtype)
    return (states * real).sum(1) / real.sum(1).clamp(min=1)


class VnaitForTokenClassification(_Head):
    """One label per token. Labels of -100 are left out of the loss."""

    output_class = TokenClassifierOutput

    def __init__(self, config: VnaitConfig) -> None:
        super().__init__(config)
        self.dropout = Dropout(config.dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def logits(self, encoded: Encoded, input_ids: Ids) -> Float[Tensor, "B T C"]:
        """From each token's state."""
        return self.classifier(self.dropout(encoded.output.last_hidden_state))


class VnaitForMaskedLM(TiedDecoder, _Head):
    """The masked words. The output table is the table of semantic vectors (tied), so s starts small. Gates,
    such as that of `vnait`, learn nothing: every token is asked, and none is filler.
    """

    output_class = MaskedLMOutput

    def __init__(self, config: VnaitConfig) -> None:
        super().__init__(config)
        for_masked_tokens(self.model.method)
        self.transform = nn.Sequential(
            nn.Linear(config.hidden_size, config.vector_size), nn.GELU(), nn.LayerNorm(config.vector_size)
        )
        self.decoder: nn.Module = nn.Linear(config.vector_size, config.vocab_size)
        self.post_init()

    @staticmethod
    def _new_method(config: VnaitConfig) -> Method:
        """The method of a new model, whose gates learn nothing."""
        return for_masked_tokens(_Head._new_method(config))

    def logits(self, encoded: Encoded, input_ids: Ids) -> Float[Tensor, "B T V"]:
        """Of every word at every token."""
        return self.decode(self.transform(encoded.output.last_hidden_state))
