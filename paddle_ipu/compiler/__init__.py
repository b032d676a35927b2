"""The road from a Paddle program to a session, and to a prediction, a dump, an ONNX file."""
