"""The console's widgets: nouns that show a :class:`~qwen_tui.ui.state.View` and ask for nothing."""
