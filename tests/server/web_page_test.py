#!/usr/bin/env python3
"""web_page_test.py FAKE_SERVER CHROMIUM SCREENSHOTS [NAME...]: the web page, used as people use it.
NAME: of tests that are to run; all unless given."""
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import urllib.request

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect, sync_playwright

SERVER, CHROMIUM, SCREENSHOTS = sys.argv[1:4]
KEY = "key-of-the-test"
SWEEP_MS = 50  # for five lines
PATIENCE_MS = 30_000
PHONE = {"width": 360, "height": 740}
DESKTOP = {"width": 1280, "height": 900}


def line(name, content="hello", **changes):
    request = {"custom_id": name, "method": "POST", "url": "/v1/chat/completions",
               "body": {"model": "fake/model", "max_tokens": 8,
                        "messages": [{"role": "user", "content": content}]}}
    request.update(changes)
    return json.dumps(request)


class Fake:
    """A fake_server of its own."""

    def __init__(self, directory, *arguments, port=0, sweep_ms=SWEEP_MS):
        self.process = subprocess.Popen([SERVER, directory, str(port), str(sweep_ms), *arguments],
                                        stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().rsplit(" ", 1)[1])
        self.url = f"http://127.0.0.1:{self.port}/"

    def get(self, path, key=None):
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        with urllib.request.urlopen(urllib.request.Request(self.url + path, headers=headers)) as got:
            return got.read()

    def create_batch(self, file_id):
        body = json.dumps({"input_file_id": file_id, "endpoint": "/v1/chat/completions",
                           "completion_window": "24h"}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.url + "v1/batches", data=body, headers=headers)
        return json.loads(urllib.request.urlopen(request).read())["id"]

    def newest_batch(self, key=None):
        return json.loads(self.get("v1/batches?limit=1", key))["data"][0]

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Bench:
    """What the tests share: a browser, a server without a key, files."""

    def __init__(self, browser, directory):
        self.browser, self.directory = browser, pathlib.Path(directory)
        self.fake = Fake(self.directory / "open")

    def file(self, name, lines):
        path = self.directory / name
        path.write_text("\n".join(lines) + "\n")
        return path

    def page(self, url=None, viewport=DESKTOP, dark=False):
        """A new tab, which complains of whatever goes wrong in it or leaves the server."""
        url = url or self.fake.url
        context = self.browser.new_context(viewport=viewport, accept_downloads=True,
                                           color_scheme="dark" if dark else "light",
                                           reduced_motion="reduce")
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.wrong = []
        page.on("pageerror", lambda error: page.wrong.append(f"exception: {error}"))
        page.on("console", lambda message: page.wrong.append(message.text)
                if message.type in ("error", "warning") else None)
        page.on("request", lambda request: page.wrong.append(f"left the server: {request.url}")
                if not request.url.startswith((url, "blob:")) else None)
        page.goto(url)
        return page

    def start(self, page, path):
        page.set_input_files("#file", path)
        page.get_by_role("button", name="Upload and start").click()
        expect(page.locator("#batch-title")).to_have_text(path.name)


def finish(page, wrong=()):
    """Closes the tab. `wrong`: what is allowed to stand in its console."""
    found = [text for text in page.wrong if not any(part in text for part in wrong)]
    assert not found, found
    page.context.close()


def wait_for_answers(page):
    """Until some lines of the batch are answered."""
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while not page.evaluate("document.querySelector('#batch progress').value"):
        assert time.monotonic() < deadline, "no line was answered"
        page.wait_for_timeout(50)


def status(page):
    return page.locator("#batch .heading .status")


def shoot(page, name):
    page.screenshot(path=f"{SCREENSHOTS}/{name}.png", full_page=True)


def check_accessibility(page, what):
    found = Axe().run(page).response["violations"]
    told = [f"{rule['id']}: {node['target']} {node['failureSummary']}"
            for rule in found for node in rule["nodes"]]
    assert not told, f"{what}: " + "\n".join(told)


def check_width(page):
    """Nothing makes the page scroll sideways."""
    wide = page.evaluate("""() => [...document.querySelectorAll("body *")]
        .filter((e) => e.getBoundingClientRect().right > innerWidth + 0.5 && e.checkVisibility())
        .map((e) => e.outerHTML.slice(0, 120))""")
    width = page.evaluate("document.scrollingElement.scrollWidth")
    assert width <= page.viewport_size["width"], f"{width} px wide: {wide[:3]}"


def download(page, selector):
    with page.expect_download() as waiting:
        page.locator(selector).click()
    return waiting.value.suggested_filename, pathlib.Path(waiting.value.path()).read_bytes()


# --- Tests --------------------------------------------------------------------------------------

def reads_metrics_and_files(bench):
    page = bench.page()
    got = page.evaluate(r"""async () => {
      const { Metrics } = await import("/page/prometheus.js");
      const { History } = await import("/page/history.js");
      const { inspect } = await import("/page/jsonl.js");
      const format = await import("/page/format.js");
      const text = '# HELP a b\na{x="1",y="q\\"\\\\\\n,}"} 2.5e3\na{x="2"} +Inf\nb_sum 7 1700000\n';
      const metrics = new Metrics(text);
      const history = new History(60);
      for (const [at, value] of [[0, 5], [30, 10], [70, 20], [100, 40]])
        history.add(at, new Metrics(`c{} ${value}`), "c");
      const risen = [history.span, history.rise("c"), history.rate("c"), history.rate("d")];
      history.add(101, new Metrics("c 3"), "c");  // another server
      const line = (changes) => JSON.stringify({ custom_id: "a", method: "POST",
        url: "/v1/completions", body: { model: "m", prompt: "x" }, ...changes });
      const check = async (text, model = "m") => {
        const { endpoint, problems } = await inspect(new File([text], "f"), model);
        return [endpoint, ...problems.map((p) => `${p.line}: ${p.message}`)];
      };
      return {
        labels: metrics.all("a", { x: "1" })[0].labels.y,
        values: [metrics.value("a", { x: "1" }), metrics.value("b_sum"), metrics.value("none")],
        endless: metrics.value("a") === Infinity, risen, forgotten: history.rate("c"),
        durations: [0.04, 9.96, 59.6, 61, 3599.6, 86399, 180000].map(format.duration),
        bytes: [999, 1000, 5 * 2 ** 30].map(format.bytes),
        shares: [0, 0.004, 0.5].map(format.percent),
        files: [await check("\uFEFF" + line() + "\r\n\r\n" + line()), await check("\n \n"),
          await check(`${line()}\n{"custom_id"\n[]\n${line({ url: "/v1/chat/completions" })}\n`),
          await check(line({ body: {} })), await check(line({ url: "/v1/x" })),
          await check(line(), "n"), await check(line(), null),
          await check(line({ body: { model: "m", prompt: "y".repeat(400_000) } }))],
      };
    }""")
    want = {
        "labels": 'q"\\\n,}', "values": [2500, 7, None], "endless": True,
        "risen": [70, 30, 30 / 70, None], "forgotten": None,
        "durations": ["0 s", "10 s", "1 min", "1 min 1 s", "1 h", "1 d", "2 d 2 h"],
        "bytes": ["999 B", "0.977 KiB", "5 GiB"], "shares": ["0 %", "<1 %", "50 %"],
        "files": [
            ["/v1/completions"], [None, "null: The file is empty."],
            ["/v1/completions", "2: isn't valid JSON", "3: isn't a JSON object",
             "4: asks for '/v1/chat/completions', others for '/v1/completions': a batch has one"],
            [None, "1: lacks 'body.model'"],
            [None, "1: asks for '/v1/x'; this server has /v1/chat/completions and /v1/completions"],
            [None, "1: asks for the model 'm'; this server has 'n'"], ["/v1/completions"],
            ["/v1/completions"]]}
    for key, value in want.items():
        assert got[key] == value, f"{key}: {got[key]}, wanted {value}"
    finish(page)


def uploads_watches_and_downloads(bench):
    page = bench.page()
    names = [f"question-{i}" for i in range(800)]
    path = bench.file("questions.jsonl", [line(name, f"number {name}") for name in names])
    page.set_input_files("#file", path)
    expect(page.locator("#chosen")).to_contain_text("for /v1/chat/completions")
    shoot(page, "chosen")
    page.get_by_role("button", name="Upload and start").click()
    expect(page.locator("#batch-title")).to_have_text("questions.jsonl")
    expect(page.locator("#batch-title")).to_be_focused()
    expect(status(page)).to_have_text("Running")
    look = """() => [document.querySelector("#batch progress").value,
                     ...[...document.querySelectorAll(".figures dd")].map((dd) => dd.textContent)]"""
    seen = {}
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while len(seen) < 3 and time.monotonic() < deadline:
        share, answered, failed, rate, left, *_ = page.evaluate(look)
        if 0 < share < 1 and left != "–":
            assert failed == "0" and rate.endswith(" lines/s") and left.endswith(" s"), (rate, left)
            seen[share] = int(answered)
        page.wait_for_timeout(50)
    assert len(seen) == 3 and list(seen.values()) == sorted(seen.values()), f"no progress: {seen}"
    expect(page.locator("#list [data-status=in_progress]")).to_be_visible()
    machine = page.locator("#machine")
    expect(machine).to_contain_text("10 % longer than planned")
    expect(machine).to_contain_text("Waiting for weights")
    expect(machine).to_contain_text("668 MiB of 954 MiB")
    expect(machine).to_contain_text("Read ")
    shoot(page, "running")
    expect(status(page)).to_have_text("Completed")
    expect(page.locator("#news")).to_have_text("questions.jsonl: completed.")
    expect(page.locator("#batch")).to_contain_text("800 of 800 lines, 100 %")
    shoot(page, "completed")
    name, data = download(page, "#download-output")
    batch = bench.fake.newest_batch()
    assert name == "questions-answers.jsonl", name
    assert data == bench.fake.get(f"v1/files/{batch['output_file_id']}/content")
    assert sorted(json.loads(text)["custom_id"] for text in data.splitlines()) == sorted(names)
    assert page.locator("#download-error").is_hidden() and page.locator("#cancel").is_hidden()
    finish(page)


def takes_a_dropped_file(bench):
    page = bench.page()
    drop = """([name, text]) => {
      const data = new DataTransfer();
      data.items.add(new File([text], name));
      document.querySelector("main").dispatchEvent(
        new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
    }"""
    page.evaluate(drop, ["dropped.jsonl", line("only") + "\n"])
    page.get_by_role("button", name="Upload and start").click()
    expect(page.locator("#batch-title")).to_have_text("dropped.jsonl")
    expect(status(page)).to_have_text("Completed")
    finish(page)


def says_what_is_wrong_before_the_upload(bench):
    page = bench.page()
    before = bench.fake.get("v1/files")
    page.set_input_files("#file", bench.file("wrong.jsonl", ["{}", "not json", line("c", url="/v1/embeddings")]))
    problems = page.locator("#chosen [role=alert]")
    for text in ["Line 1 lacks 'custom_id'.", "Line 2 isn't valid JSON.", "Line 3 asks for '/v1/embeddings'"]:
        expect(problems).to_contain_text(text)
    expect(page.get_by_role("button", name="Upload and start")).to_have_count(0)
    check_accessibility(page, "problems of a file")
    shoot(page, "problems")
    page.get_by_role("button", name="Choose another").click()
    expect(page.locator("#drop")).to_be_visible()
    assert bench.fake.get("v1/files") == before
    finish(page)


def shows_errors_of_a_refused_file_by_line(bench):
    page = bench.page()
    lines = [line(f"r-{i}") for i in range(30)] + ["no JSON" if i % 2 else line(f"m-{i}", url="/v1/completions") for i in range(60)]
    # A name that would be trouble as markup.
    path = bench.file("<img src=x onerror=alert(1)>.jsonl", lines)
    bench.start(page, path)
    expect(status(page)).to_have_text("Refused")
    expect(page.locator("#batch")).to_contain_text("60 lines refused; nothing was run")
    rows = page.locator(".errors tbody tr")
    expect(rows).to_have_count(10)
    expect(rows.first).to_contain_text("31")
    expect(rows.first).to_contain_text("invalid_url")
    expect(rows.nth(1)).to_contain_text("not parseable as valid JSON")
    check_accessibility(page, "errors by line")
    shoot(page, "refused")
    page.get_by_role("button", name="Next").click()
    expect(page.locator("#errors [role=status]")).to_have_text("11 to 20 of 60")
    for _ in range(4):
        page.get_by_role("button", name="Next").click()
    expect(rows).to_have_count(10)
    expect(rows.last).to_contain_text("90")
    expect(page.get_by_role("button", name="Next")).to_be_disabled()
    page.set_viewport_size(PHONE)
    check_width(page)
    shoot(page, "refused-phone")
    finish(page)


def shows_and_downloads_lines_that_failed(bench):
    page = bench.page()
    lines = [line(f"ok-{i}") for i in range(7)] + [line("long-1", "TOO LONG"), line("odd", "EXPLODE")]
    bench.start(page, bench.file("some fail.jsonl", lines))
    expect(status(page)).to_have_text("Completed")
    expect(page.locator("#list tbody tr").first).to_contain_text("9, 2 failed")
    rows = page.locator(".errors tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.filter(has_text="long-1")).to_contain_text("context_length_exceeded")
    expect(rows.filter(has_text="odd")).to_contain_text("the sampler lost its dice")
    name, data = download(page, "#download-error")
    assert name == "some fail-errors.jsonl", name
    assert sorted(json.loads(text)["custom_id"] for text in data.splitlines()) == ["long-1", "odd"]
    finish(page)


def cancels_with_the_keyboard(bench):
    page = bench.page()
    path = bench.file("too much.jsonl", [line(f"c-{i}") for i in range(4000)])
    page.set_input_files("#file", path)
    expect(page.get_by_role("button", name="Upload and start")).to_be_focused()
    page.keyboard.press("Enter")
    expect(status(page)).to_have_text("Running")
    expect(page.locator("#batch .big")).to_contain_text("of 4,000 lines")
    wait_for_answers(page)
    for _ in range(20):
        if page.evaluate("document.activeElement.id") == "cancel":
            break
        page.keyboard.press("Tab")
    expect(page.locator("#cancel")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#cancel-dialog")).to_contain_text("can be downloaded afterwards")
    check_accessibility(page, "the dialog")
    page.keyboard.press("Escape")  # changed their mind
    expect(page.locator("#cancel-dialog")).to_be_hidden()
    expect(page.locator("#cancel")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Shift+Tab")  # from the choice that does no harm
    page.keyboard.press("Enter")
    expect(status(page)).to_have_text("Cancelled")
    batch = bench.fake.newest_batch()
    kept = batch["request_counts"]["completed"]
    assert batch["status"] == "cancelled" and 0 < kept < 4000, batch
    name, data = download(page, "#download-output")
    assert len(data.splitlines()) == kept, (name, len(data.splitlines()), kept)
    finish(page)


def asks_for_the_key_where_one_is_wanted(bench):
    fake = Fake(bench.directory / "keyed", KEY)
    try:
        page = bench.page(fake.url)
        dialog = page.locator("#key-dialog")
        expect(dialog).to_be_visible()
        expect(page.locator("#key")).to_be_focused()
        check_accessibility(page, "the key's dialog")
        shoot(page, "key")
        page.keyboard.press("Escape")
        expect(dialog).to_be_hidden()
        expect(page.locator("#state")).to_have_text("Needs a key")
        page.get_by_role("button", name="API key").click()
        page.fill("#key", "another")
        page.keyboard.press("Enter")
        expect(page.locator("#key-problem")).to_have_text("The server doesn't know this key.")
        page.fill("#key", KEY)
        page.keyboard.press("Enter")
        expect(page.locator("#state")).to_have_text("Ready")
        expect(page.locator("#no-batches")).to_be_visible()
        bench.start(page, bench.file("mine.jsonl", [line(f"k-{i}") for i in range(12)]))
        expect(status(page)).to_have_text("Completed")
        _, data = download(page, "#download-output")
        assert len(data.splitlines()) == 12
        page.reload()
        expect(page.locator("#batch-title")).to_have_text("mine.jsonl")
        kept = page.evaluate("[sessionStorage.length, localStorage.length, document.cookie, location.href]")
        assert kept[:3] == [1, 0, ""] and KEY not in kept[3], kept
        tab = page.context.new_page()
        tab.goto(fake.url)
        expect(tab.locator("#key-dialog")).to_be_visible()  # another tab doesn't know it
        finish(page, wrong=["status of 401"])
    finally:
        fake.stop()


def keeps_its_place_while_the_server_is_away(bench):
    directory = bench.directory / "away"
    fake = Fake(directory)
    page = bench.page(fake.url)
    bench.start(page, bench.file("away.jsonl", [line(f"a-{i}") for i in range(300)]))
    wait_for_answers(page)
    fake.stop()
    expect(page.locator("#state")).to_have_text("Not reachable")
    expect(page.locator("#banner")).to_contain_text("can't be reached")
    check_accessibility(page, "without a server")
    again = Fake(directory, port=fake.port)
    try:
        expect(status(page)).to_have_text("Completed")
        expect(page.locator("#banner")).to_be_hidden()
        expect(page.locator("#batch")).to_contain_text("300 of 300 lines")
    finally:
        again.stop()
    finish(page, wrong=["Failed to load resource"])


def lists_older_batches(bench):
    page = bench.page()
    bench.start(page, bench.file("one.jsonl", [line("one")]))
    expect(status(page)).to_have_text("Completed")
    first = bench.fake.newest_batch()
    ids = [bench.fake.create_batch(first["input_file_id"]) for _ in range(22)]
    page.reload()
    rows = page.locator("#list tbody tr")
    expect(rows).to_have_count(21)  # a page of them, and the one that the address names
    page.get_by_role("button", name="Show older").click()
    button_of = lambda batch_id: page.locator(f"[data-batch={batch_id}]").get_by_role("button")
    expect(button_of(first["id"])).to_have_attribute("aria-current", "true")
    expect(button_of(ids[0])).to_have_attribute("aria-current", "false")
    button_of(ids[0]).focus()
    page.keyboard.press("Enter")
    expect(button_of(ids[0])).to_have_attribute("aria-current", "true")
    expect(page.locator("#list [aria-current=true]")).to_have_count(1)
    page.go_back()
    expect(button_of(first["id"])).to_have_attribute("aria-current", "true")
    finish(page)


def fits_phones_in_light_and_dark(bench):
    path = bench.file("a-file-with-a-long-name-that-has-no-place-to-break.jsonl",
                      [line(f"p-{i}", "TOO LONG" if i % 50 == 0 else "x") for i in range(400)])
    for dark in (False, True):
        page = bench.page(viewport=PHONE, dark=dark)
        check_width(page)
        bench.start(page, path)
        expect(page.locator("#machine")).to_contain_text("than planned")
        check_width(page)
        scheme = "dark" if dark else "light"
        check_accessibility(page, f"a phone, {scheme}")
        shoot(page, f"phone-{scheme}")
        page.set_viewport_size(DESKTOP)
        check_width(page)
        check_accessibility(page, f"a desktop, {scheme}")
        shoot(page, f"desktop-{scheme}")
        expect(status(page)).to_have_text("Completed")
        page.set_viewport_size(PHONE)
        expect(page.locator(".errors")).to_be_visible()
        check_width(page)
        check_accessibility(page, f"errors on a phone, {scheme}")
        finish(page)


TESTS = [reads_metrics_and_files, says_what_is_wrong_before_the_upload,
         uploads_watches_and_downloads, takes_a_dropped_file,
         shows_errors_of_a_refused_file_by_line, shows_and_downloads_lines_that_failed,
         cancels_with_the_keyboard, asks_for_the_key_where_one_is_wanted,
         keeps_its_place_while_the_server_is_away, fits_phones_in_light_and_dark,
         lists_older_batches]


def main():
    wanted = sys.argv[4:]
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as directory:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--disable-gpu"])
        bench = Bench(browser, directory)
        try:
            for test in TESTS:
                if wanted and test.__name__ not in wanted:
                    continue
                began = time.monotonic()
                test(bench)
                print(f"{test.__name__}: {time.monotonic() - began:.1f} s", flush=True)
        finally:
            bench.fake.stop()
            browser.close()


main()
