"""HLO modules: the graph, its protobuf and text forms, verification."""
