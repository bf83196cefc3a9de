"""The command `troth schema`."""

import json


def schema() -> None:
    """Print the JSON Schema of the experiment file, for completion in editors.

    Save it with `troth schema > troth.schema.json`. Then an editor that knows TOML
    (VS Code with Even Better TOML, or any editor with taplo) completes and checks a
    file that begins with the line `#:schema ./troth.schema.json`.
    """
    from troth.config.json_schema import json_schema

    print(json.dumps(json_schema(), indent=1))
