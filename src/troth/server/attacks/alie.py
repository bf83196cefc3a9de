"""A little is enough.

References: baruch2019little.
"""

from statistics import NormalDist

from torch import Tensor

from troth.server.attacks import _crowd
from troth.types import Messages


def alie(messages: Messages, hostile: Tensor, *, z: float = 0.0) -> Messages:
    """Send mean − z·std of the benign updates from all malicious clients.

    u = μ − z·σ, where μ and σ (population, 1/k) are over the k benign rows: a shift
    that hides in their spread, in every coordinate the same way. A single benign row
    has no spread, and is sent as it is.

    Threat model: knows all benign updates of the round and how many clients take part;
    controls the messages of all malicious clients, which act as one.

    Departs: the paper lets the adversary estimate μ and σ from its own clients'
    updates; here it sees the benign ones, as is usual since. byzfl adds z·σ, with the
    sample's σ, which is √(k/(k−1)) as large.

    Args:
        messages: One update per client.
        hostile: [n] mask of malicious clients.
        z: Number of standard deviations; 0: as many as the paper's formula allows.
            These are next to none if few are malicious (`supported`); byzfl's default
            is 1.5. A negative z goes to the other side.

    Returns:
        The messages, with attacked updates.

    Example:
        >>> from troth.server.rules import messages
        >>> sent = messages([[1.0], [3.0], [9.0]])
        >>> alie(sent, sent.client == 2, z=1.5).update.tolist()
        [[1.0], [3.0], [0.5]]
    """
    _crowd.finite("alie", "z", z, means="0 means that of the paper's formula")
    z = z or supported(len(hostile), int(hostile.sum()))
    return _crowd.replaced(messages, hostile, lambda mean, std: mean - z * std)


def supported(n: int, f: int) -> float:
    """Return the z of the paper's formula (its z_max), for f malicious of n clients.

    s = ⌊n/2⌋ + 1 − f benign clients farther out than the adversary make a majority with
    it; z = Φ⁻¹((n−f−s)/(n−f)) leaves as many there, if updates are normal. The formula
    is meant for f near n/2. With f = 1 of an odd n, or f = 2 of an even one (2 of 10),
    it gives exactly 0: the benign mean, which helps the server. With f = 1 of an even n
    it gives a negative z near 0. Beyond, with two benign rows or more, z > 0 grows
    slowly: 0.18 for 3 of 10, 0.43 for 4 of 10, 0.29 for 20 of 100. For an attack by
    few, set z.

    Departs: where the formula gives Φ⁻¹(1) = ∞ (a malicious majority needs nobody) or
    Φ⁻¹(0), the share stops half a client short, at 1 − 1/(2(n−f)) or 1/(2(n−f)). With f
    = n the malicious clients count as the benign ones too.
    """
    benign = n - f or n
    share = (benign - (n // 2 + 1 - f)) / benign
    edge = 1 / (2 * benign)
    return NormalDist().inv_cdf(min(max(share, edge), 1 - edge))
