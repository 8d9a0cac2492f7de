"""report.py FOLDER [SHOTS]: the pages in FOLDER (made by tests/integration/report.sh), looked at in Chromium:
clicks, keys, search, colours; and what a hostile harness said does nothing. One "ok" or "FAIL" line a check."""
import json, os, sys

sys.path.insert(0, os.path.dirname(__file__))
from browser import Browser

folder, shots = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
LIGHT, DARK = "rgb(244, 245, 248)", "rgb(14, 17, 22)"


def check(name, good, why=""):
    print(f"ok {name}" if good else f"FAIL {name}: {str(why)!r}", flush=True)


def same(name, got, want):
    check(name, got == want, f"{got!r}, wanted {want!r}")


def count(page, selector):
    return page.value(f"document.querySelectorAll({json.dumps(selector)}).length")


def text(page, selector):
    return page.value(f"(document.querySelector({json.dumps(selector)}) || {{}}).innerText || ''")


def background(page):
    return page.value("getComputedStyle(document.body).backgroundColor")


def chosen(page):
    return text(page, '.row[aria-selected="true"] .num')


def look_at_good(b):
    with open(f"{folder}/good.json") as file:
        result = json.load(file)
    page = b.open(f"{folder}/good.html")
    check("good: says PASS", "PASS" in text(page, "#verdict"), text(page, "#verdict"))
    same("good: its title", page.value("document.title"), "PASS " + result["name"])
    same("good: a line a check", count(page, "#checks .check"), len(result["checks"]))
    same("good: nothing is wrong", page.value("document.querySelector('#trouble').hidden"), True)
    same("good: four lanes", text(page, "#lane-heads .lanes").split(), ["engine", "driver", "harness", "relay"])
    same("good: a bar a phase and turn", count(page, "#phases > .phase"), 6 + count(page, ".row.turn"))
    frames = page.value("JSON.parse(document.getElementById('data').textContent).events.filter(function (e) { return e.k === 'f'; }).length")
    same("good: an arrow a frame", count(page, ".row .arrow.c-driver, .row .arrow.c-harness"), frames)
    seqs = page.value("JSON.parse(document.getElementById('data').textContent).events.filter(function (e) { return e.k === 'o'; }).map(function (e) { return e.q; })")
    same("good: every observation, in order", seqs, list(range(1, result["observations"]["count"] + 1)))

    # a click on a frame shows it
    row = page.value("[].find.call(document.querySelectorAll('.row'), function (r) { return r.querySelector('.num').textContent === 'f2'; }).id")
    page.click("#" + row)
    check("good: a click on a frame shows it", "Frame 2" in text(page, "#detail h2") and '"protocolVersion"' in text(page, "#detail .text"), text(page, "#detail")[:300])
    same("good: and marks it", chosen(page), "f2")
    same("good: and names it in the address", page.value("location.hash"), "#f2")
    page.click("#check-session_start button.link")
    check("good: a piece of evidence leads to its event", chosen(page) != "", "nothing chosen")
    page.click("#check-image_resolved button.link")
    check("good: a fact is shown", "digest" in text(page, "#detail") and "sha256:" in text(page, "#detail"), text(page, "#detail"))
    page.click("button.phase")
    check("good: a phase opens to its steps", page.value("document.querySelector('button.phase').nextSibling.offsetHeight") > 20)

    # without a mouse
    page.value("document.activeElement.blur()")
    page.key("n")
    first = chosen(page)
    page.key("n"), page.key("j"), page.key("k")
    check("good: keys go from frame to frame", first.startswith("f") and chosen(page) not in ("", first), f"{first} {chosen(page)}")
    page.key("/"), page.type("session/prompt")
    same("good: the search has the keys", page.value("document.activeElement.id"), "search")
    hits = count(page, ".row")
    check("good: a search leaves what matches", 0 < hits < frames and count(page, "mark") > 0, f"{hits} of {frames}")
    page.key("Enter")
    check("good: and finds it", "session/prompt" in text(page, "#detail"), text(page, "#detail")[:200])
    page.key("Escape")
    check("good: Escape gives all back", count(page, ".row") > hits)
    page.key("End")
    page.key("Home")
    same("good: the list goes from end to end", page.value("[document.activeElement.id, document.querySelector('.row[aria-selected=true]') === document.querySelector('.row')]"), ["list", True])
    page.key("ArrowDown")
    same("good: and by arrows", page.value("document.querySelector('.row[aria-selected=true]') === document.querySelectorAll('.row')[1]"), True)
    page.key("o")
    same("good: observations alone", count(page, ".row"), result["observations"]["count"])
    if shots:
        page.shot("observations-light")
    page.key("l")
    focusable = page.value("[].every.call(document.querySelectorAll('[role=option]'), function (r) { return r.tabIndex === -1; }) && document.querySelector('#list').tabIndex === 0")
    same("good: the list is one stop of the Tab key", focusable, True)

    # colours: as the system, and by hand
    same("good: light as the system", background(page), LIGHT)
    page.key("t")
    page.key("t")
    same("good: dark by a key", background(page), DARK)
    page.click('[data-theme-choice="light"]')
    same("good: light by a click", background(page), LIGHT)
    page.value("scrollTo(0, 0)"), page.shot("good-light", full=True)
    check("good: quiet", page.misdeeds() == [], page.misdeeds())
    page.close()

    page = b.open(f"{folder}/good.html", scheme="dark", anchor="#s2")
    page.click('[data-theme-choice="auto"]')
    same("good: dark as the system", background(page), DARK)
    same("good: an address leads to its event", chosen(page), "s2")
    page.value("scrollTo(0, 0)"), page.shot("good-dark", full=True)
    page.close()
    page = b.open(f"{folder}/good.html", scripts=False)
    plain = text(page, "body")
    check("good: without scripts the verdict and the checks are read", plain.startswith("PASS") and all(c["id"] in plain for c in result["checks"]) and "What happened" not in plain, plain[:300])
    page.close()
    page = b.open(f"{folder}/good.html", width=390, height=800)
    check("good: a narrow window does not scroll sideways", page.value("document.documentElement.scrollWidth") <= 390, page.value("document.documentElement.scrollWidth"))
    page.shot("good-narrow", full=True)
    page.close()


def look_at_bad(b):
    with open(f"{folder}/bad.json") as file:
        result = json.load(file)
    page = b.open(f"{folder}/bad.html", scheme="dark")
    failed = [c for c in result["checks"] if c["status"] == "failed"]
    check("bad: says FAIL", "FAIL" in text(page, "#verdict"))
    same("bad: each failure with its fix", count(page, "#trouble .wrong"), len(failed))
    check("bad: what went wrong is chosen", count(page, '.row[aria-selected="true"]') == 1)
    check("bad: the fix is there", failed[0]["fix"] in text(page, "#trouble"), text(page, "#trouble"))
    page.shot("bad-dark", full=True)
    check("bad: quiet", page.misdeeds() == [], page.misdeeds())
    page.close()


def look_at_evil(b):
    page = b.open(f"{folder}/evil.html")
    same("evil: no script of its ran", page.value("window.hacked"), None)
    same("evil: no element of its", count(page, "img, iframe, object, embed, b.evil, body script + script + script"), 0)
    same("evil: as many scripts as the page has", count(page, "script"), 2)
    page.click("#search"), page.type("hacked=1")
    check("evil: its words can be found", count(page, ".row") > 0)
    page.key("Enter")
    check("evil: and read as they are", "<script>window.hacked=1</script>" in text(page, "#detail"), text(page, "#detail")[:500])
    page.key("Escape")
    page.click("#search"), page.type("turned")
    page.key("Enter")
    check("evil: what turns text around is a number", "U+202E" in text(page, "#detail .text") and "\u202e" not in page.value("document.body.textContent.replace(document.getElementById('data').textContent, '')"), text(page, "#detail .text"))
    check("evil: so is what a terminal would obey", "U+001B" in text(page, "#detail .text"), text(page, "#detail .text"))
    page.key("Escape")
    page.click("#search"), page.type("xxxxxxxxxx")
    page.click(".row:has(.arrow.c-harness)")
    check("evil: a long line is bounded, and says so", "Shortened" in text(page, "#detail") and "1.0 MiB" in text(page, "#detail") and len(text(page, "#detail .text")) < 10000, text(page, "#detail")[:300])
    page.key("Escape")
    check("evil: events left out are counted", count(page, ".row.gap") == 1 and "left out" in text(page, ".row.gap"))
    # the policy, not only the escaping: what is put in by force does not run either
    page.value("(function () { var s = document.createElement('script'); s.textContent = 'window.forced = 1'; document.body.appendChild(s); "
               "var d = document.createElement('div'); d.innerHTML = '<img src=x onerror=\"window.forced = 2\">'; document.body.appendChild(d); })()")
    page.until("performance.now() > 0")
    same("evil: the policy stops a script that was put in by force", page.value("window.forced"), None)
    page.shot("evil-light", full=True)
    page.close()


def look_at_others(b):
    for name in sorted(f[:-5] for f in os.listdir(folder) if f.endswith(".html") and f[:-5] not in ("good", "bad", "evil")):
        page = b.open(f"{folder}/{name}.html")
        check(f"{name}: has events and a verdict", count(page, ".row") > 0 and text(page, "#verdict") != "")
        check(f"{name}: quiet", page.misdeeds() == [], page.misdeeds())
        page.close()


with Browser(shots) as browser:
    for look in (look_at_good, look_at_bad, look_at_evil, look_at_others):
        look(browser)
print("ok all was looked at")
