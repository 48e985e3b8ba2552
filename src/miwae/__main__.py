"""`python -m miwae` is the command `miwae`."""

from miwae.cli import main

if __name__ == "__main__":
    main()
