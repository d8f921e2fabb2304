"""Check that every page of the built site fits on a phone: ``python docs/check_width.py docs/_build/html``.

Opens each page in Chromium, 420 pixels wide, and lists those that are wider, with the element that reaches furthest.
Tables, formulas and code may scroll inside their own boxes, the whole page or article may not. Exits with 1 if a page
is too wide, with 2 if there is no Chromium.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--hide-scrollbars",
         "--no-first-run", "--remote-debugging-pipe")  # fmt: skip
MEASURE = """(() => {
  const root = document.documentElement, wide = root.clientWidth;
  const box = e => getComputedStyle(e).overflowX !== "visible" && !e.querySelector("h1");  // h1: the whole article
  const apart = e => {  // in a box that scrolls or cuts its content, or in a drawer that is shut
    for (let p = e; p && p !== document.body; p = p.parentElement)
      if ((p !== e && box(p)) || getComputedStyle(p).position === "fixed") return true;
    return false;
  };
  const edge = e => {  // text may reach further than its element
    const {left, right, width} = e.getBoundingClientRect();
    return width === 0 ? 0 : box(e) ? right : Math.max(right, left + e.scrollWidth);
  };
  let furthest = null, right = wide;
  for (const e of document.body.querySelectorAll("*"))
    if (edge(e) > Math.max(wide + 1, right - 1) && !apart(e)) [furthest, right] = [e, Math.max(right, edge(e))];
  const names = e => e.tagName.toLowerCase() + (e.id ? "#" + e.id : "") + [...e.classList].map(c => "." + c).join("");
  const words = furthest && (furthest.textContent || "").trim().replace(/\\s+/g, " ").slice(0, 60);
  const width = Math.max(root.scrollWidth, Math.ceil(right));
  return {client: wide, width, furthest: furthest && names(furthest), words};
})()"""


class Browser:
    """A headless Chromium that is told what to do through a pipe (DevTools protocol), with one page."""

    def __init__(self, program: str, width: int) -> None:
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        start = ["sh", "-c", f'exec "$@" 3<&{theirs} 4>&{theirs_out}', "sh", program, *FLAGS]
        self.process = subprocess.Popen(
            [*start, f"--user-data-dir={self.profile.name}", "about:blank"],
            pass_fds=(theirs, theirs_out),
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs)
        os.close(theirs_out)
        self.out, self.answers = os.fdopen(ours_out, "wb"), os.fdopen(ours_in, "rb")
        self.sent, self.session = 0, {}
        page = next(t for t in self.tell("Target.getTargets")["targetInfos"] if t["type"] == "page")
        attached = self.tell("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self.session = {"sessionId": attached["sessionId"]}
        self.tell("Page.enable")
        self.tell("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=True)

    def tell(self, method: str, **parameters: Any) -> Any:
        """Send one command and return its result."""
        self.sent += 1
        message = {"id": self.sent, "method": method, "params": parameters, **self.session}
        self.out.write(json.dumps(message).encode() + b"\0")
        self.out.flush()
        return self.wait_for(lambda answer: answer.get("id") == self.sent)["result"]

    def wait_for(self, wanted: Any) -> Any:
        """Return the next message of this kind; others are dropped."""
        while True:
            message = bytearray()
            while (byte := self.answers.read(1)) != b"\0":
                if not byte:
                    sys.exit("Chromium has stopped. Does it start with --headless?")
                message += byte
            answer = json.loads(message)
            if "error" in answer:
                raise RuntimeError(answer["error"]["message"])
            if wanted(answer):
                return answer

    def open(self, page: Path) -> None:
        """Load a page, with everything in it."""
        self.tell("Page.navigate", url=page.resolve().as_uri())
        self.wait_for(lambda answer: answer.get("method") == "Page.loadEventFired")

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        return self.tell("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def close(self) -> None:
        """End Chromium and remove its files."""
        self.tell("Browser.close")
        self.process.wait(timeout=30)
        self.profile.cleanup()


def fault(browser: Browser, page: Path, width: int) -> str | None:
    """What is wrong with the width of a page, or None."""
    browser.open(page)
    found = browser.run(MEASURE)
    if found["client"] != width:
        return f"is laid out for {found['client']} pixels: its head lacks <meta name=viewport>"
    if found["width"] > width:
        return f"needs {found['width']} pixels for {found['furthest']} “{found['words']}”"
    return None


def main() -> int:
    """Check a folder of pages."""
    parser = argparse.ArgumentParser(description="Check that every page of the built site fits on a phone.")
    parser.add_argument("site", type=Path, help="folder of the built site, such as docs/_build/html")
    parser.add_argument("--width", type=int, default=420, help="in pixels")
    asked = parser.parse_args()
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        print("chromium not found")
        return 2
    pages = sorted(page for page in asked.site.rglob("*.html") if "<title>" in page.read_text(encoding="utf-8"))
    if not pages:
        parser.error(f"no pages in {asked.site}: build the site first, python -m sphinx docs {asked.site}")
    browser = Browser(program, asked.width)
    faults = {page: said for page in pages if (said := fault(browser, page, asked.width))}
    browser.close()
    for page, said in faults.items():
        print(f"{page.relative_to(asked.site)} {said}")
    print(f"{len(pages)} pages at {asked.width} pixels: {len(faults)} too wide")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
