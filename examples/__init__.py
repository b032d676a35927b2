"""Programs that show paddle_ipu at work, each in a folder with a README of its own."""

import os
import warnings

# Before Paddle is imported, so that what the examples print stays readable: Paddle announces every
# executor, looks for a compiler cache though nothing here compiles extensions, and its own gradient
# code asks the values of a static program for their place.
os.environ.setdefault("GLOG_minloglevel", "2")
warnings.filterwarnings("ignore", message="No ccache found")
warnings.filterwarnings("ignore", message="(Tensor|Value) do not have 'place' interface")
