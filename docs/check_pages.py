"""Check the pages of the built site in Chromium: ``python docs/check_pages.py docs/_build/html``.

At 420 pixels no page is wider than the screen: code and formulas may scroll inside their own boxes, the whole page or
article may not. At 1280 pixels no table of words is cut off. In the light and the dark theme every text has a contrast
of at least 4.5 to what is behind it (3 if it is large, as WCAG 2 AA says). Every picture has a text, and nothing is
loaded from elsewhere. Exits with 1 if a page has a fault, with 2 if there is no Chromium.
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
PHONE, DESK = 420, 1280  # pixels
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

CUT = """(() => {
  const cut = [...document.querySelectorAll("article table.table")].filter(e => {
    const box = e.closest(".pst-scrollable-table-container") || e.parentElement;
    return box.scrollWidth > box.clientWidth + 1;
  });
  return cut.map(e => `${e.scrollWidth} pixels: “${e.textContent.trim().replace(/\\s+/g, " ").slice(0, 50)}”`);
})()"""
BARE = """(() => {
  const bare = [...document.querySelectorAll("img")].filter(e => !(e.getAttribute("alt") || "").trim());
  const loaded = performance.getEntriesByType("resource").map(e => e.name).filter(name => /^https?:/.test(name));
  return [...bare.map(e => `no text for the picture ${e.getAttribute("src")}`), ...loaded.map(name => `loads ${name}`)];
})()"""
FAINT = """(theme => {
  document.documentElement.dataset.theme = theme;
  document.documentElement.dataset.mode = theme;
  const canvas = Object.assign(document.createElement("canvas"), {width: 1, height: 1}).getContext("2d",
    {willReadFrequently: true});
  const known = new Map();
  const colour = css => {  // of any notation, as red, green, blue and opacity
    if (!known.has(css)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = css;
      canvas.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
      known.set(css, [r, g, b, a / 255]);
    }
    return known.get(css);
  };
  const over = (front, back) => front.slice(0, 3).map((x, i) => front[3] * x + (1 - front[3]) * back[i]);
  const behind = e => {
    const layers = [];
    for (let p = e; p; p = p.parentElement) layers.push(colour(getComputedStyle(p).backgroundColor));
    return layers.reverse().reduce((back, front) => over(front, back), [255, 255, 255]);
  };
  const light = rgb => {
    const [r, g, b] = rgb.map(x => (x /= 255) <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const faint = new Map();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement, style = getComputedStyle(e);
    const seen = e.checkVisibility({opacityProperty: true, visibilityProperty: true});
    if (!seen || !walker.currentNode.data.trim()) continue;
    if (e.closest("script, style, noscript, svg, [aria-hidden=true], dialog, .headerlink, .sr-only")) continue;
    const back = behind(e), ink = light(over(colour(style.color), back)), paper = light(back);
    const ratio = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && +style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) {
      const what = `${style.color} on rgb(${back.map(Math.round)}) has ${ratio.toFixed(1)}`;
      faint.set(what, faint.get(what) || walker.currentNode.data.trim().slice(0, 40));
    }
  }
  return [...faint].map(([what, words]) => `${theme}: ${what}: “${words}”`);
})"""


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
        self.wide(width)

    def wide(self, width: int) -> None:
        """Show pages at this width."""
        phone = width < 600
        self.tell("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=phone)

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


def faults(browser: Browser, page: Path) -> list[str]:
    """What is wrong with a page."""
    browser.wide(PHONE)
    browser.open(page)
    found = browser.run(MEASURE)
    said = []
    if found["client"] != PHONE:
        said.append(f"is laid out for {found['client']} pixels: its head lacks <meta name=viewport>")
    elif found["width"] > PHONE:
        said.append(f"needs {found['width']} pixels for {found['furthest']} “{found['words']}”")
    said += browser.run(BARE)
    for theme in ("light", "dark"):
        said += browser.run(f"{FAINT}('{theme}')")
    browser.wide(DESK)
    return said + [f"cuts off a table of {cut}" for cut in browser.run(CUT)]


def main() -> int:
    """Check a folder of pages."""
    parser = argparse.ArgumentParser(description="Check the pages of the built site in Chromium.")
    parser.add_argument("site", type=Path, help="folder of the built site, such as docs/_build/html")
    asked = parser.parse_args()
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        print("chromium not found")
        return 2
    pages = sorted(page for page in asked.site.rglob("*.html") if "<title>" in page.read_text(encoding="utf-8"))
    if not pages:
        parser.error(f"no pages in {asked.site}: build the site first, python -m sphinx docs {asked.site}")
    browser = Browser(program, PHONE)
    bad = 0
    for page in pages:
        said = faults(browser, page)
        bad += bool(said)
        for line in said:
            print(f"{page.relative_to(asked.site)}: {line}", flush=True)
    browser.close()
    print(f"{len(pages)} pages, {bad} with faults")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
