"""The fields of a manifest: one row each, by which hosts check manifests and docs/embedding.md explains them.

`python tools/manifest_fields.py` writes the table of the document anew, and that of the host in JavaScript.
"""

from __future__ import annotations

from ..dataclass import dataclass
from ..hlo.attrs import MOST_DEVICES
from ..target import ADDRESS_SPACE, COMMAND, CONTROL_BYTES, PAGE, SERVER, TARGETS

MAX_INT = 2**53 - 1
"""The largest integer that JavaScript represents exactly."""
MAX_PAGES = ADDRESS_SPACE["i32"] // PAGE
MAX_RANK = 32
MAX_CHANNEL = 32767
"""The largest tag that MPI promises."""
ARRAY_KINDS = {
    "parameters[]": ("input", "weight", "state"),
    "results[]": ("output", "state"),
    "requests[].operands[]": ("operand",),
    "requests[].results[]": ("result",),
}
"""The values of `array.kind`, by the list that the array is an entry of."""
TRANSFERS = ("infeed", "outfeed", "send", "recv")
"""The requests in which whole arrays go to the host or come from it, while no function of the host is called."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the manifest, or of an object in it."""

    path: str
    """The path of the field. `[]` is any entry of a list, `array` any entry that describes an array: of `parameters`
    and `results`, and of the `operands` and `results` of a request."""
    type: str
    """Its type in JSON, and when it may be missing."""
    meaning: str
    unit: str = ""
    """The unit of a number. "address": bytes from the start of the memory."""
    low: int = 0
    high: int = MAX_INT
    """The bounds of an integer; what depends on other fields, as the end of the memory, bounds it further."""
    size: int = 0
    """The bytes that lie at an address, if it is always as many."""
    align: int = 1
    """Of an address: it is a multiple of this."""
    choices: tuple[str, ...] = ()
    """The strings that it may be; none: any."""
    since: int = 1
    """The `format` from which on it may be there."""


# fmt: off
ROWS = (
    Field("format", "integer", "the version of this interface: 3 if any parameter has `least`, else 2 if any entry of `inits` has a `part`, else 1", low=1, high=3),
    Field("producer", "string", "the compiler, with its version"),
    Field("name", "string", "the name of the HLO module"),
    Field("hash", "string", "SHA-256, in hexadecimal, of the module without this section followed by the manifest with an empty hash: names the artifact"),
    Field("target", "string", "what it was compiled for: `simd128` or `relaxed-simd`", choices=tuple(TARGETS)),
    Field("tune", "string", "the engine that it suits: `portable`, `wasmtime` or `v8`; it runs on all"),
    Field("features", "list of strings", "features of WebAssembly that it needs: `simd128`, `relaxed-simd`, `threads`"),
    Field("pages", "integer", "the size of the memory", unit="65,536 bytes", low=1, high=MAX_PAGES),
    Field("peak_bytes", "integer", "how much of it is in use", unit="bytes"),
    Field("parameters", "list of objects", "the parameters, tuples flattened, tokens left out"),
    Field("results", "list of objects", "the results, in the same way"),
    Field("inits", "list of objects", "what to prepare with `init`"),
    Field("steps", "object", "the step table"),
    Field("requests", "list of objects", "what a run may ask of the host"),
    Field("devices", "object or null", "how the program runs on several devices; null if it is the same on all"),
    Field("undivided", "string or null", "for a program that says how its arrays are to be divided among devices: the reason why it runs on one"),
    Field("config", "integer", "of a u32: the step that runs, or in which a trap occurred", unit="address", size=4, align=4),
    Field("stop", "integer or null", "of a u32: a run traps soon after another thread has written 0xFFFFFFFF there; null if all runs are over sooner. Modules before 2026-11-27 lack it", unit="address"),
    Field("request", "integer", "of two u32: the request that a run waits for, and the step at which it goes on", unit="address", size=8, align=4),
    Field("kind", "string, optional", "of files that run without a host: `command`, a program [by itself](command.md), or `server`, a [component](serving.md#wasmtime-serve)", choices=(COMMAND, SERVER)),
    Field("stateful", "boolean", "whether it keeps more than its states from run to run"),
    Field("structure", "object, optional", "of a function of JAX: how its arguments and results are made of `parameters` and `results` ([below](#structures))"),
    Field("structure.names", "list of strings", "the names of its arguments"),
    Field("structure.positional", "integer", "how many of them, from the first on, may be given by position"),
    Field("structure.arguments", "list of trees", "for each argument its tree. The leaves of all of them are the parameters, in order"),
    Field("structure.results", "tree", "what it returns. Its leaves are the results, in order"),
    Field("threads", "object, optional", "of a module for several threads, which import its memory: what they share"),
    Field("threads.control", "integer", "of the control block, by which they work together", unit="address", size=CONTROL_BYTES, align=64),
    Field("threads.bytes", "integer", "what each thread but the first needs, behind the memory of the program", unit="bytes", low=64),
    Field("array.name", "string", "of a parameter or a result: its own name. No two parameters have the same. Of a request's: the name of the instruction"),
    Field("array.element_type", "string", "as HLO names it; see [above](#arrays)"),
    Field("array.dimensions", "list of integers", "the sizes, or of dynamic dimensions the bounds", unit="elements"),
    Field("array.minor_to_major", "list of integers", "the dimensions, the one whose elements lie next to each other first"),
    Field("array.offset", "integer", "where it lies. Means nothing for a weight whose `init` is not null", unit="address"),
    Field("array.bytes", "integer", "the product of the dimensions and the size of an element", unit="bytes"),
    Field("array.kind", "string", "of a parameter `input`, `weight` or `state`; of a result `output` or `state`; of a request's `operand` or `result`"),
    Field("array.sizes", "list, optional", "of dynamic dimensions: for each dimension the address of an s32 with the actual size, or null", unit="address"),
    Field("array.least", "list of integers, optional", "of dynamic dimensions of a parameter: the least size of each dimension, of a fixed one the size itself. Absent: 0 is the least of those that are dynamic", unit="elements", since=3),
    Field("array.shards", "object, optional", "the global array of which each device has a block"),
    Field("array.shards.dimensions", "list of integers", "its sizes", unit="elements"),
    Field("array.shards.starts", "list of lists", "for each device the index at which its block begins", unit="elements"),
    Field("array.tiles", "list of lists, optional", 'of the layout: its tiles; `"*"` joins a dimension to the next', unit="elements"),
    Field("array.element_size_in_bits", "integer, optional", "of the layout: what an element takes", unit="bits"),
    Field("array.tail_padding_alignment_in_elements", "integer, optional", "of the layout: the number of elements is rounded up to a multiple of it", unit="elements", low=1),
    Field("array.dynamic_shape_metadata_prefix_bytes", "integer, optional", "of the layout: what precedes the elements", unit="bytes"),
    Field("array.padded_dimensions", "list of integers, optional", "of the layout: the sizes with padding", unit="elements"),
    Field("array.padding_value", "integer, optional", "of the layout: what padding holds, as HLO numbers it"),
    Field("array.padding_element", "string, optional", "of the layout: the same as the bytes of an element, in hexadecimal"),
    Field("array.physical_bytes", "integer, optional", "of the layout: the size of an array in it. Absent for layouts that are only an order of dimensions", unit="bytes", high=MAX_PAGES * PAGE),
    Field("parameters[].alias", "integer or null", "of a state: the result that replaces it", unit="index"),
    Field("parameters[].init", "integer or null", "of a weight that the module packs: its entry in `inits`", unit="index"),
    Field("inits[].index", "integer", "the argument of `init`", high=2**31 - 1),
    Field("inits[].kind", "string", "`segment` (the bytes are in the module), `sidecar` (they are in the `.weights` file) or `weight` (the caller has them)", choices=("segment", "sidecar", "weight")),
    Field("inits[].name", "string", "of the constant or the weight"),
    Field("inits[].staging", "integer", "where to write the bytes before the call; means nothing for a `segment`", unit="address"),
    Field("inits[].bytes", "integer", "the number of these bytes", unit="bytes"),
    Field("inits[].part", "integer, optional", "of a `weight` that comes in parts: the size of each but the last", unit="bytes", low=1, since=2),
    Field("inits[].kept", "list of lists, optional", "of a `weight`: address and bytes of each place that has what `init` makes of it, which runs only read, and 1 if `init` has only moved its numbers there, perhaps to a wider type, else 0. What lies there may be copied to another instance", unit="bytes"),
    Field("inits[].sidecar_offset", "integer, optional", "of a `sidecar`: where they begin in the file. No two overlap", unit="bytes"),
    Field("inits[].sha256", "string, optional", "of a `sidecar`: their hash, in hexadecimal"),
    Field("steps.address", "integer", "of the table", unit="address", align=4),
    Field("steps.count", "integer", "the number of entries: those of the program, then those of each `init`"),
    Field("steps.entry_bytes", "integer", "the size of an entry: 32", unit="bytes", low=1),
    Field("steps.names", "list of strings", "for each entry the instruction that it computes"),
    Field("requests[].kind", "string", "`custom_call`, `callback`, `infeed`, `outfeed`, `send`, `recv` or `exchange`", choices=("exchange", "custom_call", "callback", *TRANSFERS)),
    Field("requests[].name", "string", "the instruction"),
    Field("requests[].target", "string, not of exchanges", "the function of a custom call or callback (empty: the run ends there), the name of a send or recv"),
    Field("requests[].opaque", "string, not of exchanges", "what a custom call carries for its function: its `backend_config`"),
    Field("requests[].place", "string, of callbacks", "where the user wrote it"),
    Field("requests[].format", "string, of callbacks", "a line to print, as Python's `str.format` takes it, its fields being numbers of operands; or empty"),
    Field("requests[].operands", "list of objects, not of exchanges", "the arrays that the host takes"),
    Field("requests[].results", "list of objects, not of exchanges", "the arrays that it writes"),
    Field("requests[].opcode", "string, of exchanges", "the operation that it is part of"),
    Field("requests[].channel", "integer, of exchanges", "the number by which receivers find what senders sent: messages of different channels do not mix", high=MAX_CHANNEL),
    Field("requests[].buffered", "boolean, of exchanges", "whether it ends before anyone has received what was sent"),
    Field("requests[].to", "object, of exchanges", "the list of receivers"),
    Field("requests[].to.offset", "integer", "of s32, a device number each", unit="address", align=4),
    Field("requests[].to.count", "integer", "how many they are", high=MOST_DEVICES),
    Field("requests[].from", "object, of exchanges", "the list of senders"),
    Field("requests[].from.offset", "integer", "of s32, a device number each", unit="address", align=4),
    Field("requests[].from.count", "integer", "how many they are", high=MOST_DEVICES),
    Field("requests[].sends", "list of objects, of exchanges", "the arrays of which blocks are sent"),
    Field("requests[].sends[].offset", "integer", "of the first block", unit="address"),
    Field("requests[].sends[].bytes", "integer", "of a block", unit="bytes"),
    Field("requests[].sends[].stride", "integer", "from one block to the next; 0: all receivers get the same", unit="bytes"),
    Field("requests[].receives", "list of objects, of exchanges", "the arrays whose rows come in"),
    Field("requests[].receives[].offset", "integer", "of the first row", unit="address"),
    Field("requests[].receives[].bytes", "integer", "of a row", unit="bytes"),
    Field("devices.offset", "integer", "of four u32: replica, partition, and the numbers of both", unit="address", size=16, align=4),
    Field("devices.replicas", "integer or null", "how many replicas there must be; null: any number", low=1, high=MOST_DEVICES),
    Field("devices.partitions", "integer or null", "how many partitions there must be; null: any number", low=1, high=MOST_DEVICES),
    Field("devices.least", "integer", "the least number of devices", low=1, high=MOST_DEVICES),
    Field("devices.most", "integer or null", "the greatest number of devices; null: there is none", low=1, high=MOST_DEVICES),
    Field("devices.axis", "string", "what a number of devices counts when nothing else is said: `replicas` or `partitions`", choices=("replicas", "partitions")),
)
# fmt: on
FIELDS = {row.path: row for row in ROWS}


def field_of(place: str, key: str) -> Field:
    """The row of a field in the object at `place`, which may be an array."""
    return FIELDS.get(f"{place}.{key}".strip(".")) or FIELDS[f"array.{key}"]
