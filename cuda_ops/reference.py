"""What each operator means, in plain torch; the slow path where there is no compiler, and the tests' yardstick.

Rows are worked one by one where torch's own kernels would let them see each other (their sums change with the number of
rows), so a row's result depends on that row alone here too. Shapes: rows R, inputs K (a multiple of BLOCK), outputs N.
"""

from __future__ import annotations

import torch
from torch import Tensor

GROUP = 16  # inputs that share one activation scale
BLOCK = 128  # inputs 8g .. 8g + 7 and 64 + 8g .. 64 + 8g + 7 of a block are its group g
LANES = 16
FINE = 224


def rms_norm(x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """x float32 [R, K], weight float32 [K] -> float32 [R, K]: x / sqrt(mean(x^2) + epsilon) * weight."""
    rows = [row / torch.sqrt((row * row).sum() / row.numel() + epsilon) * weight for row in x]
    return torch.stack(rows)


def quantize_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """float32 [R, K] -> int8 [R, K], float32 [R, K / GROUP]: round(x / s) with s = largest / 127 in each group."""
    largest = grouped(x).abs().amax(-1)
    inverse = torch.where(largest > 0, 127.0 / largest, torch.zeros(()))
    return torch.round(x * spread(inverse)).to(torch.int8), largest / 127.0


def grouped(x: Tensor) -> Tensor:
    """[R, K] -> [R, K / GROUP, GROUP]: the inputs of each group side by side."""
    blocks = x.view(x.shape[0], -1, 2, BLOCK // GROUP, GROUP // 2)
    return blocks.transpose(2, 3).reshape(x.shape[0], -1, GROUP)


def spread(s: Tensor) -> Tensor:
    """[R, K / GROUP] -> [R, K]: each input's scale."""
    blocks = s.view(s.shape[0], -1, 1, BLOCK // GROUP, 1)
    return blocks.expand(-1, -1, 2, -1, GROUP // 2).reshape(s.shape[0], -1)


def silu_mul(gate_up: Tensor) -> Tensor:
    """float32 [R, 2 K] -> float32 [R, K]: silu of the first half times the second half."""
    gate, up = gate_up.chunk(2, dim=-1)
    return gate / (1.0 + torch.exp(-gate)) * up


def hadamard(x: Tensor, block: int) -> Tensor:
    """float32 [R, K] -> [R, K]: each block (a power of two that divides K) times the orthonormal Hadamard matrix.

    Butterflies of stride 1, 2, 4, .., then one multiplication: the kernels' bits.
    """
    y, step = x, 1
    while step < block:
        a, b = y.reshape(-1, 2, step).unbind(1)
        y, step = torch.stack([a + b, a - b], dim=1), 2 * step
    return y.reshape(x.shape) * torch.tensor(block**-0.5)


def int8_linear(q: Tensor, s: Tensor, weight: Tensor, scb: Tensor, bias: Tensor | None = None) -> Tensor:
    """q int8 [R, K], s float32 [R, K / GROUP], weight int8 [N, K], scb float32 [N] -> float32 [R, N].

    The sum over groups of s * (q . weight), times scb / 127, plus bias. The integer sums are exact in float32.
    """
    out = torch.empty(q.shape[0], weight.shape[0])
    outputs = 4096  # a block of float weights at a time: the whole matrix would be four times the int8 one
    for start in range(0, weight.shape[0], outputs):
        block = grouped(weight[start : start + outputs].float())
        for r in range(q.shape[0]):
            sums = (block * grouped(q[r : r + 1].float())).sum(-1)
            out[r, start : start + outputs] = (sums * s[r]).sum(-1)
    out = out * (scb / 127.0)
    return out if bias is None else out + bias


def rescore(y: Tensor, x: Tensor, weight: Tensor, fine: Tensor, scb: Tensor, margin: float) -> Tensor:
    """Scores again, in 16 bits, every y within `margin` of its row's largest; changes y float32 [R, N], gives it back.

    x float32 [R, K], weight and fine int8 [N, K]: the finer weights are (weight + fine / FINE) * scb / 127.
    """
    for r in range(y.shape[0]):
        chosen = torch.nonzero(y[r] >= y[r].max() - margin)[:, 0]
        codes = weight[chosen].float() * FINE + fine[chosen].float()
        y[r, chosen] = (codes * x[r]).sum(-1) * (scb[chosen] / (127.0 * FINE))
    return y


def rotate(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """x float32 [R, heads, dim], cosine and sine float32 [R, dim / 2] -> rotated half-split pairs (RoFormer)."""
    a, b = x.chunk(2, dim=-1)
    cosine, sine = cosine[:, None], sine[:, None]
    return torch.cat([a * cosine - b * sine, b * cosine + a * sine], dim=-1)


def append(keys: Tensor, values: Tensor, k: Tensor, v: Tensor, base: int) -> None:
    """Writes k, v float32 [R, kv_heads, dim] at slots base.. of one layer's cache.

    keys: float32 [kv_heads, capacity / LANES, dim, LANES]; values: float32 [kv_heads, capacity, dim].
    """
    slots = torch.arange(base, base + k.shape[0])
    keys[:, slots // LANES, :, slots % LANES] = k
    values[:, base : base + v.shape[0]] = v.transpose(0, 1)


def decode_attention(q: Tensor, keys: Tensor, values: Tensor, seen: list[Tensor]) -> Tensor:
    """q float32 [R, heads, dim] against one layer's cache; seen[r]: the slots of row r, int64, by position.

    Gives float32 [R, heads, dim]: softmax(q . k / sqrt(dim)) v, query heads in equal groups for each key head.
    """
    kv_heads, _, dim, _ = keys.shape
    flat = keys.transpose(-1, -2).reshape(kv_heads, -1, dim)
    out = torch.empty_like(q)
    for r, slots in enumerate(seen):
        query = q[r].view(kv_heads, -1, dim)
        scores = query @ flat[:, slots].transpose(-1, -2) / dim**0.5
        out[r] = (torch.softmax(scores, dim=-1) @ values[:, slots]).reshape(-1, dim)
    return out


def rope_append(
    qkv: Tensor, cosine: Tensor, sine: Tensor, positions: Tensor, keys: Tensor, values: Tensor, base: int, heads: int
) -> None:
    """Rotates q and k of qkv float32 [R, width] in place and appends k and v at slots base.. of one layer's cache.

    A row is q [heads, dim], k and v [kv_heads, dim] and, where it is wider, what is added to k and v first.
    cosine, sine: float32 [P, dim / 2], of which row r takes positions[r] (int32 [R]); keys, values as in `append`.
    """
    kv_heads, _, dim = values.shape
    own, start = kv_heads * dim, heads * dim
    if qkv.shape[1] > start + 2 * own:
        qkv[:, start : start + 2 * own] += qkv[:, start + 2 * own :]
    turned = qkv[:, : start + own].view(len(qkv), -1, dim)
    at = positions.long()
    turned.copy_(rotate(turned, cosine[at], sine[at]))
    k, v = turned[:, heads:], qkv[:, start + own : start + 2 * own].view(len(qkv), -1, dim)
    append(keys, values, k, v, base)


def attend(
    qkv: Tensor, keys: Tensor, values: Tensor, positions: Tensor, paths: Tensor | None, base: int, heads: int
) -> Tensor:
    """decode_attention of the q in qkv float32 [R, width] -> float32 [R, heads * dim].

    Row r sees positions[r] + 1 slots: in order, or, with paths int32 [R, R], the first `base` and then
    base + paths[r][0 .. positions[r] - base].
    """
    dim = values.shape[-1]
    seen = []
    for r, position in enumerate(positions.tolist()):
        slots = torch.arange(position + 1, device=qkv.device)
        if paths is not None:
            slots[base:] = base + paths[r, : position + 1 - base].long()
        seen.append(slots)
    q = qkv[:, : heads * dim].reshape(len(qkv), heads, dim)
    return decode_attention(q, keys, values, seen).reshape(len(qkv), heads * dim)


def walk(choices: Tensor, ids: Tensor, parents: Tensor) -> tuple[Tensor, Tensor]:
    """From row 0 down the draft while a drafted token equals the choice at its parent's row.

    choices, ids, parents int32 [R]: the backbone's choice at each row, the token of each row (row 0's does not count),
    the row that it follows (before it). Gives rows int32 [R] walked over, the first of them 0, and the tokens int32 [R]
    committed, the last of them the bonus; both filled up with -1.
    """
    chosen, tokens, above = choices.tolist(), ids.tolist(), parents.tolist()
    rows, taken = [0], [chosen[0]]
    for row in range(1, len(tokens)):
        if above[row] == rows[-1] and tokens[row] == taken[-1]:
            rows.append(row)
            taken.append(chosen[row])
    filler = [-1] * (len(tokens) - len(rows))
    return tuple(torch.tensor(part + filler, dtype=torch.int32, device=ids.device) for part in (rows, taken))  # type: ignore[return-value]


def verify_greedy(scores: Tensor, ids: Tensor, parents: Tensor) -> tuple[Tensor, Tensor]:
    """`walk` with the best token of each row of scores float32 [R, V]; of equals the lowest."""
    return walk(scores.argmax(-1).to(torch.int32), ids, parents)


def verify_sampled(
    scores: Tensor, ids: Tensor, parents: Tensor, noise: Tensor, temperature: float, reach: float
) -> tuple[Tensor, Tensor]:
    """`walk` with, in each row, the token of the largest (score - best) / temperature + Gumbel noise, in float64.

    noise int64 [R]: the row's key (seed, candidate and position, mixed), from which each token's noise is hashed.
    Tokens more than reach * temperature below the best are out.
    """
    choices = [_sampled(row, key, temperature, reach) for row, key in zip(scores, noise.tolist(), strict=True)]
    return walk(torch.tensor(choices, dtype=torch.int32, device=ids.device), ids, parents)


def _sampled(row: Tensor, key: int, temperature: float, reach: float) -> int:
    best = row.max()
    kept = torch.nonzero(row.double() >= best.double() - reach * temperature)[:, 0]
    bits = _mix32((_mix32(kept ^ (key & 0xFFFFFFFF)) + (key >> 32 & 0xFFFFFFFF)) & 0xFFFFFFFF)
    noise = -torch.log(-torch.log((bits.double() + 0.5) / 2.0**32))
    return int(kept[((row[kept].double() - best.double()) / temperature + noise).argmax()])


def _mix32(bits: Tensor) -> Tensor:
    """Wellons' lowbias32 on int64 that hold 32 bits."""
    bits = bits ^ (bits >> 16)
    bits = (bits * 0x21F0AAAD) & 0xFFFFFFFF
    bits = bits ^ (bits >> 15)
    bits = (bits * 0x735A2D97) & 0xFFFFFFFF
    return bits ^ (bits >> 15)


def cache_compact(keys: Tensor, values: Tensor, rows: Tensor, base: int) -> None:
    """Moves slots base + rows[i] to base + i in every layer; rows int32 ascending, its first -1 ends them.

    keys: float32 [layers, kv_heads, capacity / LANES, dim, LANES]; values: float32 [layers, kv_heads, capacity, dim].
    """
    kept = [row for row in rows.tolist() if row >= 0]
    to = torch.arange(base, base + len(kept), device=keys.device)
    slots = base + torch.tensor(kept, dtype=torch.long, device=keys.device)
    values[:, :, to] = values[:, :, slots]
    keys[:, :, to // LANES, :, to % LANES] = keys[:, :, slots // LANES, :, slots % LANES]
