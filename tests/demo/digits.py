#!/usr/bin/python3
"""The 1,797 handwritten digits of scikit-learn as arrays for galrun: images.npy uint8 [1797][8][8] and labels.npy [1797],
in a random order of its own, since the last tenth is what galrun validates on and was written by few people.
Usage: digits.py FOLDER"""
import sys

import numpy
from sklearn.datasets import load_digits

digits = load_digits()
order = numpy.random.RandomState(1).permutation(len(digits.target))
levels = numpy.round(digits.images[order] * (255 / 16))  # 0 to 16 in the set
numpy.save(sys.argv[1] + "/images.npy", levels.astype(numpy.uint8))
numpy.save(sys.argv[1] + "/labels.npy", digits.target[order].astype(numpy.uint8))
