"""From a bundle to live answers: sessions, whole logs, ONNX, and a service."""
