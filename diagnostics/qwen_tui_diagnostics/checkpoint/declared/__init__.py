"""What an engine would build for each module, by quantization method, engine and version."""
