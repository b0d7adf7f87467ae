"""The Textual console. The only package that may import Textual."""
