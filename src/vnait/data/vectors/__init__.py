"""Semantic vectors: one table of words, trained here or read from a file.

    train, load -> Vectors -> align, save        info and convert work from file to file

Formats, recognized by content: word2vec binary and text, GloVe text, each also as gzip, all read in a stream
that stores only the rows wanted; fastText `.bin`; gensim's KeyedVectors.
"""

from vnait.data.vectors.reading import info, load
from vnait.data.vectors.table import Vectors, align
from vnait.data.vectors.training import train
from vnait.data.vectors.writing import convert, save

__all__ = ["Vectors", "align", "convert", "info", "load", "save", "train"]
