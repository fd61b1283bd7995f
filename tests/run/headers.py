#!/usr/bin/env python3
"""headers.py - does each public declaration say who calls it?

Every function that a header of src/, io/ or cuda/ declares is one of
  Collective   all ranks (of the world, or of its comm) make the call
  Local        this rank alone
  Enqueues     local; the work runs later, on a lane
and the comment above it, the comment behind it, the comment that opens its
section (/* ---- name ---- */) or the header's first comment says which."""
import re
import sys

WORDS = re.compile(r"\b([Cc]ollective|[Ll]ocal|[Ee]nqueues?)\b")


def comments_blank(text):
    """TEXT with its comments as spaces, and the comments with their places."""
    found = [(m.start(), m.end(), m.group()) for m in
             re.finditer(r"/\*.*?\*/", text, re.S)]
    out = list(text)
    for a, b, _ in found:
        for i in range(a, b):
            if out[i] != "\n":
                out[i] = " "
    return "".join(out), found


def declarations(code):
    """(name, first, last) of each function declaration or inline at the top."""
    code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*",
                  lambda m: re.sub(r"[^\n]", " ", m.group()), code, flags=re.M)
    code = code.replace('extern "C" {', " " * 12)
    depth, start = 0, 0
    for i, c in enumerate(code):
        if c == "{":
            if depth == 0:
                yield code[start:i], start, i
            depth += 1
        elif c == "}":
            depth -= 1
            if depth == 0:
                start = i + 1
        elif c == ";" and depth == 0:
            yield code[start:i], start, i
            start = i + 1


def name_of(head):
    head = head.strip()
    if not head or re.match(r"(typedef|struct|enum|union|extern)\b[^()]*$", head) \
            or head.startswith(("typedef", "_Static_assert", "template")):
        return None
    m = re.search(r"(\w+)\s*\(", head)
    if not m or "=" in head[:m.start()] or m.group(1).startswith("_"):
        return None
    return m.group(1) if m.group(1).startswith("ts_") else None


def check(path):
    text = open(path, encoding="utf8").read()
    code, found = comments_blank(text)
    if found and WORDS.search(found[0][2]):
        return []
    bad = []
    last_end, last_ok = 0, False
    for head, a, b in declarations(code):
        name = name_of(head)
        if not name:
            continue
        first = a + len(head) - len(head.lstrip())
        above = [f for f in found if last_end <= f[0] and f[1] <= first]
        behind = [f for f in found if b <= f[0] and
                  "\n" not in text[b:f[0]].strip(" ;")]
        section = [f for f in found if f[1] <= first and
                   re.match(r"/\* -{4} ", f[2])][-1:]
        section += [f for f in found if section and f[0] > section[0][0]][:1] \
            if section and not text[section[0][1]:].lstrip().startswith("ts_") else []
        own = [f for f in above if text[f[1]:first].count("\n") <= 1
               or f is above[-1]]
        ok = any(WORDS.search(f[2]) for f in own + behind + section)
        # One comment for several declarations without a blank line between.
        if not ok and not above and last_ok and "\n\n" not in text[last_end:first]:
            ok = True
        if not ok:
            bad.append("%s:%d: %s: Collective, Local or Enqueues?" %
                       (path, text.count("\n", 0, first) + 1, name))
        last_end, last_ok = b, ok
    return bad


lines = [line for path in sys.argv[1:] for line in check(path)]
print("\n".join(lines))
sys.exit(bool(lines))
