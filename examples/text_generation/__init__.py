"""A small LLaMA-like decoder: trained on English text, then writing text, on the IPU."""

from examples.extras import require

require("text-generation", "gensim", "matplotlib", "rich", "tokenizers")
