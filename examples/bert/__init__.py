"""BERT pretraining on the IPU, from raw English text to a checkpoint."""

import os
import warnings

# Before Paddle is imported, so that the progress bars stay readable: Paddle announces every
# executor, looks for a compiler cache though nothing here compiles extensions, and its own gradient
# code asks the values of a static program for their place.
os.environ.setdefault("GLOG_minloglevel", "2")
warnings.filterwarnings("ignore", message="No ccache found")
warnings.filterwarnings("ignore", message="Tensor do not have 'place' interface")
