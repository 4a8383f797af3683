"""Semantic vectors: one table of words, trained here or read from the files people have.

    train, load -> Vectors -> align, save        info and convert work from file to file

Read, by their content rather than their name: word2vec binary and text, GloVe text, each also as gzip; fastText `.bin`;
gensim's own KeyedVectors. The three streamed ones never hold more than the rows that were asked for.
"""

from vnait.vectors.reading import info, load
from vnait.vectors.table import Vectors, align
from vnait.vectors.training import train
from vnait.vectors.writing import convert, save

__all__ = ["Vectors", "align", "convert", "info", "load", "save", "train"]
