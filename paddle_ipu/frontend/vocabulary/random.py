"""Rows of operators that draw random numbers."""

from __future__ import annotations

from paddle_ipu.frontend.vocabulary.row import row

_NO_DIAGONAL = {"diag_num": 0, "diag_step": 0, "diag_val": 1.0}

row(
    "gaussian_random",
    "gaussian",
    "shape=ShapeTensor|ShapeTensorList*|@shape?[]",
    attributes="mean?0.0 std?1.0 seed?0 dtype=dtype:dtype?5",
)
row(
    "uniform_random",
    "uniform",
    "shape=ShapeTensor|ShapeTensorList*|@shape?[] min=@min:float32?-1.0 max=@max:float32?1.0",
    attributes="seed?0 dtype=dtype:dtype?5",
    fixed=_NO_DIAGONAL,
)
row("gaussian_inplace", "gaussian_inplace", "x=x", "out=out", "mean?0.0 std?1.0 seed?0")
row(
    "uniform_random_inplace",
    "uniform_inplace",
    "x=X",
    attributes="min?-1.0 max?1.0 seed?0 diag_num?0 diag_step?0 diag_val?1.0",
)
row(
    "uniform_random_batch_size_like",
    "uniform_random_batch_size_like",
    "input=Input",
    attributes="shape input_dim_idx?0 output_dim_idx?0 min?-1.0 max?1.0 seed?0 diag_num?0 "
    "diag_step?0 diag_val?1.0 dtype=dtype:dtype?5",
)
row(
    "truncated_gaussian_random",
    "truncated_gaussian_random",
    "",
    attributes="shape mean?0.0 std?1.0 seed?0 a b dtype=dtype:dtype?5",
)
row(
    "randint",
    "randint",
    "shape=ShapeTensor|ShapeTensorList*|@shape?[]",
    attributes="low high dtype=dtype:dtype?3",
    fixed={"seed": 0},
)
row("random", "random", "x=x", "out=out", "from to")
row("randperm", "randperm", "", attributes="n dtype=dtype:dtype?3", fixed={"seed": 0})
row("bernoulli", "bernoulli", "x=X")
row("binomial", "binomial", "count=count prob=prob", "out=out")
row(
    "multinomial",
    "multinomial",
    "x=X num_samples=@num_samples:int32?1",
    attributes="replacement?false",
)
row("poisson", "poisson", "x=X")
row("exponential", "exponential_", "x=X", attributes="lam=lambda?1.0")
row("standard_gamma", "standard_gamma", "x=x", "out=out")
row("dirichlet", "dirichlet", "alpha=Alpha")
row(
    "rrelu",
    "rrelu",
    "x=X",
    "out=Out noise=Noise",
    "lower?0.125 upper?0.3333333432674408 is_test?false",
)
row("gumbel_softmax", "gumbel_softmax", "x=X", attributes="temperature?1.0 hard?false axis?-1")
row(
    "class_center_sample",
    "class_center_sample",
    "label=Label",
    "remapped_label=RemappedLabel sampled_local_class_center=SampledLocalClassCenter",
    "num_classes num_samples ring_id?0 rank?0 nranks?1 fix_seed?false seed?0",
)
row(
    "shuffle_batch",
    "shuffle_batch",
    "x=X seed=Seed",
    "out=Out shuffle_idx=ShuffleIdx seed_out=SeedOut",
    "startup_seed?0",
)
row(
    "top_p_sampling",
    "top_p_sampling",
    "x=x ps=ps threshold=threshold topp_seed=topp_seed",
    "out=out ids=ids topk_scores=topk_scores topk_ids=topk_ids",
    'seed?-1 k?0 mode?"truncate"',
)
