"""Run the command `troth` by `python -m troth`."""

from troth.cli.app import main

if __name__ == "__main__":
    main()
