"""`python -m troth` is `troth`."""

from troth.cli.app import main

if __name__ == "__main__":
    main()
