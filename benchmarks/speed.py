"""Our models against torch's, side by side: `make bench`, or `python benchmarks/speed.py`.

Two functions are timed in turn, A B A B …, in one process, after a warm-up. Each ratio is that of a pair, and
the median of the ratios is quoted, so that a machine that is busy with other things slows both. Times are
medians too.
"""

import argparse
import platform
import resource
import subprocess
import sys
from collections.abc import Callable
from statistics import median

import torch
from torch import nn
from torch.utils.benchmark import Timer

import attnbook
from attnbook.attention import causal_mask
from attnbook.decoding import greedy

ROWS: list[tuple[str, str, str, float, float]] = []
PER_TOKEN: list[tuple[int, float, float, float]] = []


def compare(what: str, ours: Callable, theirs: Callable, target: float, repeats: int) -> None:
    """Time `ours` and `theirs` in turn; add a row with both medians and the median ratio."""
    timers = [Timer("f()", globals={"f": f}, num_threads=torch.get_num_threads()) for f in (ours, theirs)]
    for timer in timers:
        timer.timeit(2)
    pairs = [[timer.timeit(1).mean for timer in timers] for _ in range(repeats)]
    a, b = (median(pair[i] for pair in pairs) for i in (0, 1))
    ratio = median(pair[0] / pair[1] for pair in pairs)
    ROWS.append((what, f"{1e3 * a:.1f}", f"{1e3 * b:.1f}", ratio, target))
    print(f"{what}: {1e3 * a:.1f} ms / {1e3 * b:.1f} ms = {ratio:.2f}", file=sys.stderr)


def backward(output: torch.Tensor, module: nn.Module) -> None:
    module.zero_grad(set_to_none=True)
    output.sum().backward()


def transformers(repeats: int) -> None:
    for batch, length, d_model, layers in [(64, 32, 256, 3), (8, 256, 512, 6)]:
        theirs = nn.Transformer(d_model, 8, layers, layers, 4 * d_model, dropout=0.0, batch_first=True)
        config = attnbook.TransformerConfig(
            8,
            8,
            d_model=d_model,
            num_heads=8,
            num_encoder_layers=layers,
            num_decoder_layers=layers,
            d_ff=4 * d_model,
            dropout=0.0,
            bias=True,
        )
        ours = attnbook.Transformer(config)
        x, y = torch.randn(batch, length, d_model), torch.randn(batch, length, d_model)
        mask, their_mask = causal_mask(length), nn.Transformer.generate_square_subsequent_mask(length)

        def run_ours(ours=ours, x=x, y=y, mask=mask):
            memory, out = x, y
            for layer in ours.encoder:
                memory = layer(memory)
            for layer in ours.decoder:
                out = layer(out, memory, mask)
            backward(out, ours)

        def run_theirs(theirs=theirs, x=x, y=y, mask=their_mask):
            backward(theirs(x, y, tgt_mask=mask, tgt_is_causal=True), theirs)

        size = f"(batch {batch}, length {length}, d {d_model}, {layers}+{layers})"
        compare(f"Transformer layers, forward and backward {size}", run_ours, run_theirs, 1.0, repeats)


def attentions(repeats: int) -> None:
    theirs = nn.MultiheadAttention(256, 8, batch_first=True)
    ours = attnbook.MultiHeadAttention.from_torch(theirs)
    x = torch.randn(32, 64, 256)
    for need_weights in (True, False):
        compare(
            f"MultiHeadAttention, {'with' if need_weights else 'without'} weights (32, 64, 256)",
            lambda need=need_weights: backward(ours(x, x, x, need_weights=need)[0], ours),
            lambda need=need_weights: backward(
                theirs(x, x, x, need_weights=need, average_attn_weights=False)[0], theirs
            ),
            1.0,
            repeats,
        )


def recurrent(repeats: int) -> None:
    x = torch.randn(64, 32, 128)
    for ours, theirs in [(attnbook.LSTM, nn.LSTM), (attnbook.GRU, nn.GRU)]:
        theirs = theirs(128, 128, batch_first=True)
        ours = ours.from_torch(theirs)
        compare(
            f"{type(theirs).__name__} from scratch, forward and backward (64, 32, 128)",
            lambda ours=ours: backward(ours(x)[0], ours),
            lambda theirs=theirs: backward(theirs(x)[0], theirs),
            3.0,
            repeats,
        )


@torch.no_grad()
def decoding(repeats: int) -> None:
    """Greedy decoding of 128 tokens: with the cache, and by feeding the whole prefix at every step."""
    torch.manual_seed(0)
    config = attnbook.TransformerConfig(
        1000, 1000, d_model=256, num_encoder_layers=3, num_decoder_layers=3, d_ff=1024
    )
    model = attnbook.Transformer(config).eval()
    model.output.weight = nn.Parameter(model.output.weight.clone())
    model.output.weight[2] = -10.0  # never <eos>
    src = torch.randint(4, 1000, (32, 32))

    def cached(tokens=128):
        return greedy(model, src, max_len=tokens)

    def recomputed(tokens=128):
        memory = model.encode(src)
        tgt = torch.ones(len(src), 1, dtype=torch.long)
        for _ in range(tokens):
            tgt = torch.cat([tgt, model.decode(tgt, memory)[:, -1:].argmax(-1)], dim=1)
        return tgt

    compare(
        "Greedy decoding, cached against recomputed prefix (32 × 128 tokens)",
        cached,
        recomputed,
        0.2,
        max(3, repeats // 5),
    )
    for tokens in (16, 64, 128):
        PER_TOKEN.append((tokens, *per_token(model, src, tokens, max(3, repeats // 2))))


def per_token(model: attnbook.Transformer, src: torch.Tensor, length: int, repeats: int) -> tuple:
    """Seconds for the token after `length` − 1 others: all of it, and its self-attention alone."""
    memory = model.encode(src)
    tgt = torch.randint(4, 1000, (len(src), length))
    cache = model.start(memory)
    for token in tgt[:, :-1].split(1, dim=1):
        _, cache = model.step(token.squeeze(1), cache)
    _, layers = cache
    queries = [k[:, :, -1:] for (k, _), _ in layers]

    def attend():
        for query, ((k, v), _) in zip(queries, layers, strict=True):
            nn.functional.scaled_dot_product_attention(
                query, torch.cat([k, query], 2), torch.cat([v, query], 2)
            )

    functions = {
        "step": lambda: model.step(tgt[:, -1], cache),
        "attend": attend,
        "again": lambda: model.decode(tgt, memory)[:, -1],
    }
    timers = [Timer("f()", globals={"f": f}, num_threads=torch.get_num_threads()) for f in functions.values()]
    return tuple(median(timer.timeit(5).mean for _ in range(repeats)) for timer in timers)


def training(repeats: int) -> None:
    """Tokens a second of one whole step: forward, loss, backward, clip, Adam."""
    torch.manual_seed(0)
    config = attnbook.TransformerConfig(
        4000, 4000, d_model=256, num_encoder_layers=3, num_decoder_layers=3, d_ff=1024
    )
    model = attnbook.Transformer(config)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    src, tgt = torch.randint(4, 4000, (2, 64, 32))

    def step():
        optimizer.zero_grad(set_to_none=True)
        logits = model(src, tgt)
        nn.functional.cross_entropy(logits.flatten(0, 1), tgt.flatten(), label_smoothing=0.1).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    step()
    seconds = median(
        Timer("f()", globals={"f": step}, num_threads=torch.get_num_threads()).timeit(1).mean
        for _ in range(max(3, repeats // 3))
    )
    millions = attnbook.num_parameters(model) / 1e6
    print(f"\nTraining, {millions:.1f} M parameters: {tgt.numel() / seconds:,.0f} target tokens a second")


def imports() -> None:
    code = (
        "from time import perf_counter as now\n"
        "start = now(); import torch; middle = now(); import attnbook; print(middle - start, now() - middle)"
    )
    run = [sys.executable, "-c", code]
    outputs = [subprocess.run(run, capture_output=True, text=True, check=True).stdout for _ in range(5)]
    runs = [tuple(map(float, output.split())) for output in outputs]
    torch_seconds, ours = (median(run[i] for run in runs) for i in (0, 1))
    print(f"Import: torch {torch_seconds:.2f} s, attnbook on top {ours:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=15, help="pairs of each comparison; default 15")
    parser.add_argument("--threads", type=int, help="of torch; default: its own choice")
    args = parser.parse_args()
    if args.threads:
        torch.set_num_threads(args.threads)
    repeats = args.repeats
    torch.manual_seed(0)
    for measure in (attentions, recurrent, transformers, decoding):
        measure(repeats)
    print(
        f"torch {torch.__version__}, Python {platform.python_version()}, {torch.get_num_threads()} threads\n"
    )
    print("| what | ours, ms | theirs, ms | ratio | aim |\n|---|---|---|---|---|")
    for what, ours, theirs, ratio, target in ROWS:
        print(f"| {what} | {ours} | {theirs} | {ratio:.2f} | ≤ {target:g} |")
    print("\n| token number | cached step, ms | of it self-attention | prefix again, ms |\n|---|---|---|---|")
    for length, step, attend, again in PER_TOKEN:
        print(f"| {length} | {1e3 * step:.1f} | {1e3 * attend:.1f} | {1e3 * again:.1f} |")
    training(repeats)
    imports()
    print(f"Peak memory of all this: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
