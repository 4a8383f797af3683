"""Chains of real proteins: letters, places and contacts, without homologs.

Files of the Protein Data Bank in VNAIT_DATA/proteins (`docs/data-sets.md`), read by Biopython.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

LETTERS = "ACDEFGHIKLMNPQRSTVWY"
TOUCHING = 8.0  # angstrom between the alpha carbons of a contact
BONDED = 4.5  # angstrom between those of neighbours; they are 3.8 apart
SHORTEST, LONGEST = 60, 400  # residues
NEAR, FAR = 6, 24  # smallest separations of scored pairs (nearer ones touch in any chain), and of far pairs
CONTACTS = 10  # far contacts that a chain must have, so that finding them can be measured
SCORE, ALIKE = 40, 0.2  # of homologs: the least score, and the share of identical residues in the shorter


class Chain(NamedTuple):
    """T residues of one chain.

    source      its file and its name there
    letters     numbers in LETTERS
    places      along the chain, from 0; a gap counts the residues that are missing
    contacts    pairs of alpha carbons nearer than 8 angstrom
    """

    source: str
    letters: Int[Tensor, " T"]
    places: Int[Tensor, " T"]
    contacts: Bool[Tensor, "T T"]

    @property
    def apart(self) -> Int[Tensor, "T T"]:
        """Separations |i - j| in residues."""
        return (self.places[:, None] - self.places).abs()

    @property
    def far(self) -> Bool[Tensor, "T T"]:
        """Pairs i < j that are at least 24 residues apart."""
        return (self.apart >= FAR).triu()

    @property
    def text(self) -> str:
        return "".join(LETTERS[letter] for letter in self.letters.tolist())


def chains(folder: Path) -> list[Chain]:
    """Chains of 60 to 400 residues with 10 far contacts or more, in the order of sha256(letters). Of homologs
    the first is kept.
    """
    files = sorted(path for path in folder.iterdir() if path.suffix in (".pdb", ".cif"))
    by_text = {chain.text: chain for path in files for chain in of_file(path)}
    order = sorted(by_text.values(), key=lambda chain: sha256(chain.text.encode()).hexdigest())
    return distinct([chain for chain in order if int((chain.far & chain.contacts).sum()) >= CONTACTS])


def of_file(path: Path) -> Iterator[Chain]:
    """The chains of the first model that are long enough, and not too long."""
    from Bio.PDB import PDBParser  # type: ignore[attr-defined]
    from Bio.PDB.MMCIFParser import FastMMCIFParser

    parser = FastMMCIFParser if path.suffix == ".cif" else PDBParser
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of headers and atoms that are not read
        model = next(iter(parser(QUIET=True).get_structure(path.stem, str(path))))
    for chain in model:
        numbers, letters, carbons = residues(chain)
        if SHORTEST <= len(letters) <= LONGEST:
            yield placed(f"{path.stem} {chain.id}", numbers, letters, torch.tensor(carbons))


def residues(chain: Any) -> tuple[list[int], list[int], list[list[float]]]:
    """Numbers, letters and alpha carbons of standard residues; selenomethionine is methionine."""
    from Bio.Data.PDBData import protein_letters_3to1

    names = {**protein_letters_3to1, "MSE": "M"}
    standard = [
        residue
        for residue in chain
        if "CA" in residue and residue.resname in names and (residue.id[0] == " " or residue.resname == "MSE")
    ]
    letters = [LETTERS.index(names[residue.resname]) for residue in standard]
    return (
        [residue.id[1] for residue in standard],
        letters,
        [residue["CA"].coord.tolist() for residue in standard],
    )


def noisy(contacts: Tensor, recall: float, false: float, random: Generator) -> Tensor:
    """Noisy maps (..., T, T), symmetric: a share `recall` of the contacts, and `false` of the other pairs."""
    draw = torch.rand(contacts.shape, generator=random).triu(1)
    draw = draw + draw.mT
    return torch.where(contacts, draw < recall, draw < false).float()


def placed(
    source: str, numbers: Sequence[int], letters: Sequence[int], carbons: Float[Tensor, "T 3"]
) -> Chain:
    """A chain with its places: one more than before if the carbons are neighbours, else the difference of the
    residues' numbers. Numbers alone skip where a homolog, by which they were chosen, has more residues.
    """
    bonded = (carbons[1:] - carbons[:-1]).norm(dim=1) < BONDED
    steps = torch.tensor(numbers).diff().clamp(min=1).where(~bonded, torch.ones(()).long())
    places = torch.cat([torch.zeros(1).long(), steps.cumsum(0)])
    return Chain(source, torch.tensor(letters), places, torch.cdist(carbons, carbons) < TOUCHING)


def distinct(sample: Sequence[Chain]) -> list[Chain]:
    """Without chains that are homologs of an earlier one: their best local alignment (BLOSUM62, 11 to open
    and 1 to extend a gap) has a score of 40 or more, and identical residues are 20 % of the shorter chain.
    """
    from Bio.Align import PairwiseAligner, substitution_matrices

    aligner = PairwiseAligner(mode="local", open_gap_score=-11, extend_gap_score=-1)
    aligner.substitution_matrix = substitution_matrices.load("BLOSUM62")

    def alike(left: str, right: str) -> bool:
        if aligner.score(left, right) < SCORE:
            return False
        best = aligner.align(left, right)[0]
        same = sum(
            left[first:last][step] == right[start:end][step]
            for (first, last), (start, end) in zip(*best.aligned, strict=True)
            for step in range(last - first)
        )
        return same >= ALIKE * min(len(left), len(right))

    unlike: list[Chain] = []
    for chain in sample:
        if not any(alike(chain.text, earlier.text) for earlier in unlike):
            unlike.append(chain)
    return unlike
