"""``paddle.Model`` fits, evaluates and predicts on the IPU as on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import paddle
import pytest
from paddle import nn

from paddle_ipu.errors import NotSupported
from tests.unit.dygraph.layers import Normalised, X, Y, assert_same, made, state, strategy, weights

pytestmark = [
    pytest.mark.filterwarnings("ignore:When training, we now always track:UserWarning"),
    # Paddle 3.3's own Model makes tensors of what its loader gives, which are tensors.
    pytest.mark.filterwarnings("ignore:To copy construct from a tensor:UserWarning"),
]


class Network(Normalised):
    """Logits alone; a Model has the loss."""

    def forward(self, x: Any) -> Any:
        return self.scores(x)


class Rows(paddle.io.Dataset):  # type: ignore[misc]
    def __getitem__(self, index: int) -> Any:
        return X[index], Y[index : index + 1]

    def __len__(self) -> int:
        return len(Y)


def _fitted(on_ipu: bool, path: Path) -> list[Any]:
    network = made(Network)
    registered = strategy() if on_ipu else None
    model = paddle.Model(network, [paddle.static.InputSpec([None, *X.shape[1:]], "float32", "x")])
    model.prepare(
        paddle.optimizer.Adam(0.05, parameters=network.parameters()),
        nn.CrossEntropyLoss(),
        paddle.metric.Accuracy(),
    )
    # The last batch of an epoch has other rows.
    model.fit(Rows(), batch_size=6, epochs=2, shuffle=False, verbose=0)
    found = list(weights(network).values())
    model.save(str(path / "model"))
    again = model.train_batch([X[:6]], [Y[:6, None]])
    model.load(str(path / "model"))
    assert model.train_batch([X[:6]], [Y[:6, None]]) == again
    told = model.evaluate(Rows(), batch_size=8, verbose=0)
    found += [np.ravel(again[0]), np.ravel(told["loss"]), told["acc"]]
    found += [model.predict(Rows(), batch_size=8, verbose=0, stack_outputs=True)[0]]
    found += state(model._optimizer)
    # For inference: what ran on the IPU left the network's forward as it was.
    model.save(str(path / "inference"), training=False)
    assert (path / "inference.pdiparams").stat().st_size > 0
    if registered is not None:
        registered.release_patch()
    return found


def test_fit_evaluate_predict_save_and_load_equal_those_on_the_cpu(tmp_path: Path) -> None:
    assert_same(_fitted(True, tmp_path), _fitted(False, tmp_path), 1e-5)


def test_a_network_of_to_static_and_what_a_batch_cannot_do() -> None:
    strategy()
    network = paddle.jit.to_static(made(Network), full_graph=True)
    model = paddle.Model(network)
    model.prepare(paddle.optimizer.SGD(0.1, parameters=network.parameters()), nn.CrossEntropyLoss())
    expected = made(Network)
    expected.eval()
    assert_same(model.predict_batch([X]), [expected(paddle.to_tensor(X)).numpy()])
    with pytest.raises(NotSupported, match=r"update=False.*accumulation_factor"):
        model.train_batch([X], [Y], update=False)
    model._adapter._amp_level = "O1"
    with pytest.raises(NotSupported, match=r"amp_configs.*enable_fp16"):
        model.train_batch([X], [Y])


class _Words(nn.Layer):  # type: ignore[misc]
    """Classifies sequences of 4 steps."""

    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.layer, self.last = kind(3, 5), nn.Linear(5, 4)

    def forward(self, x: Any) -> Any:
        return self.last(self.layer(x)[0].mean(1))


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM, nn.SimpleRNN])
def test_recurrent_networks_fit(kind: Any) -> None:
    rows = np.random.default_rng(8).standard_normal((8, 4, 3)).astype("float32")
    data = paddle.io.TensorDataset([paddle.to_tensor(rows), paddle.to_tensor(Y[:, None])])

    def run(on_ipu: bool) -> Any:
        paddle.seed(3)
        model = paddle.Model(_Words(kind))
        optimizer = paddle.optimizer.Adam(0.05, parameters=model.parameters())
        model.prepare(optimizer, nn.CrossEntropyLoss())
        registered = strategy() if on_ipu else None
        model.fit(data, batch_size=4, epochs=2, shuffle=False, verbose=0)
        found = [*weights(model.network).values(), *model.predict(data, 4, verbose=0)[0]]
        if registered is not None:
            registered.release_patch()
        return found

    assert_same(run(True), run(False), 2e-5)
