"""In which folder compiled programs of Paddle are kept, and what is loaded from it early.

It brings JAX: a compilation imports it before all else, which then comes while XLA loads.
"""

from __future__ import annotations

import logging
import os

from paddle_ipu.compiler.program_likeness import likeness
from paddle_ipu.compiler.source import Source
from paddle_ipu.errors import CacheError
from paddle_ipu.options.cache_folder import CACHE_VARIABLE, default_folder
from paddle_ipu.options.strategy import StrategyValues
from paddle_ipu.runtime import target_selection
from paddle_ipu.xla.step.early_load import EarlyLoad
from paddle_ipu.xla.step.executable_cache import ExecutableCache

_LOG = logging.getLogger("paddle_ipu")

_told: set[str] = set()
"""Why there is no folder, as far as it was said."""


def cache_folder(values: StrategyValues) -> str | None:
    """The folder of compiled programs, None for no cache.

    A folder that the environment's :data:`CACHE_VARIABLE` names goes before the options
    ``enable_engine_caching`` and ``cache_path``. Where neither says anything, programs for the IPU
    Model are kept in :func:`default_folder`; a variable that is set and empty turns that off.

    Args:
        values: the strategy's.
    """
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return named
    if "enable_engine_caching" in values.explicit:
        return str(values["cache_path"]) if values["enable_engine_caching"] else None
    if named is not None or target_selection.choice()[0] != "model":
        return None
    try:
        folder = default_folder()
        ExecutableCache(folder)
    except CacheError as error:
        if str(error) not in _told:
            _told.add(str(error))
            _LOG.info("Compiled programs are not kept: %s", error)
        return None
    return str(folder)


def begin_to_load(source: Source, cache: str | None) -> EarlyLoad | None:
    """Begins to load what a program of this look had last time, where the IPU Model runs it.

    Args:
        source: the program.
        cache: the folder of compiled programs, None for no cache.
    """
    values = source.values
    if (
        cache is None
        or not values["compile_engine"]
        # Instances have to join before JAX makes its devices.
        or values["enable_distributed_replicated_graphs"]
        or target_selection.choice()[0] != "model"
        # Whoever reads them says what is wrong.
        or not all(isinstance(names, list | tuple) for names in (source.feeds, source.fetches))
    ):
        return None
    return EarlyLoad(cache, likeness(source))
