"""negatives.py - the negatives of outputs over items, drawn as io/targets.h
says; for tests/run/items.py and tests/oracle/sequences.py."""
M64 = (1 << 64) - 1
USE = 11  # TS_RNG_CANDIDATES (base/rng.h)


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


def words(seed, epoch, place, target):
    key = mix((seed ^ mix(epoch + 1)) ^ mix(USE))
    for block in range(1 << 30):
        yield from philox([place & 0xffffffff, place >> 32, target, block], [key & 0xffffffff, key >> 32])


def draw(seed, epoch, place, target, wanted, barred, first, rows, n):
    """N ids from FIRST up to ROWS for a target of the sample at PLACE."""
    w, ids = words(seed, epoch, place, target), []
    for _ in range(n):
        for _ in range(100):
            i = first + (next(w) * (rows - first) >> 32)
            if i != wanted and i not in barred:
                break
        ids.append(i)
    return ids
