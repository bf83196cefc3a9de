"""A site, before it looks for a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from troth.config import reader
from troth.types import Refusal


def test_it_says_who_it_is_and_what_it_tries(
    tmp_path: Path, example: Any, three: Any
) -> None:
    from troth.deployment.flower.take_part import take_part

    (tmp_path / "e.toml").write_text(reader.dumps(three))
    said, address = list[str](), f"127.0.0.1:{example.free_port()}"
    flags: Any = {"name": "b", "data": "experiment", "state": tmp_path / "b"}
    flags |= {"say": said.append, "insecure": True, "tries": 1}
    with pytest.raises(Refusal, match=f"no way to the server at {address}; is it"):
        take_part(tmp_path / "e.toml", address, **flags)
    assert said[0].startswith("b: 431 training examples; looking for a server at 127")
    assert said[1].endswith("trying again in 1 s") and "does not answer" in said[1]


def test_a_certificate_that_is_none(tmp_path: Path, example: Any, three: Any) -> None:
    from troth.deployment.flower.take_part import take_part

    (tmp_path / "ca.pem").write_text("none")
    flags: Any = {"name": "b", "data": "experiment", "state": tmp_path / "b"}
    flags |= {"key": tmp_path / "ca.pem", "ca": tmp_path / "ca.pem", "say": print}
    with pytest.raises(Refusal, match="ca.pem is no certificate"):
        take_part(tmp_path / "e.toml", "x:1", **flags)
