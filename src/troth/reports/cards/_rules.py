"""Every sentence that a card can hold: a rule, and places for its values.

The part of a rule's name before the dot is what the sentence is about. No adjective
stands without a number.
"""

from __future__ import annotations

import re

Said = tuple[str, ...]
"""The name of a rule, and its values as they are to be read."""

ABOUT = {
    "choice": "Which model to use",
    "served": "How well it is served",
    "gain": "What that gains",
    "lam": "How near the shared model it stays",
    "certificate": "What is proven",
    "shortcuts": "What it relies on",
    "poisoning": "Poisoning",
    "data": "What it rests on",
    "rounds": "How it took part",
    "provenance": "Where it comes from",
}
"""What sentences are about, in the order of a card."""

_BESIDE = (
    "On test data {0} has {2} {3} than {1}, on average over {4} clients: better for "
    "{5}, worse for {6}, equal for {7}. "
)
_STUDENT = "Student's 95 % interval of that difference, {8} to {9},"
_RANKS = "Wilcoxon's signed ranks give {10},"

RULES = {
    "choice.hostile": "Client {0} is marked hostile: the experiment made it so, which "
    "no filter had to find out. No model is suggested for it.",
    "choice.only": "Use {0} for client {1}: it is the only model here. Its mean {2} "
    "on {3} data of {4} benign clients is {5}.",
    "choice.average": "Use {0} for client {1}: of the {2} models here it has the {3} "
    "mean {4} on {5} data of {6} benign clients, {7}; next comes {8} with {9}.",
    "choice.own": "Use {0} for client {1}: on its {2} test examples it has {3} "
    "(95 % interval {4} to {5}), and {6}, which is first on average, has {7} ({8} to "
    "{9}); the two intervals do not meet.",
    "choice.sure": f"{_BESIDE}Two tests agree that it is ahead: {_STUDENT} leaves out "
    f"0, and {_RANKS} below 0.05.",
    "choice.behind": f"{_BESIDE}Two tests agree that it is behind: {_STUDENT} leaves "
    f"out 0, and {_RANKS} below 0.05. Test data are not there to choose by.",
    "choice.unsure": f"{_BESIDE}Two tests agree that this may be chance: {_STUDENT} "
    f"holds 0, and {_RANKS} not below 0.05.",
    "choice.interval": f"{_BESIDE}Two tests disagree on whether this may be chance, so "
    f"that it stays open: {_STUDENT} leaves out 0, but {_RANKS} not below 0.05.",
    "choice.ranks": f"{_BESIDE}Two tests disagree on whether this may be chance, so "
    f"that it stays open: {_STUDENT} holds 0, but {_RANKS} below 0.05.",
    "choice.few": "Clients that have a test result by both {0} and {1}: {2}, too few "
    "for a 95 % interval.",
    "choice.agrees": "On the {0} test examples of client {1} it has {2}, {3} than "
    "every other model here.",
    "choice.equal": "On the {0} test examples of client {1} it has {2}, and just as "
    "much has {3}; no model here has {4}.",
    "choice.chance": "On the {0} test examples of client {1} {2} has {3}, and {4} has "
    "{5}. Their 95 % intervals, {6} to {7} and {8} to {9}, overlap: {0} examples do "
    "not decide, and the average over clients does.",
    "choice.differs": "On the {0} test examples of client {1} {2} has {3}, and {4} has "
    "{5}; for one client no interval is known, and the average over clients decides.",
    "choice.untested": "Client {0} has no test result of its own.",
    "choice.what": "The models of run {0}: {1}.",
    "choice.unsaved": "Its parameters are not in the folder (output.personal). To have "
    "them, train it again into a new folder (--out), and keep them: {0}",
    "choice.command": "To predict with it: {0}",
    "choice.npz": 'FILE.npz is yours, written by np.savez("FILE.npz", x=…): x '
    "holds the inputs, [examples, {0}], as the data had them. It may hold their true "
    "labels too, y=…, to be checked.",
    "choice.table": "FILE.csv is yours: a table with the columns that the training "
    "data had.",
    "choice.module": "That is a torch module: it takes inputs [examples, {0}], as the "
    "data had them.",
    "served.own": "{0} of its own model: {1} on {2} test examples, 95 % interval {3} "
    "to {4}. Rank {5} of {6}; the mean of these {6} is {7}.",
    "served.plain": "{0} of its own model: {1} on {2} test examples. Rank {3} of {4}; "
    "the mean of these {4} is {5}.",
    "served.shared": "It has no model of its own in this run. {0} of the shared model: "
    "{1} on {2} test examples, 95 % interval {3} to {4}. Rank {5} of {6}; the mean of "
    "these {6} is {7}.",
    "served.shared_plain": "It has no model of its own in this run. {0} of the shared "
    "model: {1} on {2} test examples. Rank {3} of {4}; the mean of these {4} is {5}.",
    "served.valid": "On its {0} validation examples, which models are chosen by, it "
    "has {1}.",
    "served.hostile": "{0} of its model: {1} on {2} test examples. It is marked "
    "hostile, and has no rank.",
    "served.untested": "It has no test examples: nothing is known of its {0}.",
    "served.passed": "It was not evaluated: this run looked at {0} of {1} clients "
    "(evaluate.clients).",
    "gain.shared": "{0} against the shared model, which has {1} here.",
    "gain.local": "{0} against training alone ({1}), which has {2} here.",
    "gain.local_missing": "What training alone gives is not known. To know it, train "
    "that too, into a new folder (--out): {0}",
    "gain.both": "Then both on one page: {0}",
    "lam.chosen": "λ = {0}, chosen for this client. It weighs how near its model stays "
    "to the shared one.",
    "lam.set": "λ = {0}, which the experiment sets for all clients alike: nobody chose "
    "it. It weighs how near a model stays to the shared one.",
    "lam.told": "{0} = {1}, as its personalizer has it.",
    "certificate.half": "{0}, σ = {1}: at least half of the {2} test examples looked "
    "at are right and proven to stay so while the input changes by less than {3} "
    "({4}). Each proof holds with probability {5}, of the smoothed model. The mean "
    "radius is {6}, 0 where the class is wrong.",
    "certificate.fewer": "{0}, σ = {1}: {2} of the {3} test examples looked at are "
    "right and proven to stay so within some radius above 0 ({4}), fewer than half. "
    "Each proof holds with probability {5}, of the smoothed model. The mean radius is "
    "{6}, 0 where the class is wrong.",
    "certificate.stale": "These proofs speak of parameters {0}…, and the model has "
    "{1}…: it was changed since. Move {2} away, and prove it anew: {3}",
    "certificate.missing": "Nothing is proven of its predictions. To prove how far an "
    "input may change, in a way (transform) and under noise (sigma) that you choose: "
    "{0}",
    "certificate.unsaved": "Nothing is proven of its predictions, and its parameters "
    "are not in the folder. To have them, train it again into a new folder (--out): "
    "{0}",
    "certificate.never": "Nothing can be proven here: certificates are about classes, "
    "one of {0} or more an example, and these models predict something else.",
    "shortcuts.above": "On {0} adversarial examples of the shared model it is right on "
    "{1}, the shared one on {2}: a change of {3}, 95 % interval {4} to {5}, above the "
    "limit of {6}. It relies on features that the shared model does not; whether they "
    "are spurious, this does not say.",
    "shortcuts.below": "On {0} adversarial examples of the shared model it is right on "
    "{1}, the shared one on {2}: a change of {3}, 95 % interval {4} to {5}, not above "
    "the limit of {6}.",
    "shortcuts.open": "On {0} adversarial examples of the shared model it is right on "
    "{1}, the shared one on {2}: a change of {3}. Its 95 % interval, {4} to {5}, holds "
    "the limit of {6}: {0} examples do not settle it.",
    "shortcuts.biased": "On {0} conflicting examples its accuracy is lower by {1}, "
    "95 % interval {2} to {3}, above the limit of {4}: it leans on the shortcut.",
    "shortcuts.unbiased": "On {0} conflicting examples its accuracy is lower by {1}, "
    "95 % interval {2} to {3}, not above the limit of {4}.",
    "shortcuts.bias_open": "On {0} conflicting examples its accuracy is lower by {1}; "
    "the 95 % interval, {2} to {3}, holds the limit of {4}.",
    "shortcuts.empty": "The audit found {0} examples of it to look at.",
    "shortcuts.shared": "It has no model of its own in this run to audit.",
    "shortcuts.never": "An audit counts which classes are right, and these models "
    "predict numbers.",
    "shortcuts.missing": "What it relies on was not looked at. To look: {0}",
    "shortcuts.unsaved": "What it relies on was not looked at, and its parameters are "
    "not in the folder. To have them, train it again into a new folder (--out): {0}",
    "poisoning.under": "{0} of {1} clients are marked hostile: {2}. The server puts "
    "reports together by {3}, and the {4} of {5} above is under this attack.",
    "poisoning.apart": "{0} of {1} clients are marked hostile: {2}. This model never "
    "met them: it was trained on its client's data alone, and no attack on the "
    "federation is in the {3} of {4} above.",
    "poisoning.one": "Client {0} is one of them.",
    "poisoning.idle": "{0} of {1} clients are marked hostile, and do nothing in this "
    "run.",
    "poisoning.clean": "0 of {0} clients of this run are marked hostile.",
    "poisoning.without": "Where nobody attacks ({0}) it has {1}; here {2}, a change of "
    "{3}. The mean over benign clients goes from {4} to {5}.",
    "poisoning.within": "Where hostile clients attack ({0}) it has {1}, a change of "
    "{2} from its {3} here. The mean over benign clients goes from {4} to {5}.",
    "poisoning.moved": "That attack moved the shared model by {0} (ℓ2 norm of the "
    "difference), {1} of the norm of the one without it.",
    "poisoning.broke": "Under that attack the shared model is not finite in {0} of its "
    "{1} tensors.",
    "poisoning.no_twin": "What it has where nobody attacks is not known. To know it, "
    "train the same without the attack, into a new folder (--out): {0}",
    "poisoning.try": "What an attack would do is not known. To try one, into a new "
    "folder (--out): {0}",
    "poisoning.both": "Then both on one page: {0}",
    "data.sizes": "{0} training examples; {1} for validation and {2} for testing were "
    "kept apart.",
    "data.newcomer": "It never took part: it was served after the last round.",
    "rounds.asked": "Asked in {0} of {1} rounds: in each the server draws {2} of {3} "
    "clients, and only these train and report.",
    "rounds.every": "Asked in {0} of {1} rounds: in each the server asks all of {2} "
    "clients that are there.",
    "rounds.away": "It did not answer {0} times, and was cut off {1} times.",
    "rounds.verdicts": "Of its reports {0}, by rules that do not know who is marked "
    "hostile.",
    "rounds.undetected": "Of its reports 0 were dropped, clipped or weighed down: no "
    "rule detected it.",
    "provenance.run": "Run {0}, experiment {1}, seed {2}; Troth {3}, Python {4}, torch "
    "{5}; revision {6}.",
    "provenance.parameters": "SHA-256 of its parameters: {0}",
    "provenance.unsaved": "Its parameters are not in the folder, and have no hash.",
    "provenance.hash": "Its parameters were not hashed, for {0} of them are here. To "
    "have them, and hash them: {1}",
}


def words(said: Said) -> str:
    """The sentence that a rule makes of its values."""
    return re.sub(r"\{(\d+)\}", lambda at: said[1 + int(at[1])], RULES[said[0]])
