"""A program of plain greenlets: two that are suspended, while the main one waits for a line."""

from __future__ import annotations

from greenlet import getcurrent, greenlet

MAIN = getcurrent()


def gives_back(value: int) -> None:
    MAIN.switch(value)  # suspended here


def works(value: int) -> None:
    gives_back(value)


def ended() -> None:
    pass


if __name__ == "__main__":
    greenlets = [greenlet(works) for _ in range(2)]
    for number, one in enumerate(greenlets):
        one.switch(number)
    greenlet(ended).switch()
    unstarted = greenlet(works)
    print("READY", flush=True)
    input()
