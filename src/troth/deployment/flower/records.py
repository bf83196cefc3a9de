"""Convert broadcasts and replies to Flower's records and back, without pickle."""

from collections.abc import Mapping
from typing import Any

import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.common.constant import ErrorCode
from torch import Tensor

from troth.deployment.protocol import Expected, Wired, pack, unpack
from troth.deployment.site import Asked
from troth.types import Broadcast, Messages, Refusal

_ABOUT, _VECTORS = "about", "vectors"
_SENT = {"scale": float, "key": int, "round": int, "run": str}
_SENT |= {"loss": bool, "card": bool}
_LOST = (
    ErrorCode.MESSAGE_UNAVAILABLE,
    ErrorCode.REPLY_MESSAGE_UNAVAILABLE,
    ErrorCode.NODE_UNAVAILABLE,
)


def record(about: Mapping[str, Any], **vectors: Tensor) -> RecordDict:
    """Pack scalars and texts (`about`) and vectors; empty vectors are left out."""
    packed = {k: Array(*pack(v)) for k, v in vectors.items() if len(v)}
    content = RecordDict()
    content[_ABOUT], content[_VECTORS] = ConfigRecord(dict(about)), ArrayRecord(packed)
    return content


def parts(content: Any) -> tuple[dict[str, Any], dict[str, Wired]]:
    """Return the scalars and texts of a message, and its vectors, without checks.

    Raise Refusal if the content is not a message of Troth, or if it reports an error.
    """
    if not isinstance(content, RecordDict) or set(content) != {_ABOUT, _VECTORS}:
        raise Refusal("it does not hold the two records of a Troth message")
    about, vectors = content[_ABOUT], content[_VECTORS]
    if not isinstance(about, ConfigRecord) or not isinstance(vectors, ArrayRecord):
        raise Refusal("its records are of other kinds")
    words = dict(about)
    if set(words) == {"refused"}:
        raise Refusal(f"it says: {ascii(words['refused'])[1:-1][:300]}")
    return words, dict(vectors)


def sent(broadcast: Broadcast, expected: Expected) -> RecordDict:
    """Pack the server's message: the broadcast, and what a reply must contain.

    The result is sent to every site of the round.
    """
    about = {"scale": float(broadcast.scale), "key": int(broadcast.key)}
    about |= {key: getattr(expected, key) for key in Asked._fields}
    return record(about, w=broadcast.w, extra=broadcast.extra)


def received(content: RecordDict, w0: Tensor, extra: int) -> tuple[Broadcast, Asked]:
    """Unpack the server's message at a site; raise Refusal if it is not valid.

    Args:
        content: The message.
        w0: The site's initial model, from which length, type and device are taken.
        extra: Length of the solver's extra vector, such as a control variate; 0: none.

    Returns:
        The broadcast, and what the server requests.
    """
    about, vectors = parts(content)
    kinds = {key: type(value) for key, value in about.items()}
    if kinds != _SENT:
        raise Refusal("the server's message lacks fields; does the server run troth?")
    if set(vectors) != {"w"} | ({"extra"} if extra else set()):
        raise Refusal(f"the server sends {ascii(sorted(vectors))[:60]}")
    w = unpack("w", vectors["w"], len(w0), w0.dtype).to(w0.device)
    more = w0.new_zeros(0)
    if extra:
        more = unpack("extra", vectors["extra"], extra, w0.dtype).to(w0.device)
    key = torch.tensor(about["key"], device=w0.device)
    scale = torch.full_like(w0[0], about["scale"])
    asked = Asked(*(about[key] for key in Asked._fields))
    return Broadcast(w, more, scale, key), asked


def reply(messages: Messages, name: str, asked: Asked, card: str) -> RecordDict:
    """Pack a site's reply: its update, and the scores of its models (`card`, JSON)."""
    about = {"round": asked.round, "run": asked.run, "name": name, "card": card}
    about |= {"size": int(messages.size[0]), "loss": float(messages.loss[0])}
    return record(about, update=messages.update[0], extra=messages.extra[0])


def lost(message: Message | Exception) -> bool:
    """Return whether Flower reports that a node was not reached or did not answer."""
    if isinstance(message, Exception) or not message.has_error():
        return False
    return message.error.code in _LOST


def content(message: Message | Exception) -> RecordDict:
    """Return the content of a reply, or raise Refusal if there is none."""
    if isinstance(message, Refusal):
        raise message
    if isinstance(message, Exception):
        raise Refusal(f"its bytes cannot be read ({type(message).__name__})")
    if not message.has_content():
        raise Refusal(f"its node says {ascii(message.error.reason)[:200]}")
    return message.content
