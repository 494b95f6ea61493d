"""The kinds of instruction attributes. A kind is one record, which says all about its values: how they are read from
HloInstructionProto and written to it, read in HLO text and printed, and which they are.

An op record names a kind for each attribute. `sharding` (40, bytes) and `backend_config` (43) are read for every opcode
without a record saying so; records must not list them, nor name, shape, metadata, frontend_attributes, operands, called
computations.
"""
