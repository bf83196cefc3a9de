"""A real Chromium, driven by WebDriver, by plain HTTP."""

import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.request

_FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Browser:
    """One window of Chromium."""

    def __init__(self, place):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        null = subprocess.DEVNULL
        driver = [shutil.which("chromedriver") or "", f"--port={port}"]
        self._process = subprocess.Popen(driver, stdout=null, stderr=null)
        self._url = f"http://127.0.0.1:{port}"
        self._await()
        options = {
            "args": [*_FLAGS, f"--user-data-dir={place}"],
            "binary": shutil.which("chromium"),
        }
        logs = {"browser": "ALL", "performance": "ALL"}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": logs}
        body = {"capabilities": {"alwaysMatch": wanted}}
        self._session = self._call("POST", "/session", body)["sessionId"]

    def _await(self):
        for _ in range(200):
            try:
                self._call("GET", "/status")
                return
            except OSError:
                time.sleep(0.05)
        raise OSError("chromedriver does not answer")

    def _call(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, method=method)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=60) as answer:
                return json.loads(answer.read())["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()[:800]) from None

    def do(self, method, path, body=None):
        return self._call(method, f"/session/{self._session}{path}", body)

    def open(self, url, wait="document.documentElement.dataset.ready"):
        """Go there, and say how many seconds it took until it was ready."""
        self.do("POST", "/url", {"url": "about:blank"})
        self.log("browser"), self.log("performance")
        began = time.monotonic()
        self.do("POST", "/url", {"url": url})
        self.until(wait)
        return time.monotonic() - began

    def see(self, url, width=1200, height=900, dark=False):
        """Go there with a screen of this size."""
        self.look(width, height, dark)
        return self.open(url)

    def text(self, css):
        """What the first such element says."""
        return self.js("return document.querySelector(arguments[0]).textContent", css)

    def count(self, css):
        return self.js("return document.querySelectorAll(arguments[0]).length", css)

    def focus(self, css):
        self.js("document.querySelector(arguments[0]).focus()", css)

    def until(self, wait, seconds=20):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if found := self.js(f"return {wait}"):
                return found
            time.sleep(0.02)
        raise AssertionError(f"never came true: {wait}")

    def js(self, script, *given):
        return self.do("POST", "/execute/sync", {"script": script, "args": given})

    def later(self, script, *given):
        return self.do("POST", "/execute/async", {"script": script, "args": given})

    def find(self, css):
        body = {"using": "css selector", "value": css}
        return str(self.do("POST", "/element", body)[_ELEMENT])

    def type(self, css, text):
        self.do("POST", f"/element/{self.find(css)}/value", {"text": text})

    def press(self, *keys):
        """Keys to whatever has the focus."""
        self.strike((kind, key) for key in keys for kind in ("keyDown", "keyUp"))

    def chord(self, hold, key):
        """A key while another one is held down."""
        down, up = "keyDown", "keyUp"
        self.strike([(down, hold), (down, key), (up, key), (up, hold)])

    def strike(self, kinds):
        strokes = [{"type": kind, "value": key} for kind, key in kinds]
        keys = {"type": "key", "id": "k", "actions": strokes}
        self.do("POST", "/actions", {"actions": [keys]})

    def click(self, x, y):
        """A click at a position of the window."""
        every = ("mouseMoved", "mousePressed", "mouseReleased")
        for kind in every:
            at = {"x": x, "y": y, "button": "left", "clickCount": 1}
            self.cdp("Input.dispatchMouseEvent", type=kind, **at)

    def log(self, kind):
        return self.do("POST", "/se/log", {"type": kind})

    def requests(self):
        """Addresses asked for since the page was opened, but for data: ones."""
        events = [json.loads(e["message"])["message"] for e in self.log("performance")]
        sent = [e for e in events if e["method"] == "Network.requestWillBeSent"]
        urls = [str(e["params"]["request"]["url"]) for e in sent]
        return [url for url in urls if not url.startswith(("data:", "about:"))]

    def cdp(self, name, **given):
        return self.do("POST", "/goog/cdp/execute", {"cmd": name, "params": given})

    def look(self, width, height, dark=False, media=""):
        """A screen of this size, light or dark, or paper (media="print")."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1}
        self.cdp("Emulation.setDeviceMetricsOverride", mobile=False, **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.cdp("Emulation.setEmulatedMedia", media=media, features=[scheme])

    def pdf(self, file):
        file.write_bytes(base64.b64decode(self.do("POST", "/print", {})))

    def close(self):
        try:
            self.do("DELETE", "")
        finally:
            self._process.terminate()
            self._process.wait()
