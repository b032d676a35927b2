"""The fitted constants of the predictor, all of them; every other figure has a source.

The first two were fitted together to the throughputs of BERT-Base phase 1 and ResNet-50 that
``benchmarks/published.py`` prints as fitted. The last two, of memory, were set so that the
published strategies of BERT-Base fit; nobody published what their tiles held.
"""

from __future__ import annotations

EXCHANGE_EFFICIENCY = 0.85
"""Share of the exchange's bandwidth that tensors laid out for something else get."""

VERTEX_OVERHEAD = 1.4
"""Instructions of an elementwise vertex for each one that poplibs' inner loops count."""

CODE_BYTES_PER_SET = 400.0
"""Bytes of a tile for each distinct compute set: code, vertices, their state, exchange code."""

TILE_IMBALANCE = 1.1
"""What the fullest tile holds, over the mean of the tiles."""
