"""Which code a result is of."""

from __future__ import annotations

import pytest

from troth.reproduce import digests, settings
from troth.reproduce.entry import experiment, key


def test_the_code_that_matters() -> None:
    """Other members do not count, and neither do comments; what is used does."""
    tree = settings.SMALL.tree
    plain, krum = experiment(tree, 0), experiment({**tree, "aggregator": "krum"}, 0)
    assert digests.code(plain) == digests.code(experiment(tree, 1))
    assert digests.code(plain) != digests.code(krum)
    assert key(tree, 0) != key(tree, 1)
    assert key(tree, 0) == key({**tree, "engine": {"how": "loop"}}, 0)


def test_digests_do_not_see_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    import ast

    texts = {
        "plain": "def f(x):\n    return x + 1\n",
        "said": 'def f(x):\n    """What."""\n    return x + 1  # why\n',
        "other": "def f(x):\n    return x + 2\n",
    }
    monkeypatch.setattr(digests, "_parsed", lambda module: ast.parse(texts[module]))
    digest = {name: digests._digest.__wrapped__(name) for name in texts}
    assert digest["other"] != digest["plain"]
    assert digest["said"] != digest["other"]
