"""The counts of runners as Prometheus metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from paddle_ipu.serving.batching_runner import BatchingRunner
from paddle_ipu.serving.statistics import BOUNDS, Statistics

_OUTCOMES = ("answered", "failed", "timed_out", "cancelled", "refused")


class Metrics:
    """The metrics of a server.

    Args:
        runners: by the names of their models.
    """

    def __init__(self, runners: Mapping[str, BatchingRunner]) -> None:
        self._registry = CollectorRegistry()
        self._responses: Counter[tuple[str, int]] = Counter()
        self._registry.register(_Runners(runners, self._responses))

    def count(self, model: str, code: int) -> None:
        """Counts an HTTP response."""
        self._responses[model, code] += 1

    def text(self) -> bytes:
        """All of them in Prometheus' text format."""
        return generate_latest(self._registry)


class _Runners(Collector):
    """Reads the runners' own counts at each collection."""

    def __init__(
        self, runners: Mapping[str, BatchingRunner], responses: Mapping[tuple[str, int], int]
    ) -> None:
        self._runners = runners
        self._responses = responses

    def collect(self) -> Iterator[Metric]:
        responses = CounterMetricFamily(
            "paddle_ipu_http_responses",
            "HTTP answers to inference requests.",
            labels=("model", "code"),
        )
        for (model, code), number in self._responses.items():
            responses.add_metric((model, str(code)), number)
        yield responses
        counts = {name: runner.statistics() for name, runner in self._runners.items()}
        requests = CounterMetricFamily(
            "paddle_ipu_requests", "Requests that came to an end.", labels=("model", "outcome")
        )
        for name, statistics in counts.items():
            for outcome in _OUTCOMES:
                requests.add_metric((name, outcome), getattr(statistics, outcome))
        yield requests
        for attribute, meaning in (
            ("batches", "Micro-batches computed."),
            ("rows", "Rows of requests computed."),
            ("padding", "Rows computed to fill up micro-batches."),
        ):
            counter = CounterMetricFamily(f"paddle_ipu_{attribute}", meaning, labels=("model",))
            for name, statistics in counts.items():
                counter.add_metric((name,), getattr(statistics, attribute))
            yield counter
        waiting = GaugeMetricFamily(
            "paddle_ipu_waiting_rows", "Rows that wait for the model.", labels=("model",)
        )
        for name, statistics in counts.items():
            waiting.add_metric((name,), statistics.waiting)
        yield waiting
        yield _latency(counts)


def _latency(counts: Mapping[str, Statistics]) -> Metric:
    latency = HistogramMetricFamily(
        "paddle_ipu_latency_seconds", "From acceptance to answer.", labels=("model",)
    )
    for name, statistics in counts.items():
        total, buckets = 0, []
        for bound, count in zip((*BOUNDS, float("inf")), statistics.latency_counts, strict=True):
            total += count
            buckets.append(("+Inf" if bound == float("inf") else str(bound), float(total)))
        latency.add_metric((name,), buckets, statistics.latency_sum)
    return latency
