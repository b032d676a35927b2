"""Many processes that train one model: PopDist's API, ``poprun``, the V-IPU service."""

from __future__ import annotations
