"""One rule for each operator of Graphcore's domain and of ours that ONNX's own can express."""
