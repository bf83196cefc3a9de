"""Every sentence that can be said: well formed, and no adjective without a number."""

import re

from troth.reports.cards._reading import RULES as EVERY
from troth.reports.cards._reading import words

ADJECTIVES = re.compile(
    r"\b(good|bad|best|worst|better|worse|high|highest|higher|low|lowest|lower|large"
    r"|larger|small|smaller|strong|weak|safe|unsafe|robust|accurate|poor|great|few|fewer"
    r"|many|most|least|ahead|first|more|less|fair|unfair)\b"
)


def test_sentences_are_well_formed():
    """A command stands at the end, after a colon, so that all of it is copied."""
    for rule, text in EVERY.items():
        bare = [
            sentence
            for sentence in re.split(r"(?<=[.;])\s", text)
            if ADJECTIVES.search(sentence) and not re.search(r"\d", sentence)
        ]
        assert not bare, "an adjective without a number"
        found = {int(k) for k in re.findall(r"\{(\d+)\}", text)}
        assert found == {*range(len(found))}, rule
        assert not re.search(r"\b(get|do|try|have) (it|one|them) by\b", text)
        assert "differs from" not in text and "by: {" not in text


def test_every_rule_is_about_something():
    card = "choice served gain lam certificate shortcuts poisoning data rounds"
    subjects = {*card.split(), "provenance", "row", "answer", "page"}
    assert {rule.split(".")[0] for rule in EVERY} == subjects


def test_values_are_put_in_once_and_as_they_are():
    said = ("gain.local", "{1}", "<b>\\1", "{0}")
    assert (
        words(said)
        == "{1} compared with training alone (<b>\\1), which has {0} for this client."
    )


SENTENCES = [
    (
        "choice.average A 2 3 highest accuracy test 4 0.9 B 0.8",
        "Use A for client 2: of 3 models it has the highest mean accuracy on the test "
        "data of 4 benign clients, 0.9. The second is B with 0.8.",
    ),
    (
        "choice.own B 1 400 0.9 0.866 0.928 A 0.5 0.45 0.55",
        "Use B for client 1: on its 400 test examples it has 0.9 (95 % interval 0.866 "
        "to 0.928). A, which is first on average over clients, has 0.5 (0.45 to 0.55). "
        "The two intervals do not overlap.",
    ),
    *(
        (
            f"choice.{rule} A B 0.1 more 20 15 4 1 p=0.03 +0.1 +0.2",
            "On test data A has 0.1 more than B, on average over 20 clients: it is "
            "better for 15, worse for 4 and equal for 1. The 95 % interval of the "
            f"difference, +0.1 to +0.2, {ends}",
        )
        for rule, ends in (
            (
                "sure",
                "excludes 0 (p=0.03), so A is ahead for clients like these. This is a "
                "comparison of two trained models. If both were trained again with "
                "another seed, the result may differ.",
            ),
            (
                "behind",
                "excludes 0 (p=0.03), so A is behind for clients like these. Models "
                "are not chosen by test data. This is a comparison of two trained "
                "models. If both were trained again with another seed, the result may "
                "differ.",
            ),
            ("unsure", "contains 0 (p=0.03), so this may be chance."),
        )
    ),
    (
        "choice.chance 10 0 B 0.8 A 0.6 0.444 0.975 0.262 0.878",
        "On the 10 test examples of client 0, B has 0.8 and A has 0.6. Their 95 % "
        "intervals, 0.444 to 0.975 and 0.262 to 0.878, overlap: 10 examples do not "
        "decide, so the average over clients decides.",
    ),
    (
        "choice.hostile 0",
        "Client 0 is malicious in this experiment. No model is suggested for it.",
    ),
    (
        "served.own Accuracy 0.9 10 0.555 0.997 1 3 0.833",
        "Accuracy of this client's own model: 0.9 on 10 test examples, 95 % interval "
        "0.555 to 0.997. Rank 1 of 3; the mean of these 3 is 0.833.",
    ),
    (
        "served.valid 12 0.75",
        "On the client's 12 validation examples, by which models are chosen, the model "
        "has 0.75.",
    ),
    (
        "gain.shared +0.4 0.5",
        "+0.4 compared with the shared model, which has 0.5 for this client.",
    ),
    (
        "lam.chosen 0.1",
        "λ = 0.1, chosen for this client. λ sets how close the client's model stays to "
        "the shared model.",
    ),
    (
        "certificate.stale 0000 1111 FILE COMMAND",
        "These certificates are for parameters with the SHA-256 0000…, but the model "
        "has 1111…: the model was changed after certification. Move FILE away and "
        "certify again: COMMAND",
    ),
    (
        "poisoning.under 1 3 WAYS mean accuracy 0.9",
        "1 of 3 clients are malicious: WAYS. The server combines updates by the mean. "
        "The accuracy of 0.9 above is the result under this attack.",
    ),
    (
        "rounds.undetected",
        "0 of its updates were dropped, clipped or downweighted: the server did not "
        "detect this client.",
    ),
    (
        "page.attack A accuracy 0.5 B 0.9 -0.4",
        "Under attack A has mean accuracy 0.5. Without the attack (B) it is 0.9, a "
        "change of -0.4.",
    ),
    (
        "answer.sure A B 15 20 4 accuracy higher lower +0.1 +0.05 +0.2 p=0.03",
        "A is ahead: higher accuracy than B for 15 of 20 clients, lower for 4. Mean "
        "difference +0.1, 95 % interval +0.05 to +0.2 (p=0.03).",
    ),
    (
        "answer.unsure A B 15 20 4 error lower higher -0.1 -0.2 +0.1 p=0.3",
        "A is first, but B may be as good: lower error for 15 of 20 clients, higher "
        "for 4. Mean difference -0.1; the 95 % interval, -0.2 to +0.1, contains 0 "
        "(p=0.3).",
    ),
    (
        "answer.behind A B 4 20 15 accuracy higher lower -0.1 -0.2 -0.05 p=0.03",
        "A is first on validation data, but behind B on test data: higher accuracy for "
        "4 of 20 clients, lower for 15. Mean difference -0.1, 95 % interval -0.2 to "
        "-0.05 (p=0.03).",
    ),
    (
        "page.losers A 2 9 less accuracy 6 1 3,7",
        "A: 2 of 9 clients lose by their own model (it has less accuracy than the "
        "shared model): 3,7. 6 gain, 1 equal.",
    ),
    (
        "page.loses A 2 9 less accuracy 6 1",
        "A: 2 of 9 clients lose by their own model (it has less accuracy than the "
        "shared model), 6 gain, 1 equal.",
    ),
]


def test_main_sentences_word_for_word():
    for given, sentence in SENTENCES:
        assert words(tuple(given.split())) == sentence
