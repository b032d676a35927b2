"""Well-known networks as Paddle programs, for who has a question about a machine and no program.

:mod:`~paddle_ipu.zoo.models` is the table. Programs are built without weights' values: they are for
``paddle_ipu.plan``, which reads shapes.
"""
