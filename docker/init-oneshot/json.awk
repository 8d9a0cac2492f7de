# json.awk: one JSON text in, one line a scalar out: its path, a tab, its literal as it stands there
# (strings with their quotes and escapes). {"a":[{"b":"x\n"}]} gives: a.0.b <tab> "x\n"
# Exits with 1 when it is not JSON. With -v want=PATH: only that literal.
{ text = text $0 "\n" }
END { at = 1; value(""); space(); if (at <= length(text)) fail(); exit 0 }

function fail() { print "not JSON near byte " at > "/dev/stderr"; exit 1 }
function here() { return substr(text, at, 1) }
function space() { while (index(" \t\r\n", here()) && at <= length(text)) at++ }
function take(c) { space(); if (here() != c) fail(); at++ }
function string(  from, c) {
    from = at++
    while ((c = here()) != "\"") { if (c == "" || c == "\n") fail(); at += c == "\\" ? 2 : 1 }
    at++
    return substr(text, from, at - from)
}
function scalar(path, literal) {
    if (want == "") print path "\t" literal
    else if (want == path) print literal
}
function value(path,  c, from, i, key) {
    space(); c = here()
    if (c == "\"") { scalar(path, string()); return }
    if (c != "{" && c != "[") {
        from = at
        while (match(here(), /[-+.0-9A-Za-z]/)) at++
        if (at == from) fail()
        scalar(path, substr(text, from, at - from)); return
    }
    at++; space(); path = path == "" ? "" : path "."
    if (here() == (c == "{" ? "}" : "]")) { at++; return }
    for (i = 0; ; i++) {
        if (c == "{") { space(); if (here() != "\"") fail(); key = string(); take(":"); key = substr(key, 2, length(key) - 2) }
        value(path (c == "{" ? key : i))
        space()
        if (here() == ",") { at++; continue }
        take(c == "{" ? "}" : "]"); return
    }
}
