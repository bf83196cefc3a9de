"""A small read-only web server, for this machine or for users who have the token."""

import errno
import hmac
import ipaddress
import os
import socket
import urllib.parse
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from troth.reports.live.pages import Pages, Unknown, dumped
from troth.types import Refusal

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_COOKIE = "troth"
_TEXT, _HTML = "text/plain; charset=utf-8", "text/html; charset=utf-8"
_JSON = "application/json"


class Server(ThreadingHTTPServer):
    """Web server that shows the runs in a folder.

    On a loopback address, everyone on this machine may read the pages. On any other
    address, every request needs the token.

    Args:
        root: Folder with runs.
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one.
    """

    daemon_threads = True

    def __init__(self, root: Path, host: str = "127.0.0.1", port: int = 8137) -> None:
        if not root.is_dir():
            raise Refusal(
                f"{root} is not a folder; give the one with your runs: troth run "
                "writes into runs/"
            )
        self.pages = Pages(root)
        self.alone = _loopback(host)
        self.token = "" if self.alone else os.urandom(16).hex()
        if ":" in host:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            taken = getattr(error, "errno", 0) == errno.EADDRINUSE
            why = "is in use" if taken else f"cannot be listened on ({error})"
            raise Refusal(
                f"port {port} of {host} {why}; give another --port, or --port 0 for "
                "any free one"
            ) from None

    @property
    def url(self) -> str:
        """The address to open in a browser, with the token if one is needed."""
        host, port = str(self.server_address[0]), self.server_address[1]
        host = socket.gethostname() if host in ("0.0.0.0", "::") else host
        host = f"[{host}]" if ":" in host else host
        return f"http://{host}:{port}/" + (f"?token={self.token}" if self.token else "")

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore errors of connections that a browser closed."""


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "troth", ""
    timeout = 30

    def do_GET(self) -> None:
        """Answer a request. An error is answered by one line of text."""
        try:
            code, kind, text, more = self._answer()
        except Unknown as unknown:
            code, kind, text, more = 404, _TEXT, f"{unknown}\n", {}
        except Refusal as refusal:
            code, kind, text, more = 409, _TEXT, f"{refusal}\n", {}
        body = text.encode()
        self.send_response(code)
        for name, value in {**_HEADERS, "Content-Type": kind, **more}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET

    def _answer(self) -> tuple[int, str, str, dict[str, str]]:
        asked = urllib.parse.urlsplit(self.path)
        query = urllib.parse.parse_qs(asked.query)
        if not self._may(query.get("token", [""])[0]):
            return 403, _TEXT, "This needs the token that troth ui printed.\n", {}
        if "token" in query and asked.path == "/":  # from now on in a cookie
            cookie = f"{_COOKIE}={self.server.token}; HttpOnly; SameSite=Strict; Path=/"
            return 303, _TEXT, "", {"Location": "/", "Set-Cookie": cookie}
        pages, ids = self.server.pages, query.get("run", [])
        if asked.path == "/":
            return 200, _HTML, pages.index(), {}
        if asked.path == "/report":
            return 200, _HTML, pages.report(ids), {}
        if asked.path == "/api/runs":
            return 200, _JSON, dumped(pages.runs(query.get("known", [""])[0])), {}
        answers = {"live": pages.live, "settings": pages.settings}
        answers["clients"] = pages.clients
        answer = answers.get(asked.path.removeprefix("/api/"))
        if answer and asked.path.startswith("/api/"):
            return 200, _JSON, dumped(answer(ids)), {}
        raise Unknown("there is no such page; the runs are at /")

    def _may(self, given: str) -> bool:
        """Return whether a request may be answered.

        A server with a token requires it. On a loopback address, the `Host` header must
        name a loopback address, which prevents DNS rebinding.
        """
        if self.server.token:
            wanted = self.server.token.encode()
            return any(
                hmac.compare_digest(one.encode(errors="replace"), wanted)
                for one in (given, self._cookie())
            )
        host = self.headers.get("Host", "").rpartition(":")
        return _loopback((host[0] or host[2]).strip("[]"))

    def _cookie(self) -> str:
        try:
            found = SimpleCookie(self.headers.get("Cookie", "")).get(_COOKIE)
        except CookieError:
            return ""
        return found.value if found else ""

    def log_message(self, *ignored: object) -> None:
        """Log nothing."""
