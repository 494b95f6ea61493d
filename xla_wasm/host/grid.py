"""The grid of devices that a program runs on: replicas and partitions, and the number of each device."""

from __future__ import annotations

from ..dataclass import dataclass
from ..errors import ArgumentError, UnsupportedError, counted
from ..hlo.attrs import MOST_DEVICES
from .manifest import Manifest


@dataclass(frozen=True, slots=True)
class Grid:
    """Replicas times partitions: device `replica * partitions + partition` is partition `partition` of replica
    `replica`."""

    replicas: int
    partitions: int

    @property
    def count(self) -> int:
        """The number of devices."""
        return self.replicas * self.partitions

    def ids(self, device: int) -> tuple[int, int, int, int]:
        """Returns the four numbers that a module gets: its replica, its partition, and the numbers of replicas and
        partitions."""
        return (*divmod(device, self.partitions), self.replicas, self.partitions)

    def name(self, device: int) -> str:
        """The device, for a message."""
        replica, partition = divmod(device, self.partitions)
        return f"device {device} (replica {replica}, partition {partition})"


ONE_DEVICE = Grid(1, 1)


def make_grid(
    manifest: Manifest, count: int, num_replicas: int | None = None, num_partitions: int | None = None
) -> Grid:
    """Returns the grid of `count` devices for a program. Raises ArgumentError if the program or the caller wants
    another."""
    given = {"num_replicas": num_replicas, "num_partitions": num_partitions}
    for name, number in given.items():
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 1):
            raise ArgumentError(f"{name} must be an integer of 1 or more, got {number!r}")
    devices = manifest.devices
    replicas, partitions = num_replicas, num_partitions
    if devices is not None:
        for name, number, fixed in (
            ("num_replicas", num_replicas, devices.replicas),
            ("num_partitions", num_partitions, devices.partitions),
        ):
            if number is not None and fixed is not None and number != fixed:
                raise ArgumentError(
                    f"'{manifest.name}' is compiled for {name}={fixed}, got {name}={number}: leave it out"
                )
        replicas = devices.replicas if replicas is None else replicas
        partitions = devices.partitions if partitions is None else partitions
    if replicas is None and partitions is None:
        replicas, partitions = (1, count) if devices is not None and devices.axis == "partitions" else (count, 1)
    elif replicas is None:
        replicas = max(1, count // (partitions or 1))
    elif partitions is None:
        partitions = max(1, count // replicas)
    if manifest.undivided and count > 1:
        raise UnsupportedError(f"'{manifest.name}' runs on one device: {manifest.undivided}")
    grid = Grid(replicas, partitions or 1)
    if grid.count != count or not fits(manifest, grid):
        both = (
            f" = {replicas} x {partitions} (replicas x partitions)"
            if grid.count == count and 1 not in (replicas, partitions)
            else ""
        )
        wanted = _wanted(manifest, num_replicas, num_partitions)
        raise ArgumentError(f"'{manifest.name}' runs on {wanted}, got {count}{both}: choose such a number of devices")
    return grid


def fits(manifest: Manifest, grid: Grid) -> bool:
    """Returns True if the program can run on this grid."""
    devices = manifest.devices
    if manifest.sharded not in (None, grid.count):
        return False
    return devices is None or (
        devices.replicas in (None, grid.replicas)
        and devices.partitions in (None, grid.partitions)
        and devices.least <= grid.count
        and (devices.most is None or grid.count <= devices.most)
    )


def check_alone(manifest: Manifest) -> None:
    """Raises ArgumentError if the program cannot run on one device."""
    if not fits(manifest, ONE_DEVICE):
        raise ArgumentError(
            f"'{manifest.name}' runs on {_wanted(manifest, None, None)}: "
            "call exe.run_replicated with a list of arguments for each of them, or exe.run_global with whole arrays"
        )


def check_device(manifest: Manifest, device: int) -> None:
    """Raises ArgumentError if the program never runs on a device of that number."""
    devices = manifest.devices
    most = MOST_DEVICES
    if devices is not None:
        both = devices.replicas * devices.partitions if devices.replicas and devices.partitions else None
        most = both or devices.most or MOST_DEVICES
    if isinstance(device, bool) or not isinstance(device, int) or not 0 <= device < most:
        raise ArgumentError(f"'{manifest.name}' has no device {device!r}: it runs on {_wanted(manifest, None, None)}")


def _wanted(manifest: Manifest, num_replicas: int | None, num_partitions: int | None) -> str:
    """The numbers of devices that would do."""
    devices = manifest.devices
    replicas, partitions, least, most = num_replicas, num_partitions, manifest.sharded or 1, manifest.sharded
    if devices is not None:
        replicas, partitions = devices.replicas or replicas, devices.partitions or partitions
        least, most = devices.least, devices.most
    if replicas and partitions:
        count = replicas * partitions
        return f"{counted(count, 'device')} ({counted(replicas, 'replica')} x {counted(partitions, 'partition')})"
    if least == most:
        text = counted(least, "device")
    else:
        text = f"{least} or more devices" if most is None else f"{least} to {counted(most, 'device')}"
    known = replicas or partitions
    return f"{text}, a multiple of {known} {'replicas' if replicas else 'partitions'}" if known and known > 1 else text
