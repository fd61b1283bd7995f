"""mutants.py - the changes that jobs/mutants may make to a source."""
import collections, os, re

TOP = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
Mutant = collections.namedtuple("Mutant", "file start end text kind")

SWAP = {"<": ["<=", ">"], "<=": ["<", ">"], ">": [">=", "<"],
        ">=": [">", "<"], "==": ["!="], "!=": ["=="], "&&": ["||"],
        "||": ["&&"], "+": ["-"], "-": ["+"], "*": ["/", "+"], "/": ["*"],
        "%": ["*", "/"], "+=": ["-=", "="], "-=": ["+=", "="], "|=": ["="],
        "&=": ["=", "|="], "&": ["|"], "|": ["&"], "<<": [">>"], ">>": ["<<"]}
# As clang-format has them: between blanks.
BINARY = re.compile(r"(?<= )(" + "|".join(
    re.escape(o) for o in sorted(SWAP, key=len, reverse=True)) + r")(?=[ \n])")
NUMBER = re.compile(r"(?<![\w.\[])(\d+)(?![\w.])")
CALL = re.compile(r"^[ \t]+(TS_TRY\(|\(void\))?[\w>.\[\]-]+\(", re.M)
PAIR = re.compile(r"(?<=[(,])( ?)([\w>.&*-]+), ([\w>.&*-]+)(?=[,)])")
# Comments, strings, directives, constants of an enum, templates.
NO_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'
                     r"'(?:\\.|[^'\\\n])*'|^[ \t]*#(?:\\\n|[^\n])*|"
                     r"\benum\b[^;]*?\}|\btemplate ?<[^\n]*", re.S | re.M)
# What is only said, or only makes it faster.
SAID = re.compile(r"\b(ts_fail|TS_THROW|ts_(log|info|note|warn|progress)\w*|"
                  r"f?printf|_?[Ss]tatic_assert|__builtin_prefetch|ask_for|madvise|"
                  r"posix_fadvise|__attribute__|__launch_bounds__)\(")


# The lesser or the greater of two, which is the same where both are equal.
A, B = r"(?P<a>[\w.>\[\]*&-]+)", r"(?P<b>[\w.>\[\]*&-]+)"
CAST = r"(?:\(\w+\))?"
CHOICE = re.compile(
    rf"{A} (?P<op>[<>]=?)\s+{B}\s+\?\s+{CAST}(?:(?P=a)\s+:\s+{CAST}(?P=b)|"
    rf"(?P=b)\s+:\s+{CAST}(?P=a))(?![\w.>\[-])|"
    rf"\bif \({A.replace('<a>', '<c>')} (?P<op2>[<>]=?) "
    rf"{B.replace('<b>', '<d>')}\) (?:(?P=c) = (?P=d)|(?P=d) = (?P=c));")


def close_of(text, at):
    """Behind the bracket that closes the one at AT."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if depth == 0:
            return i + 1
    return len(text)


def blank(text):
    return re.sub(r"[^\n]", " ", text)


def code_of(text):
    """TEXT with all that is no code blanked, at the same places."""
    text = NO_CODE.sub(lambda m: blank(m.group(0)), text)
    for m in list(SAID.finditer(text)):
        end = close_of(text, m.end() - 1)
        text = text[:m.start()] + blank(text[m.start():end]) + text[end:]
    return text


def calls_of(code, add):
    """Left out, or its error."""
    for m in CALL.finditer(code):
        start = m.start() + len(m.group(0)) - len(m.group(0).lstrip())
        end = close_of(code, code.index("(", start))
        if m.group(1) == "(void)":
            end = close_of(code, m.end() - 1)
        if code[end:end + 1] == ";":
            add(start, end, "(void)0", "call")
            if m.group(1) == "TS_TRY(":
                add(start, start + 7, "(void)(", "error")


def mutants_of(file, text):
    code, found = code_of(text), []

    def add(start, end, new, kind):
        found.append(Mutant(file, start, end, new, kind))

    choices = {m.start("op") if m.group("op") else m.start("op2")
               for m in CHOICE.finditer(code)}
    for m in BINARY.finditer(code):
        for new in SWAP[m.group(1)]:
            if m.start() in choices and new[0] == m.group(1)[0]:
                continue
            add(m.start(), m.end(), new, "operator")
    for m in NUMBER.finditer(code):
        n = int(m.group(1))
        for new in sorted({n + 1, n - 1 if n > 1 else 1 - n, 0} - {n}):
            add(m.start(), m.end(), str(new), "constant")
    for m in re.finditer(r"\b(true|false)\b", code):
        add(m.start(), m.end(), "false" if m.group(1) == "true" else "true",
            "constant")
    for m in re.finditer(r"!(?=[\w(*])", code):
        add(m.start(), m.end(), "", "condition")
    for m in re.finditer(r"\bif \(", code):
        for new in ("1", "0"):
            add(m.end(), close_of(code, m.end() - 1) - 1, new, "condition")
    calls_of(code, add)
    for m in PAIR.finditer(code):
        if m.group(2) != m.group(3):
            add(m.start(2), m.end(3), f"{m.group(3)}, {m.group(2)}", "argument")
    return found


def read(path):
    with open(os.path.join(TOP, path), errors="replace") as f:
        return f.read()


def line_of(m):
    return read(m.file).count("\n", 0, m.start) + 1


def told(m, text):
    """Where, and the changed lines before and after."""
    old, new = read(m.file), text.split("\n")
    first = old.count("\n", 0, m.start)
    after = old.count("\n", m.end)
    return (f"{m.file}:{first + 1}", old.split("\n")[first:-after or None],
            new[first:-after or None])


def equivalents():
    return re.findall(r"^([\w/.]+): (.+) -- (.+)$", read("tests/mutants.txt"),
                      re.M)
