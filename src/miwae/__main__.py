"""`python -m miwae` is the command `miwae`."""

from miwae.cli import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
