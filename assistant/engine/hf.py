"""Any causal language model that transformers can load, as a Backbone: slower than ours, but complete.

Reads local files only and runs no code of the model's folder. Unlike our own decoder it does not promise rows
that are equal bit for bit beside others, only to rounding; so a drafted text may leave the plain one where
two scores nearly tie. What a model cannot do (trees, layers without keys and values, scores changed after the
head) is an error, never a wrong row.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, DynamicCache
from transformers.cache_utils import DynamicLayer

from assistant.errors import ModelCorruptError, ModelMissingError, UnsupportedError, UnsupportedModelError
from assistant.types import ModelConfig

if TYPE_CHECKING:
    from assistant.engine.backbone import Cache

PRECISIONS = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}
# Of the largest value: far above float32 rounding, far below a wrong mask or a changed score.
TOLERANCE = 1e-3


class HfCache:
    """A DynamicCache with a limit. Its tensors grow with the text; `bytes` is for its whole capacity."""

    def __init__(self, capacity: int, bytes_per_slot: int) -> None:
        self.length = 0
        self.capacity = capacity
        self.past: Any = DynamicCache()
        self._bytes_per_slot = bytes_per_slot

    @property
    def bytes(self) -> int:
        """Memory at full capacity."""
        return self.capacity * self._bytes_per_slot

    def truncate(self, length: int) -> None:
        """Forget every slot from `length` on."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot cut a cache of {self.length} tokens to {length}")
        self.length = length
        self.settle()

    def settle(self) -> None:
        """Bring every layer to `length`, also those that a forward which broke off had lengthened already."""
        for layer in self.past.layers:
            if layer.is_initialized:
                layer.keys = layer.keys[..., : self.length, :]
                layer.values = layer.values[..., : self.length, :]

    def select(self, base: int, rows: Sequence[int]) -> None:
        """Keep the first `base` slots and then slots base + r for r in rows."""
        slots = torch.tensor([*range(base), *(base + row for row in rows)], dtype=torch.long)
        if len(slots) and int(slots.max()) >= self.length:
            raise ValueError(f"cannot keep slot {int(slots.max())} of a cache of {self.length} tokens")
        for layer in self.past.layers:
            place = slots.to(layer.keys.device)
            layer.keys = layer.keys.index_select(-2, place)
            layer.values = layer.values.index_select(-2, place)
        self.length = len(slots)

    def copy(self, length: int, capacity: int) -> HfCache:
        """An independent cache of `capacity` slots with the first `length` tokens."""
        if not 0 <= length <= min(self.length, capacity):
            raise ValueError(f"cannot copy {length} of {self.length} tokens into a cache of {capacity}")
        twin = HfCache(capacity, self._bytes_per_slot)
        for index, layer in enumerate(self.past.layers):
            keys, values = layer.keys[..., :length, :], layer.values[..., :length, :]
            twin.past.update(keys.clone(), values.clone(), index)
        twin.length = length
        return twin


class HfBackbone:
    """source: a folder, a name in the local hub cache, or a loaded transformers model.

    Raises ModelMissingError, ModelCorruptError, or UnsupportedModelError for a model that this protocol
    cannot hold.
    """

    def __init__(self, source: Any, dtype: torch.dtype = torch.float32, device: str = "cpu") -> None:
        model = _load(source, dtype) if isinstance(source, str | Path) else source
        self._model: Any = model.to(device=device, dtype=dtype).eval()
        self._decoder: Any = self._model.get_decoder()
        self._head: Any = self._model.get_output_embeddings()
        self._device, self._dtype = torch.device(device), dtype
        self._trees: bool | None = None  # unknown until first wanted
        # The argument was renamed in transformers 5.
        parameters = inspect.signature(self._decoder.forward).parameters
        self._cache_argument = "cache" if "cache" in parameters else "past_key_values"
        self.name = Path(str(source)).name if isinstance(source, str | Path) else type(model).__name__
        self.precision = PRECISIONS.get(dtype, str(dtype))
        self.config = self._describe()
        numbers_per_slot = 2 * self.config.layers * self.config.kv_heads * self.config.head_dim
        self._bytes_per_slot = numbers_per_slot * torch.finfo(dtype).bits // 8
        self._check_head()

    def new_cache(self, capacity: int) -> HfCache:
        """An empty cache for `capacity` tokens; memory is taken as it fills."""
        return HfCache(capacity, self._bytes_per_slot)

    @torch.inference_mode()
    def forward(
        self,
        ids: Sequence[int],
        cache: Cache,
        parents: Sequence[int] | None = None,
        taps: Sequence[int] = (),
    ) -> dict[str | int, torch.Tensor]:
        """As Backbone.forward; UnsupportedError for a tree that the model's attention cannot be masked to."""
        if not isinstance(cache, HfCache):
            raise TypeError(f"{self.name} runs on its own caches, not on {type(cache).__name__}")
        if cache.length + len(ids) > cache.capacity:
            raise ValueError(f"a cache of {cache.capacity} tokens cannot hold {cache.length + len(ids)}")
        if parents is None or all(parent == row - 1 for row, parent in enumerate(parents)):
            return self._run(ids, cache, taps)
        if self._trees is None:
            self._trees = self._tree_works()
        if not self._trees:
            raise UnsupportedError(f"{self.name} cannot check trees of drafts; draft chains with it.")
        return self._run(ids, cache, taps, parents)

    @torch.inference_mode()
    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Scores of the next token: float32 [rows, hidden] -> float32 [rows, vocabulary]."""
        scores: torch.Tensor = self._head(hidden.to(self._device, self._dtype))
        return scores.float()

    def _run(
        self, ids: Sequence[int], cache: HfCache, taps: Sequence[int], parents: Sequence[int] | None = None
    ) -> dict[str | int, torch.Tensor]:
        arguments: dict[str, Any] = {
            "input_ids": torch.tensor([list(ids)], device=self._device),
            self._cache_argument: cache.past,
            "use_cache": True,
        }
        if parents is not None:
            mask, positions = _tree(parents, cache.length, self._dtype)
            arguments["attention_mask"] = mask.to(self._device)
            arguments["position_ids"] = positions.to(self._device)
        result: dict[str | int, torch.Tensor] = {}
        hooks = [self._tap(tap, result) for tap in taps]
        try:
            result["final"] = self._decoder(**arguments).last_hidden_state[0].float()
            cache.length += len(ids)
        finally:
            cache.settle()
            for hook in hooks:
                hook.remove()
        return result

    def _tap(self, layer: int, result: dict[str | int, torch.Tensor]) -> Any:
        def keep(_module: Any, _inputs: Any, output: Any) -> None:
            hidden = output[0] if isinstance(output, tuple) else output
            result[layer] = hidden[0].float()

        layers = getattr(self._decoder, "layers", None)
        if layers is None:
            raise UnsupportedError(f"{self.name} does not show its layers; use a drafter without taps.")
        return layers[layer].register_forward_hook(keep)

    def _describe(self) -> ModelConfig:
        config = self._model.config.get_text_config(decoder=True)
        if self._head is None:
            raise UnsupportedModelError(f"{self.name} has no output head; choose a causal language model.")
        layers = DynamicCache(config=config).layers
        if not all(isinstance(layer, DynamicLayer) for layer in layers):
            raise UnsupportedModelError(
                f"{self.name} has layers that keep no keys and values, so a draft could not be taken back; "
                "choose a model with attention in every layer."
            )
        context = getattr(config, "max_position_embeddings", None) or 2048
        for layer in layers:
            # Within its window a sliding layer is an ordinary one.
            context = min(context, getattr(layer, "sliding_window", None) or context)
        heads = config.num_attention_heads
        rope = getattr(config, "rope_parameters", None) or {}
        return ModelConfig(
            architecture=config.model_type,
            layers=config.num_hidden_layers,
            hidden_size=config.hidden_size,
            intermediate_size=getattr(config, "intermediate_size", None) or 4 * config.hidden_size,
            heads=heads,
            kv_heads=getattr(config, "num_key_value_heads", None) or heads,
            head_dim=getattr(config, "head_dim", None) or config.hidden_size // heads,
            vocabulary_size=self._head.weight.shape[0],
            context_length=context,
            rope_theta=float(rope.get("rope_theta", getattr(config, "rope_theta", None) or 10_000.0)),
            norm_epsilon=float(getattr(config, "rms_norm_eps", getattr(config, "layer_norm_epsilon", 1e-5))),
            attention_bias=bool(getattr(config, "attention_bias", config.model_type == "qwen2")),
        )

    @torch.inference_mode()
    def _check_head(self) -> None:
        """Some families scale or cap their scores after the head, where `logits` would not follow."""
        ids = [0, 1, 2]
        ours = self.logits(self._run(ids, self.new_cache(3), ())["final"])
        theirs = self._model(input_ids=torch.tensor([ids], device=self._device)).logits[0].float()
        if not _close(ours, theirs, self._dtype):
            raise UnsupportedModelError(
                f"{self.name} changes its scores after the output head; choose another model."
            )

    def _tree_works(self) -> bool:
        """Whether the second branch of a small tree gets the states that it has as a chain."""
        tree, chain = self.new_cache(5), self.new_cache(4)
        for cache in (tree, chain):
            self._run([0, 1], cache, ())
        try:
            rows = self._run([2, 1, 0], tree, (), [-1, -1, 1])["final"]
        except (TypeError, ValueError, RuntimeError):
            return False
        return _close(rows[1:], self._run([1, 0], chain, ())["final"], self._dtype)


def _load(source: str | Path, dtype: torch.dtype) -> Any:
    try:
        return AutoModelForCausalLM.from_pretrained(str(source), dtype=dtype, local_files_only=True)
    except SafetensorError as error:
        raise ModelCorruptError(
            f"The weights in {source} are damaged ({error}); fetch them again."
        ) from error
    except OSError as error:
        raise ModelMissingError(
            f"There is no complete transformers model at {source}; give the folder of one that is downloaded."
        ) from error
    except ValueError as error:
        raise UnsupportedModelError(
            f"transformers cannot run {source} as a causal language model: {error}"
        ) from error


def _tree(parents: Sequence[int], base: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Additive mask [1, 1, rows, base + rows]: a row sees its ancestors and itself. Positions [1, rows]."""
    rows = len(parents)
    seen = torch.zeros(rows, rows, dtype=torch.bool)
    for row, parent in enumerate(parents):
        if parent >= 0:
            seen[row] = seen[parent]
        seen[row, row] = True
    mask = torch.zeros(rows, base + rows, dtype=dtype)
    mask[:, base:].masked_fill_(~seen, torch.finfo(dtype).min)
    return mask[None, None], (base - 1 + seen.sum(1))[None]


def _close(left: torch.Tensor, right: torch.Tensor, dtype: torch.dtype) -> bool:
    tolerance = TOLERANCE if dtype == torch.float32 else 100 * TOLERANCE
    return bool((left - right).abs().max() <= tolerance * right.abs().max())
