"""The single table of strategy options."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from paddle_ipu.options.values import (
    UINT64_MAX,
    Flag,
    FlagMap,
    Fragment,
    Items,
    Location,
    Members,
    Number,
    OperatorMapping,
    Option,
    ProgressLogger,
    ReadOnly,
    Status,
    StringMap,
    Text,
    Valid,
    Whole,
)

#: `default_prefetch_buffering_depth` holds this while nobody has set it; PopART's own mark.
PREFETCH_DEPTH_UNSET = 111122
#: `random_seed` holds this while nobody has set it: Paddle's generator then gives the seed.
RANDOM_SEED_UNSET = UINT64_MAX

#: Seam of options that PopART's Python interface lacks: Graphcore's module cannot be told of them.
IN_CPP_ONLY = "in C++ only"

#: Keys of the options of Graphcore's collectives.
GCL_OPTIONS = ("useSynclessCollectives", "maxBytesPerTile")
#: What PopART takes in any letter case: types of partial sums, and what its scheduler prefers.
PARTIALS_TYPES = ("float", "half")
KAHN_TIE_BREAKERS = ("fifo", "greedy", "random")

FLAG = Flag()
COUNT = Whole(low=1)
WHOLE = Whole()
TEXT = Text()
STATE_TYPE = Text(("FLOAT", "FLOAT16"))

_rows: dict[str, Option] = {}

_SPELLED: dict[str, str] = {
    "num_io_tiles": "numIOTiles",
    "partials_type_matmuls": "partialsTypeMatMuls",
    # PopART calls defaultPrefetchBufferingDepth a deprecated alias of this field.
    "default_prefetch_buffering_depth": "defaultBufferingDepth",
}


def _session_field(name: str) -> str:
    """PopART's SessionOptions field of an option: the same words in camel case."""
    if name not in _SPELLED:
        words = name.split("_")
        return "SessionOptions." + words[0] + "".join(w[0].upper() + w[1:] for w in words[1:])
    return "SessionOptions." + _SPELLED[name]


def _add(
    group: str,
    status: Status,
    valid: Valid,
    rows: Mapping[str, tuple[Any, str]],
    *,
    seam: str | None = None,
) -> None:
    """Add rows ``name: (default, meaning)``; without ``seam`` the session field of that name."""
    if twice := sorted(_rows.keys() & rows.keys()):
        raise ValueError(f"option {twice[0]!r} has a row already")
    for name, (default, meaning) in rows.items():
        where = _session_field(name) if seam is None else seam
        _rows[name] = Option(name, valid, default, meaning, status, group, where)


# One row a line, as a table.
# fmt: off
_add("Program", "effective", FLAG, {
    "is_training": (True, "Compile a training step; off: inference, where dropout drops nothing."),
}, seam="TrainingSession, InferenceSession")
_add("Program", "effective", COUNT, {
    "micro_batch_size": (1, "Replaces a dynamic first dimension of the feeds."),
}, seam="Builder.addInputTensor")
_add("Program", "effective", COUNT, {
    "batches_per_step": (1, "Batches (in training: weight updates) one run goes through."),
}, seam="DataFlow")
_add("Program", "effective", WHOLE, {
    "random_seed": (RANDOM_SEED_UNSET, "Seed of dropout and random operators; default: not set."),
}, seam="TrainingSession.setRandomSeed")
_add("Program", "effective", FLAG, {
    "enable_floating_point_checks": (False, "Raise when a step makes a NaN or an infinity."),
})
_add("Program", "recorded", FLAG, {
    "is_dynamic": (False, "Says that `set_optimizer` was called: `to_static` layers train."),
}, seam="")
_add("Program", "effective", FLAG, {
    "runtime_options.enable_eval":
        (False, "Runs leave weights and optimizer state alone; may be set between runs."),
}, seam="")

_add("Placement", "effective", COUNT, {
    "num_ipus": (1, "IPUs of the program: IPUs of a replica times replicas."),
}, seam="DeviceManager.createIpuModelDevice")
_add("Placement", "effective", FLAG, {
    "enable_manual_shard": (False, "The `virtual_graph_mode` Manual (on) or Off."),
}, seam="SessionOptions.virtualGraphMode")
_add("Placement", "effective",
     Members("VirtualGraphMode", ("Off", "Manual", "Auto", "ExecutionPhases")), {
    "virtual_graph_mode":
        (0, "Who places operators on IPUs. Manual: `ipu_shard_guard`; Auto and ExecutionPhases: "
            "PopART, on hardware; the IPU Model computes the same without places."),
})
_add("Placement", "effective", FLAG, {
    "need_avg_shard": (
        False, "Cut the program into one part for each IPU, by what its operators cost and keep.",
    ),
}, seam="")
_add("Placement", "recorded", COUNT, {
    "tiles_per_ipu": (4, "Tiles of each IPU of an IPU Model; predictions have all where unset."),
}, seam="DeviceManager.createIpuModelDevice")
_add("Placement", "effective", TEXT, {
    "ipu_machine":
        ("", "The machine whose memory the program must fit, such as `pod16` or `bow-pod16`."),
}, seam="")
_add("Placement", "recorded", Whole(high=2**31 - 1), {
    "num_io_tiles": (0, "Tiles of each IPU set aside for input and output."),
})

_add("Pipelining and accumulation", "effective", FLAG, {
    "enable_pipelining": (False, "Run the stages of different micro-batches at the same time."),
    "enable_gradient_accumulation": (False, "Sum gradients over micro-batches before an update."),
})
_add("Pipelining and accumulation", "effective", COUNT, {
    "accumulation_factor": (1, "Micro-batches accumulated for one weight update."),
})
_add("Pipelining and accumulation", "effective",
     Members("ReductionType", ("Sum", "Mean", "NoReduction")), {
    "accumulation_and_replication_reduction_type":
        (0, "How gradients of micro-batches and replicas join; `IpuStrategy()` sets 1. As in "
            "PopART, NoReduction sums them."),
})
_add("Pipelining and accumulation", "effective",
     Members("MeanReductionStrategy", ("Running", "Post")), {
    "mean_accumulation_and_replication_reduction_strategy":
        (1, "With Mean: keep a running mean, or divide after the sum."),
})
_add("Pipelining and accumulation", "effective", FLAG, {
    "create_implicit_pipelining_fwd_only_program":
        (False, "Build a forward-only pipeline beside the training one, run by enable_eval."),
})
_add("Pipelining and accumulation", "recorded", FLAG, {
    "disable_grad_accumulation_tensor_streams":
        (False, "Drop the host streams of the accumulated gradients."),
})

_add("Optimizer", "effective", Number(low=0.0, above=True), {
    "loss_scaling": (1.0, "Multiplies the loss before, divides the gradient after the backward."),
}, seam="Optimizer lossScaling")
_add("Optimizer", "effective", Text(("paddle", "popart")), {
    "optimizer_rule": ("paddle", "Whose rule updates weights: Paddle's, or PopART's."),
}, seam="SGD, Adam, Adaptive")
_add("Optimizer", "recorded", Number(low=0.0), {
    "lr": (0.0, "Tells the learning rate of `set_optimizer`'s optimizer, which a run asks itself."),
}, seam="Optimizer defaultLearningRate")
_add("Optimizer", "effective", FLAG, {
    "use_no_bias_optimizer": (False, "Adam and Lamb without bias correction."),
}, seam="AdamMode")
_add("Optimizer", "effective", Number(low=0.0), {
    "max_weight_norm": (65504.0, "Bounds the weight's norm in Lamb's trust ratio; 0: no ratio."),
}, seam="Adam defaultMaxWeightNorm")
_add("Optimizer", "effective", STATE_TYPE, {
    "accl1_type": ("FLOAT", "Keeps the optimizer's first state tensor in half."),
    "accl2_type": ("FLOAT", "Keeps the optimizer's second state tensor in half."),
    "accl3_type": ("FLOAT", "Keeps the optimizer's third state tensor in half."),
}, seam="Adam, Adaptive")
_add("Optimizer", "effective", Text(("", "decay", "l2_regularization")), {
    "weight_decay_mode": ("", "Overrides how the Adam and adaptive families decay weights."),
}, seam="WeightDecayMode")
_add("Optimizer", "effective", FLAG, {
    "scaled_optimizer_state": (False, "Keeps Adam's and Lamb's state in loss-scaled units."),
}, seam="Adam scaled_optimizer_state")
_add("Optimizer", "effective", FLAG, {
    "automatic_loss_scaling_settings.enabled":
        (False, "Adapts the loss scale to the gradients, by PopART's rule."),
})
_add("Optimizer", "effective", Number(low=0.0, high=1.0, above=True), {
    "automatic_loss_scaling_settings.bin_edge_location":
        (0.125, "Share of half's largest number above which a gradient counts as large."),
})
_add("Optimizer", "effective", Number(low=0.0, high=1.0), {
    "automatic_loss_scaling_settings.threshold_upper_count_proportion":
        (1e-7, "Share of large gradients above which the loss scale is halved."),
})

_add("Precision", "effective", FLAG, {
    "enable_fp16": (False, "Converts the program to half, unless ``cast_model_to_fp16`` did."),
}, seam="")
_add("Precision", "effective", FLAG, {
    "enable_half_partial": (False, "Sets `partials_type_matmuls` and convolutions to half."),
}, seam="SessionOptions.partialsTypeMatMuls, SessionOptions.convolutionOptions")
_add("Precision", "effective", Text(("", *PARTIALS_TYPES), any_case=True), {
    "partials_type_matmuls": ("", "Partial sums of half matmuls; `half` rounds every 16 products."),
})
_add("Precision", "effective", FLAG, {
    "enable_stochastic_rounding": (False, "Rounds to half up or down at random, by `random_seed`."),
    "enable_stable_norm": (False, "Two-pass variance in norms of half; float32 always has it."),
    "enable_non_stable_softmax": (False, "Softmax without subtracting the maximum; overflows."),
    "group_norm_strided_channel_grouping": (False, "Group norm: channel c is of group c % groups."),
})
_add("Precision", "effective", FLAG, {
    "enable_supported_data_type_casting": (True, "Off: int64, which an IPU lacks, is refused."),
})

_add("Replication", "effective", FLAG, {
    "enable_replicated_graphs": (False, "Run `replicated_graph_count` copies of the program."),
})
_add("Replication", "effective", COUNT, {
    "replicated_graph_count": (1, "Copies of the program in this process."),
})
_add("Replication", "effective", FLAG, {
    "enable_distributed_replicated_graphs": (False, "Spreads replicas over several processes."),
})
_add("Replication", "effective", COUNT, {
    "global_replication_factor": (1, "Copies of the program over all processes."),
})
_add("Replication", "effective", WHOLE, {
    "global_replica_offset": (0, "Number of this process's first replica."),
})
_add("Replication", "recorded", FLAG, {
    "enable_distribution": (False, "Takes its device from popdist, for several processes."),
}, seam="popdist")
_add("Replication", "recorded", FLAG, {
    "group_host_sync": (False, "Put host synchronisations of a step together."),
})
_add("Replication", "recorded", FlagMap({
    "prepare_schedule_for_merging_collectives": "prepareScheduleForMergingCollectives",
    "merge_all_reduce_collectives": "mergeAllReduceCollectives",
}), {
    "replicated_collectives_settings": ({}, "How collectives of replicas are joined."),
})

_add("Serving", "effective", FLAG, {
    "enable_model_runtime_executor":
        (False, "Runs of several threads queue for the program and share its steps; inference."),
}, seam="model_runtime")
_add("Serving", "effective", COUNT, {
    "num_buffers": (10, "With it: micro-batches that may wait; further runs are held up."),
}, seam="model_runtime")
_add("Serving", "effective", Number(low=0.0), {
    "timeout_ms":
        (0.0, "With it: runs of fewer rows fill up a micro-batch, each waiting at most this long; "
              "0: every run feeds a whole one."),
}, seam="model_runtime")

_add("Random and synthetic data", "effective",
     Members("SyntheticDataMode", ("Off", "Zeros", "RandomNormal", "RandomUniform")), {
    "synthetic_data_mode": (0, "Run on made-up data, without feeds, fetches or new weights."),
})

_add("Memory", "recorded", Number(low=0.0, high=1.0), {
    "available_memory_proportion": (0.0, "Share of tile memory a matmul may take; 0: not set."),
}, seam="Builder.setAvailableMemoryProportion")
_add("Memory", "effective", Members(
    "RecomputationType", ("NoRecompute", "Standard", "NormOnly", "Pipeline", "RecomputeAll")), {
    "auto_recomputation": (0, "What backward computes again instead of keeping it in memory."),
})
_add("Memory", "recorded", FLAG, {
    "explicit_recomputation": (False, "Recompute by operators in the graph."),
})
_add("Memory", "recorded", Location(), {
    "location_activation": ({}, "Where activations are kept."),
}, seam="SessionOptions.activationTensorLocationSettings")
_add("Memory", "recorded", Location(), {
    "location_weight": ({}, "Where weights are kept."),
}, seam="SessionOptions.weightTensorLocationSettings")
_add("Memory", "recorded", Location(), {
    "location_optimizer": ({}, "Where optimizer state is kept; `IpuStrategy()` sets off chip."),
}, seam="SessionOptions.optimizerStateTensorLocationSettings")
_add("Memory", "recorded", Location(), {
    "location_accumulator": ({}, "Where accumulated gradients are kept."),
}, seam="SessionOptions.accumulatorTensorLocationSettings")
_add("Memory", "recorded", Fragment(Members(
    "AccumulateOuterFragmentSchedule",
    ("Scheduler", "Serial", "OverlapCycleOptimized", "OverlapMemoryOptimized"))), {
    "accumulate_outer_fragment": ({}, "Order of the weight updates after accumulation."),
}, seam="SessionOptions.accumulateOuterFragmentSettings")
_add("Memory", "recorded", FLAG, {
    "enable_serialized_matmuls": (True, "Off: matmuls stay whole, whatever asks for parts."),
}, seam="Builder.setSerializeMatMul")

_add("Outlining and schedule", "recorded", FLAG, {
    "enable_outlining": (True, "Share the code of subgraphs that repeat."),
    "enable_outlining_copy_cost_pruning": (True, "Drop outlines that cost more than they save."),
    "enable_merge_exchange": (True, "Join exchanges with the host and with remote memory."),
    "delay_var_updates": (True, "Schedule weight updates late."),
    "enable_fully_connected_pass": (True, "Let forward and backward matmuls share a layout."),
    "schedule_non_weight_update_gradient_consumers_early": (False, "Free gradients sooner."),
    "decompose_grad_sum": (False, "Add up a tensor's gradients one by one, to free them sooner."),
    "enable_explicit_main_loops": (False, "Write the step's loops as operators of the graph."),
    "use_host_copy_ops": (False, "Write host copies as operators of the graph."),
    "alias_zero_copy": (False, "Share buffers between calls of outlined subgraphs."),
})
_add("Outlining and schedule", "recorded", Number(), {
    "outline_threshold": (1.0, "Least gain for which a subgraph is outlined."),
    "outline_sequence_break_cost": (10000.0, "Penalty for outlining across a change of place."),
})
_add("Outlining and schedule", "recorded", Number(low=0.0), {
    "time_limit_scheduler": (1e9, "Seconds the scheduler may search."),
})
_add("Outlining and schedule", "recorded", Whole(high=2**63 - 1), {
    "swap_limit_scheduler": (1_000_000_000, "Swaps the scheduler may try."),
})
_add("Outlining and schedule", "recorded", WHOLE, {
    "transitive_closure_optimization_threshold":
        (100000, "Operators above which the scheduler leaves one optimisation out."),
    "merge_var_update_mem_threshold": (1000000, "Bytes at which merged updates are full."),
})
_add("Outlining and schedule", "recorded", Text(KAHN_TIE_BREAKERS, any_case=True), {
    "kahn_tie_breaker": ("greedy", "How the scheduler picks among operators that are ready."),
})
_add("Outlining and schedule", "recorded",
     Members("SubgraphCopyingStrategy", ("OnEnterAndExit", "JustInTime")), {
    "subgraph_copying_strategy": (0, "When a subgraph's inputs and outputs are copied."),
})
_add("Outlining and schedule", "recorded",
     Members("MergeVarUpdateType", ("Off", "All", "AutoLoose", "AutoTight")), {
    "merge_var_update": (0, "Which weight updates are merged."),
})
_add("Outlining and schedule", "recorded", WHOLE, {
    "loose_threshold_at_peak": (8000, "Slack of AutoLoose."),
}, seam=IN_CPP_ONLY)
_add("Outlining and schedule", "recorded", Members("AutodiffStitchStrategy", (
    "RecomputeMinimal", "RecomputeAllNonInputs", "AddFwdOutputs", "SafeAddFwdOutputs")), {
    "autodiff_settings.stitch_strategy":
        (1, "What a called subgraph's backward computes again."),
}, seam=IN_CPP_ONLY)
_add("Outlining and schedule", "recorded", WHOLE, {
    "execution_phase_settings.phases": (0, "Cut the program into phases, weights off chip."),
    "execution_phase_settings.stages": (2, "Phases that run at the same time."),
    "batch_serialization_settings.factor":
        (0, "Cut each batch into parts, to save memory; on hardware sums round otherwise then."),
})
_add("Outlining and schedule", "recorded", FLAG, {
    "batch_serialization_settings.concat_on_virtual_graph_change":
        (True, "Join the parts of a batch at a change of IPU."),
    "batch_serialization_settings.concat_on_execution_phase_change":
        (True, "Join the parts of a batch at a change of phase."),
    "batch_serialization_settings.concat_on_pipeline_stage_change":
        (True, "Join the parts of a batch at a change of stage."),
})
_add("Outlining and schedule", "recorded",
     Members("BatchSerializationTransformContext", ("Fwd", "Bwd")), {
    "batch_serialization_settings.transform_context": (0, "Cut batches before or after autodiff."),
})
_add("Outlining and schedule", "recorded",
     Members("BatchSerializationMethod", ("UnrollDynamic", "UnrollStatic", "Loop")), {
    "batch_serialization_settings.method": (0, "How the parts of a batch are written down."),
})
_add("Outlining and schedule", "recorded", Members("BatchSerializationBatchSchedule", (
    "Scheduler", "Isomorphic", "OverlapOnIo", "OverlapOnCompute")), {
    "batch_serialization_settings.batch_schedule": (1, "In which order the parts run."),
})

_add("Host exchange", "recorded", FLAG, {
    "rearrange_anchors_on_host": (True, "Put fetched tensors in order on the host."),
    "enable_prefetch_datastreams": (True, "Fetch feeds before they are asked for."),
    "constant_weights": (True, "Inference: the weights on the device are never rewritten."),
})
_add("Host exchange", "recorded", COUNT, {
    "default_prefetch_buffering_depth": (PREFETCH_DEPTH_UNSET, "Feeds held ahead. Default: unset."),
})

_add("Compilation", "effective", ProgressLogger(), {
    "compilation_progress_logger": (
        None,
        "Called with (progress, total) while compiling, from 0 to the total, and only for more; "
        "what it raises ends the compilation. paddle_ipu.CompileBar() shows a bar.",
    ),
}, seam="")
_add("Compilation", "effective", COUNT, {
    "compilation_progress_total": (100, "The total that the progress logger is given."),
}, seam="")
_add("Compilation", "effective", FLAG, {
    "enable_engine_caching": (
        False,
        "Keep compiled programs in cache_path; False: nowhere. If it is not set, the IPU Model "
        "keeps them in this user's folder of caches. IPU_CACHE_PATH goes before it.",
    ),
})
_add("Compilation", "effective", TEXT, {
    "cache_path": ("session_cache", "Folder of compiled programs; IPU_CACHE_PATH goes before it."),
})
_add("Compilation", "recorded", FLAG, {
    "strict_op_versions": (True, "Refuse an operator version other than the opset's."),
})
_add("Compilation", "recorded", TEXT, {
    "custom_codelet_compile_flags": ("", "Flags for compiling custom codelets."),
})
_add("Compilation", "effective", StringMap(), {
    "engine_options": (
        {}, "Poplar engine options: `autoReport.*` writes reports, `debug.allowOutOfMemory` runs "
        "what does not fit; hardware reads the others. `POPLAR_ENGINE_OPTIONS` goes before them.",
    ),
})
_add("Compilation", "effective", FLAG, {
    "compile_engine": (True, "Off: build and check the program, and stop before compiling it."),
})
_add("Compilation", "recorded", Items(TEXT, "codelet.cpp"), {
    "custom_codelets": ([], "Codelet files that are compiled with the program."),
})
_add("Compilation", "recorded", StringMap(), {
    "report_options": ({}, "Poplar report options."),
})
_add("Compilation", "recorded", StringMap(GCL_OPTIONS), {
    "gcl_options": ({}, "Options of Graphcore's collectives."),
})
_add("Compilation", "effective", StringMap(), {
    "convolution_options": ({}, "Poplar options of convolutions; `partialsType` changes numbers."),
    "lstm_options": ({}, "Poplar options of LSTMs; `partialsType` changes numbers."),
})

_add("CPU fallback", "effective", FLAG, {
    "cpu_fallback": (False, "Run operators without a translator on Paddle's CPU kernels."),
}, seam="")

_add("Custom operators", "effective", OperatorMapping(), {
    "custom_op": ({}, "Maps one Paddle operator to a PopART one; what `add_custom_op` sets."),
}, seam="Builder.customOp")
_add("Custom operators", "effective", ReadOnly("add_custom_op"), {
    "custom_ops": ([], "The custom operators so far, one line each."),
}, seam="Builder.customOp")

_add("Diagnostics", "effective", TEXT, {
    "onnx_dump_path": ("", "File for the PopART program; IPU_ONNX_DUMP_PATH goes before it."),
}, seam="Builder.saveModelProto")
_add("Diagnostics", "recorded", FLAG, {
    "dot_op_names": (False, "Write operators' names into dot files."),
    "export_poplar_computation_graph": (False, "Write Poplar's computation graph."),
    "export_poplar_vertex_graph": (False, "Write Poplar's vertex graph."),
    "separate_call_op_pdfs": (True, "Draw each call of a subgraph by itself."),
    "opx_alias_checking": (False, "Check each operator's claims on aliases."),
    "opx_modify_checking": (False, "Check each operator's claims on what it overwrites."),
})
_add("Diagnostics", "recorded", FLAG, {
    "instrument_with_hardware_cycle_counter": (False, "Count the cycles of a run on hardware."),
})
_add("Diagnostics", "recorded", WHOLE, {
    "first_dot_op": (0, "First operator drawn in dot files."),
    "final_dot_op": (10000, "Operator before which dot files end."),
})
_add("Diagnostics", "recorded", TEXT, {
    "log_dir": ("", "Folder of dot files and logs."),
    "serialized_poprithms_shift_graphs_dir": ("", "Folder for the scheduler's graphs."),
})
_add("Diagnostics", "recorded", Items(
    Text(("Fwd0", "Fwd1", "Bwd0", "PreAlias", "Final")), "Final", container=set, upper=True), {
    "dot_checks": ([], "At which points of the compilation a dot file is written."),
})
_add("Diagnostics", "recorded",
     Items(Members("Instrumentation", ("Outer", "Inner")), 1, container=set), {
    "hardware_instrumentations": ([0], "Which loops the cycle counter measures."),
})
# fmt: on

#: Every option by name, in the order of the documentation.
OPTIONS: Mapping[str, Option] = MappingProxyType(_rows)

#: Effective options that change memory, time, or what is told, and no number.
WITHOUT_NUMBERS: frozenset[str] = frozenset(
    {
        "auto_recomputation",
        "cache_path",
        "compilation_progress_logger",
        "compilation_progress_total",
        "compile_engine",
        "custom_ops",
        "enable_engine_caching",
        "enable_floating_point_checks",
        "enable_manual_shard",
        "enable_model_runtime_executor",
        "engine_options",
        "explicit_recomputation",
        "ipu_machine",
        "need_avg_shard",
        "num_buffers",
        "num_ipus",
        "onnx_dump_path",
        "timeout_ms",
        "virtual_graph_mode",
    }
)

#: Options that stand for others: name -> the options that hold the value.
ALIASES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "enable_manual_shard": ("virtual_graph_mode",),
        "enable_half_partial": ("partials_type_matmuls", "convolution_options"),
    }
)
