"""The tasks: one answer a text, one a token, the masked words."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformers.modeling_outputs import MaskedLMOutput, SequenceClassifierOutput, TokenClassifierOutput
from transformers.utils import can_return_tuple

from vnait.model.configuration import VnaitConfig
from vnait.model.encoder import AnyMask, Embeds, Ids, Places, VnaitModel, VnaitPreTrainedModel


class VnaitForSequenceClassification(VnaitPreTrainedModel):
    """One answer per text, from the mean over its known tokens: classes, or numbers with problem_type="regression".

    logits = classifier(mean of the last states) + bag(words). Unknown words (`unk_token_id`, where the configuration has it) are read
    by attention and left out of the mean, so that a text of unknown words alone gets the biases, the training rows' prior. `bag` starts
    at zero and takes no part in gradient descent: `vnait.train.fit` mixes a logistic regression in when the training is over.
    """

    def __init__(self, config: VnaitConfig) -> None:
        super().__init__(config)
        self.num_labels = config.num_labels
        self.unknown = -1 if config.unk_token_id is None else config.unk_token_id
        self.model = VnaitModel(config)
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.bag = BagOfWords(config.vocab_size, config.num_labels)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Ids = None,
        attention_mask: AnyMask = None,
        inputs_embeds: Embeds = None,
        labels: Tensor | None = None,
        places: Places = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
    ) -> SequenceClassifierOutput:
        """`logits` (B, labels), and `loss` (task + regularizer) where labels (B,) are given."""
        encoded = self.model.encode(
            input_ids, attention_mask, inputs_embeds, places, output_hidden_states, output_attentions
        )
        output = encoded.output
        known = encoded.mask if input_ids is None else encoded.mask & (input_ids != self.unknown)
        mean = mean_of(output.last_hidden_state, known)
        logits = self.classifier(self.dropout(mean)) + self.bag(input_ids, encoded.mask)
        loss = None
        if labels is not None:
            task = self.loss_function(logits=logits, labels=labels, pooled_logits=logits, config=self.config)
            loss = task + self.model.penalty(encoded)
        return SequenceClassifierOutput(
            loss=loss, logits=logits, hidden_states=output.hidden_states, attentions=output.attentions
        )

    def resize_token_embeddings(self, *args: Any, **settings: Any) -> nn.Module:
        """As in transformers; new words add nothing in the bag of words."""
        table = super().resize_token_embeddings(*args, **settings)
        self.bag.resize(self.config.vocab_size)
        return table


class BagOfWords(nn.Module):
    """The linear part of a classifier: sum_j a_j log2(1 + n_j) l_j + b over the words j that a text has n_j times.

    Fitted in closed form, not by gradient descent; zero until then. A word that is added to a text adds its evidence whatever else is
    there, as in naive Bayes.

    weights   a >= 0 (V,), one until set; 0 for unknown words
    logits    l (V, labels), zero until set
    bias      b (labels,), zero until set
    """

    weights: Tensor
    logits: Tensor
    bias: Tensor

    def __init__(self, vocab_size: int, num_labels: int) -> None:
        super().__init__()
        # Buffers: from_pretrained makes every parameter trainable, and whoever trained on would train them.
        self.register_buffer("weights", torch.ones(vocab_size))
        self.register_buffer("logits", torch.zeros(vocab_size, num_labels))
        self.register_buffer("bias", torch.zeros(num_labels))

    def reset_parameters(self) -> None:
        """No contribution to the logits."""
        nn.init.ones_(self.weights)
        nn.init.zeros_(self.logits)
        nn.init.zeros_(self.bias)

    def forward(self, ids: Ids, mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B C"]:
        """From ids (B, T). Vectors alone, without ids, are refused where the part has been fitted."""
        if ids is None:
            if self.is_fitted:
                raise ValueError(
                    "inputs_embeds were given, and this classifier's bag of words reads ids: give input_ids, or drop the bag "
                    "with model.bag.reset_parameters()."
                )
            return self.bias.expand(len(mask), -1)
        return self.each(ids, mask).sum(1) + self.bias

    def each(self, ids: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B T C"]:
        """What each token adds to the logits: its word's part, shared equally among the word's n_j tokens; zero at padding."""
        real = mask.to(self.weights.dtype)
        per_word = real.new_zeros(ids.shape[0], self.weights.shape[0]).scatter_add(1, ids, real)
        times = per_word.gather(1, ids).clamp(min=1)
        share = self.weights[ids] * real * torch.log2(1 + times) / times
        return share[..., None] * self.logits[ids]

    @property
    def is_fitted(self) -> bool:
        """Whether a training has set it."""
        return bool(self.logits.any())

    def resize(self, vocab_size: int) -> None:
        """Another number of words; new ones add nothing."""
        for name, fill in (("weights", 1.0), ("logits", 0.0)):
            kept = getattr(self, name)[:vocab_size]
            setattr(self, name, torch.cat([kept, kept.new_full((vocab_size - len(kept), *kept.shape[1:]), fill)]))


def mean_of(states: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B D"]:
    """The mean over the tokens of the mask; zero where there are none.

    >>> import torch
    >>> mean_of(torch.tensor([[[1.0], [3.0], [9.0]]]), torch.tensor([[True, True, False]]))
    tensor([[2.]])
    """
    real = mask[..., None].to(states.dtype)
    return (states * real).sum(1) / real.sum(1).clamp(min=1)


class VnaitForTokenClassification(VnaitPreTrainedModel):
    """One label a token. Labels of -100 are left out of the loss."""

    def __init__(self, config: VnaitConfig) -> None:
        super().__init__(config)
        self.num_labels = config.num_labels
        self.model = VnaitModel(config)
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Ids = None,
        attention_mask: AnyMask = None,
        inputs_embeds: Embeds = None,
        labels: Tensor | None = None,
        places: Places = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
    ) -> TokenClassifierOutput:
        """`logits` (B, T, labels), and `loss` (task + regularizer) where labels (B, T) are given."""
        encoded = self.model.encode(
            input_ids, attention_mask, inputs_embeds, places, output_hidden_states, output_attentions
        )
        output = encoded.output
        logits = self.classifier(self.dropout(output.last_hidden_state))
        loss = None
        if labels is not None:
            task = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
            loss = task + self.model.penalty(encoded)
        return TokenClassifierOutput(
            loss=loss, logits=logits, hidden_states=output.hidden_states, attentions=output.attentions
        )


class VnaitForMaskedLM(VnaitPreTrainedModel):
    """The masked words. The output table is the table of semantic vectors (tied)."""

    _tied_weights_keys = {"decoder.weight": "model.vectors.weight"}  # noqa: RUF012  transformers reads it off the class

    def __init__(self, config: VnaitConfig) -> None:
        super().__init__(config)
        self.model = VnaitModel(config)
        self.transform = nn.Sequential(
            nn.Linear(config.hidden_size, config.vector_size), nn.GELU(), nn.LayerNorm(config.vector_size)
        )
        self.decoder: nn.Module = nn.Linear(config.vector_size, config.vocab_size)
        self.post_init()

    def get_output_embeddings(self) -> nn.Module:
        """The tied table."""
        return self.decoder

    def set_output_embeddings(self, value: nn.Module) -> None:
        """Put another table in its place."""
        self.decoder = value

    @can_return_tuple
    def forward(
        self,
        input_ids: Ids = None,
        attention_mask: AnyMask = None,
        inputs_embeds: Embeds = None,
        labels: Tensor | None = None,
        places: Places = None,
        output_hidden_states: bool | None = None,
        output_attentions: bool | None = None,
    ) -> MaskedLMOutput:
        """`logits` (B, T, vocabulary), and `loss` where labels (B, T) are given (-100: not asked)."""
        encoded = self.model.encode(
            input_ids, attention_mask, inputs_embeds, places, output_hidden_states, output_attentions
        )
        output = encoded.output
        # Rows of the table have a root mean square of 1: without the root, logits would start sqrt(D) too large.
        logits = self.decoder(self.transform(output.last_hidden_state) / self.config.vector_size**0.5)
        loss = None
        if labels is not None:
            task = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
            loss = task + self.model.penalty(encoded)
        return MaskedLMOutput(
            loss=loss, logits=logits, hidden_states=output.hidden_states, attentions=output.attentions
        )
