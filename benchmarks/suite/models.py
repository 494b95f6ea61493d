"""Whole models, with random weights of the true shapes: only calls are compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..models import Encoder
from . import large, layers
from .layers import Conv, Dense, Layers, Network
from .recurrent import adding_token, recurrent, training
from .workload import MS, Arrays, Workload, arrays, normal

TITLE = "Models"
CLOSE = 2e-4
"""Error of the results of many layers in f32, relative to the largest."""


def mlp(net: Layers, x: Any) -> Any:
    """Three dense layers."""
    x = net.dense(x, Dense("first", 784, 512, "relu"))
    return net.dense(net.dense(x, Dense("second", 512, 512, "relu")), Dense("third", 512, 10))


def mobilenet(net: Layers, x: Any) -> Any:
    """MobileNetV2, its normalisations folded into the convolutions."""
    channels = 32
    x = net.conv(x, Conv("stem", 3, channels, "relu6", 3, 2))
    stages = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for stage, (expansion, outputs, repeats, stride) in enumerate(stages):
        for number in range(repeats):
            name, step, hidden, before = f"block{stage}_{number}", stride if number == 0 else 1, channels * expansion, x
            if expansion > 1:
                x = net.conv(x, Conv(f"{name}_up", channels, hidden, "relu6"))
            x = net.conv(x, Conv(f"{name}_taps", hidden, hidden, "relu6", 3, step, depthwise=True))
            x = net.conv(x, Conv(f"{name}_down", hidden, outputs))
            if step == 1 and channels == outputs:
                x = net.add(before, x)
            channels = outputs
    return net.dense(net.mean(net.conv(x, Conv("head", channels, 1280, "relu6"))), Dense("classes", 1280, 1000))


def resnet18(net: Layers, x: Any) -> Any:
    """ResNet-18, its normalisations folded into the convolutions."""
    x = net.max_pool(net.conv(x, Conv("stem", 3, 64, "relu", 7, 2)))
    inputs = 64
    for stage, outputs in enumerate((64, 128, 256, 512)):
        for number in range(2):
            name, stride, before = f"block{stage}_{number}", 2 if stage and not number else 1, x
            x = net.conv(x, Conv(f"{name}_a", inputs, outputs, "relu", 3, stride))
            x = net.conv(x, Conv(f"{name}_b", outputs, outputs, "", 3))
            if inputs != outputs:
                before = net.conv(before, Conv(f"{name}_skip", inputs, outputs, "", 1, stride))
            x, inputs = net.add(before, x, "relu"), outputs
    return net.dense(net.mean(x), Dense("classes", 512, 1000))


def _network(name: str, network: Network, shape: tuple[int, ...], places: int, jaxjs: bool = False) -> Workload:
    """A network of one input; `places` is the rows of its image, or of the input itself."""
    sizes = layers.Sizes()
    network(sizes, places)
    script, other = layers.Tfjs(), layers.Jaxjs()
    return Workload(
        name,
        MS,
        sizes.flops,
        lambda x, w: network(layers.Jax(w), x),
        arrays(x=normal(*shape)),
        sizes.weights,
        onnx=lambda g: network(layers.Onnx(g), "x"),
        tfjs=script.expression(network(script, "x")),
        jaxjs=other.expression(network(other, "x")) if jaxjs else None,
        tolerance=CLOSE,
        bound="fma",
        orders=sizes.orders() if len(shape) == 4 else {},
        model=True,
    )


def _encoder(name: str, tokens: int) -> Workload:
    """all-MiniLM-L6 from the embeddings on."""
    encoder = Encoder(tokens=tokens)

    def weights(rng: Any) -> Arrays:
        return encoder.weights()

    return Workload(
        name,
        MS,
        encoder.flops,
        lambda x, w: encoder.apply(x, encoder.tree(w)),
        arrays(x=normal(1, tokens, encoder.width)),
        weights,
        onnx=lambda g: encoder.nodes(g, "x"),
        tfjs=_encoder_script(encoder, TFJS_ENCODER),
        jaxjs=_encoder_script(encoder, JAXJS_ENCODER),
        tolerance=CLOSE,
        bound="fma",
        model=True,
    )


TFJS_ENCODER = """
const dense = (x, n) => tf.fused.matMul({ a: x, b: w[`${n}.w`], bias: w[`${n}.b`] });
const norm = (x, n) => {
  const c = x.sub(x.mean(-1, true));
  return c.mul(c.square().mean(-1, true).add(1e-12).rsqrt()).mul(w[`${n}.scale`]).add(w[`${n}.bias`]);
};
const heads = (y) => y.reshape([TOKENS, HEADS, SIZE]).transpose([1, 0, 2]);
let y = x.reshape([TOKENS, WIDTH]);
for (let i = 0; i < BLOCKS; i++) {
  const [q, k, v] = ['query', 'key', 'value'].map((n) => heads(dense(y, `p.${i}.${n}`)));
  const scores = tf.softmax(tf.matMul(q, k, false, true).mul(ROOT));
  const mixed = tf.matMul(scores, v).transpose([1, 0, 2]).reshape([TOKENS, WIDTH]);
  y = norm(y.add(dense(mixed, `p.${i}.output`)), `p.${i}.norm1`);
  const h = dense(y, `p.${i}.up`);
  const g = h.mul(0.5).mul(h.mul(Math.SQRT1_2).erf().add(1));
  y = norm(y.add(dense(g, `p.${i}.down`)), `p.${i}.norm2`);
}
return y.reshape([1, TOKENS, WIDTH]);
"""
JAXJS_ENCODER = """
const dense = (x, n) => np.matmul(x, w[`${n}.w`]).add(w[`${n}.b`]);
const norm = (x, n) => {
  const c = x.ref.sub(x.mean(-1, { keepdims: true })), v = np.square(c.ref).mean(-1, { keepdims: true });
  return c.mul(np.reciprocal(np.sqrt(v.add(1e-12)))).mul(w[`${n}.scale`]).add(w[`${n}.bias`]);
};
const heads = (y) => np.transpose(y.reshape([TOKENS, HEADS, SIZE]), [1, 0, 2]);
let y = x.reshape([TOKENS, WIDTH]);
for (let i = 0; i < BLOCKS; i++) {
  const [q, k, v] = ['query', 'key', 'value'].map((n) => heads(dense(y.ref, `p.${i}.${n}`)));
  const scores = nn.softmax(np.matmul(q, np.transpose(k, [0, 2, 1])).mul(ROOT));
  const mixed = np.transpose(np.matmul(scores, v), [1, 0, 2]).reshape([TOKENS, WIDTH]);
  y = norm(y.add(dense(mixed, `p.${i}.output`)), `p.${i}.norm1`);
  const h = dense(y.ref, `p.${i}.up`);
  const g = h.ref.mul(0.5).mul(lax.erf(h.mul(Math.SQRT1_2)).add(1));
  y = norm(y.add(dense(g, `p.${i}.down`)), `p.${i}.norm2`);
}
return y.reshape([1, TOKENS, WIDTH]);
"""


def _encoder_script(encoder: Encoder, text: str) -> str:
    size = encoder.width // encoder.heads
    values = {
        "TOKENS": encoder.tokens,
        "HEADS": encoder.heads,
        "SIZE": size,
        "WIDTH": encoder.width,
        "BLOCKS": encoder.blocks,
    }
    constants = "".join(
        f"const {name} = {value}; " for name, value in {**values, "ROOT": f"1 / Math.sqrt({size})"}.items()
    )
    return f"(() => {{ {constants}{text} }})()"


def workloads() -> Iterator[Workload]:
    yield recurrent("lstm_100", 100, 128, 256)
    yield training("cnn_train_b32", 32)
    yield _network("mlp_b64", mlp, (64, 784), 64, jaxjs=True)
    yield _encoder("minilm_s128", 128)
    yield _encoder("minilm_s16", 16)
    yield _network("mobilenetv2", mobilenet, (1, 224, 224, 3), 224)
    yield _network("resnet18", resnet18, (1, 224, 224, 3), 224)
    yield adding_token("gpt2s_decode", 127)
    yield large.training("bert_train_s64", large.Bert())
    yield large.writing("whisper_5s_t16", large.Whisper())
