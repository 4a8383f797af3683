"""Semantic vectors: one table of words, trained here or read from a file.

    train, load, look_up -> Vectors -> align, save        info, words_in, spelling: a file

Formats, recognized by content: word2vec binary and text, GloVe text, each also packed, all read in a stream
that stores only the rows wanted; fastText `.bin`; gensim's KeyedVectors.
"""

from vnait.data.vectors.reading import info, load, look_up, words_in
from vnait.data.vectors.spelling import spelling
from vnait.data.vectors.table import Vectors, align
from vnait.data.vectors.training import train
from vnait.data.vectors.writing import save

__all__ = ["Vectors", "align", "info", "load", "look_up", "save", "spelling", "train", "words_in"]
