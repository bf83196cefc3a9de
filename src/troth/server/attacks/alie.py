"""ALIE, "a little is enough": a shift within the spread of the benign updates.

References: baruch2019little.
"""

from statistics import NormalDist

from torch import Tensor

from troth.server.attacks import _crowd
from troth.types import Messages


def alie(messages: Messages, hostile: Tensor, *, z: float = 0.0) -> Messages:
    """Send mean − z·std of the benign updates from all malicious clients.

    u = μ − z·σ, where μ and σ (population, 1/k) are over the k benign updates. In every
    coordinate, the shift hides in the spread of the benign updates. A single benign
    update has no spread and is sent unchanged.

    Threat model: knows all benign updates of the round and how many clients take part;
    controls the messages of all malicious clients, which act as one.

    Departs: the paper's adversary estimates μ and σ from its own clients' updates. Here
    it knows the benign updates, as is usual in later work. The package byzfl adds z·σ,
    with the sample standard deviation, which is √(k/(k−1)) as large.

    Args:
        messages: One update per client.
        hostile: [n] mask of malicious clients.
        z: Number of standard deviations of the shift. 0 means the number from the
            paper's formula, which is near 0 if few clients are malicious. The default
            of the package byzfl is 1.5. A negative z shifts to the other side.

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

    A majority needs s = ⌊n/2⌋ + 1 − f benign clients in addition to the f malicious
    ones. If the updates are normal, z = Φ⁻¹((n−f−s)/(n−f)) leaves s benign clients
    farther from the mean than the malicious ones. The formula is meant for f near n/2.
    With f = 1 of an odd n, or f = 2 of an even n (2 of 10), it gives exactly 0: the
    malicious clients send the benign mean, which helps the server. With f = 1 of an
    even n, it gives a negative z near 0. For larger f, if there are at least two benign
    updates, z > 0 grows slowly: 0.18 for 3 of 10, 0.43 for 4 of 10, 0.29 for 20 of 100.
    If few clients are malicious, set z.

    Departs: the formula gives Φ⁻¹(1) = ∞ if the malicious clients alone are a majority,
    and it may also give Φ⁻¹(0). In these cases the argument of Φ⁻¹ is limited to 1 −
    1/(2(n−f)) or 1/(2(n−f)), half a client from the end. With f = n, the malicious
    clients also count as the benign ones.
    """
    benign = n - f or n
    share = (benign - (n // 2 + 1 - f)) / benign
    edge = 1 / (2 * benign)
    return NormalDist().inv_cdf(min(max(share, edge), 1 - edge))
