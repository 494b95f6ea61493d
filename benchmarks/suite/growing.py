"""Programs at three sizes, each four times the one before, to see how their time grows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from . import convolutions, large, loops
from .workload import Workload

FACTOR = 4


@dataclass(frozen=True)
class Program:
    """A program by what grows in it: `sizes` names each, and the workloads are in the same order."""

    title: str
    sizes: tuple[str, ...]
    workloads: tuple[Workload, ...]


def _thousands(title: str, make: Callable[[str, int], Workload], name: str, least: int) -> Program:
    sizes = [least * FACTOR**i for i in range(3)]
    made = tuple(make(f"{name}_{size}k", size * 1000) for size in sizes)
    return Program(title, tuple(f"{size}k" for size in sizes), made)


def _images(title: str, make: Callable[[int], Workload], least: int, rank: int = 2) -> Program:
    sizes = [least * (2 if rank == 2 else FACTOR) ** i for i in range(3)]
    return Program(title, tuple("x".join([str(size)] * rank) for size in sizes), tuple(map(make, sizes)))


def programs() -> Iterator[Program]:
    """All of them, loops, convolutions and models."""
    yield _thousands("logistic map: steps", loops.logistic, "logistic", 10)
    sizes = (150, 300, 600)
    yield Program(
        "longest common subsequence: table",
        tuple(f"{size}x{size}" for size in sizes),
        tuple(loops.subsequence(f"lcs_{size}x{size}", size) for size in sizes),
    )
    yield _thousands("plucked string: samples", loops.string, "string", 12)
    yield _thousands("loop of scalars: trips", loops.counting, "loop", 250)
    yield _thousands("cond in a scan: trips", loops.follower, "scan_cond", 25)
    transposed = convolutions.transposed
    yield _images(
        "transposed convolution 4x4, stride 2: image",
        lambda n: transposed(f"convt4x4s2_{n}_64_64", n, 64, 64, 4, 2),
        16,
    )
    yield _images(
        "the same of 1024, stride 256: samples",
        lambda n: transposed(f"convt1024s256_{n}_64_1", n, 64, 1, 1024, 256, rank=1),
        32,
        1,
    )
    yield _images(
        "gradient of a convolution 3x3, stride 2: image",
        lambda n: transposed(f"conv3x3s2_grad_{2 * n}_64_128", n, 128, 64, 3, 2, gradient=True),
        14,
    )
    tokens = (16, 64, 256)
    yield Program(
        "training step of BERT-base: tokens",
        tuple(map(str, tokens)),
        tuple(large.training(f"bert_train_s{n}", large.Bert(tokens=n, masked=n * 10 // 64)) for n in tokens),
    )
    tokens = (4, 16, 64)
    yield Program(
        "Distil-Whisper small, 0.6 s of sound: tokens",
        tuple(map(str, tokens)),
        tuple(large.writing(f"whisper_600ms_t{n}", large.Whisper(frames=30, tokens=n)) for n in tokens),
    )
