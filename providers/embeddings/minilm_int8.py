"""all-MiniLM-L6-v2 with the weights of its layers and words as integers: smaller, faster, nearly as good.

Nothing is calibrated and nothing is kept on disk: the weights are rounded each time the model is loaded, which takes
less time than reading them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from providers.embeddings.minilm_graph import OPSET, Graph, Weights

# Seven bits for the weights of layers. Processors without VNNI add products in pairs, in 16 bits: 2 * 255 * 63 is the
# most that fits, so the same text has the same vector on all of them.
LAYER_LIMIT = 63
ROW_LIMIT = 127
# Activations are unsigned, with this as their zero: there are kernels for unsigned times signed on every processor.
ZERO_POINT = 128
# Instead of the largest number of a row of zeros, which nothing can be divided by.
SMALLEST = np.float32(1e-9)


class Int8Graph(Graph):
    """The same model on integers.

    Weights have a scale for each output. Activations have one for each token, so the vector of a text does not depend
    on the texts that are embedded with it, as it would with the one scale for a whole run that onnxruntime's own
    quantisation takes.
    """

    domains: ClassVar[Mapping[str, int]] = {"": OPSET, "com.microsoft": 1}

    def __init__(self, weights: Weights) -> None:
        super().__init__(weights)
        self._rounded: dict[str, tuple[str, str]] = {}
        self._one = self.constant(np.float32(1))
        self._zero_point = self.constant(np.uint8(ZERO_POINT))

    def rows(self, name: str, ids: str) -> str:
        table, scales = rounded(self.weights[name], ROW_LIMIT, axis=1)
        rows = self.node("Gather", self.add(f"{name}.int8", table), ids)
        scale = self.node("Gather", self.add(f"{name}.scale", scales), ids)
        return self.node("Mul", self.node("Cast", rows, to=self.float_type), scale)

    def dense(self, x: str, name: str) -> str:
        kernel, scales = rounded(self.weights[f"{name}.weight"].T, LAYER_LIMIT, axis=0)
        tokens, token_scales = self._tokens(x)
        product = self.node(
            "MatMulIntegerToFloat",
            tokens,
            self.add(f"{name}.int8", kernel),
            self._one,
            self.add(f"{name}.scale", scales.ravel()),
            self._zero_point,
            domain="com.microsoft",
        )
        return self.node("Add", self.node("Mul", product, token_scales), self.weight(f"{name}.bias"))

    def _tokens(self, x: str) -> tuple[str, str]:
        """Return activations as integers, and the scale of each token. Queries, keys and values share both."""
        if x not in self._rounded:
            last = self.constant(np.array([-1]))
            largest = self.node("ReduceMax", self.node("Abs", x), last, keepdims=1)
            largest = self.node("Max", largest, self.constant(SMALLEST))
            stretch = self.node("Div", self.constant(np.float32(ROW_LIMIT)), largest)
            integers = self.node("QuantizeLinear", self.node("Mul", x, stretch), self._one, self._zero_point)
            scales = self.node("Mul", largest, self.constant(np.float32(1 / ROW_LIMIT)))
            self._rounded[x] = integers, scales
        return self._rounded[x]


def rounded(values: NDArray[Any], limit: int, axis: int) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return integers within the limit, and the scales along the axis, whose length there is 1."""
    scales = np.maximum(np.abs(values).max(axis=axis, keepdims=True), SMALLEST) / np.float32(limit)
    # The runtime takes the memory as it lies, so a transposed matrix has to be laid out anew.
    return np.ascontiguousarray(np.rint(values / scales), dtype=np.int8), scales
