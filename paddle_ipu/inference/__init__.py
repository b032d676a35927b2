"""Paddle Inference on the IPU: configs with ``enable_ipu``, and the predictors they give.

``config.py`` and ``predictor.py`` hold what is patched into Paddle; ``model.py`` is what a
predictor shares with its clones.
"""
