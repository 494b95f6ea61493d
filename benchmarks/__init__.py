"""Benchmarks: `./build.sh bench`, or `python -m benchmarks` where onnx, JAX, Node 24 and onnxruntime-web are
installed."""
