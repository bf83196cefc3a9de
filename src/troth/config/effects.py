"""Find settings without effect, about which the user gets a notice."""

from collections.abc import Iterable

from troth.config.schema import Experiment


def without(e: Experiment) -> list[str]:
    """Return one sentence for each setting of an experiment that has no effect."""
    found = []
    for kind in ("attack", "corruption"):
        name = getattr(e, kind).name
        if name != "none" and not e.adversary.present():
            found.append(
                f"{kind} '{name}' has no effect, because no client is malicious; set "
                f"adversary.fraction, such as 0.2, or {kind} = 'none'"
            )
    owner, natural = e.data.options.get("owner"), ("natural", "identities")
    used = e.partition.name in natural or e.partition.split_by == "owner"
    if owner and not used and ":" not in e.partition.name:
        found.append(
            f"data.owner = '{owner}' names the owner of each example, but partition "
            f"'{e.partition.name}' ignores owners; set partition.name = 'natural' to "
            "make one client per owner"
        )
    return found


def notices(experiments: Iterable[Experiment]) -> list[str]:
    """Return the sentences about all experiments, each sentence once.

    If there are several experiments, a sentence says how many of them it is about.
    """
    every = [without(e) for e in experiments]
    sentences = [text for one in every for text in one]
    runs = len(every)
    return [
        text if runs == 1 else f"in {sentences.count(text)} of {runs} runs, {text}"
        for text in dict.fromkeys(sentences)
    ]
