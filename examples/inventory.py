"""A small shop's stock: what lies on the shelves, what it is worth, what must be ordered again."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Item:
    """One kind of thing on the shelf. Prices are in cents."""

    name: str
    price: int
    quantity: int
    reorder_at: int = 5


@dataclass
class Inventory:
    """All items by their names."""

    items: dict[str, Item] = field(default_factory=dict)

    def add(self, item: Item) -> None:
        """Put an item on the shelf; more of a known item raises its quantity."""
        

    def remove(self, name: str, quantity: int) -> None:
        """Take pieces off the shelf. KeyError for an unknown item, ValueError when too few are left."""
        item = self.items[name]
        if item.quantity < quantity:
            raise ValueError(f"only {item.quantity} of {name} left")
        item.quantity -= quantity

    def value(self) -> int:
        """What everything on the shelves is worth."""
        return sum(item.price * item.quantity for item in self.items.values())

    def to_order(self) -> list[Item]:
        """Items that have fallen to their reorder point, the scarcest first."""
        low = [item for item in self.items.values() if item.quantity <= item.reorder_at]
        return sorted(low, key=lambda item: item.quantity)
