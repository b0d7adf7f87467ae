"""Pure domain of qwen-tui: engine profiles, rules, the memory plan, and the shared vocabulary.

Nothing here performs I/O beyond reading TOML presets, ``config.json`` and safetensors headers.
"""
