"""`python -m troth` is `troth`."""

from troth.cli import main

if __name__ == "__main__":
    main()
