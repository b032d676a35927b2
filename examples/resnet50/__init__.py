"""ResNet-50 on the IPU: pipelined over IPUs, in half precision, with accumulated gradients."""

import warnings

from examples.extras import require

require("resnet50", "matplotlib", "rich")

# Paddle says so of every batch normalisation in training mode.
warnings.filterwarnings("ignore", message="When training, we now always track")
