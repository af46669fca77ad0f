"""Inverse perplexity of the tokens that logits predict."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ortune.outputs.files import Array
from ortune.outputs.metrics.metric import Metric, Side, TaskCase, all_rows


def _logit_names(case: TaskCase) -> list[str]:
    return [name for name, a in case.base.items() if a.ndim == 3 and _tokens(case, a) is not None]


def _tokens(case: TaskCase, logits: Array) -> Array | None:
    """Return the token that each row of logits should predict, from the label or the next input token.

    Rows without an expected token have -1. None is returned if neither source matches the logits' shape.
    """
    if case.label is not None:
        return case.label if case.label.shape == logits.shape[:2] else None
    # input_ids come before attention_mask, which has the same shape but contains only 0 and 1.
    inputs = sorted(case.inputs.items(), key=lambda pair: "ids" not in pair[0])
    for _, fed in inputs:
        if fed.dtype.kind in "iu" and fed.shape == logits.shape[:2] and int(fed.max(initial=0)) > 1:
            # Row i predicts token i + 1; the token after the last one is unknown.
            following = np.full(fed.shape, -1, np.int64)
            following[:, :-1] = np.where(_attended(case, fed)[:, 1:], fed[:, 1:], -1)
            return following
    return None


def _attended(case: TaskCase, tokens: Array) -> Array:
    """Return a mask of the tokens that are text, not padding, from the attention mask input; all without such input."""
    for name, fed in case.inputs.items():
        # With a past, the mask has leading columns for its tokens.
        if (
            "attention_mask" in name
            and fed.ndim == 2
            and len(fed) == len(tokens)
            and fed.shape[1] >= tokens.shape[1]
        ):
            return np.asarray(fed[:, fed.shape[1] - tokens.shape[1] :] != 0)
    return np.ones(tokens.shape, np.bool_)


def _next_tokens(case: TaskCase, name: str) -> Array:
    logits = case.base[name]
    tokens = _tokens(case, logits)
    return np.full(logits.size // logits.shape[-1], -1) if tokens is None else tokens.reshape(-1)


def _foretold(_: Sequence[TaskCase], right: Sequence[Array], side: Side, name: str) -> dict[str, float]:
    tokens = np.concatenate(right)
    # Inputs of one token have no known next token, so any model would be correct.
    return {"": 1.0 / perplexity(all_rows(side, name), tokens)} if _n_tokens(tokens) else {}


def _n_tokens(tokens: Array) -> int:
    return int(np.count_nonzero(tokens >= 0))


def perplexity(logits: Array, tokens: Array) -> float:
    """Return the perplexity of tokens: exp of their mean negative log-likelihood, at least 1; 1.0 without tokens.

    Args:
        logits: Rows of scores, before a softmax.
        tokens: Correct index of each row; rows with a negative index are ignored.
    """
    rows, right = logits.reshape(-1, logits.shape[-1]).astype(np.float64), tokens.reshape(-1)
    rows, right = rows[right >= 0], right[right >= 0]
    if not right.size:
        return 1.0
    # Scores are relative to the largest, since the exponential of a large one would overflow.
    high = rows.max(axis=1, keepdims=True)
    totals = high[:, 0] + np.log(np.exp(rows - high).sum(axis=1))
    likelihoods = rows[np.arange(right.size), right] - totals
    return float(np.exp(-likelihoods.mean()))


METRIC = Metric(
    names=_logit_names,
    takes="logits for the tokens of an input (at least 2), or for those of the label",
    right=_next_tokens,
    of=_foretold,
    count=_n_tokens,
)
