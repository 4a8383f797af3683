"""Decoders with the same parts: every scheme beside the neighbours of `vnait-causal`.

    VNAIT_DATA=DIR python -m vnait_lab.runs.decoders [--texts eprstmt] [--schemes cable,rope] [--seeds 3]
    python -m vnait_lab.runs.decoders --suite decoding [--tasks copy,reverse] [--schemes alibi,t5] [--seeds 3]

A variant is a scheme with the two views of the words before a token (as in Canon layers, arXiv 2512.17351).
Records of the language suite go to studies/records/decoders, those of the decoding suite to
studies/records/decoding_neighbours; recorded runs are not repeated. What was lost or won by each part of
`vnait-causal` is in studies/findings/2026-11-30-decoders-that-decay.md.
"""

from functools import partial

from vnait.positions.inputs import Neighbours
from vnait.positions.method import Method
from vnait.positions.methods import METHODS
from vnait.positions.recipe import Recipe, Size
from vnait_lab.records import path_of
from vnait_lab.runs import data_folder, parser, run_suite
from vnait_lab.suites import decoding, language
from vnait_lab.suites.questions import QUESTIONS

DEFAULT = "vnait-causal"
SCHEMES = ("none", "rope", "alibi", "t5", "fire", "cable", "fox", "nape")
TEXTS = ("wikitext2", "tinyshakespeare", "eprstmt")


def variant(size: Size, *, scheme: Recipe) -> Method:
    """A scheme with the neighbours of `vnait-causal`."""
    whole, neighbours = scheme.make(size), METHODS[DEFAULT].make(size).inputs
    assert isinstance(neighbours, Neighbours)
    return Method(
        coordinates=whole.coordinates,
        encoding=whole.encoding,
        inputs=Neighbours(whole.inputs, [*neighbours.views]),
        scale=whole.scale,
    )


def variants() -> dict[str, Recipe]:
    """Recipes by name, such as "rope + neighbours"."""
    return {
        f"{name} + neighbours": Recipe(
            make=partial(variant, scheme=METHODS[name]),
            formula=f"{METHODS[name].formula}; with the neighbours of {DEFAULT}",
            source="vnait_lab.runs.decoders",
        )
        for name in SCHEMES
    }


def main() -> None:
    """Run what is not recorded."""
    command = parser(__doc__, seeds=3, schemes=SCHEMES, texts=TEXTS, tasks=tuple(QUESTIONS))
    command.add_argument("--suite", choices=("language", "decoding"), default="language")
    options = command.parse_args()
    METHODS.update(variants())
    methods = [DEFAULT, *(f"{name} + neighbours" for name in options.schemes)]
    if options.suite == "decoding":
        path = path_of("decoding_neighbours")
        run_suite(decoding.SUITE, options, methods=methods, tasks=options.tasks, path=path)
        return
    suite = language.suite_of(language.tasks_of_data(data_folder(command, "one folder per text")))
    tasks = [f"next-{text}" for text in options.texts]
    run_suite(suite, options, methods=methods, tasks=tasks, path=path_of("decoders"))


if __name__ == "__main__":
    main()
