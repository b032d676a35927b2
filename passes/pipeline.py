"""The passes over every program, in order."""

from __future__ import annotations

from paddle_ipu.passes.avg_shard import AvgShard
from paddle_ipu.passes.bind_micro_batch import BindMicroBatch
from paddle_ipu.passes.carry_writes import CarryWrites
from paddle_ipu.passes.check_blocks import CheckBlocks
from paddle_ipu.passes.check_integers import CheckIntegers
from paddle_ipu.passes.check_placement import CheckPlacement
from paddle_ipu.passes.convert_to_half import ConvertToHalf
from paddle_ipu.passes.cut_gradients import CutGradients
from paddle_ipu.passes.delete_scale import DeleteScale
from paddle_ipu.passes.drop_matmul_serialization import DropMatmulSerialization
from paddle_ipu.passes.extract_forward import ExtractForward
from paddle_ipu.passes.extract_optimizer import ExtractOptimizer
from paddle_ipu.passes.pass_attention_gradients import PassAttentionGradients
from paddle_ipu.passes.pass_base import Compilation, OrderedPass, in_order
from paddle_ipu.passes.prune_blocks import PruneBlocks

PIPELINE: tuple[OrderedPass[Compilation], ...] = in_order(
    ExtractOptimizer(),
    CheckBlocks(),
    CarryWrites(),
    ExtractForward(),
    PruneBlocks(),
    CutGradients(),
    ConvertToHalf(),
    BindMicroBatch(),
    DeleteScale(),
    CheckIntegers(),
    AvgShard(),
    CheckPlacement(),
    DropMatmulSerialization(),
    PassAttentionGradients(),
)
