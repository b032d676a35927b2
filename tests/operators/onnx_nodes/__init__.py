"""ONNX's own node tests as of opset 11, run through an InferenceSession: `make onnx-nodes`."""
