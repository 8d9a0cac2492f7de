"""A headless Chromium, driven over its DevTools pipe; standard library only.

    with Browser(shots_folder) as b:
        page = b.open("/path/report.html", scheme="dark", width=1440, height=1000)
        page.value("document.title"); page.click("#verdict"); page.key("j"); page.shot("name")

Everything that a page must not do is remembered: requests beyond its own file, exceptions, messages of
the console, dialogs.
"""
import base64, fcntl, json, os, pathlib, select, shutil, signal, subprocess, tempfile, time

PATIENCE_S = 60
KEYS = {"Enter": 13, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38, "ArrowRight": 39, "ArrowLeft": 37, "End": 35,
        "Home": 36, "Tab": 9, "PageDown": 34}


class Browser:
    def __init__(self, shots=None):
        self.shots, self.folder = shots, tempfile.mkdtemp()
        down, up = os.pipe(), os.pipe()  # what Chromium reads on 3, and writes on 4

        def arrange():
            a, b = fcntl.fcntl(down[0], fcntl.F_DUPFD, 10), fcntl.fcntl(up[1], fcntl.F_DUPFD, 10)
            os.dup2(a, 3), os.dup2(b, 4)

        self.process = subprocess.Popen(
            [shutil.which("chromium"), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-pipe",
             "--hide-scrollbars", "--user-data-dir=" + self.folder, "about:blank"],
            preexec_fn=arrange, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(down[0]), os.close(up[1])
        self.to, self.of, self.held, self.count, self.events = down[1], up[0], b"", 0, []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)  # a group of our own making
        except ProcessLookupError:
            pass
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def receive(self, until):
        while b"\0" not in self.held:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.of], [], [], left)[0]:
                raise TimeoutError("Chromium says nothing")
            piece = os.read(self.of, 1 << 20)
            if not piece:
                raise EOFError("Chromium is gone")
            self.held += piece
        line, self.held = self.held.split(b"\0", 1)
        return json.loads(line)

    def call(self, method, session=None, **params):
        self.count += 1
        message = {"id": self.count, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        until = time.monotonic() + PATIENCE_S
        while True:
            got = self.receive(until)
            if got.get("id") == self.count:
                if "error" in got:
                    raise RuntimeError(method + ": " + got["error"]["message"])
                return got["result"]
            self.events.append(got)

    def open(self, path, **how):
        return Page(self, path, **how)


class Page:
    def __init__(self, browser, path, scheme="light", width=1440, height=1000, scale=1, anchor="", scripts=True):
        self.browser = browser
        self.target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.url = pathlib.Path(path).resolve().as_uri() + anchor
        self.call("Page.navigate", url=self.url)
        self.until("document.readyState === 'complete' && location.protocol === 'file:'")

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def value(self, expression):
        """An expression's value. The page's policy allows no eval; DevTools ask nobody."""
        got = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in got:
            raise RuntimeError(expression + ": " + json.dumps(got["exceptionDetails"])[:400])
        return got["result"].get("value")

    def until(self, expression):
        end = time.monotonic() + PATIENCE_S
        while not self.value(expression):
            if time.monotonic() > end:
                raise TimeoutError(expression)
            time.sleep(0.05)

    def click(self, selector):
        place = self.value("(function () { var e = document.querySelector(%s); e.scrollIntoView({block: 'center'}); "
                           "var r = e.getBoundingClientRect(); return {x: r.left + r.width / 2, y: r.top + r.height / 2}; })()" % json.dumps(selector))
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=place["x"], y=place["y"], button="left", clickCount=1)

    def key(self, key):
        plain = {"key": key, "windowsVirtualKeyCode": KEYS.get(key, ord(key[0].upper()))}
        text = {"text": "\r" if key == "Enter" else key} if key == "Enter" or len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **plain, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **plain)

    def type(self, text):
        for letter in text:
            self.key(letter)

    def shot(self, name, full=False):
        if self.browser.shots:
            png = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=full)["data"]
            with open(os.path.join(self.browser.shots, name + ".png"), "wb") as file:
                file.write(base64.b64decode(png))

    def misdeeds(self):
        """What it did that it must not: every request but its own file and data:, errors, dialogs."""
        self.value("1")
        bad = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            params = event["params"]
            if event["method"] == "Network.requestWillBeSent":
                url = params["request"]["url"]
                if url.split("#")[0] != self.url.split("#")[0] and not url.startswith("data:"):
                    bad.append("asked for " + url[:200])
            elif event["method"] in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled", "Page.javascriptDialogOpening"):
                bad.append(event["method"] + " " + json.dumps(params)[:400])
        return bad

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)
