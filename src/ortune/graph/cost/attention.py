"""Attention operators: projections if they are part of the operator, scores, softmax, and the weighted sum.

The whole score matrix is counted, even if a causal or padding mask would allow parts of it to be skipped.
"""

from __future__ import annotations

from ortune.graph.cost.call import Call, Count, Formula, Uncounted

SOFTMAX = 5
"""Softmax operations per score: maximum, subtract, exp, sum, divide."""
ROTATE = 3
"""Operations per element of a rotary embedding: two multiplications and an addition."""


def _core(scores: int, head: int, value_head: int, extra: int = 0) -> tuple[int, int]:
    """Return (flops, macs) of scores, softmax and weighted sum; scaling and ``extra`` add operations per score."""
    # A score is a product over the head size, the weighted sum one over the value head size.
    macs = scores * (head + value_head)
    return 2 * macs + (1 + SOFTMAX + extra) * scores, macs


def _heads(call: Call, name: str = "num_heads") -> int:
    heads = call.int(name)
    if heads < 1:
        raise Uncounted(f"the attribute {name} is missing")
    return heads


def _total(call: Call, position: int, default: int) -> int:
    """Return the number of keys from the input at ``position``; ``default`` if the input's contents are unknown."""
    operand = call.values.get(position)
    return int(operand.ravel()[0]) if operand is not None and operand.size else default


def _projected(call: Call, bias: int, mask: int, past: int, added: int) -> Count:
    batch, queries, width = call.dim(0, 0), call.dim(0, 1), call.dim(0, 2)
    heads = _heads(call)
    columns = call.dim(1, -1)
    sizes = call.ints("qkv_hidden_sizes") or [columns // 3] * 3
    shared = bool(call.int("past_present_share_buffer"))
    before = call.dim(past, 3) if call.has(past) else 0
    # A buffer shared by past and present has its maximum length.
    keys = before if shared and before else before + queries
    flops, macs = _core(
        batch * heads * queries * keys,
        sizes[0] // heads,
        sizes[-1] // heads,
        call.has(mask) + call.has(added),
    )
    projection = batch * queries * width * columns
    flops += 2 * projection + call.has(bias) * batch * queries * columns
    note = "the cache is counted as full" if shared and before else ""
    return Count(flops=flops, macs=macs + projection, note=note)


def attention(call: Call) -> Count:
    """Count com.microsoft Attention: one projection to Q, K and V, followed by attention."""
    return _projected(call, bias=2, mask=3, past=4, added=5)


def q_attention(call: Call) -> Count:
    """Count QAttention: a quantized projection, scaled to floating point, followed by attention."""
    # QAttention has no added bias: input 99 does not exist.
    count = _projected(call, bias=2, mask=5, past=8, added=99)
    scaled = call.dim(0, 0) * call.dim(0, 1) * call.dim(1, -1)
    return Count(flops=count.flops + scaled, macs=count.macs, note=count.note)


def _keys_of(call: Call) -> int:
    """Return the number of keys in ``key`` (input 1) of MultiHeadAttention, for any of its layouts."""
    key = call.shape(1)
    return key[2] if len(key) == 4 else key[1]


def multi_head(call: Call) -> Count:
    """Count com.microsoft MultiHeadAttention, with projected Q, K and V, separate or packed, and an optional past."""
    heads = _heads(call)
    query = call.shape(0)
    packed = len(query) == 5  # batch, length, heads, 3, head size
    if len(query) not in (3, 5):
        raise Uncounted(f"a query of {len(query)} dimensions does not fit MultiHeadAttention")
    batch, queries = query[:2]
    head = query[4] if packed else query[2] // heads
    keys = queries if packed else _keys_of(call)
    value_head = head
    if not packed and call.has(2):
        value = call.shape(2)
        value_head = value[3] if len(value) == 4 else value[-1] // heads
    if call.has(6):
        keys += call.dim(6, 2)
    extra = call.has(4) + call.has(5)
    flops, macs = _core(batch * heads * queries * keys, head, value_head, extra)
    if call.has(3):
        # The bias is added to queries, and to new keys and values.
        flops += batch * queries * heads * head + batch * (keys - _past(call, 6)) * heads * (
            head + value_head
        )
    return Count(flops=flops, macs=macs)


def _past(call: Call, position: int) -> int:
    return call.dim(position, 2) if call.has(position) else 0


def decoder_masked(call: Call) -> Count:
    """Count com.microsoft DecoderMaskedMultiHeadAttention: attention of one query over the cache."""
    heads = _heads(call)
    batch, queries = call.dim(0, 0), call.dim(0, 1)
    # Without a key input, the query contains all three projections.
    head = call.dim(0, 2) // heads // (1 if call.has(1) else 3)
    before = _past(call, 5)
    if call.has(5):
        shared = bool(call.int("past_present_share_buffer"))
        # past_sequence_length (input 7) is the filled length of a shared buffer, which may be longer.
        keys = _total(call, 7, before - queries) + queries if shared else before + queries
    else:
        shared = False
        keys = _keys_of(call)
    extra = call.has(3) + call.has(4)
    flops, macs = _core(batch * heads * queries * keys, head, head, extra)
    if call.has(10):
        flops += 3 * batch * queries * heads * head
    note = "the cache is counted as full" if shared and 7 not in call.values else ""
    return Count(flops=flops, macs=macs, note=note)


def group_query(call: Call) -> Count:
    """Count com.microsoft GroupQueryAttention: several query heads share each key and value head."""
    heads, groups = _heads(call), _heads(call, "kv_num_heads")
    batch, queries, width = call.dim(0, 0), call.dim(0, 1), call.dim(0, 2)
    # If packed, a row contains the heads of queries, keys and values.
    head = width // heads if call.has(1) else width // (heads + 2 * groups)
    keys = _total(call, 6, _past(call, 3) + queries)
    # A softcap is a division, a tanh and a product.
    extra = 3 * bool(call.float("softcap", 0.0)) + call.has(10)
    flops, macs = _core(batch * heads * queries * keys, head, head, extra)
    if call.int("do_rotary"):
        flops += ROTATE * batch * queries * (heads + groups) * head
    note = (
        "" if 6 in call.values or not call.has(3) else "the keys counted are the whole past plus the new ones"
    )
    return Count(flops=flops, macs=macs, note=note)


def onnx_attention(call: Call) -> Count:
    """Count ONNX Attention (opset 23 and later): Q, K and V of three or four dimensions, optional mask and past."""
    query, key, value = call.shape(0), call.shape(1), call.shape(2)
    if len(query) == 4:
        batch, heads, queries, head = query
        keys, value_head = key[2], value[3]
    elif len(query) == 3:
        heads, groups = _heads(call, "q_num_heads"), _heads(call, "kv_num_heads")
        batch, queries, width = query
        head, keys, value_head = width // heads, key[1], value[2] // groups
    else:
        raise Uncounted(f"a query of {len(query)} dimensions does not fit Attention")
    keys += _past(call, 4)
    extra = call.has(3) + 3 * bool(call.float("softcap", 0.0))
    flops, macs = _core(batch * heads * queries * keys, head, value_head, extra)
    return Count(flops=flops, macs=macs)


def rotary(call: Call) -> Count:
    """Count a rotary embedding: pairs of elements are rotated by an angle."""
    return Count(flops=ROTATE * call.n_in())


def gemma_rotary(call: Call) -> Count:
    """Count GemmaRotaryEmbedding: sine and cosine of the angles, then Q and K combined with their rotated copies."""
    return Count(flops=2 * call.n_in(0) + ROTATE * (call.n_in(1) + call.n_in(3)))


FORMULAS: dict[str, dict[str, Formula]] = {
    "": {"Attention": onnx_attention, "RotaryEmbedding": rotary},
    "com.microsoft": {
        "Attention": attention,
        "QAttention": q_attention,
        "MultiHeadAttention": multi_head,
        "DecoderMaskedMultiHeadAttention": decoder_masked,
        "GroupQueryAttention": group_query,
        "RotaryEmbedding": rotary,
        "GemmaRotaryEmbedding": gemma_rotary,
    },
}
