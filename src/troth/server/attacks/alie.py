"""ALIE, "a little is enough": a shift within the spread of the benign updates.

References: baruch2019little.
"""

from statistics import NormalDist

from torch import Tensor

from troth.server.attacks import _crowd
from troth.types import Messages


def alie(messages: Messages, hostile: Tensor, *, z: float = 0.0) -> Messages:
    """Send mean − z·std of the benign updates from all malicious clients.

    u = μ − z·σ, where μ is the mean and σ the population standard deviation (1/k) of
    the k benign updates, in every coordinate. The shift is hidden by the spread of the
    benign updates. A single benign update has no spread (σ = 0), and is sent unchanged.

    Threat model: knows all benign updates of the round and how many clients take part;
    controls the messages of all malicious clients, which act as one.

    Departs: in the paper, the adversary estimates μ and σ from the updates of malicious
    clients. Here it knows the benign updates, as is usual in later work. The package
    byzfl sends μ + z·σ with the sample standard deviation (1/(k−1)).

    Args:
        messages: Messages of n clients, with one update each.
        hostile: [n] mask of malicious clients.
        z: Number of standard deviations of the shift. 0 means the value of the paper's
            formula, which is near 0 if few clients are malicious. The default of the
            package byzfl is 1.5. A negative z reverses the shift.

    Returns:
        The messages, with the malicious updates replaced.

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
    """Return z by the paper's formula (z_max), for f malicious clients among n.

    A majority consists of the f malicious and s = ⌊n/2⌋ + 1 − f benign clients. If
    updates are normally distributed, with z = Φ⁻¹((n−f−s)/(n−f)) about s benign updates
    are farther from the mean than the malicious ones (Φ is the normal distribution
    function). The formula is meant for f near n/2. With f = 1 of an odd n, or f = 2 of
    an even n (2 of 10), it gives exactly 0: the malicious clients send the benign mean,
    which helps the server. With f = 1 of an even n, it gives a negative z near 0. For
    larger f, if there are at least two benign updates, z > 0 grows slowly: 0.18 for 3
    of 10, 0.43 for 4 of 10, 0.29 for 20 of 100. If few clients are malicious, set z.

    Departs: the formula gives Φ⁻¹(1) = ∞ if the malicious clients alone are a majority,
    and it may also give Φ⁻¹(0). So the argument of Φ⁻¹ is limited to the interval from
    1/(2(n−f)) to 1 − 1/(2(n−f)). With f = n, n replaces n − f.
    """
    benign = n - f or n
    share = (benign - (n // 2 + 1 - f)) / benign
    edge = 1 / (2 * benign)
    return NormalDist().inv_cdf(min(max(share, edge), 1 - edge))
