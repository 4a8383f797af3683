"""A trained classifier: probabilities of texts; saved to a folder and loaded from it."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import AutoTokenizer, PreTrainedModel

from vnait import files, linear, schemas
from vnait.data import WHOLE, Tally, collate, encode
from vnait.data.labels import cell_of
from vnait.data.pairs import check_sides, sides_of
from vnait.data.sentences import Piece, words_of
from vnait.data.tables import MULTILABEL, PROBLEMS, TAGGING, Texts
from vnait.data.tokens import encode_words
from vnait.errors import InputError, as_input_error, first_line
from vnait.files import whole_folder
from vnait.linear import LinearClassifier, check_classes, check_texts
from vnait.methods import METHODS
from vnait.model import VnaitConfig, VnaitForSequenceClassification, VnaitForTokenClassification
from vnait.pretrained import finetune
from vnait.pretrained.loading import from_pretrained
from vnait.record import Record, warn_of_other
from vnait.threads import threads

TRANSFORMERS = (
    "config.json generation_config.json model*.safetensors* tokenizer*.json special_tokens_map.json"
)
WRITTEN = (  # the files of a saved model
    *TRANSFORMERS.split(),
    *("record.json", "estimator.json", "README.md"),
    *(finetune.BASE, finetune.ADAPTER, finetune.NOTES),
)
OURS = VnaitForSequenceClassification, VnaitForTokenClassification
TOKENS = 2048  # of a batch: fewer cost more time around the arithmetic, and more leave the processor's cache
TOGETHER = 4096  # texts sorted by length, so that batches have little padding


@dataclass(frozen=True, eq=False, kw_only=True)
class Fitted:
    """A trained classifier: model, tokenizer, labels, and the record of its training."""

    model: PreTrainedModel
    tokenizer: Any
    record: Record | None = None
    max_length: int | None = None  # only of a fine-tuned base, whose configuration has no such field
    pairs: bool = False  # whether it reads two texts a row
    tags: bool = False  # whether it answers each word of a text

    @property
    def classes(self) -> list[str]:
        """The labels, in the order of the probabilities."""
        return [self.model.config.id2label[index] for index in range(self.model.config.num_labels)]

    @property
    def several(self) -> bool:
        """Whether a text has any number of its labels."""
        return bool(self.model.config.problem_type == PROBLEMS[MULTILABEL])

    def probabilities(self, texts: Sequence[str], tally: Tally | None = None) -> NDArray[np.float64]:
        """P(class | text), (texts, classes); they sum to 1, unless a text has `several`. An empty text counts
        as one unknown word.

        The number of texts cut is logged, or left to a `tally` of several calls, with that of unknown words.
        """
        check_texts(self.tags)
        check_classes(self.classes)
        logits = self._outputs(texts, tally)
        return (torch.sigmoid(logits) if self.several else torch.softmax(logits, -1)).numpy()

    def of_words(self, texts: Sequence[str], tally: Tally | None = None) -> list[NDArray[np.float64]]:
        """P(tag | word) of each sentence (words, tags). The words of a text have a space between them."""
        if not self.tags:
            raise InputError("the model answers whole texts; use `vnait predict` (in Python, probabilities).")
        if self.max_length is None:
            length = self.model.config.max_length
            sentences = encode_words(self.tokenizer, texts, max_length=length, tally=tally)
        else:
            sentences = finetune.Base("", self.tokenizer).pieces(texts, max_length=self.max_length)
        logits = word_logits_of(self.model, sentences)
        return [torch.softmax(_finite(row).double(), -1).numpy() for row in logits]

    def numbers(self, texts: Sequence[str], tally: Tally | None = None) -> NDArray[np.float64]:
        """The number of each text (texts,), of a regression."""
        check_classes(self.classes, no=True)
        return self._outputs(texts, tally)[:, 0].numpy()

    def _outputs(self, texts: Sequence[str], tally: Tally | None) -> Tensor:
        check_sides(texts, self.pairs)
        if self.max_length is None:
            ids = encode(self.tokenizer, texts, max_length=self.model.config.max_length, tally=tally)
        else:
            base = finetune.Base("", self.tokenizer)
            if tally is not None:
                tally.add(base.encode(texts, max_length=WHOLE), self.tokenizer.unk_token_id)
            ids = base.encode(texts, max_length=self.max_length)
        return _finite(logits_of(self.model, ids)).double()

    def save(self, folder: str | Path, *, extras: Mapping[str, str] | None = None) -> None:
        """Write the folder, whole or not at all: weights, settings, tokenizer, record, extra files."""
        check_replaceable(folder)
        warn_of_other(folder, self.record)
        record = {} if self.record is None else {"record.json": self.record.line() + "\n"}
        with whole_folder(folder) as draft, finetune.no_bars():
            if self.max_length is None:
                self.tokenizer.model_max_length = self.model.config.max_length  # for pipelines that truncate
                self.model.save_pretrained(draft)
                self.tokenizer.save_pretrained(draft)
            else:
                assert self.record is not None
                notes = {"method": self.record.run["method"], "max_length": self.max_length}
                if self.pairs:
                    notes["pairs"] = True
                if self.tags:
                    notes["task"] = TAGGING
                finetune.save(self.model, self.tokenizer, draft, notes)
            for name, content in {**record, **(extras or {})}.items():
                (draft / name).write_text(content, encoding="utf-8")


def answers(
    fitted: Fitted | LinearClassifier, texts: Iterable[str]
) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """Each text with P(class | text), with the number of a regression or with P(tag | word), in the order of
    the texts, of which 4,096 are in memory at a time.

    At the end the log has how many texts were cut, and a share of unknown words above 20 %.
    """
    tally = Tally(WHOLE)  # a tuned base's tokenizer cuts its texts itself
    if isinstance(fitted, Fitted) and fitted.max_length is None:
        tally.max_length = WHOLE if fitted.tags else fitted.model.config.max_length
    rest = iter(texts)
    read: Callable[..., Any] = fitted.of_words
    if not fitted.tags:
        read = fitted.probabilities if len(fitted.classes) > 1 else fitted.numbers
    while some := list(islice(rest, TOGETHER)):
        found = read(some, tally) if isinstance(fitted, Fitted) else read(some)
        yield from zip(some, found, strict=True)
    tally.report()


def table_of(
    fitted: Fitted | LinearClassifier, text: str, texts: Texts
) -> tuple[list[str], Iterator[list[object]]]:
    """Names and rows of a table of answers: the columns of `text`, label, probability of each class. If the
    model tags words: the number of the sentence, from 1, and the word in place of the text. If a text has any
    number of labels: those above 1/2, with | between them.
    """
    if fitted.tags:
        return ["sentence", "word", *_answer_names(fitted.classes)], _word_rows(fitted, texts)
    check_sides(texts(), fitted.pairs)
    columns = [name.strip() for name in text.split(",")] if fitted.pairs else [text]
    if any(name == "label" or name.startswith("probability_") for name in columns):  # the answers' names
        columns = ["text", "other_text"][: len(columns)]
    classes = fitted.classes if len(fitted.classes) > 1 else []  # none: a regression's numbers
    rows = (
        [
            *sides_of(words),
            *([_answer(row, classes, fitted.several)] if classes else []),
            *(round(value, 6) for value in row.reshape(-1).tolist()),
        ]
        for words, row in answers(fitted, texts())
    )
    return [*columns, *_answer_names(classes)], rows


def _answer(row: NDArray[np.float64], classes: Sequence[str], several: bool) -> str:
    if not several:
        return classes[int(row.argmax())]
    return cell_of(name for name, value in zip(classes, row, strict=True) if value > 0.5)


def _answer_names(classes: Sequence[str]) -> list[str]:
    return ["label", *(f"probability_{name}" for name in classes)]


def _word_rows(fitted: Fitted | LinearClassifier, texts: Texts) -> Iterator[list[object]]:
    classes = fitted.classes
    for number, (text, found) in enumerate(answers(fitted, texts()), 1):
        for word, row in zip(words_of(text), found, strict=True):
            yield [number, word, classes[int(row.argmax())], *(round(value, 6) for value in row.tolist())]


def load_transformer(folder: str | Path) -> Fitted:
    """The Transformer saved in a folder; a baseline is refused."""
    fitted = load(folder)
    if isinstance(fitted, LinearClassifier):
        raise InputError(
            f"{folder} has the baseline {fitted.name}, and this needs a Transformer; `vnait predict` "
            "and `vnait explain` read both."
        )
    return fitted


def load(folder: str | Path) -> Fitted | LinearClassifier:
    """The classifier saved in a folder; an `InputError` names the fault of the folder."""
    folder = Path(folder)
    record = _record(folder / "record.json")
    if (folder / linear.NOTES).is_file():
        return linear.load(folder, record)
    if (folder / finetune.NOTES).is_file():
        with finetune.no_bars():
            tuned, tokenizer, notes = finetune.load(folder)
        settings = {"max_length": notes["max_length"], "pairs": notes.get("pairs", False)}
        settings["tags"] = notes.get("task") == TAGGING
        return Fitted(model=tuned, tokenizer=tokenizer, record=record, **settings)
    with finetune.no_bars():
        model = load_classifier(folder)
        tokenizer = _tokenizer(folder)
    if len(tokenizer) != model.config.vocab_size:
        raise InputError(
            f"{folder} is damaged: it has {len(tokenizer)} words and {model.config.vocab_size} vectors."
        )
    if (last := max(tokenizer.get_vocab().values())) >= len(tokenizer):
        raise InputError(
            f"{folder} is damaged: a word has the id {last}, and there are {len(tokenizer)} words."
        )
    if tokenizer.pad_token_id != model.config.pad_token_id:
        raise InputError(
            f"{folder} is damaged: its tokenizer pads with {tokenizer.pad_token_id}, and its model expects "
            f"{model.config.pad_token_id}."
        )
    return Fitted(
        model=model,
        tokenizer=tokenizer,
        record=record,
        pairs=tokenizer.sep_token is not None,
        tags=isinstance(model, VnaitForTokenClassification),
    )


def _finite(logits: Tensor) -> Tensor:
    if not logits.isfinite().all():
        raise InputError(
            "the model's answer is not a finite number: its weights are damaged; copy its folder again, or "
            "train it again."
        )
    return logits


def logits_of(model: PreTrainedModel, ids: Sequence[Sequence[int]]) -> Tensor:
    """Logits (texts, classes), in the order of the texts; batches have texts of similar length."""
    logits = torch.empty(len(ids), model.config.num_labels)
    for rows, found in _read(model, ids):
        logits[rows] = found
    return logits


def word_logits_of(model: PreTrainedModel, sentences: Sequence[Sequence[Piece]]) -> list[Tensor]:
    """Logits (words, classes) of each sentence, at the first token of each word."""
    flat = [piece for sentence in sentences for piece in sentence]
    of_pieces: dict[int, Tensor] = {}
    for rows, logits in _read(model, [piece.ids for piece in flat]):
        for row, found in zip(rows, logits, strict=True):
            of_pieces[row] = found[flat[row].starts]
    each = iter(of_pieces[row] for row in range(len(flat)))
    none = torch.empty(0, model.config.num_labels)  # of a sentence without words
    return [torch.cat([none, *(next(each) for _ in sentence)]) for sentence in sentences]


def _read(model: PreTrainedModel, ids: Sequence[Sequence[int]]) -> Iterator[tuple[list[int], Tensor]]:
    """The rows of each batch with their logits; batches have texts of similar length.

    A model of ours reads as many batches at once as PyTorch has threads, each by one: its operations are too
    small to be shared, and a result does not depend on the number of threads.
    """
    model.eval()
    batches = _by_length([len(row) for row in ids])

    @torch.inference_mode()
    def read(rows: list[int]) -> Tensor:
        batch = collate(
            [ids[row] for row in rows],
            pad_id=model.config.pad_token_id,
            separator=getattr(model.config, finetune.SEPARATOR, None),
        )
        batch = {name: tensor.to(model.device) for name, tensor in batch.items()}
        found: Tensor = model(**batch).logits.float().cpu()
        return found

    count = torch.get_num_threads()
    small = isinstance(model, OURS) and model.device.type == "cpu"
    with ThreadPoolExecutor(count if small else 1) as pool, threads(1 if small else count):
        yield from zip(batches, pool.map(read, batches), strict=True)


def _by_length(lengths: Sequence[int]) -> list[list[int]]:
    """All rows in batches, the shortest first, of as many as fit into `TOKENS` with their padding.

    >>> _by_length([1, TOKENS, 2])
    [[0, 2], [1]]
    """
    batches: list[list[int]] = [[]]
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        if batches[-1] and (len(batches[-1]) + 1) * lengths[row] > TOKENS:
            batches.append([])
        batches[-1].append(row)
    return batches if batches[0] else []


def check_replaceable(folder: str | Path) -> None:
    """Raise InputError if a folder has anything but an older model of ours, which saving would replace."""
    files.check_replaceable(folder, (*WRITTEN, *linear.WRITTEN), "a model")
    path = Path(folder)
    noted = any((path / notes).is_file() for notes in (finetune.NOTES, linear.NOTES))
    ours = noted or _model_type(path / "config.json") == VnaitConfig.model_type
    if path.is_dir() and any(path.iterdir()) and not ours:
        raise InputError(
            f"{folder} is not a model of vnait, and saving one would replace it; choose a new name."
        )


def _model_type(config: Path) -> object:
    """The model type in a model's configuration; None if there is none."""
    try:
        return json.loads(config.read_text(encoding="utf-8")).get("model_type")
    except (OSError, ValueError, AttributeError):
        return None


def _tokenizer(folder: Path) -> Any:
    if not (folder / "tokenizer.json").is_file():
        raise InputError(f"{folder} is damaged: it has no tokenizer.json.")
    if (folder / "tokenizer_config.json").is_file():
        schemas.read(schemas.TokenizerConfig, folder / "tokenizer_config.json")
    with as_input_error(Exception, f"{folder} is damaged: its tokenizer.json can't be read (", ")."):
        tokenizer = from_pretrained(AutoTokenizer, folder)
        if tokenizer.unk_token_id is None:  # the property fails, too, where the token is not a word
            raise ValueError("it has no token for unknown words")
        return tokenizer


def _record(path: Path) -> Record | None:
    if not path.is_file():
        return None
    return Record(**schemas.read(schemas.RecordFields, path, ". Delete it; the model works without it."))


def load_classifier(folder: str | Path) -> VnaitForSequenceClassification | VnaitForTokenClassification:
    """The classifier saved in a folder, or an `InputError` with the folder's fault."""
    folder = Path(folder)
    settings = _settings(folder)
    kinds = {kind.__name__: kind for kind in OURS}
    names = settings.get("architectures") or [""]
    if settings.get("model_type") != "vnait" or len(names) != 1 or names[0] not in kinds:
        raise InputError(
            f"{folder} holds no vnait classifier (its config.json says {settings.get('architectures')})."
        )
    if settings.get("method", "vnait") not in METHODS:
        raise InputError(
            f"{folder} was trained with the method {settings['method']!r}, which is not known here; register "
            "it in vnait.METHODS as it was then, and load the folder again."
        )
    after = ". Save the model again, or train it again."
    with as_input_error(Exception, f"{folder} is damaged: ", after, says=first_line):
        # Before memory is taken for weights that the files can't have.
        with torch.device("meta"):
            weights = kinds[names[0]](from_pretrained(VnaitConfig, folder)).num_parameters()
        if weights > sum(file.stat().st_size for file in folder.glob("*.safetensors")):
            raise ValueError(
                f"its config.json is of a model with {weights:,} weights, more than its files have"
            )
        model, info = from_pretrained(kinds[names[0]], folder, output_loading_info=True, use_safetensors=True)
    if info["missing_keys"] or info["unexpected_keys"] or info["mismatched_keys"]:
        keys = sorted([*info["missing_keys"], *info["unexpected_keys"]])[:3]
        raise InputError(
            f"{folder} is damaged: its weights don't fit its config.json (for one, {', '.join(keys)})."
        )
    return model.eval()


def _settings(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    if not path.is_file():
        inner = folder / "model"  # of a comparison's folder
        given = (
            f"Its model is in {inner}." if inner.is_dir() else "Give a folder that `vnait train --out` made."
        )
        raise InputError(f"{folder} is not a saved model: it has no config.json. {given}")
    return dict(schemas.read(schemas.Config, path))
