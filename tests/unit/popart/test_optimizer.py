"""PopART's optimizers: parameters, defaults, refusals, values of single weights, replacement."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, cast

import pytest

from paddle_ipu.errors import popart_exception, popart_runtime_error
from paddle_ipu.popart.enums import (
    AdamMode,
    AdaptiveMode,
    DataType,
    SGDAccumulatorAndMomentum,
    WeightDecayMode,
)
from paddle_ipu.popart.optimizer import (
    SGD,
    Adam,
    Adaptive,
    ClipNormSettings,
    ConstSGD,
    Optimizer,
    OptimizerValue,
)


def test_defaults() -> None:
    sgd = SGD({})
    assert sgd.learningRates().getDefault() == OptimizerValue(0.1, True)
    assert sgd.momentums().getDefault().val() == sgd.dampenings().getDefault().val() == 0
    assert sgd.velocityScalings().getDefault().val() == sgd.getLossScalingVal() == 1
    assert sgd.nesterov().getDefault().val() == sgd.weightDecays().getDefault().val() == 0
    assert sgd.accumulatorAndMomentum is SGDAccumulatorAndMomentum.Combined
    adam = Adam({})
    assert [
        item.getDefault().val()
        for item in (adam.beta1s(), adam.beta2s(), adam.epss(), adam.maxWeightNorms())
    ] == [0.9, 0.999, 1e-6, 10.0]
    assert (adam.mode, adam.weight_decay_mode) == (AdamMode.Adam, WeightDecayMode.Decay)
    assert (adam.accum_type, adam.accl1_type) == (DataType.UNDEFINED, DataType.FLOAT)
    adaptive = Adaptive({})
    assert adaptive.mode is AdaptiveMode.RMSProp
    assert adaptive.learningRates().getDefault().val() == 0.01
    assert adaptive.alphas().getDefault().val() == 0.99
    assert adaptive.momentums().getDefault().val() == 0
    assert adaptive.epss().getDefault().val() == 1e-6


def test_values_of_single_weights() -> None:
    sgd = SGD({"defaultLearningRate": (0.2, False), "defaultMomentum": (0.9, True)})
    sgd.insertSpecific("w", {"learningRate": (0.5, False)})
    assert sgd.learningRates().get("w") == OptimizerValue(0.5, False)
    assert sgd.learningRates().get("other") == OptimizerValue(0.2, False)
    assert sgd.momentums().get("w").val() == 0.9
    assert sgd.momentums().hasSpecific("w")
    assert sgd.momentums().hasSpecific()
    assert set(sgd.learningRates().getSpecifics()) == {"w"}
    assert not sgd.learningRates().hasSpecific("other")
    with pytest.raises(popart_exception, match="there is already a specific value for w present"):
        sgd.insertSpecific("w", {})
    with pytest.raises(
        popart_exception,
        match=r"Invalid key beta1 in SGD::insertSpecific. Permitted keys are \( learningRate ",
    ):
        sgd.insertSpecific("v", {"beta1": (0.5, True)})
    with pytest.raises(popart_exception, match=r"Negative momentum \(-1.0\) in SGD"):
        sgd.insertSpecific("v", {"momentum": (-1, True)})


def test_momentum_is_on_unless_it_is_a_constant_zero() -> None:
    assert not SGD({}).hasMomentum("w")
    assert SGD({"defaultMomentum": (0.0, False)}).hasMomentum("w")
    assert SGD({"defaultMomentum": (0.5, True)}).hasMomentum("w")


Make = Callable[[], Optimizer]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SGD({"rate": (1, True)}), r"^Invalid SGD key, rate, the allowed keys are \( defa"),
        (
            lambda: SGD({"defaultLearningRate": (0, True)}),
            "^Constant, zero learning rate in SGD, bailing as this might be a user error.$",
        ),
        (
            lambda: SGD({"defaultLearningRate": (-1, False)}),
            r"^Negative learning rate \(-1.0\) in SGD, bailing",
        ),
        (lambda: SGD({"defaultWeightDecay": (-1, True)}), r"Negative weight decay \(-1.0\) in SGD"),
        (lambda: SGD({"defaultMomentum": (-1, True)}), r"Negative momentum \(-1.0\) in SGD"),
        (lambda: SGD({"defaultDampening": (-1, True)}), r"Negative dampening \(-1.0\) in SGD"),
        (
            lambda: SGD({"defaultVelocityScaling": (0, True)}),
            r"Non-positive velocity scaling \(0.0\) in SGD is not supported",
        ),
        (
            lambda: SGD({"nesterov": (1, True), "defaultDampening": (0.5, True)}),
            r"When enable nesterov momentum, dampening \(0.5\) in SGD",
        ),
        (lambda: SGD({"lossScaling": (0, True)}), "^Loss scaling cannot be 0$"),
        (
            lambda: SGD({cast(Any, 1): (0, True)}),
            "A key in the optimizer map input must be a py::str",
        ),
        (lambda: SGD({"lossScaling": 1.0}), "A value in the optimizer map must be a py::tuple"),
        (lambda: ConstSGD(0.0), "Constant, zero learning rate in SGD"),
        (lambda: Adam({"beta": (1, True)}), "^Invalid Adam key, beta, the allowed keys are"),
        (lambda: Adam({"defaultBeta1": (-1, True)}), r"Negative beta1 \(-1.0\) in Adam"),
        (lambda: Adam({"defaultBeta2": (-1, True)}), r"Negative beta2 \(-1.0\) in Adam"),
        (lambda: Adam({"defaultEps": (0, True)}), r"Non-positive eps \(0.0\) in Adam is not supp"),
        (lambda: Adaptive({"defaultAlpha": (-1, True)}), r"Negative alpha \(-1.0\) in Adaptive"),
        (lambda: Adaptive({"defaultMomentum": (-1, True)}), r"Negative momentum \(-1.0\) in Adapt"),
        (lambda: Adaptive({"defaultEps": (0, True)}), r"Non-positive eps \(0.0\) in Adaptive"),
        (
            lambda: Adaptive({}, AdaptiveMode.AdaGrad, rmsprop_tf_variant=True),
            "The rmspropTFVariant parameter is only valid with the RMSProp and CenteredRMSProp",
        ),
        (
            lambda: SGD(
                {}, [ClipNormSettings.clipAllWeights(1), ClipNormSettings.clipWeights(["w"], 1)]
            ),
            "Multiple clip groups specified, but one has the mode 'ClipAllWeights'. When using ",
        ),
    ],
)
def test_refusals(make: Make, message: str) -> None:
    with pytest.raises(popart_exception, match=message):
        make()


def test_a_variable_learning_rate_may_be_zero() -> None:
    assert SGD({"defaultLearningRate": (0, False)}).learningRates().getDefault().val() == 0


def test_the_old_key_of_adams_weight_norm(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        adam = Adam({"maxWeightNorm": (3.0, True)})
    assert adam.maxWeightNorms().getDefault().val() == 3.0
    assert "'defaultMaxWeightNorm' instead" in caplog.text


def test_clip_settings(caplog: pytest.LogCaptureFixture) -> None:
    some = ClipNormSettings.clipWeights(["a", "b"], 2.0)
    assert (some.weightIds, some.maxNorm, some.all_weights) == (["a", "b"], 2.0, False)
    assert ClipNormSettings.clipAllWeights(2.0).all_weights
    with caplog.at_level(logging.WARNING):
        assert ClipNormSettings(["a", "b"], 2.0) == some
    assert "Using deprecated constructor ClipNormSettings" in caplog.text
    assert some != ClipNormSettings.clipWeights(["a"], 2.0)
    assert len({some, ClipNormSettings.clipWeights(["a", "b"], 2.0)}) == 1
    with pytest.raises(TypeError, match="clip_norm_settings takes ClipNormSettings"):
        SGD({}, [1.0])  # type: ignore[list-item]


def _sgd(**values: Any) -> SGD:
    return SGD({"defaultLearningRate": (0.1, False), **values})


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (_sgd(), Adam({}), "Can not replace optimizer of type SGD with new optimizer of type Adam"),
        (_sgd(), SGD({}), "Problem with learningRate. Default value is not a valid replacement. "),
        (
            _sgd(),
            _sgd(defaultMomentum=(0.5, True)),
            "Problem with momentum. .* Values are constant but do not match.",
        ),
        (_sgd(), _sgd(lossScaling=(2.0, True)), "Problem with loss scaling. Values are constant"),
        (
            _sgd(),
            SGD(
                {"defaultLearningRate": (0.1, False)},
                accumulatorAndMomentum=SGDAccumulatorAndMomentum.Separate,
            ),
            "SGDAccumulatorAndMomentum do not match",
        ),
        (
            _sgd(),
            SGD({"defaultLearningRate": (0.1, False)}, [ClipNormSettings.clipAllWeights(1.0)]),
            "Clip norm settings do not match.",
        ),
        (Adam({}), Adam({}, AdamMode.Lamb), "Adam modes do not match"),
        (
            Adaptive({}),
            Adaptive({}, AdaptiveMode.AdaGrad),
            "Adaptive modes do not match",
        ),
        (
            Adam({}),
            Adam({}, weight_decay_mode=WeightDecayMode.L2Regularization),
            "Weight decay modes do not match",
        ),
    ],
)
def test_wrong_replacements(old: Optimizer, new: Optimizer, message: str) -> None:
    with pytest.raises(
        popart_runtime_error, match=f"^New optimizer is not a valid replacement. {message}"
    ):
        old.validReplacement(new)


def test_specific_values_of_a_replacement() -> None:
    old, new = _sgd(), _sgd(defaultMomentum=(0.0, True))
    old.validReplacement(new)
    new.insertSpecific("w", {})
    with pytest.raises(popart_runtime_error, match="a different number of specific tensors"):
        old.validReplacement(new)
    old.insertSpecific("v", {})
    with pytest.raises(popart_runtime_error, match="Could not find tensor v in replacement"):
        old.validReplacement(new)
    third, fourth = _sgd(), _sgd()
    third.insertSpecific("w", {"weightDecay": (0.5, True)})
    fourth.insertSpecific("w", {})
    with pytest.raises(popart_runtime_error, match="OptimizerValue for tensor w is not a valid"):
        third.validReplacement(fourth)
    fifth = SGD({"defaultLearningRate": (0.7, False)})
    _sgd().validReplacement(fifth)


def test_optimizer_values() -> None:
    value = OptimizerValue(2, False)
    assert (value.val(), value.isConst()) == (2.0, False)
    assert value != OptimizerValue(2, True)
    assert hash(value) == hash(OptimizerValue(2.0, False))
    assert repr(value) == "OptimizerValue(2.0, isConst=False)"
