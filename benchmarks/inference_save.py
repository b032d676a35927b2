"""Saves the models of ``inference.py``, in a process without the plugin."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ["PADDLE_IPU_AUTOLOAD"] = "0"

from inference_models import save
from worker import Answer, serve


def _saved(model: str) -> Answer:
    return {"prefix": str(save(model, Path(sys.argv[1])))}


if __name__ == "__main__":
    serve(_saved)
