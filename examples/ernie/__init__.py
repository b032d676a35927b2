"""An ERNIE-style encoder in inference: saved, loaded, run on the IPU, compared with the CPU."""

from examples.extras import require

require("ernie", "gensim", "rich", "tokenizers")
