"""The simulator's counts beside the paper's, as the table in docs/simulator.md.

python -m documents.simulator
"""

import statistics

from rich.progress import track

from tsdr import Sequences, simulate

SEEDS = range(1, 6)
PAPER = {
    0.0: (114_482, 0, 48_967),
    0.2: (116_791, 12_922, 48_476),
    0.4: (114_214, 24_669, 48_578),
    0.6: (114_387, 36_055, 48_091),
    0.8: (114_789, 46_627, 47_826),
    0.999: (114_191, 55_770, 47_645),
}


def main() -> None:
    """Simulate every gamma with every seed and print the table."""
    print("| gamma | observed | paper | skipped | paper | off | off by seed | latest 50 | paper | right, latest 50 |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for gamma, (paper_observed, paper_skipped, paper_kept) in track(PAPER.items()):
        observed, skipped, kept, right = zip(*(_counts(gamma, seed) for seed in SEEDS), strict=True)
        off = [number / paper_skipped - 1 if paper_skipped else 0.0 for number in skipped]
        print(
            f"| {gamma:g} | {_span(observed)} | {paper_observed:,} | {statistics.mean(skipped):,.0f} | "
            f"{paper_skipped:,} | {statistics.mean(off):+.1%} | {min(off):+.1%} to {max(off):+.1%} | "
            f"{_span(kept)} | {paper_kept:,} | {min(right):.1%} to {max(right):.1%} |"
        )


def _counts(gamma: float, seed: int) -> tuple[int, int, int, float]:
    simulation = simulate(gamma, seed=seed)
    batch = Sequences.from_log(simulation.log).batch
    answers = batch.correct[batch.mask]
    return len(simulation.log), len(simulation.skipped), len(answers), float(answers.double().mean())


def _span(numbers: tuple[int, ...]) -> str:
    return f"{min(numbers):,} to {max(numbers):,}"


if __name__ == "__main__":
    main()
