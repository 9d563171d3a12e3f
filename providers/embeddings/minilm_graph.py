"""all-MiniLM-L6-v2 as an ONNX graph, written from its weights.

The architecture is BERT (Devlin et al. 2018: six layers, twelve heads, post-layer-norm, erf GELU) with mean pooling
over the mask and L2 normalisation, as the model's `modules.json` lists them. Standard operators only; `minilm_int8`
replaces some of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from onnx import NodeProto, TensorProto

Weights = dict[str, NDArray[Any]]

LAYERS = 6
HEADS = 12
HIDDEN = 384
HEAD_SIZE = HIDDEN // HEADS
MAX_TOKENS = 256
LAYER_NORM_EPSILON = 1e-12
MASKED = np.float32(-1e9)
OPSET = 20  # the first with Gelu
IR_VERSION = 10
# Smaller tensors are shapes and axes: the runtime needs to see them while it plans the graph.
MIN_EXTERNAL_BYTES = 1024


def build_graph(graph: Graph) -> tuple[bytes, Weights]:
    """Fill an empty graph. Return it serialised and, by name, the tensors to hand over beside it
    (`add_external_initializers`).

    Inputs are `input_ids` and `attention_mask`, int64 (batch, tokens), at most 256 tokens. The output is float32
    (batch, 384), rows of length 1. The large tensors stay outside: serialising 90 MB takes four times as long as
    everything else here, and a graph of a few kilobytes needs no cache on disk.
    """
    words = graph.rows("embeddings.word_embeddings.weight", "input_ids")
    x = graph.layer_norm(graph.node("Add", words, _positions(graph)), "embeddings.LayerNorm")
    mask = graph.node("Cast", "attention_mask", to=graph.float_type)
    blocked = graph.node("Sub", graph.constant(np.float32(1)), graph.unsqueeze(mask, 1, 2))
    mask_bias = graph.node("Mul", blocked, graph.constant(MASKED))
    for layer in range(LAYERS):
        x = _encoder_layer(graph, x, mask_bias, f"encoder.layer.{layer}.")
    return graph.serialize(output=_pooled(graph, x, mask)), graph.external


def _positions(graph: Graph) -> str:
    """Return the embeddings of the first n positions, with the type embedding in them: a single text has one type
    throughout."""
    table = graph.weights["embeddings.position_embeddings.weight"][:MAX_TOKENS]
    types = graph.weights["embeddings.token_type_embeddings.weight"]
    # Slice wants its bounds as 1-D tensors, which is what Shape gives.
    length = graph.node("Shape", "input_ids", start=1, end=2)
    zero = graph.constant(np.array([0]))
    return graph.node("Slice", graph.constant(table + types[0]), zero, length, zero)


def _encoder_layer(graph: Graph, x: str, mask_bias: str, name: str) -> str:
    split = graph.constant(np.array([0, 0, HEADS, HEAD_SIZE]))
    joined = graph.constant(np.array([0, 0, HIDDEN]))

    def heads(part: str, axes: list[int]) -> str:
        projected = graph.dense(x, f"{name}attention.self.{part}")
        return graph.node("Transpose", graph.node("Reshape", projected, split), perm=axes)

    similarity = graph.node("MatMul", heads("query", [0, 2, 1, 3]), heads("key", [0, 2, 3, 1]))
    scaled = graph.node("Mul", similarity, graph.constant(np.float32(HEAD_SIZE**-0.5)))
    attention = graph.node("Softmax", graph.node("Add", scaled, mask_bias), axis=-1)
    mixed = graph.node("MatMul", attention, heads("value", [0, 2, 1, 3]))
    mixed = graph.node("Reshape", graph.node("Transpose", mixed, perm=[0, 2, 1, 3]), joined)
    mixed = graph.dense(mixed, f"{name}attention.output.dense")
    x = graph.layer_norm(graph.node("Add", mixed, x), f"{name}attention.output.LayerNorm")
    wide = graph.node("Gelu", graph.dense(x, f"{name}intermediate.dense"))
    narrow = graph.dense(wide, f"{name}output.dense")
    return graph.layer_norm(graph.node("Add", narrow, x), f"{name}output.LayerNorm")


def _pooled(graph: Graph, x: str, mask: str) -> str:
    tokens = graph.constant(np.array([1]))
    per_token = graph.unsqueeze(mask, -1)
    total = graph.node("ReduceSum", graph.node("Mul", x, per_token), tokens, keepdims=0)
    mean = graph.node("Div", total, graph.node("ReduceSum", per_token, tokens, keepdims=0))
    return graph.node("LpNormalization", mean, axis=-1, p=2)


class Graph:
    """Collects nodes and tensors of a model with these weights. Each method returns the name of what it added."""

    domains: ClassVar[Mapping[str, int]] = {"": OPSET}

    def __init__(self, weights: Weights) -> None:
        # Heavy and optional, so not at module level.
        import onnx

        self.weights = weights
        self.external: Weights = {}
        self.float_type = int(onnx.TensorProto.FLOAT)
        self._onnx = onnx
        self._nodes: list[NodeProto] = []
        self._tensors: list[TensorProto] = []

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        output = f"{operator}_{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(operator, inputs, [output], name=output, **attributes))
        return output

    def constant(self, values: Any) -> str:
        return self.add(f"constant_{len(self._tensors)}", np.asarray(values))

    def weight(self, name: str) -> str:
        return self.add(name, self.weights[name])

    def rows(self, name: str, ids: str) -> str:
        return self.node("Gather", self.weight(name), ids)

    def dense(self, x: str, name: str) -> str:
        # PyTorch keeps a linear layer's weight as (out, in).
        kernel = self.add(f"{name}.weight", np.ascontiguousarray(self.weights[f"{name}.weight"].T))
        return self.node("Add", self.node("MatMul", x, kernel), self.weight(f"{name}.bias"))

    def layer_norm(self, x: str, name: str) -> str:
        scale, bias = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        return self.node("LayerNormalization", x, scale, bias, axis=-1, epsilon=LAYER_NORM_EPSILON)

    def unsqueeze(self, x: str, *axes: int) -> str:
        return self.node("Unsqueeze", x, self.constant(np.array(axes)))

    def serialize(self, output: str) -> bytes:
        helper, kinds = self._onnx.helper, self._onnx.TensorProto
        inputs = [
            helper.make_tensor_value_info(name, kinds.INT64, ["batch", "tokens"])
            for name in ("input_ids", "attention_mask")
        ]
        outputs = [helper.make_tensor_value_info(output, kinds.FLOAT, ["batch", HIDDEN])]
        graph = helper.make_graph(self._nodes, "all-MiniLM-L6-v2", inputs, outputs, self._tensors)
        opsets = [helper.make_opsetid(domain, version) for domain, version in self.domains.items()]
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION).SerializeToString()

    def add(self, name: str, values: NDArray[Any]) -> str:
        if values.nbytes < MIN_EXTERNAL_BYTES:
            self._tensors.append(self._onnx.numpy_helper.from_array(values, name))
            return name
        kind = self._onnx.helper.np_dtype_to_tensor_dtype(values.dtype)
        tensor = self._onnx.TensorProto(name=name, data_type=kind, dims=values.shape)
        tensor.data_location = self._onnx.TensorProto.EXTERNAL
        for key, value in (("location", "memory"), ("offset", "0"), ("length", str(values.nbytes))):
            tensor.external_data.add(key=key, value=value)
        self._tensors.append(tensor)
        self.external[name] = values
        return name
