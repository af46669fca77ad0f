"""Attention in all its forms, counted by hand. A score costs scaling 1 and softmax 5, and 1 for each mask."""

from __future__ import annotations

import numpy as np
import pytest
from cost_models import MS, Fed, f32, one, u8

from facts import facts

# Batch 2, 3 queries, 4 heads of 2: width 8. Scores 2 x 4 x 3 x 3 = 72, each 2 + 2 multiply-adds.
SCORES = 72
CORE = 2 * SCORES * 4 + 6 * SCORES


def test_attention_with_projection():
    cost = one("Attention", ((2, 3, 8), f32(8, 24), f32(24)), domain=MS, num_heads=4)
    # projection: 6 rows x 8 x 24, bias 6 x 24
    assert cost.flops == CORE + 2 * 6 * 8 * 24 + 6 * 24
    assert cost.macs == SCORES * 4 + 6 * 8 * 24


def test_attention_with_past():
    cost = one(
        "Attention",
        ((2, 3, 8), f32(8, 24), f32(24), None, (2, 2, 4, 5, 2)),
        domain=MS,
        num_heads=4,
        outputs=2,
    )
    # 8 keys instead of 3: 192 scores
    assert cost.flops == 2 * 192 * 4 + 6 * 192 + 2 * 6 * 8 * 24 + 6 * 24


def test_quantized_attention():
    scale, zero = np.float32(0.1), np.uint8(0)
    operands = (u8(2, 3, 8), np.ones((8, 24), np.uint8), f32(24), scale, scale, None, zero, zero)
    cost = one("QAttention", operands, domain=MS, num_heads=4)
    # as above, and the projection's 6 x 24 results are scaled to float
    assert cost.flops == CORE + 2 * 6 * 8 * 24 + 2 * 6 * 24
    # a cache of 16 places that it shares: 4 heads x 3 x 16 scores for each of two
    shared = (*operands, (2, 2, 4, 16, 2))
    cost = one(
        "QAttention", shared, domain=MS, num_heads=4, past_present_share_buffer=1, outputs=2, run=False
    )
    assert cost.flops == 2 * 384 * 4 + 6 * 384 + 2 * 6 * 8 * 24 + 2 * 6 * 24
    facts(cost.note, "cache", "full")


def test_multi_head_attention():
    assert one("MultiHeadAttention", ((2, 3, 8),) * 3, domain=MS, num_heads=4).flops == CORE
    # cross attention to 5 keys: 120 scores; attention bias is one more each
    cost = one(
        "MultiHeadAttention",
        ((2, 3, 8), (2, 5, 8), (2, 5, 8), None, None, (2, 4, 3, 5)),
        domain=MS,
        num_heads=4,
    )
    assert cost.flops == 2 * 120 * 4 + 7 * 120
    # packed QKV: 2 x 3 x 4 heads x 3 x 2
    assert one("MultiHeadAttention", ((2, 3, 4, 3, 2),), domain=MS, num_heads=4, run=False).flops == CORE


def test_multi_head_attention_with_past():
    past = (2, 4, 5, 2)
    operands = ((2, 3, 8), (2, 3, 8), (2, 3, 8), f32(24), None, None, past, past)
    cost = one("MultiHeadAttention", operands, domain=MS, num_heads=4, outputs=3)
    # 8 keys: 192 scores; the bias is added to 48 elements each of Q, K and V
    assert cost.flops == 2 * 192 * 4 + 6 * 192 + 3 * 48


def test_group_query_attention():
    # one query after 5; 4 heads of 16 share 2: scores 4 x 6
    past = (1, 2, 5, 16)
    tail = (Fed(np.array([5], np.int32)), np.array(6, np.int32))
    operands = ((1, 1, 64), (1, 1, 32), (1, 1, 32), past, past, *tail)
    cost = one("GroupQueryAttention", operands, domain=MS, num_heads=4, kv_num_heads=2, outputs=3)
    assert cost.flops == 2 * 24 * 32 + 6 * 24
    # the two key and value heads are stored, not four
    assert cost.bytes_written == 4 * (64 + 2 * (2 * 6 * 16))


def test_group_query_attention_turns_queries_and_keys():
    past = (1, 2, 5, 16)
    tail = (Fed(np.array([5], np.int32)), np.array(6, np.int32), f32(16, 8), f32(16, 8))
    operands = ((1, 1, 64), (1, 1, 32), (1, 1, 32), past, past, *tail)
    cost = one(
        "GroupQueryAttention", operands, domain=MS, num_heads=4, kv_num_heads=2, outputs=3, do_rotary=1
    )
    # 64 + 32 elements are turned: 3 operations each
    assert cost.flops == 2 * 24 * 32 + 6 * 24 + 3 * 96


@pytest.mark.parametrize(
    "query", [((1, 1, 8), (1, 1, 8), (1, 1, 8)), ((1, 1, 24), None, None)], ids=["three", "packed"]
)
def test_decoder_masked_attention(query):
    past = (1, 4, 16, 2)
    cost = one(
        "DecoderMaskedMultiHeadAttention",
        (*query, None, None, past, past, np.array([5], np.int32)),
        domain=MS,
        num_heads=4,
        past_present_share_buffer=1,
        run=False,
    )
    # 5 of the 16 places are taken, one is new: scores 4 x 6
    assert cost.flops == 2 * 24 * 4 + 6 * 24


@pytest.mark.parametrize("rank", [3, 4])
def test_onnx_attention(rank):
    # 4 query heads of 8 over 2 key heads; 3 queries, 5 keys: 60 scores
    if rank == 4:
        operands, heads = ((1, 4, 3, 8), (1, 2, 5, 8), (1, 2, 5, 8)), {}
    else:
        operands = ((1, 3, 32), (1, 5, 16), (1, 5, 16))
        heads = {"q_num_heads": 4, "kv_num_heads": 2}
    cost = one("Attention", operands, opset=23, **heads)
    assert (cost.macs, cost.flops) == (60 * 16, 2 * 60 * 16 + 6 * 60)


def test_onnx_attention_with_mask_and_past():
    past = (1, 2, 4, 8)
    operands = ((1, 2, 3, 8), (1, 2, 3, 8), (1, 2, 3, 8), (3, 7), past, past)
    cost = one("Attention", operands, opset=23, outputs=3)
    # 2 heads x 3 x 7 = 42 scores, with a mask
    assert cost.flops == 2 * 42 * 16 + 7 * 42


def test_rotary():
    assert (
        one("RotaryEmbedding", ((1, 2, 3, 8), f32(5, 4), f32(5, 4), np.arange(3)[None]), opset=23).flops
        == 3 * 48
    )
