#!/usr/bin/env python3
"""machine_code.py TABLE FOLDER: holds the kernels of a build with CUDA to TABLE
(tests/kernels/machine_code.txt, which says what its columns are), by the
machine code for sm_90 in FOLDER/cuda/*/*.o.  Needs cuobjdump, nvdisasm, c++filt.

Instructions a run: the shortest way once around a loop that does the WORK of
a run, so without what is only there for others (longer runs, another table,
denormal numbers), and a share of the way around the loop outside.  The loop is
the innermost that has all the work; a way through another loop inside of it
counts TURNS times."""
import re
import subprocess
import sys

ARCH = "sm_90"
INSTRUCTION = re.compile(r"\s+/\*([0-9a-f]{4,})\*/\s+(?:@(!?U?P\w+) )?([A-Z][\w.]*)([^;]*);")


def output(*command, text=None):
    return subprocess.run(command, input=text, check=True, capture_output=True, text=True).stdout


def kernels_of(path):
    """{kernel: (registers, stack, [(address, predicate, opcode, operands)])}"""
    found, name = {}, None
    usage = output("c++filt", text=output("cuobjdump", "-arch", ARCH, "--dump-resource-usage", path))
    for kernel, registers, stack in re.findall(r"Function (.*):\n.*REG:(\d+) STACK:(\d+)", usage):
        found[kernel] = (int(registers), int(stack), [])
    for line in output("c++filt", text=output("cuobjdump", "-arch", ARCH, "-sass", path)).splitlines():
        if "Function : " in line:
            name = line.split("Function : ")[1]
        match = INSTRUCTION.match(line)
        if match and name in found:
            found[name][2].append((int(match[1], 16), match[2], match[3], match[4]))
    return found


class Block:
    def __init__(self, code, to):
        self.cost, self.to, self.codes = len(code), to, [c[2] for c in code]


def blocks_of(code):
    """The blocks by their addresses, with where each goes on."""
    starts, target = {code[0][0]}, {}
    for i, (at, _, op, operands) in enumerate(code):
        if op.split(".")[0] in ("BRA", "EXIT", "RET", "BRX", "CALL"):
            if op.split(".")[0] == "BRA":
                target[at] = int(re.search(r"0x([0-9a-f]+)", operands)[1], 16)
                starts.add(target[at])
            if i + 1 < len(code):
                starts.add(code[i + 1][0])
    order = sorted(starts)
    blocks = {}
    for start, end in zip(order, order[1:] + [1 << 62]):
        part = [c for c in code if start <= c[0] < end]
        at, predicate, op, operands = part[-1]
        block = blocks[start] = Block(part, [])
        apart = ".DIV" in op
        if op.startswith("BRA") and not apart:
            block.to.append(target[at])
        always = not (apart or predicate or re.search(r"\bU?P\d", operands))
        if not (always and op.split(".")[0] in ("BRA", "EXIT", "RET")) and end < 1 << 62:
            block.to.append(end)
    return blocks


def loops_in(nodes, blocks):
    """Sets of nodes that reach each other, and nodes that reach themselves."""
    reach = {}
    for n in nodes:
        seen, todo = set(), [n]
        while todo:
            for m in blocks[todo.pop()].to:
                if m in nodes and m not in seen:
                    seen.add(m)
                    todo.append(m)
        reach[n] = seen
    return {frozenset(m for m in reach[n] if n in reach[m]) for n in nodes if n in reach[n]}


def head_of(loop, blocks):
    return min(m for n, b in blocks.items() if n not in loop for m in b.to if m in loop)


def left_of(work, block):
    """What of WORK, [(opcode, times)], is to do behind BLOCK."""
    return tuple((op, max(0, n - block.codes.count(op))) for op, n in work)


def nest(nodes, blocks, work):
    """Loops with all of WORK, from the outermost to the deepest."""
    best = []
    for loop in loops_in(nodes, blocks):
        if all(sum(blocks[n].codes.count(op) for n in loop) >= times for op, times in work):
            chain = [loop] + nest(loop - {head_of(loop, blocks)}, blocks, work)
            best = max(best, chain, key=len)
    return best


def shortest(node, head, ways, cost, blocks, work, known):
    """The shortest way from NODE back to HEAD that does WORK; None: there is none."""
    work = left_of(work, blocks[node])
    if (node, work) not in known:
        known[node, work] = None
        ends = [0 if m == head and not any(n for _, n in work) else
                None if m == head else shortest(m, head, ways, cost, blocks, work, known)
                for m in ways[node]]
        ends = [e for e in ends if e is not None]
        known[node, work] = cost(node) + min(ends) if ends else None
    return known[node, work]


def around(loop, hot, turns, blocks, work):
    """The shortest way once around LOOP that does WORK, without what is in HOT."""
    head = head_of(loop, blocks)
    inner = frozenset().union(*loops_in(loop - {head}, blocks))
    blocks = {n: Block([], b.to) if n in hot else b for n, b in blocks.items()}
    ways = {n: [m for m in blocks[n].to if m in loop and not (n in inner and m in inner and m <= n)] for n in loop}
    return shortest(head, head, ways, lambda n: blocks[n].cost * (turns if n in inner else 1), blocks, work, {})


def instructions(code, work, runs, turns):
    """WORK: of a run, and of the loop outside: OPCODE*TIMES+.. / .."""
    lists = [tuple((w.split("*")[0], int((w + "*1").split("*")[1])) for w in part.split("+"))
             for part in work.split("/")]
    blocks = blocks_of(code)
    loops = nest(frozenset(blocks), blocks, lists[0])
    if not loops:
        return None
    count = around(loops[-1], frozenset(), turns, blocks, lists[0])
    if len(lists) > 1 and len(loops) > 1 and count:
        outer = around(loops[-2], loops[-1], turns, blocks, lists[1])
        return outer and count + outer / runs
    return count


def check(kernel, limits, work, found):
    registers, stack, code = found
    ops = [c[2] for c in code]
    wide = [sum(o.startswith(w) and ".128" in o for o in ops) for w in ("LDG", "STG")]
    words = sum(o.startswith("STG") and not re.search(r"\.(64|128)", o) for o in ops)
    spills = stack + sum(o.startswith(("LDL", "STL")) for o in ops)
    most, loads, stores, word_most, budget, runs, turns = limits
    wrong = [f"{what}: {is_now}, not {how} {limit}" for what, is_now, how, limit in (
        ("registers", registers, "at most", most), ("bytes of the stack and spills", spills, "at most", 0),
        ("loads of 128 bits", wide[0], "at least", loads), ("stores of 128 bits", wide[1], "at least", stores),
        ("stores of words", words, "at most", word_most))
        if limit is not None and (is_now > limit if how == "at most" else is_now < limit)]
    count = instructions(code, work, runs, turns) if budget else None
    if budget and (count is None or count > budget):
        wrong.append(f"instructions a run: {count}, not at most {budget}")
    print(f"{kernel}: {registers} registers, {wide[0]} and {wide[1]} of 128 bits, {words} of words"
          + (f", {count:.1f} instructions a run" if count else ""))
    for line in wrong:
        print(f"FAILED: {kernel}: {line}")
    return len(wrong)


def main(table, folder):
    done, bad, objects = 0, 0, {}
    for line in open(table):
        fields = line.split("#")[0].split(None, 9)
        if not fields:
            continue
        path, pattern = f"{folder}/cuda/{fields[8]}.o", fields[9].strip()
        if path not in objects:
            objects[path] = kernels_of(path)
        mine = [k for k in objects[path] if re.search(pattern, k)]
        if not mine:
            print(f"FAILED: no kernel of {path} is {pattern}")
            bad += 1
        for kernel in mine:
            limits = [None if f == "-" else int(f) for f in fields[:7]]
            bad += check(kernel, limits, fields[7], objects[path][kernel])
            done += 1
    print(f"{0 if bad else 100}%: Checks: {done}, Failures: {bad}, Errors: 0")
    return bad > 0


if __name__ == "__main__":
    sys.setrecursionlimit(10000)
    sys.exit(main(*sys.argv[1:]))
