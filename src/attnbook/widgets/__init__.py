"""Interactive figures: one class and one ES module each, live in a notebook and static in the book."""

__all__: list[str] = []
