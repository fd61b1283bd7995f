"""negatives.py - the negatives of outputs over items, drawn as io/targets.h
says; for tests/run/items.py and tests/oracle/sequences.py."""
M64 = (1 << 64) - 1
CANDIDATES, MASKS = 11, 12  # TS_RNG_.. (base/rng.h)


def mix(x):  # ts_mix64
    x ^= x >> 33
    x = x * 0xff51afd7ed558ccd & M64
    x ^= x >> 33
    x = x * 0xc4ceb9fe1a85ec53 & M64
    return x ^ x >> 33


def philox(c, k):  # Philox4x32-10
    for _ in range(10):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [q >> 32 ^ c[1] ^ k[0], q & 0xffffffff, p >> 32 ^ c[3] ^ k[1], p & 0xffffffff]
        k = [k[0] + 0x9E3779B9 & 0xffffffff, k[1] + 0xBB67AE85 & 0xffffffff]
    return c


def four(seed, epoch, use, place, a, b):
    key = mix((seed ^ mix(epoch + 1)) ^ mix(use))
    return philox([place & 0xffffffff, place >> 32, a, b], [key & 0xffffffff, key >> 32])


def words(seed, epoch, place, target):
    for block in range(1 << 30):
        yield from four(seed, epoch, CANDIDATES, place, target, block)


def hidden(seed, epoch, place, n, share):
    """Which of a sample's N ids give way to masks (io/masks.h)."""
    w = [x for k in range(0, n, 4) for x in four(seed, epoch, MASKS, place, k // 4, 0)][:n]
    return [k for k in range(n) if w[k] < int(share * 2**32)] or ([w.index(min(w))] if n else [])


def alias(counts):
    """The table of io/target_law.h: what an entry keeps below, and its other item."""
    n, total = len(counts), sum(counts)
    rest = [c * float(n) / total for c in counts]
    keep, other = [0xffffffff] * n, list(range(n))
    small, large = [k for k in range(n) if rest[k] < 1], [k for k in range(n) if rest[k] >= 1]
    while small and large:
        s, b = small.pop(), large[-1]
        keep[s], other[s] = int(min(rest[s] * 2.0**32, 0xffffffff)), b
        rest[b] -= 1 - rest[s]
        if rest[b] < 1:
            small.append(large.pop())
    return keep, other


def draw(seed, epoch, place, target, wanted, barred, first, rows, n, law=None):
    """N ids from FIRST up to ROWS for a target of the sample at PLACE, evenly or by what alias gave."""
    w, ids = words(seed, epoch, place, target), []
    for _ in range(n):
        for _ in range(100):
            at = next(w) * (rows - first)
            at = (at << 32) + next(w) * (rows - first) >> 64 if rows - first >= 1 << 20 else at >> 32
            i = first + (at if not law or next(w) < law[0][at] else law[1][at])
            if i != wanted and i not in barred:
                break
        ids.append(i)
    return ids
