"""The function behind `troth client`, which runs a site of a federation.

The Flower app in `client` answers messages in this process. After a connection error,
the site connects again, and waits longer after each failed attempt.
"""

import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from flwr.app import Context, Error, Message, RecordDict
from flwr.common.constant import ErrorCode

from troth.deployment import site
from troth.deployment.flower import client, keys, records, transport
from troth.deployment.flower.server import Say
from troth.deployment.flower.transport import Post, Way
from troth.types import Refusal

_SOON, _LATE = 0.1, 2.0  # shortest and longest pause, in s, between requests
_FIRST, _LAST = 1.0, 5.0  # shortest and longest pause, in s, between connections


def take_part(
    experiment: Path,
    address: str,
    *,
    name: str,
    data: str,
    say: Say,
    state: Path,
    key: Path | None = None,
    ca: Path | None = None,
    share_personal: bool = False,
    insecure: bool = False,
    tries: int = 1_000_000,
) -> None:
    """Take part in a federation as one of its sites, until the process is stopped.

    Args:
        experiment: Experiment file.
        address: HOST:PORT of the server.
        name: Name of this site, one of `deployment.sites`.
        data: File with this site's data, or "experiment" for the data that the site has
            when the experiment is simulated.
        say: Function that prints lines for people.
        state: Folder for the site's state and model.
        key: File with the site's private key.
        ca: Certificate that signed the server's certificate.
        share_personal: Allow messages that reveal the personal model.
        insecure: Use no encryption and check no identities; `key` and `ca` are not
            needed.
        tries: Number of consecutive failed attempts to connect after which Refusal is
            raised.
    """
    if not insecure and (key is None or ca is None):
        raise Refusal(
            "without --tls CA.pem and --keys PRIVATE_KEY nothing is encrypted and "
            "the server cannot check who this site is; give both, or --insecure"
        )
    host, _, port = address.rpartition(":")
    if not host or "/" in host or not port.isdecimal():
        raise Refusal(
            f"the server's address '{address}' must be HOST:PORT, such as "
            "hub.example:8000, without https://"
        )
    for file in (key, ca):
        if file is not None and not file.is_file():
            raise Refusal(f"there is no file {file}; give one that exists")
    trusted = None if insecure or ca is None else _trusted(ca)
    own = keys.private(None if insecure else key)
    config = {
        "experiment": str(experiment.absolute()),
        "name": name,
        "data": data if data == site.SIMULATED else str(Path(data).absolute()),
        "state": str(state.absolute()),
        "share-personal": share_personal,
    }
    made, _ = client.configured(config)
    say(f"{name}: {made.size} training examples; looking for a server at {address}")
    state.mkdir(parents=True, exist_ok=True)
    attend(Way(address, own, trusted, state / "node"), config, say, tries)


def _trusted(ca: Path) -> bytes:
    """Return the content of a certificate file; raise Refusal if it is none."""
    try:
        ssl.create_default_context(cafile=str(ca))
    except ssl.SSLError as error:
        raise Refusal(
            f"{ca} is no certificate ({error.reason}); give --tls the file ca.pem from "
            "the operator of the server"
        ) from None
    return ca.read_bytes()


def attend(way: Way, config: Mapping[str, Any], say: Say, tries: int) -> None:
    """Answer the server's messages; if the server cannot be reached, try again.

    After `tries` consecutive failed attempts, raise Refusal.
    """
    failed, pause = 0, _FIRST
    while failed < tries:
        try:
            with transport.connected(way) as post:
                failed, pause = 0, _FIRST
                say(f"connected to {way.address}")
                _answer_all(post, config, say)
        except transport.FAILED as error:
            failed += 1
            why = transport.why(error)
            what = f"cannot reach the server at {way.address}: {why}; trying again"
            if pause < _LAST:
                say(f"{what} in {pause:.0f} s")
            elif failed % 100 == 4:  # print only every hundredth attempt
                say(f"{what} every {pause:.0f} s")
            time.sleep(pause)
            pause = min(2 * pause, _LAST)
    raise Refusal(f"cannot reach the server at {way.address}; is it running?")


def _answer_all(post: Post, config: Mapping[str, Any], say: Say) -> None:
    """Request messages and answer them, until the connection fails.

    Without a message, the pause between requests grows; after a message it is short.
    """
    pause = _SOON
    while True:
        message = post.pull()
        if message is None:
            time.sleep(pause)
            pause = min(1.5 * pause, _LATE)
            continue
        reply = answer(message, post.node.node_id, config)
        post.push(reply)
        say(_line(message, reply))
        pause = _SOON


def answer(message: Message, node: int, config: Mapping[str, Any]) -> Message:
    """Return the Flower app's reply to a message, or an error if the app fails."""
    run = message.metadata.run_id
    transport.identify(run, node)
    context = Context(run, node, dict(config), RecordDict(), {})
    try:
        return client.app(message=message, context=context)
    except Exception as error:  # such as too little memory on the device
        said = Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, type(error).__name__)
        return Message(said, reply_to=message)


def _line(message: Message, reply: Message) -> str:
    what = {"query": "greeted the server", "train": "trained and answered"}
    done = what.get(message.metadata.message_type, "finished; model and card saved")
    try:
        records.parts(reply.content if reply.has_content() else None)
    except Refusal as refusal:
        done = f"takes no part: {refusal}"
    return f"round {message.metadata.group_id}: {done}"
