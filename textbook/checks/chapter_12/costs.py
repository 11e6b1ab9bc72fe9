"""What a model costs, counted beforehand: bytes of the cache, FLOPs of a block."""

from textbook.checks.exercise import exercise
from textbook.checks.reasons import part_that_differs

# The cache


def _cache_cases(draw, hidden):
    """Tokens n, layers, width, heads, key heads, window, full layers, bits a number."""
    if hidden:
        yield 5, 3, 24, 6, 2, 4, 1, 4
        yield 4000, 30, 1536, 12, 4, 1000, 10, 8
        yield 700, 9, 320, 10, 5, 900, 3, 16
        yield 131072, 48, 4096, 32, 8, 4096, 8, 4
    else:
        yield 3, 2, 8, 4, 2, 2, 1, 16
        yield 1000, 12, 768, 12, 4, 256, 4, 8
        yield 200, 5, 60, 6, 3, 300, 2, 16
        yield 4096, 26, 2048, 16, 8, 512, 6, 4


def _cached(
    both=2,
    size=lambda width, heads, key_heads: key_heads * width // heads,
    kept=lambda n, layers, window, full: full * n + (layers - full) * min(n, window),
    in_bytes=lambda bits: bits / 8,
):
    """The bytes of the cache with one of their pieces exchanged."""

    def cached(n, layers, width, heads, key_heads, window, full_layers, bits):
        numbers = both * size(width, heads, key_heads) * kept(n, layers, window, full_layers)
        return numbers * in_bytes(bits)

    return cached


@exercise(cases=_cache_cases, see='chapter 12, "The bill"')
def cache_bytes(n, layers, width, heads, key_heads, window, full_layers, bits):
    """The bytes of the cache after n tokens."""
    places = full_layers * n + (layers - full_layers) * min(n, window)
    return places * 2 * key_heads * (width // heads) * bits / 8


cache_bytes.wrong(
    "the bytes of the keys alone",
    "The next token needs the values of all tokens before it, too.",
)(_cached(both=1))
cache_bytes.wrong(
    "the bytes of queries, keys and values",
    "The query of a token is used once, by that token. No later one asks for it.",
)(_cached(both=3))
cache_bytes.wrong(
    "right where all heads have keys of their own: it keeps width numbers, as if none were shared",
    "What is kept are the key heads alone, key_heads of them, of width / heads numbers each.",
)(_cached(size=lambda width, heads, key_heads: width))
cache_bytes.wrong(
    "as if every key head were as wide as the model",
    "A head has width / heads numbers, and a key head has as many as a query head.",
)(_cached(size=lambda width, heads, key_heads: key_heads * width))
cache_bytes.wrong(
    "as if the key heads shared the whole width among them",
    "A key head is as large as a query head, width / heads, or they could not be multiplied.",
)(_cached(size=lambda width, heads, key_heads: width // key_heads))
cache_bytes.wrong(
    "the bytes of one key head",
    "There are key_heads of them in each layer.",
)(_cached(size=lambda width, heads, key_heads: width // heads))
cache_bytes.wrong(
    "right as long as all tokens are kept: the window is not used",
    "A layer with a window needs the last `window` tokens alone; the others can be thrown away.",
)(_cached(kept=lambda n, layers, window, full: layers * n))
cache_bytes.wrong(
    "as if every layer had a window",
    "full_layers of the layers look at everything and keep everything.",
)(_cached(kept=lambda n, layers, window, full: layers * min(n, window)))
cache_bytes.wrong(
    "right but for the window, from which it takes the newest token away",
    "A window of `window` tokens includes the newest: all of them are kept.",
)(_cached(kept=lambda n, layers, window, full: full * n + (layers - full) * min(n, window - 1)))
cache_bytes.wrong(
    "right but for the window, in which it counts one token more",
    "A window of `window` tokens includes the newest: no more than these are kept.",
)(_cached(kept=lambda n, layers, window, full: full * n + (layers - full) * min(n, window + 1)))
cache_bytes.wrong(
    "right once the window is full; before, it counts places that are still empty",
    "After n tokens there are no more than n to keep: the smaller of n and window.",
)(_cached(kept=lambda n, layers, window, full: full * n + (layers - full) * window))
cache_bytes.wrong(
    "as if layers with a window came on top of all layers",
    "Of the layers, full_layers keep everything; layers - full_layers are left for the window.",
)(_cached(kept=lambda n, layers, window, full: full * n + layers * min(n, window)))
cache_bytes.wrong(
    "the two kinds of layers exchanged",
    "full_layers is the number of layers that keep all tokens.",
)(_cached(kept=lambda n, layers, window, full: full * min(n, window) + (layers - full) * n))
cache_bytes.wrong(
    "the bytes of one layer with everything and one with a window",
    "Each layer has a cache of its own: multiply by the number of layers of each kind.",
)(_cached(kept=lambda n, layers, window, full: n + min(n, window)))
cache_bytes.wrong(
    "a number of bits",
    "A byte has 8 bits.",
)(_cached(in_bytes=lambda bits: bits))
cache_bytes.wrong(
    "as if a bit had 8 bytes",
    "A byte has 8 bits: divide.",
)(_cached(in_bytes=lambda bits: 8 * bits))
cache_bytes.wrong(
    "a number of numbers, not of bytes",
    "Each number takes bits / 8 bytes.",
)(_cached(in_bytes=lambda bits: 1))
cache_bytes.wrong(
    "right for whole bytes: with fewer than 8 bits a number nothing is left",
    "4 bits are half a byte: divide with /, or divide the whole product.",
)(_cached(in_bytes=lambda bits: bits // 8))

# FLOPs of a block


def _flops_cases(draw, hidden):
    """New tokens T, tokens n in all, width, hidden, heads, key heads."""
    if hidden:
        yield 2, 5, 6, 7, 3, 1
        yield 30, 30, 48, 128, 8, 4
        yield 1, 999, 64, 171, 8, 2
        yield 17, 600, 96, 200, 12, 12
    else:
        yield 2, 3, 4, 5, 2, 1
        yield 16, 16, 32, 85, 8, 2
        yield 1, 300, 40, 100, 4, 2
        yield 7, 50, 24, 64, 6, 6


def _counted(
    key_share=lambda heads, key_heads: key_heads / heads,
    out=1,
    matrices=3,
    keys_made=lambda T, n: T,
    products=2,
    looked_at=lambda T, n: n,
    shared=lambda heads, key_heads: 1,
    flops=2,
):
    """The three counts with one of their pieces exchanged."""

    def counted(T, n, width, hidden, heads, key_heads):
        share = key_share(heads, key_heads)
        projections = ((1 + out) * T + 2 * share * keys_made(T, n)) * width**2
        scores = products * T * looked_at(T, n) * width * shared(heads, key_heads)
        network = matrices * T * width * hidden
        return {
            "projections": flops * projections,
            "scores": flops * scores,
            "network": flops * network,
        }

    return counted


def _projections(case):
    T, _, width, _, heads, key_heads = case
    return {
        "the queries": 2 * T * width**2,
        "keys and values": 4 * T * width * (width // heads * key_heads),
        "the way back": 2 * T * width**2,
    }


def _scores(case):
    T, n, width, *_ = case
    return {"the scores": 2 * T * n * width, "the mixing of the values": 2 * T * n * width}


def _network(case):
    T, _, width, hidden, *_ = case
    return {f"a matrix ({one}) of the network": 2 * T * width * hidden for one in "123"}


def _others(part):
    """The whole part as it is, and computed for other tokens or heads than those it is for."""

    def others(case):
        T, n, width, hidden, heads, key_heads = case
        whole = sum(part(case).values())
        found = {"all of it": whole}
        if part is _scores:
            found["the scores that are masked, which are computed, too"] = -2 * T * (T - 1) * width
            found["all heads but one"] = whole * (heads - 1) / heads
        else:
            found["the tokens in the cache, which have had their turn"] = whole * (n - T) / T
        return found

    return others


def _part(check, answer, *_):
    """The part of the three counts that is wrong, and by what."""
    cases = (3, 7, 12, 10, 4, 2), (4, 11, 18, 7, 6, 3), (2, 9, 20, 30, 5, 1)
    parts = {"projections": _projections, "scores": _scores, "network": _network}
    for name, part in parts.items():
        found = part_that_differs(
            lambda case: answer(*case)[name],  # noqa: B023
            part,
            _others(part),
            cases,
        )
        if found:
            return f"In '{name}': {found[0].lower()}{found[1:]}"
    return None


@exercise(cases=_flops_cases, reasons=(_part,), see='chapter 12, "The bill"')
def block_flops(T, n, width, hidden, heads, key_heads):
    """FLOPs of projections, of scores and mixing, and of the network, for T new of n tokens."""
    key_width = width // heads * key_heads
    return {
        "projections": 2 * T * width * (2 * width + 2 * key_width),
        "scores": 4 * T * n * width,
        "network": 6 * T * width * hidden,
    }


block_flops.wrong(
    "a number of multiplications: half of the FLOPs",
    "A multiplication with its addition counts as 2.",
)(_counted(flops=1))
block_flops.wrong(
    "right but for the scores, of which it counts half",
    "There are two products with n: queries with keys, and weights with values. And the library "
    "computes all T x n scores, also those that are masked, and so counts them.",
)(_counted(products=1))
block_flops.wrong(
    "three times the FLOPs: it counts a backward pass, too",
    "The block reads new tokens and does not learn: there is the forward pass alone.",
)(_counted(flops=6))
block_flops.wrong(
    "right but for the scores, of which it leaves out those that are masked",
    "The mask comes after the product: all T x n scores are computed, and counted.",
)(_counted(looked_at=lambda T, n: n - (T - 1) / 2))
block_flops.wrong(
    "right but for the scores, which are those of one head",
    "Every query head scores every token: heads times width / heads numbers.",
)(_counted(shared=lambda heads, key_heads: 1 / heads))
block_flops.wrong(
    "right but for the network, which it lets all n tokens go through",
    "The n - T tokens before have been there. The T new ones alone are computed.",
)(lambda T, n, *sizes: _counted()(T, n, *sizes) | {"network": _counted()(n, n, *sizes)["network"]})
block_flops.wrong(
    "right but for the projections: keys and values of one head alone",
    "There are key_heads key heads of width / heads numbers each.",
)(_counted(key_share=lambda heads, key_heads: 1 / heads))
block_flops.wrong(
    "right but for the scores: it counts the T new tokens as the only keys",
    "A new token looks at all n tokens; the keys of the others are in the cache.",
)(_counted(looked_at=lambda T, n: T))
block_flops.wrong(
    "right but for the scores: it counts all n tokens as queries",
    "The tokens in the cache have had their turn. T tokens ask, n tokens are looked at.",
)(_counted(looked_at=lambda T, n: n * n / T))
block_flops.wrong(
    "right but for the scores: it counts the new tokens twice among the keys",
    "n tokens are looked at in all, the T new ones included.",
)(_counted(looked_at=lambda T, n: n + T))
block_flops.wrong(
    "right but for the scores, which it divides among the key heads",
    "Shared keys save memory and projections. Every query head still scores every token.",
)(_counted(shared=lambda heads, key_heads: key_heads / heads))
block_flops.wrong(
    "right but for the scores, which it multiplies by the number of heads",
    "The heads share the width: each one works on width / heads numbers.",
)(_counted(shared=lambda heads, key_heads: heads))
block_flops.wrong(
    "right but for the projections: it makes keys and values as wide as the model",
    "There are key_heads key heads of width / heads numbers each.",
)(_counted(key_share=lambda heads, key_heads: 1))
block_flops.wrong(
    "right but for the projections: a key head has the width of the model divided by key_heads",
    "Key heads are as large as query heads, width / heads numbers, and fewer.",
)(_counted(key_share=lambda heads, key_heads: 1 / key_heads))
block_flops.wrong(
    "right but for the projections: the output projection is missing",
    "What the heads have found goes through one more matrix, width x width.",
)(_counted(out=0))
block_flops.wrong(
    "right but for the projections: it makes the keys and values of all n tokens anew",
    "Those of the n - T tokens before are in the cache.",
)(_counted(keys_made=lambda T, n: n))
block_flops.wrong(
    "right but for the network, which it takes for one of two matrices",
    "A gated network has three: two go up to `hidden`, one comes back.",
)(_counted(matrices=2))


@block_flops.wrong(
    "the bill of the chapter, for a block with as many key heads and a network of two 4d matrices",
    "This block has fewer key heads, and a network with three matrices of its own hidden width.",
)
def _(T, n, width, hidden, heads, key_heads):
    square = T * width**2
    return {"projections": 8 * square, "scores": 4 * T * n * width, "network": 16 * square}


@block_flops.wrong(
    "counted for n tokens, as if there were no cache",
    "Projections and network see the T new tokens alone; the n - T others have been there.",
)
def _(T, n, width, hidden, heads, key_heads):
    return block_flops.reference(n, n, width, hidden, heads, key_heads)


@block_flops.wrong(
    "a dict of shares of the whole, not of FLOPs",
    "Return FLOPs; shares are easy to make of them.",
)
def _(*case):
    counts = block_flops.reference(*case)
    return {part: count / sum(counts.values()) for part, count in counts.items()}
