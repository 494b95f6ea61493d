"""XlaBuilder's operations that replicas and partitions take part in together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import VerifyError, counted
from ..hlo.infer import brief, joined
from ..hlo.ir import Computation, Instruction
from ..hlo.shape import Layout, Shape
from .computation import scalar_computation
from .core import Core, Groups, Values, groups


class Collectives(Core):
    """An operand may be a tuple, for several operands at once. `replica_groups` () means one group of all devices."""

    def ReplicaId(self) -> Instruction:
        """The number of this replica, as u32."""
        return self.op("replica-id")

    def PartitionID(self, shape: Shape | None = None) -> Instruction:
        """The number of this partition, as u32."""
        return self.op("partition-id", shape=shape)

    def CrossReplicaSum(self, operand: Values, replica_groups: Groups = ()) -> Instruction:
        """The operands of all replicas in a group added up."""
        elements = self._elements(operand)
        if len({self._array("all-reduce", x).element_type for x in elements}) != 1:
            raise VerifyError("all-reduce: the operands of a sum must be of one type")
        return self.AllReduce(elements, scalar_computation("add", elements[0].shape.element_type), replica_groups)

    def AllReduce(
        self,
        operand: Values,
        computation: Computation,
        replica_groups: Groups = (),
        channel_id: int | None = None,
        shape_with_layout: Shape | None = None,
        use_global_device_ids: bool = False,
    ) -> Instruction:
        """The operands of all devices in a group combined element by element."""
        attrs: dict[str, Any] = {"channel_id": channel_id, "use_global_device_ids": use_global_device_ids}
        attrs["constrain_layout"] = shape_with_layout is not None
        operands = self._elements(operand)
        return self.op(
            "all-reduce",
            *operands,
            called=[computation],
            shape=shape_with_layout,
            replica_groups=groups(replica_groups),
            **attrs,
        )

    def AllGather(
        self,
        operand: Values,
        all_gather_dimension: int,
        shard_count: int,
        replica_groups: Groups = (),
        channel_id: int | None = None,
        layout: Layout | None = None,
        use_global_device_ids: bool = False,
    ) -> Instruction:
        """The operands of the `shard_count` devices in a group one after another along a dimension."""
        self._check_count("all-gather", shard_count, replica_groups)
        operands = self._elements(operand)
        shapes = [self._scaled("all-gather", x, all_gather_dimension, shard_count, True) for x in operands]
        attrs: dict[str, Any] = {"channel_id": channel_id, "use_global_device_ids": use_global_device_ids}
        return self._shaped("all-gather", operands, shapes, layout, (all_gather_dimension,), replica_groups, **attrs)

    def ReduceScatter(
        self,
        operand: Values,
        computation: Computation,
        scatter_dimension: int,
        shard_count: int,
        replica_groups: Groups = (),
        channel_id: int | None = None,
        layout: Layout | None = None,
        use_global_device_ids: bool = False,
    ) -> Instruction:
        """The operands of the devices in a group combined; each device gets one of `shard_count` blocks along a
        dimension."""
        self._check_count("reduce-scatter", shard_count, replica_groups)
        operands = self._elements(operand)
        shapes = [self._scaled("reduce-scatter", x, scatter_dimension, shard_count, False) for x in operands]
        attrs: dict[str, Any] = {
            "channel_id": channel_id,
            "use_global_device_ids": use_global_device_ids,
            "called": [computation],
        }
        return self._shaped("reduce-scatter", operands, shapes, layout, (scatter_dimension,), replica_groups, **attrs)

    def AllToAll(
        self,
        operand: Instruction,
        split_dimension: int,
        concat_dimension: int,
        split_count: int,
        replica_groups: Groups = (),
        layout: Layout | None = None,
        channel_id: int | None = None,
    ) -> Instruction:
        """Block j of `split_count` along one dimension goes to device j; what arrives is put together along another.

        HLO's operation splits and joins along the same dimension; a reshape and a transpose move the blocks if they
        differ.
        """
        self._check_count("all-to-all", split_count, replica_groups)
        shape = self._array("all-to-all", operand)
        part = self._scaled("all-to-all", operand, split_dimension, split_count, False)
        if not 0 <= concat_dimension < shape.rank:
            raise VerifyError(f"all-to-all: {brief(shape)} has no dimension {concat_dimension}")
        moved = self._shaped(
            "all-to-all", [operand], [shape], layout, (split_dimension,), replica_groups, channel_id=channel_id
        )
        if split_dimension == concat_dimension:
            return moved
        sizes = list(part.dimensions)
        blocks = self.reshape(moved, (*sizes[:split_dimension], split_count, *sizes[split_dimension:]))
        order = [d + (d >= split_dimension) for d in range(shape.rank)]
        order.insert(concat_dimension, split_dimension)
        sizes[concat_dimension] *= split_count
        return self.reshape(self.transpose(blocks, order), sizes)

    def RaggedAllToAll(
        self,
        input: Instruction,
        input_offsets: Instruction,
        send_sizes: Instruction,
        output: Instruction,
        output_offsets: Instruction,
        recv_sizes: Instruction,
        replica_groups: Groups = (),
        channel_id: int | None = None,
    ) -> Instruction:
        """Rows of `input` sent to the devices of the group, into their `output`, by offsets and counts."""
        operands = (input, output, input_offsets, send_sizes, output_offsets, recv_sizes)
        return self.op("ragged-all-to-all", *operands, replica_groups=groups(replica_groups), channel_id=channel_id)

    def CollectiveBroadcast(
        self, operand: Values, replica_groups: Groups, channel_id: int | None = None
    ) -> Instruction:
        """The operand of a group's first device on all of them; zeros on devices in no group."""
        return self.op(
            "collective-broadcast",
            *self._elements(operand),
            replica_groups=groups(replica_groups),
            channel_id=channel_id,
        )

    def CollectivePermute(
        self,
        operand: Values,
        source_target_pairs: Sequence[tuple[int, int]],
        channel_id: int | None = None,
        inplace: bool = False,
    ) -> Instruction:
        """The operand of the device that is paired with this one as source; zeros if there is none.

        `inplace`: the operands are an input, the buffer that becomes the result, and where blocks start in either.
        """
        operands = self._elements(operand)
        if inplace and len(operands) != 4:
            raise VerifyError(
                f"collective-permute: in place it takes input, output and two start indices, not "
                f"{counted(len(operands), 'operand')}"
            )
        shapes = [x.shape.without_layout() for x in operands]
        attrs: dict[str, Any] = {
            "source_target_pairs": tuple(map(tuple, source_target_pairs)),
            "channel_id": channel_id,
        }
        return self.op("collective-permute", *operands, shape=shapes[1] if inplace else joined(shapes), **attrs)

    def _check_count(self, what: str, count: int, replica_groups: Groups) -> None:
        if count < 1:
            raise VerifyError(f"{what}: the number of shards must be positive, not {count}")
        for group in groups(replica_groups).expanded():
            if len(group) != count:
                raise VerifyError(f"{what}: a group of {counted(len(group), 'device')} for {counted(count, 'shard')}")

    def _scaled(self, what: str, x: Instruction, dim: int, count: int, grows: bool) -> Shape:
        """The operand's shape with a dimension `count` times as large, or that much smaller."""
        shape = self._array(what, x)
        if not 0 <= dim < shape.rank:
            raise VerifyError(f"{what}: {brief(shape)} has no dimension {dim}")
        if not grows and shape.dimensions[dim] % count:
            raise VerifyError(f"{what}: dimension {dim} of {brief(shape)} cannot be split into {count}")
        sizes = list(shape.dimensions)
        sizes[dim] = sizes[dim] * count if grows else sizes[dim] // count
        return Shape(shape.element_type, tuple(sizes))

    def _shaped(
        self,
        opcode: str,
        operands: Sequence[Instruction],
        shapes: Sequence[Shape],
        layout: Layout | None,
        dimensions: tuple[int, ...],
        replica_groups: Groups,
        **others: Any,
    ) -> Instruction:
        """A collective of which the result is known, in a layout if that is given."""
        shape = joined([s.with_layout(layout) for s in shapes])
        attrs: dict[str, Any] = {"replica_groups": groups(replica_groups), "constrain_layout": layout is not None}
        return self.op(opcode, *operands, shape=shape, dimensions=dimensions, **attrs, **others)
