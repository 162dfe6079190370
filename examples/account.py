"""A bank of sorts: accounts, transfers and statements. Amounts are in cents."""

from __future__ import annotations

from dataclasses import dataclass, field


class NotEnoughMoney(Exception):
    """The account does not hold what was asked for."""


@dataclass
class Account:
    """One person's money and every movement of it."""

    owner: str
    balance: int = 0
    history: list[tuple[str, int]] = field(default_factory=list)

    def deposit(self, amount: int) -> None:
        """Put money in. ValueError unless the amount is positive."""
        if amount <= 0:
            raise ValueError("the amount must be positive")
        self.balance += amount
        self.history.append(("deposit", amount))

    def withdraw(self, amount: int) -> None:
        """Take money out. ValueError unless the amount is positive, NotEnoughMoney if there is too little."""
        

    def statement(self) -> str:
        """All movements, one a line, and the balance."""
        lines = [f"{kind:<10} {amount / 100:>10.2f}" for kind, amount in self.history]
        return "\n".join([*lines, f"{'balance':<10} {self.balance / 100:>10.2f}"])


def transfer(source: Account, target: Account, amount: int) -> None:
    """Move money from one account to another; nothing happens if the source holds too little."""
    source.withdraw(amount)
    target.deposit(amount)
