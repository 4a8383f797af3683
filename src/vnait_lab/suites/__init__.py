"""Suites on which all methods are compared: generated tasks at lengths past training (length.py,
algorithmic.py, decoding.py), and real sets with few labels (few_labels.py).
"""
